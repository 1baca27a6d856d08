//! Validation of horizontal pod autoscalers, in version v2.
//!
//! Follows `ValidateHorizontalPodAutoscaler`.

use super::reference::segment;
use crate::check::{each, none_negative, quantity, quantity_not_negative, required, required_grammar};
use crate::convert::autoscaler::in_v2;
use crate::field::{ErrorList, Path};
use crate::group_version::split_api_version;
use crate::limits::{SCALING_PERIOD_MAX, SCALING_WINDOW_MAX};
use crate::name;
use crate::object::{int, list, text};
use crate::quantity::Quantity;
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");

/// Checks an autoscaler; version v1 is converted to v2 first.
pub(crate) fn in_any_version(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    content(&in_v2(object), old.map(in_v2).as_deref(), errors);
}

fn content(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = &object["spec"];
    replicas(errors, spec, old);
    let target = &spec["scaleTargetRef"];
    let unchanged = |old: &Value| {
        let stored = &old["spec"]["scaleTargetRef"];
        text(&stored["apiVersion"]) == text(&target["apiVersion"]) && stored["kind"] == target["kind"]
    };
    let group = match old.is_some_and(unchanged) {
        true => Group::Unchecked,
        false if target["kind"] == "ReplicationController" => Group::Optional,
        false => Group::Required,
    };
    reference(errors, &SPEC.child("scaleTargetRef"), target, group);
    each(&SPEC, spec, "metrics", |path, value| metric(errors, path, value));
    for side in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][side];
        if !rules.is_null() {
            scaling_rules(errors, &SPEC.child("behavior").child(side), rules);
        }
    }
}

pub(crate) fn status(object: &Value, errors: &mut ErrorList) {
    none_negative(errors, &Path::new("status"), &object["status"], &["currentReplicas", "desiredReplicas"]);
}

fn replicas(errors: &mut ErrorList, spec: &Value, old: Option<&Value>) {
    let (min, max) = (spec["minReplicas"].as_i64(), int(&spec["maxReplicas"]));
    // Stored objects of clusters that allow scaling to zero stay acceptable.
    let least = if old.is_some_and(|old| old["spec"]["minReplicas"] == 0) { 0 } else { 1 };
    let (min_path, max_path) = (SPEC.child("minReplicas"), SPEC.child("maxReplicas"));
    if let Some(min) = min.filter(|min| *min < least) {
        errors.invalid(&min_path, &min, format!("must be greater than or equal to {least}"));
    }
    match max {
        0 => errors.required(&max_path, "must be set and greater than 0"),
        ..0 => errors.invalid(&max_path, &max, "must be greater than or equal to 1"),
        _ => {}
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(&max_path, &max, "must be greater than or equal to `minReplicas`");
    }
}

/// Whether a reference must have an API group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Required,
    Optional,
    Unchecked,
}

fn reference(errors: &mut ErrorList, path: &Path<'_>, reference: &Value, group: Group) {
    segment(errors, &path.child("kind"), &reference["kind"]);
    segment(errors, &path.child("name"), &reference["name"]);
    let version = text(&reference["apiVersion"]);
    let at = path.child("apiVersion");
    if group == Group::Unchecked {
    } else if version.matches('/').count() > 1 {
        errors.invalid(&at, version, format!("unexpected GroupVersion string: {version}"));
    } else if group == Group::Required && split_api_version(version).0.is_empty() {
        errors.invalid(&at, version, "apiVersion must specify API group");
    }
}

fn scaling_rules(errors: &mut ErrorList, path: &Path<'_>, rules: &Value) {
    let (at, window) = (path.child("stabilizationWindowSeconds"), int(&rules["stabilizationWindowSeconds"]));
    if window < 0 {
        errors.invalid(&at, &window, "must be greater than or equal to zero");
    }
    if window > SCALING_WINDOW_MAX {
        errors.invalid(&at, &window, format!("must be less than or equal to {SCALING_WINDOW_MAX}"));
    }
    if let Some(select) = rules["selectPolicy"].as_str().filter(|s| !["Disabled", "Max", "Min"].contains(s)) {
        errors.not_supported(&path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]);
    }
    if list(&rules["policies"]).is_empty() {
        errors.required(&path.child("policies"), "must specify at least one Policy");
    }
    each(path, rules, "policies", |path, policy| {
        let kind = text(&policy["type"]);
        if !["Percent", "Pods"].contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &["Percent", "Pods"]);
        }
        let period = int(&policy["periodSeconds"]);
        for (member, value) in [("value", int(&policy["value"])), ("periodSeconds", period)] {
            if value <= 0 {
                errors.invalid(&path.child(member), &value, "must be greater than zero");
            }
        }
        if period > SCALING_PERIOD_MAX {
            let detail = format!("must be less than or equal to {SCALING_PERIOD_MAX}");
            errors.invalid(&path.child("periodSeconds"), &period, detail);
        }
    });
    quantity_not_negative(errors, &path.child("tolerance"), &rules["tolerance"]);
}

/// One source of a metric: its type, the member with its details, and the check of that member.
type Source = (&'static str, &'static str, fn(&mut ErrorList, &Path<'_>, &Value));

/// Metric sources in the order in which they are checked.
const SOURCES: [Source; 5] = [
    ("Object", "object", object_source),
    ("External", "external", external_source),
    ("Pods", "pods", pods_source),
    ("Resource", "resource", resource_source),
    ("ContainerResource", "containerResource", container_source),
];

fn metric(errors: &mut ErrorList, path: &Path<'_>, metric: &Value) {
    let kind = text(&metric["type"]);
    let known: Vec<&str> = SOURCES.iter().map(|(kind, ..)| *kind).collect();
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric source type");
    }
    if !known.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &known);
    }
    let present: Vec<&Source> = SOURCES.iter().filter(|(_, member, _)| !metric[*member].is_null()).collect();
    if let Some((_, member, judge)) = present.first() {
        judge(errors, &path.child(member), &metric[*member]);
    }
    let expected = SOURCES.iter().find(|(known, ..)| *known == kind);
    match expected {
        Some((_, member, _)) if metric[*member].is_null() => {
            errors.required(&path.child(member), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.not_supported(&path.child("type"), kind, &known),
    }
    if present.len() != 1 {
        for (_, member, _) in present.into_iter().filter(|(known, ..)| *known != kind) {
            errors.forbidden(&path.child(member), "must populate the given metric source only");
        }
    }
}

fn identifier(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (at, own) = (path.child("metric.name"), text(&source["metric"]["name"]));
    match own {
        "" => errors.required(&at, "must specify a metric name"),
        _ => segment(errors, &at, &source["metric"]["name"]),
    }
}

fn target(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (path, target) = (path.child("target"), &source["target"]);
    let kind = text(&target["type"]);
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !["AverageValue", "Utilization", "Value"].contains(&kind) {
        errors.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for member in ["value", "averageValue"] {
        if quantity(&target[member]).is_some_and(|amount| amount <= Quantity::ZERO) {
            errors.invalid(&path.child(member), &target[member], "must be positive");
        }
    }
    if target["averageUtilization"].as_i64().is_some_and(|percent| percent < 1) {
        let detail = "must be greater than 0";
        errors.invalid(&path.child("averageUtilization"), &target["averageUtilization"], detail);
    }
}

fn object_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    reference(errors, &path.child("describedObject"), &source["describedObject"], Group::Optional);
    identifier(errors, path, source);
    target(errors, path, source);
    if source["target"]["value"].is_null() && source["target"]["averageValue"].is_null() {
        let detail = "must set either a target value or averageValue";
        errors.required(&path.child("target.averageValue"), detail);
    }
}

fn external_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    identifier(errors, path, source);
    target(errors, path, source);
    match (source["target"]["value"].is_null(), source["target"]["averageValue"].is_null()) {
        (true, true) => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.required(&path.child("target.averageValue"), detail);
        }
        (false, false) => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&path.child("target.value"), detail);
        }
        (true, false) | (false, true) => {}
    }
}

fn pods_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    identifier(errors, path, source);
    target(errors, path, source);
    if source["target"]["averageValue"].is_null() {
        let detail = "must specify a positive target averageValue";
        errors.required(&path.child("target.averageValue"), detail);
    }
}

fn resource_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if text(&source["name"]).is_empty() {
        errors.required(&path.child("name"), "must specify a resource name");
    }
    utilization(errors, path, source);
}

fn container_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    required(errors, &path.child("name"), &source["name"]);
    required_grammar(errors, &path.child("container"), &source["container"], name::dns1123_label);
    utilization(errors, path, source);
}

fn utilization(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    target(errors, path, source);
    match (source["target"]["averageUtilization"].is_null(), source["target"]["averageValue"].is_null()) {
        (true, true) => {
            let detail = "must set either a target raw value or a target utilization";
            errors.required(&path.child("target.averageUtilization"), detail);
        }
        (false, false) => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.forbidden(&path.child("target.averageValue"), detail);
        }
        (true, false) | (false, true) => {}
    }
}
