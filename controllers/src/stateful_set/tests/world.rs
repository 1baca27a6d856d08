//! [`SimulatedCluster`]: a StatefulSet with its pods, claims and revisions, a fake server that executes plans, and pods
//! that follow.

use super::super::identity::{Range, ordinal};
use super::super::plan::{Observed, PlannedWrites, plan};
use crate::action::Action;
use crate::view::{Phase, Pod};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, from_str, from_value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A StatefulSet with these spec fields, as the server stores it.
pub(super) fn set(more: Value) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "sts", "generation": 1},
        "spec": {
            "replicas": 1, "serviceName": "headless", "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    from_value(set).unwrap()
}

pub(super) struct SimulatedCluster {
    pub set: StatefulSet,
    pub pods: BTreeMap<String, Pod>,
    pub claims: BTreeMap<String, PersistentVolumeClaim>,
    pub revisions: Vec<ControllerRevision>,
    pub now: Timestamp,
    made: usize,
}

impl SimulatedCluster {
    /// A StatefulSet before its first run.
    pub(super) fn new(spec: Value) -> Self {
        let (pods, claims) = Default::default();
        Self { set: set(spec), pods, claims, revisions: vec![], now: START, made: 0 }
    }

    /// A complete StatefulSet.
    pub(super) fn settled(spec: Value) -> Self {
        let mut world = Self::new(spec);
        world.settle();
        world
    }

    /// Runs the controller, with pods that become ready, until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..2000 {
            self.now = self.now.checked_add(SignedDuration::from_secs(3600)).unwrap();
            let work = self.plan();
            self.apply(&work);
            let is_rest = self.obey_all();
            self.collect_garbage();
            if is_rest && work.steps.is_empty() && work.status.is_none() && work.revision.is_none() {
                return;
            }
        }
        panic!("it never comes to rest: {:?}", self.pods.keys());
    }

    /// Makes all pods ready, or removes terminating ones. A user removes ended pods that are not desired: two
    /// of them wait for each other. Returns true if none changed.
    fn obey_all(&mut self) -> bool {
        let names: Vec<_> = self.pods.keys().cloned().collect();
        let before = self.pods.clone();
        for name in names {
            let range = Range::of(self.set.spec.as_ref().unwrap());
            let is_unwanted = ordinal(&self.set, &name).is_none_or(|ordinal| !range.contains(ordinal));
            let is_stuck = is_unwanted && self.pods[&name].status.phase.is_terminal();
            if is_stuck || self.pods[&name].metadata.is_deleting() {
                self.pods.remove(&name);
            } else if !self.pods[&name].status.phase.is_terminal() && !self.pods[&name].ready() {
                self.make_ready(&name, 3600);
            }
        }
        before == self.pods
    }

    pub(super) fn make_ready(&mut self, name: &str, since: i64) {
        let at = self.now.checked_sub(SignedDuration::from_secs(since)).unwrap();
        let pod = self.pods.get_mut(name).unwrap();
        pod.status.phase = Phase::Running;
        pod.status.conditions =
            from_value(json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}])).unwrap();
    }

    fn pod(&mut self, ordinal: i32) -> &mut Pod {
        self.pods.get_mut(&format!("web-{ordinal}")).unwrap()
    }

    /// Makes the pod of an ordinal ready for this many seconds.
    pub(super) fn ready(&mut self, ordinal: i32, since: i64) {
        self.make_ready(&format!("web-{ordinal}"), since);
    }

    /// Makes the pod of an ordinal run without being ready.
    pub(super) fn unready(&mut self, ordinal: i32) {
        self.pod(ordinal).status.conditions.clear();
    }

    /// Sets the phase of the pod of an ordinal.
    pub(super) fn phase(&mut self, ordinal: i32, phase: Phase) {
        let pod = self.pod(ordinal);
        pod.status.phase = phase;
        pod.status.conditions.clear();
    }

    /// Deletes the pod of an ordinal, which then terminates.
    pub(super) fn terminate(&mut self, ordinal: i32) {
        let now = self.now;
        self.pod(ordinal).metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    }

    /// Removes the pod of an ordinal.
    pub(super) fn remove(&mut self, ordinal: i32) {
        self.pods.remove(&format!("web-{ordinal}")).unwrap();
    }

    /// Changes the number of replicas.
    pub(super) fn scale(&mut self, replicas: i32) {
        self.set.spec.as_mut().unwrap().replicas = Some(replicas);
        *self.set.metadata.generation.as_mut().unwrap() += 1;
    }

    /// Changes the template's image.
    pub(super) fn roll(&mut self, image: &str) {
        let spec = self.set.spec.as_mut().unwrap();
        spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
        *self.set.metadata.generation.as_mut().unwrap() += 1;
    }

    /// Changes the update strategy.
    pub(super) fn strategy(&mut self, strategy: Value) {
        self.set.spec.as_mut().unwrap().update_strategy = from_value(strategy).unwrap();
    }

    /// Name of the newest revision.
    pub(super) fn revision(&self) -> String {
        let newest = self.revisions.iter().max_by_key(|r| r.revision);
        newest.unwrap().metadata.name.clone().unwrap()
    }

    pub(super) fn plan(&self) -> PlannedWrites {
        let pods: Vec<_> = self.pods.values().cloned().map(Arc::new).collect();
        let revisions: Vec<_> = self.revisions.iter().collect();
        let find = |name: &str| self.claims.get(name);
        plan(Observed { set: &self.set, pods: &pods, revisions: &revisions, claims: &find }, self.now)
    }

    /// Removes the claims whose owners are all gone.
    pub(super) fn collect_garbage(&mut self) {
        let uids: Vec<_> = self.pods.values().map(|pod| pod.metadata.uid.clone()).collect();
        let is_gone = |uid: &String| uid != "sts" && !uids.contains(uid);
        self.claims.retain(|_, claim| {
            let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
            owners.is_empty() || !owners.iter().all(|owner| is_gone(&owner.uid))
        });
    }

    /// Plans a run and executes it.
    pub(super) fn run(&mut self) -> PlannedWrites {
        let work = self.plan();
        self.apply(&work);
        work
    }

    /// Executes a plan like the server: names are unique, and deleted pods stay until their node removes
    /// them.
    pub(super) fn apply(&mut self, work: &PlannedWrites) {
        let actions = work.revision.iter().chain(work.steps.iter().flat_map(|step| &step.actions));
        for action in actions.chain(&work.status).chain(&work.history) {
            self.made += 1;
            match action {
                Action::Create(object) if object.resource.plural == "pods" => {
                    let mut pod: Pod = from_str(object.json()).unwrap();
                    pod.metadata.uid = format!("pod-{}", self.made);
                    assert!(self.pods.insert(object.name.clone(), pod).is_none(), "{} exists", object.name);
                }
                Action::Create(object) if object.resource.plural == "persistentvolumeclaims" => {
                    let claim = object.typed().unwrap();
                    assert!(
                        self.claims.insert(object.name.clone(), claim).is_none(),
                        "{} exists",
                        object.name
                    );
                }
                Action::Create(object) => self.revisions.push(object.typed().unwrap()),
                Action::Update(object) if object.resource.plural == "persistentvolumeclaims" => {
                    self.claims.insert(object.name.clone(), object.typed().unwrap());
                }
                Action::Update(object) => {
                    self.revisions.retain(|r| r.metadata.name.as_ref() != Some(&object.name));
                    self.revisions.push(object.typed().unwrap());
                }
                Action::UpdateStatus(object) => {
                    self.set.status = object.typed::<StatefulSet>().unwrap().status;
                }
                Action::Delete { target, .. } if target.resource.plural == "pods" => {
                    let now = self.now;
                    let pod = self.pods.get_mut(&target.name).expect("it is there");
                    assert_eq!(pod.metadata.uid, target.uid);
                    assert!(!pod.metadata.is_deleting(), "{} is deleted twice", target.name);
                    pod.metadata.deletion_timestamp =
                        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
                }
                Action::Delete { target, .. } => {
                    self.revisions.retain(|r| r.metadata.name.as_ref() != Some(&target.name));
                }
                Action::Patch { target, patch, .. } => {
                    let labels = patch["metadata"]["labels"].as_object().into_iter().flatten();
                    let pod = self.pods.get_mut(&target.name).unwrap();
                    pod.metadata
                        .labels
                        .extend(labels.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())));
                }
                Action::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
