//! Validation: all errors of an object, with the paths and texts of Kubernetes. Objects were decoded,
//! defaulted and prepared (`strategy`) before. Functions here are pure; other code checks what needs another
//! object, such as a namespace or an allocated address.

mod batch;
mod check;
mod claim;
mod config;
mod cron;
mod endpoints;
mod event;
mod groups;
mod limit_range;
pub(crate) mod metadata;
mod namespace;
mod node;
mod pod;
mod quota;
mod ratchet;
mod resource;
mod selector;
mod service;
mod volume;
mod warning;
mod workload;

#[cfg(test)]
mod tests;

pub(crate) use resource::is_extended_of_quotas;
use serde_json::Value;

use crate::field::{ErrorList, FieldError, FieldErrorKind};
use crate::kind::Resource;

pub(crate) use groups::webhook_target;
pub use warning::warnings;

/// Errors of a new object: metadata first, then content. Generated names are filled in before.
pub fn create(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    metadata::create(resource, object, &mut errors);
    content(resource, object, &mut errors);
    groups::content(resource, object, None, &mut errors);
    groups::create(resource, object, &mut errors);
    match (resource.group, resource.kind) {
        ("", "Service") => service::content(object, None, &mut errors),
        ("", "Endpoints") => endpoints::content(object, None, &mut errors),
        ("", "Namespace") => namespace::create(object, &mut errors),
        ("", "Pod") => pod::create(object, &mut errors),
        ("apps", "StatefulSet") => workload::stateful_set_create(object, &mut errors),
        ("apps", "ControllerRevision") => workload::revision_create(object, &mut errors),
        ("batch", "CronJob") => batch::cron_job_create(object, &mut errors),
        _ => {}
    }
    errors
}

/// Errors of an object that is answered and not stored, such as a review or a token request.
pub fn review(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    groups::content(resource, object, None, &mut errors);
    errors
}

/// Errors of an update through the object's own path.
pub fn update(resource: &Resource, new: &Value, old: &Value) -> ErrorList {
    update_subresource(resource, "", new, old)
}

/// Errors of an update through a subresource (empty: the object's own path). Status subresources do not
/// validate the rest of the object again.
///
/// Some rules are newer than stored objects: objects that broke such a rule before may still break it.
pub fn update_subresource(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    let mut errors = judge(resource, subresource, new, old);
    if errors.iter().any(|error| ratchet::rule(resource, new, error).is_some()) {
        let before = judge(resource, subresource, old, old);
        ratchet::drop_tolerated(resource, (new, &mut errors), (old, &before));
    }
    errors
}

fn judge(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    metadata::update(resource, new, old, &mut errors);
    match (resource.group, resource.kind, subresource) {
        ("", "Service", "") => {
            service::change(new, old, &mut errors);
            service::content(new, Some(old), &mut errors);
        }
        ("apps", "DaemonSet", "") => {
            workload::daemon_set_change(new, old, &mut errors);
            content(resource, new, &mut errors);
        }
        ("apps", kind, "status") | ("", kind @ "ReplicationController", "status") => {
            workload::status(kind, new, old, &mut errors);
        }
        ("batch", "Job", "status") => batch::job_status(new, old, &mut errors),
        ("", "Namespace", "finalize") => namespace::finalize(new, &mut errors),
        ("", "Namespace", "status") => namespace::status(new, &mut errors),
        ("", "Node", "status") => node::status(new, old, &mut errors),
        ("", "PersistentVolumeClaim", "status") => claim::status(new, &mut errors),
        ("", "ResourceQuota", "status") => quota::status(new, &mut errors),
        ("", "Service", "status") => service::status(new, old, &mut errors),
        ("", "Pod", "resize") => {
            content(resource, new, &mut errors);
            pod::resize(new, old, &mut errors);
        }
        ("", "Pod", "status") => pod::status(new, old, &mut errors),
        ("", "Pod", "ephemeralcontainers") => {
            content(resource, new, &mut errors);
            pod::ephemeral_containers(new, old, &mut errors);
        }
        (_, _, "" | "scale") => {
            content(resource, new, &mut errors);
            change(resource, new, old, &mut errors);
            groups::content(resource, new, Some(old), &mut errors);
            groups::change(resource, new, old, &mut errors);
        }
        _ => groups::subresource(resource, subresource, new, old, &mut errors),
    }
    errors
}

/// The error of an update without a resourceVersion, for kinds that require one.
pub fn resource_version_required() -> ErrorList {
    let mut errors = ErrorList::new();
    errors.push(FieldError {
        kind: FieldErrorKind::Invalid,
        field: "metadata.resourceVersion".to_owned(),
        value: Some("0x0".to_owned()),
        detail: "must be specified for an update".to_owned(),
    });
    errors
}

/// Checks an object on create and update.
fn content(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::content(object, errors),
        ("", "PodTemplate") => pod::template_object(object, errors),
        ("", "ReplicationController") => workload::replication_controller(object, errors),
        ("", "ConfigMap") => config::config_map(object, errors),
        ("", "Secret") => config::secret(object, errors),
        ("", "Node") => node::content(object, errors),
        ("", "ResourceQuota") => quota::content(object, errors),
        ("", "LimitRange") => limit_range::content(object, errors),
        ("", "Event") => event::content(object, errors),
        ("", "PersistentVolume") => volume::content(object, errors),
        ("", "PersistentVolumeClaim") => claim::content(object, errors),
        ("apps", "Deployment") => workload::deployment(object, errors),
        ("apps", "ReplicaSet") => workload::replica_set(object, errors),
        ("apps", "ControllerRevision") => workload::revision(object, errors),
        ("apps", "DaemonSet") => workload::daemon_set(object, errors),
        ("batch", "Job") => batch::job(object, errors),
        _ => {}
    }
}

/// Checks that immutable fields do not change.
fn change(resource: &Resource, new: &Value, old: &Value, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::change(new, old, errors),
        ("", "ConfigMap") => config::config_map_change(new, old, errors),
        ("", "Secret") => config::secret_change(new, old, errors),
        ("", "Node") => node::change(new, old, errors),
        ("", "ResourceQuota") => quota::change(new, old, errors),
        ("", "Endpoints") => endpoints::content(new, Some(old), errors),
        ("", "PersistentVolume") => volume::change(new, old, errors),
        ("", "PersistentVolumeClaim") => claim::change(new, old, errors),
        ("apps", "Deployment" | "ReplicaSet") => check::immutable(errors, "spec.selector", new, old),
        ("apps", "StatefulSet") => {
            workload::stateful_set(new, errors);
            workload::stateful_set_change(new, old, errors);
        }
        ("apps", "ControllerRevision") => workload::revision_change(new, old, errors),
        ("batch", "Job") => batch::job_change(new, old, errors),
        ("batch", "CronJob") => batch::cron_job_change(new, old, errors),
        _ => {}
    }
}
