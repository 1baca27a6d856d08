//! What must hold of a container's requests and limits.

use serde_json::Value;

use crate::field::{ErrorList, Path};
use crate::name;
use crate::validate::check::{grammar, quantity, quantity_not_negative};

pub(super) fn requirements(errors: &mut ErrorList, path: &Path<'_>, resources: &Value) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    let (limit_path, request_path) = (path.child("limits"), path.child("requests"));
    for (resource, amount) in limits.as_object().into_iter().flatten() {
        let path = limit_path.key(resource);
        resource_name(errors, &path, resource);
        quantity_not_negative(errors, &path, amount);
    }
    for (resource, amount) in requests.as_object().into_iter().flatten() {
        let path = request_path.key(resource);
        resource_name(errors, &path, resource);
        quantity_not_negative(errors, &path, amount);
        let Some(limit) = quantity(&limits[resource]) else {
            if !may_overcommit(resource) {
                errors.required(&limit_path, "Limit must be set for non overcommitable resources");
            }
            continue;
        };
        let Some(asked) = quantity(amount) else { continue };
        if asked != limit && !may_overcommit(resource) {
            let detail = format!("must be equal to {resource} limit of {limit}");
            errors.invalid(&request_path, &asked.to_string(), detail);
        } else if asked > limit {
            let detail = format!("must be less than or equal to {resource} limit of {limit}");
            errors.invalid(&request_path, &asked.to_string(), detail);
        }
    }
}

/// Whether pods may be promised more of a resource in sum than there is: only of what the system itself names.
fn may_overcommit(resource: &str) -> bool {
    !resource.contains('/') && !resource.starts_with("hugepages-")
}

fn resource_name(errors: &mut ErrorList, path: &Path<'_>, resource: &str) {
    grammar(errors, path, resource, name::qualified_name(resource));
    let standard = matches!(resource, "cpu" | "memory" | "ephemeral-storage");
    if !resource.contains('/') && !standard && !resource.starts_with("hugepages-") {
        errors.invalid(path, resource, "must be a standard resource for containers");
    }
}
