//! [`PendingWork`]: the components of a control plane with pending work, as they report it and by pods and nodes. Pure.

use serde_json::Value;
use std::collections::BTreeSet;

/// Most components that are named, and most objects; further ones are counted.
const NAMED: usize = 10;

/// Reasons of waiting containers that end only by a change of an object or after a time.
const STUCK: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// Pending work of a control plane: components and objects, each as a text such as `workqueue replicaset: 2 ready keys` or `node-0: pod
/// default/web-1 is starting`. At most ten of each are named, and the others are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Texts about controllers, the scheduler and caches.
    parts: Vec<String>,
    /// Texts about pods and nodes. Separate, so that many busy components do not displace them.
    objects: Vec<String>,
    unnamed: usize,
}

impl PendingWork {
    /// Adds a text about a component with pending work.
    pub(super) fn add_part(&mut self, reason: String) {
        let reasons = &mut self.parts;
        if reasons.len() < NAMED { reasons.push(reason) } else { self.unnamed += 1 }
    }

    /// Adds a text about an object with pending work.
    fn add_object(&mut self, reason: String) {
        let reasons = &mut self.objects;
        if reasons.len() < NAMED { reasons.push(reason) } else { self.unnamed += 1 }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.objects.is_empty()
    }

    /// All texts, components first, with the number of unnamed ones at the end; empty if there is no pending work.
    pub fn into_reasons(self) -> Vec<String> {
        let more = (self.unnamed > 0).then(|| format!("and {} more", self.unnamed));
        self.parts.into_iter().chain(self.objects).chain(more).collect()
    }

    /// Adds pods that the scheduler has neither bound nor marked as unschedulable.
    pub(super) fn add_unscheduled(&mut self, pods: &[Value]) {
        for pod in pods {
            let spec = &pod["spec"];
            let is_its = spec["schedulerName"].as_str().is_none_or(|name| name == "default-scheduler");
            let is_gated = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            let is_open =
                text(&spec["nodeName"]).is_empty() && pod["metadata"]["deletionTimestamp"].is_null();
            if is_its && !is_gated && is_open && condition(pod, "PodScheduled").is_none() && !is_over(pod) {
                self.add_object(format!("scheduler: pod {} is not scheduled", name_of(pod)));
            }
        }
    }

    /// Adds nodes among `wanted` that have not registered, and pods that their ready nodes have not started or, if deleted, not ended.
    pub(super) fn add_nodes(
        &mut self,
        wanted: impl Iterator<Item = String>,
        nodes: &[Value],
        pods: &[Value],
    ) {
        let ready = |node: &&Value| condition(node, "Ready") == Some("True");
        let ready: BTreeSet<&str> =
            nodes.iter().filter(ready).map(|node| text(&node["metadata"]["name"])).collect();
        let registered: BTreeSet<&str> = nodes.iter().map(|node| text(&node["metadata"]["name"])).collect();
        for node in wanted {
            if !registered.contains(&*node) {
                self.add_object(format!("{node} has not registered"));
            }
        }
        for pod in pods.iter().filter(|pod| ready.contains(text(&pod["spec"]["nodeName"]))) {
            let node = text(&pod["spec"]["nodeName"]);
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                if pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    self.add_object(format!("{node}: pod {} is ending", name_of(pod)));
                }
            } else if is_starting(pod) {
                self.add_object(format!("{node}: pod {} is starting", name_of(pod)));
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name_of(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

fn condition<'o>(object: &'o Value, name: &str) -> Option<&'o str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
}

fn is_over(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

/// Whether a bound pod is starting and depends on its node only.
fn is_starting(pod: &Value) -> bool {
    let is_pending = pod["status"]["phase"].is_null() || pod["status"]["phase"] == "Pending";
    let lists = ["initContainerStatuses", "containerStatuses"];
    let containers = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    let is_stuck = |container: &Value| STUCK.contains(&text(&container["state"]["waiting"]["reason"]));
    is_pending && !containers.into_iter().any(is_stuck)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, rest: Value) -> Value {
        let mut pod = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {}, "status": {}});
        for (field, value) in rest.as_object().unwrap() {
            for (member, value) in value.as_object().unwrap() {
                pod[field][member] = value.clone();
            }
        }
        pod
    }

    #[test]
    fn pods_are_busy_until_scheduled_and_started_or_stuck() {
        let nodes = [
            json!({"metadata": {"name": "node-0"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            json!({"metadata": {"name": "node-1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        ];
        let waiting = |reason: &str| json!([{"state": {"waiting": {"reason": reason}}}]);
        let pods = [
            pod("new", json!({})),
            pod("gated", json!({"spec": {"schedulingGates": [{"name": "a"}]}})),
            pod("refused", json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}})),
            pod("foreign", json!({"spec": {"schedulerName": "mine"}})),
            pod("bound", json!({"spec": {"nodeName": "node-0"}})),
            pod("running", json!({"spec": {"nodeName": "node-0"}, "status": {"phase": "Running"}})),
            pod(
                "stuck",
                json!({"spec": {"nodeName": "node-0"}, "status": {"phase": "Pending", "containerStatuses": waiting("ErrImagePull")}}),
            ),
            pod("lost", json!({"spec": {"nodeName": "node-1"}, "status": {"phase": "Pending"}})),
            pod("ending", json!({"spec": {"nodeName": "node-0"}, "metadata": {"deletionTimestamp": "t"}})),
        ];
        let mut busy = PendingWork::default();
        busy.add_unscheduled(&pods);
        busy.add_nodes((0..3).map(|nth| format!("node-{nth}")), &nodes, &pods);
        let expected = [
            "scheduler: pod ns/new is not scheduled",
            "node-2 has not registered",
            "node-0: pod ns/bound is starting",
            "node-0: pod ns/ending is ending",
        ];
        assert_eq!(busy.into_reasons(), expected);
    }
}
