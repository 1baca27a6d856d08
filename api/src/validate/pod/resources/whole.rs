//! Validation of pod-level resources, and of their relation to container resources.
//!
//! Follows `validatePodResources`.

use super::requirements;
use crate::check::quantity;
use crate::field::{ErrorList, Path};
use crate::object::list;
use crate::strategy::pod::aggregates;
use crate::validate::resource;
use serde_json::Value;

/// Resources allowed at pod level, besides huge pages.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

/// Checks `spec.resources`.
pub(in crate::validate::pod) fn of_pod(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let resources = &spec["resources"];
    if resources.is_null() {
        return;
    }
    let path = path.child("resources");
    if spec["os"]["name"] == "windows" {
        errors.forbidden(&path, "may not be set for a windows pod");
        return;
    }
    if !resources["claims"].is_null() {
        errors.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    requirements(errors, &path, resources, pod_name);
    requests_suffice(errors, &path.child("requests"), spec);
    limits_hold(errors, &path, spec);
}

fn pod_name(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    let before = errors.len();
    resource::name(errors, path, own);
    if errors.len() == before && !OF_PODS.contains(&own) && !own.starts_with(resource::HUGE_PAGES) {
        errors.not_supported(path, own, &["cpu", "hugepages-", "memory"]);
    }
}

fn requests_suffice(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let needed = aggregates(spec, "requests");
    for (own, amount) in spec["resources"]["requests"].as_object().into_iter().flatten() {
        let (Some(whole), Some(needed)) = (quantity(amount), needed.get(own.as_str()).copied()) else {
            continue;
        };
        if needed > whole {
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.invalid(&path.key(own), &whole.to_string(), detail);
        }
    }
}

fn limits_hold(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (limits, needed) = (&spec["resources"]["limits"], aggregates(spec, "limits"));
    for (own, amount) in limits.as_object().into_iter().flatten() {
        let Some(whole) = quantity(amount).filter(|_| own.starts_with(resource::HUGE_PAGES)) else {
            continue;
        };
        if let Some(needed) = needed.get(own.as_str()).filter(|needed| **needed > whole) {
            let detail = format!("must be greater than or equal to aggregate container limits of {needed}");
            errors.invalid(&path.child("limits").key(own), &whole.to_string(), detail);
        }
    }
    let containers = path.child("containers");
    for (i, container) in list(&spec["containers"]).iter().enumerate() {
        for (own, limit) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let (Some(limit), Some(whole)) = (quantity(limit), quantity(&limits[own])) else { continue };
            if limit > whole {
                let path = containers.index(i);
                let detail = format!("must be less than or equal to pod limits of {whole}");
                errors.invalid(&path.key(own).child("limits"), &limit.to_string(), detail);
            }
        }
    }
}
