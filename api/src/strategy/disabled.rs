//! Drops members of features that are off by default, silently, as a server that does not know them yet.
//!
//! Follows `DropDisabledPodFields`.

use super::remove;
use crate::object::list;
use crate::resource::Resource;
use crate::version::Minor;
use serde_json::Value;

/// Drops disabled members. Runs at create and update, before validation.
pub(super) fn drop_disabled_fields(resource: &Resource, object: &mut Value) {
    (resource.rules.drop_disabled)(object, resource.minor);
    if let Some(spec) = pod_spec_of(resource, object) {
        pod_spec(spec);
    }
}

/// Drops ClusterTrustBundles from projected volumes, unless the object `old` that an update replaces has one.
pub(super) fn drop_trust_bundles(resource: &Resource, object: &mut Value, old: Option<&Value>) {
    if old.and_then(|old| resource.pod_template(old)).is_some_and(projects_trust_bundles) {
        return;
    }
    for source in pod_spec_of(resource, object).into_iter().flat_map(projections) {
        remove(source, "clusterTrustBundle");
    }
}

/// Drops the PodGroup or, in 1.35, the Workload that a pod or template names, unless the object `old` that an update replaces names one.
pub(super) fn drop_scheduling_group(resource: &Resource, object: &mut Value, old: Option<&Value>) {
    const MEMBERS: [&str; 2] = ["schedulingGroup", "workloadRef"];
    let names_one = |template: &Value| MEMBERS.iter().any(|member| !template["spec"][member].is_null());
    if old.and_then(|old| resource.pod_template(old)).is_some_and(names_one) {
        return;
    }
    if let Some(spec) = pod_spec_of(resource, object) {
        MEMBERS.iter().for_each(|member| remove(spec, member));
    }
}

/// The pod specification in an object of the kind.
fn pod_spec_of<'o>(resource: &Resource, object: &'o mut Value) -> Option<&'o mut Value> {
    resource.rules.pod_template.and_then(|path| at(object, path))?.get_mut("spec")
}

/// Sources of all projected volumes.
fn projections(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    items(spec, "volumes")
        .filter_map(|volume| volume.get_mut("projected"))
        .flat_map(|one| items(one, "sources"))
}

/// Whether a volume of the pod or template has a ClusterTrustBundle.
fn projects_trust_bundles(template: &Value) -> bool {
    let sources =
        list(&template["spec"]["volumes"]).iter().flat_map(|volume| list(&volume["projected"]["sources"]));
    sources.into_iter().any(|source| !source["clusterTrustBundle"].is_null())
}

/// Drops the disabled members of a Node.
pub(crate) fn of_node(object: &mut Value, _: Minor) {
    remove_at(object, &["spec"], "configSource");
    remove_at(object, &["status"], "config");
}

/// Drops the members of a pod's status whose gates are off in every version.
pub(crate) fn of_pod(object: &mut Value, _: Minor) {
    let Some(status) = object.get_mut("status").filter(|status| status.is_object()) else { return };
    remove(status, "nodeAllocatableResourceClaimStatuses");
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in items(status, list) {
            remove(container, "stopSignal");
            items(container, "volumeMounts").for_each(|mount| remove(mount, "volumeStatus"));
        }
    }
}

/// Drops the members of a ResourceSlice whose gates are off in every version: lists of values.
pub(crate) fn of_resource_slice(object: &mut Value, _: Minor) {
    for device in object.get_mut("spec").into_iter().flat_map(|spec| items(spec, "devices")) {
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for attribute in attributes.into_iter().flat_map(|all| all.values_mut()) {
            for list in ["ints", "bools", "strings", "versions"] {
                remove(attribute, list);
            }
        }
    }
}

/// Drops the members of a Lease for coordinated elections, which are off in every version.
pub(crate) fn of_lease(object: &mut Value, _: Minor) {
    for member in ["strategy", "preferredHolder"] {
        remove_at(object, &["spec"], member);
    }
}

/// Drops the disabled members of a CSIDriver.
pub(crate) fn of_csi_driver(object: &mut Value, minor: Minor) {
    if minor < Minor::V37 {
        remove_at(object, &["spec"], "preventPodSchedulingIfMissing");
    }
}

/// Drops the disabled members of a StatefulSet outside its template.
pub(crate) fn of_stateful_set(object: &mut Value, minor: Minor) {
    if minor < Minor::V37 {
        remove_at(object, &["spec", "updateStrategy", "rollingUpdate"], "maxUnavailable");
    }
}

fn at<'o>(object: &'o mut Value, path: &[&str]) -> Option<&'o mut Value> {
    path.iter().try_fold(object, |value, member| value.get_mut(*member))
}

fn remove_at(object: &mut Value, path: &[&str], member: &str) {
    if let Some(value) = at(object, path) {
        remove(value, member);
    }
}

fn items<'o>(object: &'o mut Value, member: &str) -> impl Iterator<Item = &'o mut Value> {
    object.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten()
}

fn pod_spec(spec: &mut Value) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(stop_signal);
    }
}

/// Removes the stop signal, and the lifecycle if nothing else is in it.
fn stop_signal(container: &mut Value) {
    let Some(lifecycle) = container.get_mut("lifecycle").filter(|l| !l["stopSignal"].is_null()) else {
        return;
    };
    remove(lifecycle, "stopSignal");
    if lifecycle["postStart"].is_null() && lifecycle["preStop"].is_null() {
        remove(container, "lifecycle");
    }
}
