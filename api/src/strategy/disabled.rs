//! Drops members of features that are off by default, silently, as a server that does not know them yet.

use serde_json::Value;

use super::remove;
use crate::kind::Resource;

/// Drops disabled members. Runs at create and update, before validation.
pub(super) fn drop(resource: &Resource, object: &mut Value) {
    (resource.rules.drop_disabled)(object);
    let template = resource.rules.pod_template.and_then(|path| at(object, path));
    if let Some(spec) = template.and_then(|template| template.get_mut("spec")) {
        pod_spec(spec);
    }
}

/// Drops the disabled members of a Node.
pub(crate) fn of_node(object: &mut Value) {
    remove_at(object, &["spec"], "configSource");
    remove_at(object, &["status"], "config");
}

/// Drops the disabled members of a StatefulSet outside its template.
pub(crate) fn of_stateful_set(object: &mut Value) {
    remove_at(object, &["spec", "updateStrategy", "rollingUpdate"], "maxUnavailable");
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
    remove(spec, "schedulingGroup");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(stop_signal);
    }
    for volume in items(spec, "volumes") {
        let Some(projected) = volume.get_mut("projected") else { continue };
        for source in items(projected, "sources") {
            remove(source, "clusterTrustBundle");
            remove(source, "podCertificate");
        }
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
