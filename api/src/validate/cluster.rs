//! What must hold of namespaces, nodes, quotas, limit ranges, leases, priority and runtime classes, signing requests.

use serde_json::Value;

use super::check::{
    each, grammar, none_negative, one_of, optional_one_of, quantity, quantity_not_negative, required,
    required_grammar,
};
use crate::field::{ErrorList, Path};
use crate::limits::USER_PRIORITY_MAX;
use crate::meta;
use crate::name;
use crate::object::{int, list, semantically_equal, text};

const SPEC: Path<'static> = Path::new("spec");

pub(super) fn namespace(object: &Value, errors: &mut ErrorList) {
    each(&SPEC, &object["spec"], "finalizers", |_, finalizer| {
        let own = text(finalizer);
        grammar(errors, &SPEC.child("finalizers"), own, name::qualified_name(own));
    });
}

pub(super) fn node(object: &Value, errors: &mut ErrorList) {
    let taints = list(&object["spec"]["taints"]);
    let path = SPEC.child("taints");
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        let (key, value) = (text(&taint["key"]), text(&taint["value"]));
        grammar(errors, &path.child("key"), key, name::qualified_name(key));
        grammar(errors, &path.child("value"), value, name::label_value(value));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(errors, &path.child("effect"), &taint["effect"], &effects);
        let same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if taints[..i].iter().any(same) {
            errors.duplicate(&path, taint);
        }
    }
    for member in ["capacity", "allocatable"] {
        let path = Path::new("status");
        let path = path.child(member);
        for (resource, amount) in object["status"][member].as_object().into_iter().flatten() {
            quantity_not_negative(errors, &path.key(resource), amount);
        }
    }
}

pub(super) fn node_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    for (member, name) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let set = !semantically_equal(&stored[member], &Value::Null) && stored[member] != "";
        if set && spec[member] != stored[member] {
            let detail = format!("node updates may not change {name} except from \"\" to valid");
            errors.forbidden(&SPEC.child(member), detail);
        }
    }
}

pub(super) fn resource_quota(object: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("hard");
    for (resource, amount) in object["spec"]["hard"].as_object().into_iter().flatten() {
        let path = path.key(resource);
        grammar(errors, &path, resource, name::qualified_name(resource));
        quantity_not_negative(errors, &path, amount);
    }
}

pub(super) fn limit_range(object: &Value, errors: &mut ErrorList) {
    each(&SPEC, &object["spec"], "limits", |path, limit| {
        required(errors, &path.child("type"), &limit["type"]);
        let ordered = ["min", "defaultRequest", "default", "max"];
        for (i, low) in ordered.iter().enumerate() {
            for high in &ordered[i + 1..] {
                not_above(errors, path, limit, (low, high));
            }
        }
        if limit["type"] == "Pod" {
            for member in ["default", "defaultRequest"].into_iter().filter(|m| !limit[*m].is_null()) {
                errors.forbidden(&path.child(member), "may not be specified when `type` is 'Pod'");
            }
        }
    });
}

/// No amount on one side may be above that of the other.
fn not_above(errors: &mut ErrorList, path: &Path<'_>, limit: &Value, (low, high): (&str, &str)) {
    let words = |side: &str| match side {
        "default" => "default value".to_owned(),
        "defaultRequest" => "default request value".to_owned(),
        side => format!("{side} value"),
    };
    for (resource, value) in limit[low].as_object().into_iter().flatten() {
        let (Some(below), Some(above)) = (quantity(value), quantity(&limit[high][resource])) else {
            continue;
        };
        if below > above {
            let detail = format!("{} {below} is greater than {} {above}", words(low), words(high));
            errors.invalid(&path.child(low).key(resource), &below.to_string(), detail);
        }
    }
}

pub(super) fn lease(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        let path = SPEC.child("leaseDurationSeconds");
        errors.invalid(&path, &spec["leaseDurationSeconds"], "must be greater than 0");
    }
    none_negative(errors, &SPEC, spec, &["leaseTransitions"]);
}

const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(object: &Value, errors: &mut ErrorList) {
    let (own, value) = (meta::name(object), int(&object["value"]));
    if own.starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(own, value)) {
            let detail =
                "priority class names with 'system-' prefix are reserved for system use only. error: ";
            let detail = format!("{detail}{own} is not a known system priority class");
            errors.forbidden(&Path::new("metadata.name"), detail);
        }
    } else if value > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.forbidden(&Path::new("value"), detail);
    }
    let policies = ["PreemptLowerPriority", "Never"];
    optional_one_of(errors, &Path::new("preemptionPolicy"), &object["preemptionPolicy"], &policies);
}

pub(super) fn priority_class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if new["value"] != old["value"] {
        errors.forbidden(&Path::new("value"), "may not be changed in an update.");
    }
    super::check::immutable(errors, "preemptionPolicy", new, old);
}

pub(super) fn runtime_class(object: &Value, errors: &mut ErrorList) {
    required_grammar(errors, &Path::new("handler"), &object["handler"], name::dns1123_label);
    let path = Path::new("overhead.podFixed");
    for (resource, amount) in object["overhead"]["podFixed"].as_object().into_iter().flatten() {
        quantity_not_negative(errors, &path.key(resource), amount);
    }
}

/// Ten minutes: shorter certificates are over before they are everywhere.
const CERTIFICATE_SECONDS_MIN: i64 = 600;

pub(super) fn certificate_request(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let pem = base64_text(&spec["request"]);
    if !pem.trim_start().starts_with("-----BEGIN CERTIFICATE REQUEST-----") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.invalid(&SPEC.child("request"), &spec["request"], detail);
    }
    if list(&spec["usages"]).is_empty() {
        errors.required(&SPEC.child("usages"), "usages must be specified");
    }
    let (path, signer) = (SPEC.child("signerName"), text(&spec["signerName"]));
    match signer.split_once('/') {
        _ if signer.is_empty() => errors.required(&path, ""),
        Some((domain, rest)) if !rest.is_empty() && !rest.contains('/') => {
            grammar(errors, &path, signer, name::dns1123_subdomain(domain));
        }
        _ => errors.invalid(
            &path,
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
    }
    if spec["expirationSeconds"].as_i64().is_some_and(|seconds| seconds < CERTIFICATE_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&SPEC.child("expirationSeconds"), &spec["expirationSeconds"], detail);
    }
}

fn base64_text(value: &Value) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text(value)).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}
