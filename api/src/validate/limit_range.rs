//! Validation of limit ranges: the bounds and defaults of a resource must not contradict each other.
//!
//! Follows `ValidateLimitRange`.

use super::{pod, resource};
use crate::check::{grammar, quantity};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{is_empty, list, text};
use crate::quantity::{Format, Quantity};
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec.limits");
    let limits = list(&object["spec"]["limits"]);
    let mut seen = Distinct::default();
    for (i, limit) in limits.iter().enumerate() {
        let path = path.index(i);
        kind(errors, &path.child("type"), text(&limit["type"]));
        if !seen.insert(&limit["type"]) {
            errors.duplicate(&path.child("type"), &limit["type"]);
        }
        names(errors, &path, limit);
        if limit["type"] == "PersistentVolumeClaim"
            && limit["min"]["storage"].is_null()
            && limit["max"]["storage"].is_null()
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.required(&path.child("limits"), detail);
        }
        for own in resources(limit) {
            bounds(errors, &path, limit, own);
        }
    }
}

fn kind(errors: &mut ErrorList, path: &Path<'_>, kind: &str) {
    let faults = name::qualified_name(kind);
    let standard = ["Pod", "Container", "PersistentVolumeClaim"];
    if faults.is_empty() && !kind.contains('/') && !standard.contains(&kind) {
        errors.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
    grammar(errors, path, kind, faults);
}

const SIDES: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn names(errors: &mut ErrorList, path: &Path<'_>, limit: &Value) {
    let of_pods = limit["type"] == "Pod";
    for side in SIDES {
        let path = path.child(side);
        if of_pods && side.starts_with("default") {
            if !is_empty(&limit[side]) {
                errors.forbidden(&path, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for own in limit[side].as_object().into_iter().flat_map(|amounts| amounts.keys()) {
            match text(&limit["type"]) {
                "Pod" | "Container" => pod::resource_name(errors, &path.key(own), own),
                _ => resource::name(errors, &path.key(own), own),
            }
        }
    }
}

fn resources(limit: &Value) -> BTreeSet<&String> {
    SIDES.iter().flat_map(|side| limit[*side].as_object()).flat_map(|amounts| amounts.keys()).collect()
}

/// Checks the bounds of one resource in pairs.
fn bounds(errors: &mut ErrorList, path: &Path<'_>, limit: &Value, own: &str) {
    let of_pods = limit["type"] == "Pod";
    let amount = |side: &str| {
        if of_pods && side.starts_with("default") { None } else { quantity(&limit[side][own]) }
    };
    let (min, max) = (amount("min"), amount("max"));
    let (value, request) = (amount("default"), amount("defaultRequest"));
    // Lower amount, upper amount, and the member and value to report.
    let pairs = [
        ((min, "min value"), (max, "max value"), "min", min),
        ((min, "min value"), (request, "default request value"), "defaultRequest", request),
        ((request, "default request value"), (max, "max value"), "defaultRequest", request),
        ((request, "default request value"), (value, "default limit value"), "defaultRequest", request),
        ((min, "min value"), (value, "default value"), "default", min),
        ((value, "default value"), (max, "max value"), "default", max),
    ];
    for ((low, one), (high, other), side, shown) in pairs {
        if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
            && low > high
        {
            let detail = format!("{one} {low} is greater than {other} {high}");
            errors.invalid(&path.child(side).key(own), &shown.to_string(), detail);
        }
    }
    ratio(errors, path, (own, amount("maxLimitRequestRatio")), (min, max));
    if let (false, Some(value), Some(request)) = (resource::may_overcommit(own), value, request)
        && value != request
    {
        let detail = format!("default value {value} must equal to defaultRequest value {request} in {own}");
        errors.invalid(&path.child("defaultRequest").key(own), &request.to_string(), detail);
    }
}

fn ratio(
    errors: &mut ErrorList,
    path: &Path<'_>,
    (own, ratio): (&str, Option<Quantity>),
    (min, max): (Option<Quantity>, Option<Quantity>),
) {
    let Some(ratio) = ratio else { return };
    let path = path.child("maxLimitRequestRatio");
    if ratio < Quantity::from_units(1, Format::DecimalSi) {
        errors.invalid(&path.key(own), &ratio.to_string(), format!("ratio {ratio} is less than 1"));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let most = max.as_f64() / min.as_f64();
        if ratio.as_f64() > most {
            let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
            errors.invalid(&path.key(own), &ratio.to_string(), detail);
        }
    }
}
