//! Whether an object may be stored, and if not, everything that is wrong with it, with the paths and texts of Kubernetes. Objects have
//! been type-checked, defaulted and prepared (`strategy`) before. Pure: what needs another object (a namespace, an allocated address) is
//! checked elsewhere.

mod admission;
mod autoscaling;
mod batch;
mod check;
mod claim;
mod cluster;
mod config;
mod cron;
mod event;
mod metadata;
mod networking;
mod pod;
mod rbac;
mod resource;
mod selector;
mod service;
mod storage;
mod volume;
mod warning;
mod workload;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::field::{ErrorList, FieldError, FieldErrorKind};
use crate::kind::Resource;

pub use warning::warnings;

/// Everything wrong with a new object: its metadata, then its content. A name has been generated before where one was asked for.
pub fn create(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    metadata::create(resource, object, &mut errors);
    content(resource, object, &mut errors);
    match (resource.group, resource.kind) {
        ("", "Service") => service::content(object, None, &mut errors),
        ("", "Pod") => pod::create(object, &mut errors),
        ("apps", "StatefulSet") => workload::stateful_set_create(object, &mut errors),
        ("apps", "ControllerRevision") => workload::revision_create(object, &mut errors),
        ("batch", "CronJob") => batch::cron_job_create(object, &mut errors),
        ("events.k8s.io", "Event") => event::strict(object, &mut errors),
        _ => {}
    }
    errors
}

/// Everything wrong with an object as the successor of a stored one, written through its own path.
pub fn update(resource: &Resource, new: &Value, old: &Value) -> ErrorList {
    update_subresource(resource, "", new, old)
}

/// Everything wrong with an object as a successor, written through a subresource (empty: its own path). Paths that write only the
/// status do not judge the content again: what was stored stays acceptable.
pub fn update_subresource(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
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
        }
        _ => {}
    }
    errors
}

/// The error of an update without resourceVersion, for kinds that demand one.
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

/// What must hold of an object at any time.
fn content(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::content(object, errors),
        ("", "PodTemplate") => pod::template_object(object, errors),
        ("", "ReplicationController") => workload::replication_controller(object, errors),
        ("", "ConfigMap") => config::config_map(object, errors),
        ("", "Secret") => config::secret(object, errors),
        ("", "Namespace") => cluster::namespace(object, errors),
        ("", "Node") => cluster::node(object, errors),
        ("", "ResourceQuota") => cluster::resource_quota(object, errors),
        ("", "LimitRange") => cluster::limit_range(object, errors),
        ("", "Event") => event::content(object, errors),
        ("", "Endpoints") => networking::endpoints(object, errors),
        ("", "PersistentVolume") => volume::content(object, errors),
        ("", "PersistentVolumeClaim") => claim::content(object, errors),
        ("apps", "Deployment") => workload::deployment(object, errors),
        ("apps", "ReplicaSet") => workload::replica_set(object, errors),
        ("apps", "ControllerRevision") => workload::revision(object, errors),
        ("apps", "DaemonSet") => workload::daemon_set(object, errors),
        ("batch", "Job") => batch::job(object, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(object, errors),
        ("policy", "PodDisruptionBudget") => autoscaling::disruption_budget(object, errors),
        ("networking.k8s.io", "Ingress") => networking::ingress(object, errors),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(object, errors),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(object, errors),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(object, errors),
        ("coordination.k8s.io", "Lease") => cluster::lease(object, errors),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class(object, errors),
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class(object, errors),
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::certificate_request(object, errors),
        ("rbac.authorization.k8s.io", kind) => rbac::content(kind, object, errors),
        ("storage.k8s.io", "StorageClass") => storage::class(object, errors),
        ("admissionregistration.k8s.io", kind) => admission::content(kind, object, errors),
        _ => {}
    }
}

/// What may not change, or only so.
fn change(resource: &Resource, new: &Value, old: &Value, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::change(new, old, errors),
        ("", "ConfigMap") => config::config_map_change(new, old, errors),
        ("", "Secret") => config::secret_change(new, old, errors),
        ("", "Node") => cluster::node_change(new, old, errors),
        ("", "ResourceQuota") => check::immutable(errors, "spec.scopes", new, old),
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
        ("networking.k8s.io", "IngressClass") => check::immutable(errors, "spec.controller", new, old),
        ("discovery.k8s.io", "EndpointSlice") => check::immutable(errors, "addressType", new, old),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class_change(new, old, errors),
        ("node.k8s.io", "RuntimeClass") => check::immutable(errors, "handler", new, old),
        ("rbac.authorization.k8s.io", kind) => rbac::change(kind, new, old, errors),
        ("storage.k8s.io", "StorageClass") => storage::class_change(new, old, errors),
        ("storage.k8s.io", "VolumeAttachment") => check::immutable(errors, "spec", new, old),
        ("storage.k8s.io", "VolumeAttributesClass") => {
            check::immutable(errors, "driverName", new, old);
            check::immutable(errors, "parameters", new, old);
        }
        _ => {}
    }
}
