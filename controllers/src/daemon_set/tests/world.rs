//! [`SimulatedCluster`]: a DaemonSet with its pods, nodes and revisions, and a fake server that executes plans.

use super::super::backoff::Backoff;
use super::super::plan::{Observed, PlannedWrites, plan};
use super::super::pod::node_of;
use crate::action::Action;
use crate::revision::POD_LABEL;
use crate::view::{Phase, Pod};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, from_str, from_value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A DaemonSet with these spec fields, as the server stores it.
pub(super) fn set(more: Value) -> DaemonSet {
    let mut set = json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "ds", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "agent:1"}]}},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    from_value(set).unwrap()
}

pub(super) fn rolling(unavailable: Value, surge: Value) -> Value {
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}})
}

#[derive(Clone)]
pub(super) struct SimulatedCluster {
    pub set: DaemonSet,
    pub nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<String, Pod>,
    pub revisions: Vec<ControllerRevision>,
    pub backoff: Backoff,
    pub now: Timestamp,
    made: usize,
}

impl SimulatedCluster {
    /// A DaemonSet without pods, with a complete history.
    pub(super) fn new(spec: Value, nodes: &[&str]) -> Self {
        let (pods, backoff) = Default::default();
        let mut world = Self {
            set: set(spec),
            nodes: BTreeMap::new(),
            pods,
            revisions: vec![],
            backoff,
            now: START,
            made: 0,
        };
        nodes.iter().for_each(|name| world.node(name));
        world.run();
        world
    }

    /// A DaemonSet with an available pod on every node.
    pub(super) fn settled(spec: Value, nodes: &[&str]) -> Self {
        let mut world = Self::new(spec, nodes);
        world.settle();
        world
    }

    pub(super) fn node(&mut self, name: &str) {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
        self.nodes.insert(name.into(), from_value(node).unwrap());
    }

    pub(super) fn taint(&mut self, node: &str, effect: &str) {
        let taint = Taint { key: "t".into(), effect: effect.into(), ..Taint::default() };
        self.nodes.get_mut(node).unwrap().spec.get_or_insert_default().taints = Some(vec![taint]);
    }

    pub(super) fn untaint(&mut self, node: &str) {
        self.nodes.get_mut(node).unwrap().spec = None;
    }

    /// Runs the controller, with pods that become ready, until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..2000 {
            self.now = self.now.checked_add(SignedDuration::from_secs(3600)).unwrap();
            let work = self.run();
            let is_rest = self.obey_all();
            let is_done = work.create.is_empty() && work.delete.is_empty() && work.revisions.is_empty();
            if is_rest && is_done && work.status.is_none() {
                return;
            }
        }
        panic!("it never comes to rest: {:?}", self.pods.keys());
    }

    /// Makes all pods available on their nodes, or removes terminating ones. Returns true if none changed.
    pub(super) fn obey_all(&mut self) -> bool {
        let before = self.pods.clone();
        let nodes = &self.nodes;
        self.pods.retain(|_, pod| {
            !pod.metadata.is_deleting() && node_of(pod).is_some_and(|n| nodes.contains_key(n))
        });
        let waiting: Vec<_> = self
            .pods
            .iter()
            .filter(|(_, p)| !p.status.phase.is_terminal() && !p.ready())
            .map(|(n, _)| n.clone())
            .collect();
        waiting.iter().for_each(|name| self.make_ready(name, 3600));
        before == self.pods
    }

    /// Adds a pod on a node: with the newest hash unless `more` has another, and `ready` for that many
    /// seconds.
    pub(super) fn pod(&mut self, name: &str, node: &str, more: Value) {
        self.made += 1;
        let hash = more["hash"].as_str().map_or_else(|| self.hash(), str::to_owned);
        let created =
            START.checked_add(SignedDuration::from_secs(i64::try_from(self.made).unwrap())).unwrap();
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created,
                         "labels": {"app": "agent", POD_LABEL: hash}},
            "spec": {"nodeName": node}, "status": {"phase": more["phase"].as_str().unwrap_or("Running")},
        });
        self.pods.insert(name.into(), from_value(pod).unwrap());
        if let Some(since) = more["ready"].as_i64() {
            self.make_ready(name, since);
        }
        if more["deleting"] == true {
            self.terminate(name);
        }
    }

    pub(super) fn make_ready(&mut self, name: &str, since: i64) {
        let at = self.now.checked_sub(SignedDuration::from_secs(since)).unwrap();
        let pod = self.pods.get_mut(name).unwrap();
        if pod.spec.node_name.is_empty() {
            pod.spec.node_name = pod.spec.affine_node.clone();
        }
        pod.status.phase = Phase::Running;
        pod.status.conditions =
            from_value(json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}])).unwrap();
    }

    pub(super) fn unready(&mut self, name: &str) {
        self.pods.get_mut(name).unwrap().status.conditions.clear();
    }

    pub(super) fn fail(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).unwrap();
        pod.status.phase = Phase::Failed;
        pod.status.conditions.clear();
    }

    pub(super) fn terminate(&mut self, name: &str) {
        self.pods.get_mut(name).unwrap().metadata.deletion_timestamp = Some(Time(self.now));
    }

    /// Names of the pods of a node that are not terminating.
    pub(super) fn on(&self, node: &str) -> Vec<String> {
        let here = |pod: &&Pod| node_of(pod) == Some(node) && !pod.metadata.is_deleting();
        self.pods.values().filter(here).map(|pod| pod.metadata.name.clone()).collect()
    }

    /// Hash of the newest revision.
    pub(super) fn hash(&self) -> String {
        let newest = self.revisions.iter().max_by_key(|r| r.revision).unwrap();
        newest.metadata.labels.as_ref().unwrap()[POD_LABEL].clone()
    }

    /// Changes the template's image.
    pub(super) fn roll(&mut self, image: &str) {
        let spec = self.set.spec.as_mut().unwrap();
        spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
        *self.set.metadata.generation.as_mut().unwrap() += 1;
    }

    pub(super) fn plan(&self) -> PlannedWrites {
        let pods: Vec<_> = self.pods.values().cloned().map(Arc::new).collect();
        let nodes: Vec<_> = self.nodes.values().collect();
        let revisions: Vec<_> = self.revisions.iter().collect();
        let (set, backoff) = (&self.set, &self.backoff);
        plan(Observed { set, pods: &pods, nodes: &nodes, revisions: &revisions, backoff }, self.now)
    }

    /// Plans a run and executes it.
    pub(super) fn run(&mut self) -> PlannedWrites {
        let work = self.plan();
        self.apply(&work);
        work
    }

    /// Executes a plan like the server: deleted pods stay until their node removes them.
    pub(super) fn apply(&mut self, work: &PlannedWrites) {
        self.backoff = work.backoff.clone();
        for object in &work.create {
            self.made += 1;
            let mut pod: Pod = from_str(object.json()).unwrap();
            pod.metadata.name = format!("agent-{:04}", self.made);
            pod.metadata.uid = pod.metadata.name.clone();
            pod.metadata.creation_timestamp = Some(Time(self.now));
            self.pods.insert(pod.metadata.name.clone(), pod);
        }
        for pod in &work.delete {
            assert!(
                !self.pods[&pod.metadata.name].metadata.is_deleting(),
                "{} is deleted twice",
                pod.metadata.name
            );
            self.terminate(&pod.metadata.name);
        }
        for action in work.revisions.iter().chain(&work.status).chain(&work.history) {
            match action {
                Action::Create(object) => {
                    let mut revision: ControllerRevision = object.typed().unwrap();
                    revision.metadata.uid = Some(object.name.clone());
                    self.revisions.push(revision);
                }
                Action::Update(object) => {
                    self.revisions.retain(|r| r.metadata.name.as_ref() != Some(&object.name));
                    self.revisions.push(object.typed().unwrap());
                }
                Action::UpdateStatus(object) => self.set.status = object.typed::<DaemonSet>().unwrap().status,
                Action::Delete { target, .. } => {
                    self.revisions.retain(|r| r.metadata.name.as_ref() != Some(&target.name));
                }
                Action::Patch { target, patch, .. } => {
                    let label = patch["metadata"]["labels"][POD_LABEL].as_str().unwrap().to_owned();
                    let is_it = |r: &&mut ControllerRevision| r.metadata.name.as_ref() == Some(&target.name);
                    let labels = match self.pods.get_mut(&target.name) {
                        Some(pod) => &mut pod.metadata.labels,
                        None => {
                            let revision = self.revisions.iter_mut().find(is_it).unwrap();
                            revision.metadata.labels.get_or_insert_default()
                        }
                    };
                    labels.insert(POD_LABEL.into(), label);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
