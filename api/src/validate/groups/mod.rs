//! Validation of the kinds of all API groups except core, `apps` and `batch`. Dispatches to one file or
//! folder per group or concern.

mod address;
mod admission;
mod autoscaling;
mod certificates;
mod coordination;
mod devices;
mod endpoint_slice;
mod events;
mod flowcontrol;
mod ingress;
mod network_policy;
mod policy;
mod rbac;
mod reference;
mod registration;
mod reviews;
mod scheduling;
mod service_address;
mod storage;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::convert;
use crate::crd;
use crate::field::ErrorList;
use crate::kind::{self, Resource};

pub(crate) use admission::client as webhook_target;

/// Checks an object on create and update. `old` is the stored object of an update, whose faults may stay.
pub(super) fn content(resource: &Resource, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("admissionregistration.k8s.io", kind) => admission::content(kind, object, old, errors),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => errors.extend(match old {
            None => crd::validate::create(object),
            Some(old) => crd::validate::update(object, old),
        }),
        ("apiregistration.k8s.io", "APIService") => registration::content(object, errors),
        ("authentication.k8s.io" | "authorization.k8s.io", kind) => reviews::content(kind, object, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object, old, errors),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificates::content(object, old, errors),
        ("coordination.k8s.io", "Lease") => coordination::lease(object, errors),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::content(object, old, errors),
        ("events.k8s.io", "Event") => events::content(object, errors),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flowcontrol::schema(object, errors),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flowcontrol::level(object, errors),
        ("networking.k8s.io", kind) => networking(kind, object, old, errors),
        // The handler of a stored class is immutable, and the rest was checked on create.
        ("node.k8s.io", "RuntimeClass") if old.is_none() => scheduling::runtime_class(object, errors),
        ("policy", "PodDisruptionBudget") => policy::budget(object, errors),
        ("rbac.authorization.k8s.io", kind) => rbac::content(kind, object, errors),
        ("resource.k8s.io", kind) => devices::content(kind, object, old, errors),
        ("scheduling.k8s.io", "PriorityClass") if old.is_none() => scheduling::priority_class(object, errors),
        ("storage.k8s.io", kind) => storage_content(kind, object, old, errors),
        _ => {}
    }
}

/// Checks an autoscaler; version v1 is converted to v2 first.
fn autoscaler(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let row = kind::lookup("autoscaling", "v2", "horizontalpodautoscalers").expect("a row of the table");
    let newer = |object: &Value| {
        let mut object = object.clone();
        convert::to_storage(row, &mut object);
        object
    };
    autoscaling::content(&newer(object), old.map(newer).as_ref(), errors);
}

fn networking(kind: &str, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    match (kind, old) {
        ("Ingress", _) => ingress::ingress(object, errors),
        ("IngressClass", _) => ingress::class(object, errors),
        ("NetworkPolicy", old) => network_policy::content(object, old, errors),
        ("IPAddress", None) => service_address::ip_address(object, errors),
        ("ServiceCIDR", None) => service_address::service_cidr(object, errors),
        _ => {}
    }
}

fn storage_content(kind: &str, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    match (kind, old) {
        ("StorageClass", None) => storage::class(object, errors),
        ("CSIDriver", _) => storage::csi_driver(object, errors),
        ("CSINode", _) => storage::csi_node(object, errors),
        ("CSIStorageCapacity", None) => storage::capacity(object, errors),
        ("VolumeAttachment", _) => storage::attachment(object, errors),
        ("VolumeAttributesClass", _) => storage::attributes_class(object, errors),
        _ => {}
    }
}

/// Checks that apply only to new objects.
pub(super) fn create(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("events.k8s.io", "Event") => events::create(object, errors),
        ("networking.k8s.io", "Ingress") => ingress::ingress_create(object, errors),
        _ => {}
    }
}

/// Checks that immutable fields do not change.
pub(super) fn change(resource: &Resource, new: &Value, old: &Value, errors: &mut ErrorList) {
    match (resource.group, resource.kind) {
        ("certificates.k8s.io", "CertificateSigningRequest") => certificates::change("", new, old, errors),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::change(new, old, errors),
        ("events.k8s.io", "Event") => events::change(new, old, errors),
        ("networking.k8s.io", "IngressClass") => ingress::class_change(new, old, errors),
        ("networking.k8s.io", "IPAddress") => service_address::ip_address_change(new, old, errors),
        ("networking.k8s.io", "ServiceCIDR") => service_address::service_cidr_change(new, old, errors),
        ("node.k8s.io", "RuntimeClass") => scheduling::runtime_class_change(new, old, errors),
        ("rbac.authorization.k8s.io", kind) => rbac::change(kind, new, old, errors),
        ("scheduling.k8s.io", "PriorityClass") => scheduling::priority_class_change(new, old, errors),
        ("storage.k8s.io", "StorageClass") => storage::class_change(new, old, errors),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver_change(new, old, errors),
        ("storage.k8s.io", "CSINode") => storage::csi_node_change(new, old, errors),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::capacity_change(new, old, errors),
        ("storage.k8s.io", "VolumeAttachment") => {
            crate::validate::check::immutable(errors, "spec", new, old);
        }
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class_change(new, old, errors),
        _ => {}
    }
}

/// Checks a write to a subresource.
pub(super) fn subresource(
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
    errors: &mut ErrorList,
) {
    match (resource.group, resource.kind, subresource) {
        ("certificates.k8s.io", "CertificateSigningRequest", path @ ("approval" | "status")) => {
            certificates::content(new, Some(old), errors);
            certificates::change(path, new, old, errors);
        }
        (_, _, path) if path != "status" => {}
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", _) => {
            admission::policy_status(new, errors);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition", _) => {
            errors.extend(crd::validate::update_status(new));
        }
        ("apiregistration.k8s.io", "APIService", _) => registration::status(new, errors),
        ("autoscaling", "HorizontalPodAutoscaler", _) => autoscaling::status(new, errors),
        ("flowcontrol.apiserver.k8s.io", _, _) => flowcontrol::status(new, errors),
        ("networking.k8s.io", "Ingress", _) => ingress::ingress_status(new, errors),
        ("policy", "PodDisruptionBudget", _) => policy::budget_status(new, errors),
        ("resource.k8s.io", "ResourceClaim", _) => devices::status(new, old, errors),
        ("storage.k8s.io", "VolumeAttachment", _) => storage::attachment_status(new, errors),
        _ => {}
    }
}
