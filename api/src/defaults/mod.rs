//! Defaulting of built-in kinds. [`apply`] runs on every decoded object of create and update, before
//! admission. It is idempotent and depends on the object alone. Values that depend on the request or the time
//! (uid, status, generation, allocated addresses) are set by `strategy` and the apiserver.

mod admission;
mod autoscaling;
mod batch;
mod core;
mod devices;
mod flowcontrol;
mod networking;
mod pod;
mod rbac;
mod service;
mod storage;
mod workload;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::kind::Resource;

pub(crate) use autoscaling::default_metrics;

/// Sets the defaults of a kind. Objects of kinds without defaults stay as they are.
pub fn apply(resource: &Resource, object: &mut Value) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(object, "template"),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("", "Service") => service::service(object),
        ("", "Namespace") => core::namespace(object),
        ("", "Secret") => core::secret(object),
        ("", "Node") => core::node(object),
        ("", "LimitRange") => core::limit_range(object),
        ("", "Endpoints") => networking::endpoints(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("", "PersistentVolumeClaim") => storage::claim(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => batch::job(object),
        ("batch", "CronJob") => batch::cron_job(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(resource.version, object),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(object),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(object),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => rbac::binding(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("storage.k8s.io", "CSIDriver") => storage::driver(object),
        ("scheduling.k8s.io", "PriorityClass") => default(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flowcontrol::flow_schema(object),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flowcontrol::priority_level(object),
        ("resource.k8s.io", kind) => devices::apply(kind, object),
        ("apiregistration.k8s.io", "APIService") => {
            if let Some(service) = member(make(object, "spec"), "service") {
                default(service, "port", 443);
            }
        }
        ("admissionregistration.k8s.io", kind) => admission::apply(kind, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::crd::strategy::set_defaults(object),
        _ => {}
    }
}

/// Whether a member is unset: absent, null, or the empty string, which no defaulted field allows.
fn is_unset(value: &Value) -> bool {
    value.is_null() || value == ""
}

/// Sets a member that is unset.
fn default(object: &mut Value, member: &str, value: impl Into<Value>) {
    if is_unset(&object[member])
        && let Some(members) = object.as_object_mut()
    {
        members.insert(member.to_owned(), value.into());
    }
}

/// Sets a number that is absent or zero, for fields where zero means absent.
fn default_nonzero(object: &mut Value, member: &str, value: i64) {
    if object[member] == 0 {
        object[member] = value.into();
    }
    default(object, member, value);
}

/// The objects in a list member; none if the member is not a list.
fn items<'o>(object: &'o mut Value, member: &str) -> impl Iterator<Item = &'o mut Value> {
    object.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten().filter(|item| item.is_object())
}

/// A member, if it is an object.
fn member<'o>(object: &'o mut Value, name: &str) -> Option<&'o mut Value> {
    object.get_mut(name).filter(|value| value.is_object())
}

/// A member, set to an empty object if absent. Types were checked before, so anything else that is not an
/// object is null.
fn make<'o>(object: &'o mut Value, name: &str) -> &'o mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = &mut object[name];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot
}
