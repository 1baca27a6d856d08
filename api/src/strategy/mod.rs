//! Preparation of objects for create and update: which members an endpoint may write, the first status, and
//! the generation. Functions here are pure; they run after defaults and admission and before validation. The
//! apiserver allocates addresses and ports, and does all that needs other objects.

mod api_service;
mod certificate;
mod claim;
mod daemon_set;
mod devices;
mod disabled;
mod generation;
mod job;
mod namespace;
mod pod;
mod service;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::kind::Resource;

pub(crate) use pod::aggregates;
pub use pod::qos_class;

/// Prepares an object for create. The caller has wiped and filled the metadata before
/// (`meta::wipe_system_fields`, `meta::fill_system_fields`). On return the object has its kind's first status
/// and its generation.
pub fn prepare_create(resource: &Resource, object: &mut Value) {
    generation::first(resource, object);
    disabled::drop(resource, object);
    if resource.has_status() && !keeps_status_at_create(resource) {
        remove(object, "status");
    }
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::prepare_create(object),
        ("", "Namespace") => namespace::prepare_create(object),
        ("", "PersistentVolume") => {
            let now = object["metadata"]["creationTimestamp"].clone();
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        ("", "PersistentVolumeClaim") => {
            object["status"] = json!({"phase": "Pending"});
            claim::prepare(object, None);
        }
        ("", "Service") => {
            object["status"] = json!({"loadBalancer": {}});
            if object["spec"].is_object() {
                service::fill_cluster_ips(&mut object["spec"]);
            }
        }
        ("batch", "Job") => job::prepare_create(object),
        ("apps", "DaemonSet") => daemon_set::prepare_create(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crd::strategy::prepare_create(object),
        ("apiregistration.k8s.io", "APIService") => api_service::prepare_create(object),
        ("resource.k8s.io", "ResourceSlice") => devices::date_taints(object),
        _ => {}
    }
}

/// Whether create keeps the client's status: nodes register with their status.
fn keeps_status_at_create(resource: &Resource) -> bool {
    (resource.group, resource.kind) == ("", "Node")
}

/// Prepares an update through one endpoint; `subresource` is empty for the object itself. On return only
/// members that the endpoint may write differ from `old`. The generation is incremented if the kind's rule
/// says so.
pub fn prepare_update(resource: &Resource, subresource: &str, new: &mut Value, old: &Value) {
    crate::meta::carry_system_fields(new, old);
    match subresource {
        "status" => status_only(resource, new, old),
        "approval" => certificate::approval_only(new, old),
        "ephemeralcontainers" => pod::ephemeral_containers_only(new, old),
        "resize" => pod::resources_only(new, old),
        _ => {
            if resource.has_status() {
                copy(new, old, "status");
            }
        }
    }
    if subresource.is_empty() {
        disabled::drop(resource, new);
        match (resource.group, resource.kind) {
            ("", "PersistentVolumeClaim") => claim::prepare(new, Some(old)),
            ("", "Service") => service::keep_allocated(new, old),
            ("", "Namespace") => namespace::prepare_update(new, old),
            ("certificates.k8s.io", "CertificateSigningRequest") => copy(new, old, "spec"),
            ("apps", "DaemonSet") => daemon_set::prepare_update(new, old),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                crate::crd::strategy::prepare_update(new, old);
            }
            ("apiregistration.k8s.io", "APIService") => api_service::prepare_update(new, old),
            ("resource.k8s.io", "ResourceSlice") => devices::keep_dates(new, old),
            _ => {}
        }
    }
    if subresource == "status" {
        crate::meta::set_generation(new, crate::meta::generation(old));
    } else {
        generation::next(resource, new, old);
    }
}

/// Sets missing times of conditions in a write through `subresource`; runs after [`prepare_update`]. `now`
/// returns RFC 3339 in whole seconds, and is called only if the kind has such times.
pub fn date_update(
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
    now: impl FnOnce() -> String,
) {
    let of_requests = (resource.group, resource.kind) == ("certificates.k8s.io", "CertificateSigningRequest");
    if of_requests && matches!(subresource, "approval" | "status") {
        certificate::date_conditions(new, old, &now());
    }
}

/// Restricts a write through `/status` to the status, and to the metadata that controllers maintain.
fn status_only(resource: &Resource, new: &mut Value, old: &Value) {
    let mut members: Vec<String> =
        new.as_object().into_iter().chain(old.as_object()).flat_map(|o| o.keys().cloned()).collect();
    members.retain(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    for member in members {
        copy(new, old, &member);
    }
    match (resource.group, resource.kind) {
        ("", "Pod") => {
            copy_metadata(new, old, "ownerReferences");
            pod::status_only(new, old);
        }
        ("apps", "Deployment") => copy_metadata(new, old, "labels"),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate::status_only(new, old),
        ("resource.k8s.io", "ResourceClaim") => devices::drop_deallocated_devices(new, old),
        _ => {}
    }
}

fn copy_metadata(new: &mut Value, old: &Value, member: &str) {
    if new["metadata"].is_object() {
        copy(&mut new["metadata"], &old["metadata"], member);
    }
}

/// Copies a member from `old`; removes it if `old` lacks it.
fn copy(new: &mut Value, old: &Value, member: &str) {
    match old.get(member) {
        Some(value) => new[member] = value.clone(),
        None => remove(new, member),
    }
}

fn remove(object: &mut Value, member: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(member);
    }
}
