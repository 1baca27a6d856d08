//! Validation of request policies: which parts of a device's capacity a request can have.
//!
//! Follows `validateMultiAllocatableDeviceCapacity`.

use crate::check::quantity;
use crate::field::{ErrorList, Path};
use crate::object::list;
use crate::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeSet;

/// Most values that a policy names (`CapacityRequestPolicyDiscreteMaxOptions`).
const VALUES_MAX: usize = 10;

/// Checks the policy of a capacity, whose path ends in `requestPolicy`.
pub(super) fn request_policy(errors: &mut ErrorList, path: &Path<'_>, capacity: &Value) {
    let policy = &capacity["requestPolicy"];
    if policy.is_null() {
        return;
    }
    let most = quantity(&capacity["value"]).unwrap_or(Quantity::ZERO);
    let (values, range) = (list(&policy["validValues"]), &policy["validRange"]);
    match (values.is_empty(), range.is_null()) {
        (true, true) => {}
        (false, false) => errors.forbidden(
            path,
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        ),
        (is_range, _) => {
            let member = if is_range { "validRange" } else { "validValues" };
            match quantity(&policy["default"]) {
                None => errors
                    .required(&path.child("default"), format!("required when {member} is defined")),
                Some(own) if is_range => within(errors, &path.child(member), range, (own, most)),
                Some(own) => one_of(errors, &path.child(member), values, (own, most)),
            }
        }
    }
}

/// Checks named values, which include the default and are at most the capacity.
fn one_of(errors: &mut ErrorList, path: &Path<'_>, values: &[Value], (own, most): (Quantity, Quantity)) {
    let values: Vec<Quantity> =
        values.iter().map(|value| quantity(value).unwrap_or(Quantity::ZERO)).collect();
    for (at, pair) in values.windows(2).enumerate() {
        if pair[0] > pair[1] {
            errors.invalid(
                &path.index(at + 1),
                &pair[1].to_string(),
                "values must be sorted in ascending order",
            );
        }
    }
    if values.len() > VALUES_MAX {
        errors.too_many(path, values.len(), VALUES_MAX);
    } else {
        let mut seen = BTreeSet::new();
        for (at, value) in values.iter().enumerate() {
            if *value > most {
                let detail = format!("option is larger than capacity value: {most}");
                errors.invalid(&path.index(at), &value.to_string(), detail);
            }
            if !seen.insert(value.units()) {
                errors.duplicate(&path.index(at), &value.units().to_string());
            }
        }
    }
    if !values.contains(&own) || values.len() > VALUES_MAX {
        errors.invalid(path, &own.to_string(), "default value is not valid according to the requestPolicy");
    }
}

/// Checks a range, which has the default and is within the capacity.
fn within(errors: &mut ErrorList, path: &Path<'_>, range: &Value, (own, most): (Quantity, Quantity)) {
    let [least, top, step] = ["min", "max", "step"].map(|member| quantity(&range[member]));
    let Some(least) = least else {
        return errors.required(&path.child("min"), "required when validRange is defined");
    };
    let mut fault = |member: &str, value: Quantity, detail: String| {
        errors.invalid(&path.child(member), &value.to_string(), detail);
    };
    if least > most {
        fault("min", least, format!("min is larger than capacity value: {most}"));
    }
    if own < least {
        fault("min", own, format!("default is less than min: {least}"));
    }
    if let Some(top) = top {
        if least > top {
            fault("max", least, format!("min is larger than max: {top}"));
        }
        if top > most {
            fault("max", top, format!("max is larger than capacity value: {most}"));
        }
        if own > top {
            fault("max", own, format!("default is more than max: {top}"));
        }
    }
    let Some(step) = step else { return };
    let first = least.add(step);
    if first > most {
        fault("step", step, format!("one step {first} is larger than capacity value: {most}"));
    }
    for value in [Some(own), top].into_iter().flatten() {
        // Kubernetes divides by a step of zero, and the request fails.
        let rest = value.units().saturating_sub(least.units()).checked_rem(step.units());
        if rest != Some(0) {
            fault("step", value, format!("value is not a multiple of a given step ({step}) from ({least})"));
        }
    }
}
