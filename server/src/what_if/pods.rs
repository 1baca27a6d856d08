//! [`Pods`]: the pods of a state with their workloads, as answers count them. Pure.

use kstore_api::meta;
use serde_json::Value;
use std::collections::BTreeMap;

/// A workload: the kind, namespace and name of the topmost controller of a pod, or of the pod itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Workload {
    /// The workload in text: `Deployment default/web`.
    pub(super) fn text(&self) -> String {
        match self.namespace.is_empty() {
            true => format!("{} {}", self.kind, self.name),
            false => format!("{} {}/{}", self.kind, self.namespace, self.name),
        }
    }
}

/// A pod that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFact {
    pub(super) uid: String,
    /// Namespace and name.
    pub(super) key: String,
    pub(super) workload: Workload,
    /// Whether a controller owns it, which replaces it.
    pub(super) is_controlled: bool,
    pub(super) node: Option<String>,
    /// Whether it is being deleted.
    pub(super) is_ending: bool,
    /// Why it has no node, as its condition says.
    pub(super) message: String,
    /// What it requests: thousandths of a core.
    pub(super) milli_cpu: i64,
}

/// The pods of a state.
#[derive(Clone, Debug, Default)]
pub(super) struct Pods {
    /// The pods in the order of their keys.
    pub(super) all: Vec<PodFact>,
}

impl Pods {
    /// The pods among `pods`; `owners` are the objects of the kinds that own pods, or their owners.
    pub(super) fn of<'o>(
        pods: impl Iterator<Item = &'o Value>,
        owners: impl Iterator<Item = &'o Value>,
    ) -> Self {
        let owners: BTreeMap<&str, &Value> = owners.map(|object| (meta::uid(object), object)).collect();
        let mut all: Vec<_> = pods.filter(|pod| !has_ended(pod)).map(|pod| fact(pod, &owners)).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Self { all }
    }

    /// The pod with this uid.
    pub(super) fn get(&self, uid: &str) -> Option<&PodFact> {
        self.all.iter().find(|pod| pod.uid == uid)
    }
}

fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn fact(pod: &Value, owners: &BTreeMap<&str, &Value>) -> PodFact {
    let spec = &pod["spec"];
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let scheduled = conditions.clone().find(|condition| condition["type"] == "PodScheduled");
    let message = scheduled.and_then(|condition| condition["message"].as_str()).unwrap_or_default();
    let requests = kstore_scheduler::pod::decode(pod.to_string().as_bytes());
    PodFact {
        uid: meta::uid(pod).to_owned(),
        key: format!("{}/{}", meta::namespace(pod), meta::name(pod)),
        workload: workload(pod, owners),
        is_controlled: controller(pod).is_some(),
        node: spec["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned),
        is_ending: !pod["metadata"]["deletionTimestamp"].is_null(),
        message: message.to_owned(),
        milli_cpu: requests.map_or(0, |pod| pod.requests.milli_cpu),
    }
}

fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

/// The topmost controller that is known, or that is named.
fn workload(pod: &Value, owners: &BTreeMap<&str, &Value>) -> Workload {
    /// Controllers of controllers: a Pod's ReplicaSet's Deployment, and some more.
    const DEPTH: usize = 8;
    let namespace = meta::namespace(pod).to_owned();
    let mut found = Workload { namespace, kind: "Pod".to_owned(), name: meta::name(pod).to_owned() };
    let mut object = pod;
    for _ in 0..DEPTH {
        let Some(owner) = controller(object) else { break };
        let text = |member: &str| owner[member].as_str().unwrap_or_default().to_owned();
        (found.kind, found.name) = (text("kind"), text("name"));
        match owner["uid"].as_str().and_then(|uid| owners.get(uid)) {
            Some(known) => object = known,
            None => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_belongs_to_its_topmost_controller() {
        let owned = |kind: &str, name: &str, owner: Option<(&str, &str)>| {
            let mut object =
                json!({ "kind": kind, "metadata": { "namespace": "a", "name": name, "uid": name } });
            if let Some((kind, name)) = owner {
                let owner = json!([{ "kind": kind, "name": name, "uid": name, "controller": true }]);
                object["metadata"]["ownerReferences"] = owner;
            }
            object
        };
        let set = owned("ReplicaSet", "web-1", Some(("Deployment", "web")));
        let deployment = owned("Deployment", "web", None);
        let mut ended = owned("Pod", "done", None);
        ended["status"] = json!({ "phase": "Failed" });
        let pods = [
            owned("Pod", "web-1-x", Some(("ReplicaSet", "web-1"))),
            owned("Pod", "custom-0", Some(("Database", "custom"))),
            owned("Pod", "alone", None),
            ended,
        ];
        let found = Pods::of(pods.iter(), [&set, &deployment].into_iter());
        let texts: Vec<_> = found.all.iter().map(|pod| (pod.workload.text(), pod.is_controlled)).collect();
        let expected = [("Pod a/alone", false), ("Database a/custom", true), ("Deployment a/web", true)]
            .map(|(t, c)| (t.to_owned(), c));
        assert_eq!(texts, expected);
    }
}
