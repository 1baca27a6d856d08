//! Drops the members of features that are off, where the field table does not say all of it: what is left of an object without them, and
//! features that [`super::Features`] decides. Silently, as a server that does not know them yet.
//!
//! Follows `DropDisabledPodFields`.

use super::remove;
use crate::object::list;
use crate::resource::Resource;
use serde_json::Value;

/// The gate of signals that stop a container.
const STOP_SIGNALS: &str = "ContainerStopSignals";

/// The gate of claims that are filled from other namespaces.
const FOREIGN_SOURCES: &str = "CrossNamespaceVolumeDataSource";

/// Drops disabled members. Runs at create and update, before validation. `old` is the object that an update replaces: a feature that it
/// uses may stay in use.
pub(super) fn drop_disabled_fields(resource: &Resource, object: &mut Value, old: Option<&Value>) {
    (resource.rules.drop_disabled)(object);
    drop_stop_signals(resource, object, old);
    if resource.is("", "persistentvolumeclaims") {
        drop_foreign_source(resource, object, old);
    }
}

/// Drops the stop signals of containers, each with its lifecycle if nothing else is in it.
fn drop_stop_signals(resource: &Resource, object: &mut Value, old: Option<&Value>) {
    let has_signal = |container: &Value| !container["lifecycle"]["stopSignal"].is_null();
    let uses = |template: &Value| {
        CONTAINERS.iter().any(|name| list(&template["spec"][*name]).iter().any(has_signal))
    };
    if !resource.pod_template(object).is_some_and(uses)
        || old.and_then(|old| resource.pod_template(old)).is_some_and(uses)
        || resource.has_gate(STOP_SIGNALS)
    {
        return;
    }
    if let Some(spec) = pod_spec_of(resource, object) {
        CONTAINERS.iter().for_each(|name| items(spec, name).for_each(stop_signal));
    }
}

/// Drops the source of a claim in another namespace.
fn drop_foreign_source(resource: &Resource, object: &mut Value, old: Option<&Value>) {
    let namespace = object["spec"]["dataSourceRef"]["namespace"].as_str().unwrap_or_default();
    let was_used = || old.is_some_and(|old| !old["spec"]["dataSourceRef"].is_null());
    if !namespace.is_empty() && !was_used() && !resource.has_gate(FOREIGN_SOURCES) {
        remove_at(object, &["spec"], "dataSourceRef");
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

/// Drops the members of a Node that no version uses any longer.
pub(crate) fn of_node(object: &mut Value) {
    remove_at(object, &["spec"], "configSource");
    remove_at(object, &["status"], "config");
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

/// The lists of containers of a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

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
