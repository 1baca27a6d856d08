//! Plan of a DaemonSet: nodes without a pod, and surplus, failed or misplaced pods; once this is settled, a
//! step of the rolling update. Pure.

use super::backoff::Backoff;
use super::placement::{Eligibility, Placement};
use super::pod::{Version, for_node, node_of, sort, template};
use super::rolling::{Strategy, update};
use super::status::report;
use crate::action::{Action, PatchKind};
use crate::claim::ControlledObject;
use crate::limits::DAEMON_BURST;
use crate::object::Object;
use crate::revision::{NewestRevision, Owner, POD_LABEL, equal, labels_of, newest, remove, surplus};
use crate::selector::selects_everything;
use crate::view::{Phase, Pod, subject};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use kstore_informer::Reference;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// All claimed pods, including terminating ones.
    pub pods: &'a [Arc<Pod>],
    /// All nodes.
    pub nodes: &'a [&'a Node],
    /// The claimed revisions.
    pub revisions: &'a [&'a ControllerRevision],
    /// Recent failures of its pods.
    pub backoff: &'a Backoff,
}

/// Writes of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlannedWrites {
    /// Writes of the revision history that must come first; all other fields are empty then.
    pub revisions: Vec<Action>,
    /// Events to record first.
    pub events: Vec<Action>,
    /// Pods to create.
    pub create: Vec<Object>,
    /// Pods to delete.
    pub delete: Vec<Arc<Pod>>,
    /// The status update, if it changed; executed even if creations failed.
    pub status: Option<Action>,
    /// Obsolete revisions to delete.
    pub history: Vec<Action>,
    /// Delay until the next run without a change.
    pub wake: Option<Duration>,
    /// Failures of its pods, including those that this run deletes.
    pub backoff: Backoff,
}

/// Pods by the node that they run on or were created for, without ended pods that are terminating.
pub(crate) type PodsByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Pod>>>;

/// Event reference to the DaemonSet.
pub(crate) fn about(set: &DaemonSet) -> Reference {
    subject("apps/v1", "DaemonSet", &set.metadata)
}

/// The DaemonSet as owner of its revisions.
pub(crate) fn owner<'a>(set: &'a DaemonSet, spec: &'a DaemonSetSpec) -> Owner<'a> {
    Owner {
        kind: "DaemonSet",
        metadata: &set.metadata,
        selector: &spec.selector,
        template: &spec.template,
        collisions: set.status.as_ref().and_then(|s| s.collision_count),
        limit: spec.revision_history_limit,
        label: POD_LABEL,
    }
}

/// Increments the collision count, so that the next revision gets another name.
pub(crate) fn rename_revision(set: &DaemonSet) -> Action {
    let mut set = set.clone();
    let count = &mut set.status.get_or_insert_default().collision_count;
    *count = Some(count.unwrap_or(0).saturating_add(1));
    Action::UpdateStatus(Object::of(&set))
}

/// Plans a run of the DaemonSet.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> PlannedWrites {
    let Some(spec) = seen.set.spec.as_ref() else { return PlannedWrites::default() };
    if selects_everything(&spec.selector) {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        let event = Action::warning(about(seen.set), "SelectingAll", message.into());
        return PlannedWrites { events: vec![event], ..PlannedWrites::default() };
    }
    // The garbage collector may have deleted the revisions already, so no status would be correct.
    if seen.set.metadata.deletion_timestamp.is_some() {
        return PlannedWrites::default();
    }
    let owner = owner(seen.set, spec);
    let current = match history(seen, owner) {
        Ok(current) => current,
        Err(revisions) => {
            return PlannedWrites { revisions, backoff: seen.backoff.clone(), ..PlannedWrites::default() };
        }
    };
    let version = Version::of(seen.set, hash_of(current));
    let empty = PodSpec::default();
    let placement = Placement::of(spec.template.spec.as_ref().unwrap_or(&empty));
    let eligible: BTreeMap<&str, Eligibility> = seen
        .nodes
        .iter()
        .map(|node| (node.metadata.name.as_deref().unwrap_or_default(), placement.evaluate(node)))
        .collect();
    let mut run = Run {
        set: seen.set,
        spec,
        now,
        version,
        eligible,
        pods: by_node(seen.pods),
        changes: Changes::default(),
    };
    let observed = seen.set.status.as_ref().and_then(|s| s.observed_generation).unwrap_or(0);
    let uid = seen.set.metadata.uid.as_deref().unwrap_or_default();
    let mut backoff = seen.backoff.of(uid, observed, now);
    run.manage(&mut backoff);
    if run.changes.is_settled() {
        let Changes { create, delete, .. } = update(&run);
        (run.changes.create, run.changes.delete) = (create, delete);
    }
    let mut work = run.finish(backoff);
    let used = labels_of(seen.pods.iter().map(|pod| &pod.metadata.labels));
    let old: Vec<_> =
        seen.revisions.iter().copied().filter(|r| r.metadata.name != current.metadata.name).collect();
    work.history = surplus(owner, &old, |revision| used.contains(hash_of(revision)));
    work
}

/// Hash of a revision, which its pods have as a label.
fn hash_of(revision: &ControllerRevision) -> &str {
    revision.labels().get(POD_LABEL).map(String::as_str).unwrap_or_default()
}

/// The current revision of the template, or the writes that are needed first. Every revision must have a
/// hash, exactly one must have the template, and its number must be the highest.
fn history<'a>(seen: Observed<'a>, owner: Owner<'_>) -> Result<&'a ControllerRevision, Vec<Action>> {
    let nameless: Vec<_> =
        seen.revisions.iter().filter(|r| hash_of(r).is_empty()).map(|r| label(r)).collect();
    if !nameless.is_empty() {
        return Err(nameless);
    }
    let equal = equal(owner, seen.revisions);
    if let [doubles @ .., kept] = equal.as_slice()
        && !doubles.is_empty()
    {
        let hashes: BTreeSet<_> = doubles.iter().map(|r| hash_of(r)).collect();
        let is_double = |pod: &&Arc<Pod>| {
            pod.metadata.labels.get(POD_LABEL).is_some_and(|hash| hashes.contains(hash.as_str()))
        };
        let relabelled = seen.pods.iter().filter(is_double).map(|pod| relabel(pod, hash_of(kept)));
        return Err(relabelled.chain(doubles.iter().map(|r| remove(r))).collect());
    }
    match newest(owner, seen.revisions) {
        NewestRevision::Is(current) => Ok(current),
        NewestRevision::After(action) => Err(vec![*action]),
    }
}

/// Sets the name of a revision as its hash label.
fn label(revision: &ControllerRevision) -> Action {
    let target = revision.at_version();
    let patch = json!({ "metadata": { "uid": target.uid, "labels": { POD_LABEL: target.name } } });
    Action::Patch { target, status: false, kind: PatchKind::Merge, patch }
}

fn relabel(pod: &Pod, hash: &str) -> Action {
    let patch = json!({ "metadata": { "uid": pod.metadata.uid, "labels": { POD_LABEL: hash } } });
    Action::Patch { target: pod.target(), status: false, kind: PatchKind::Merge, patch }
}

fn by_node(pods: &[Arc<Pod>]) -> PodsByNode<'_> {
    let mut nodes = PodsByNode::new();
    for pod in pods.iter().filter(|pod| !(pod.status.phase.is_terminal() && pod.metadata.is_deleting())) {
        if let Some(node) = node_of(pod) {
            nodes.entry(node).or_default().push(pod);
        }
    }
    nodes.values_mut().for_each(|pods| sort(pods));
    nodes
}

/// Pods to create and delete.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    /// Nodes that need a pod.
    pub create: Vec<&'a str>,
    /// Pods to delete.
    pub delete: Vec<&'a Arc<Pod>>,
    /// Events to record.
    pub events: Vec<Action>,
    /// Delay until a failed pod may be deleted.
    pub wake: Option<Duration>,
}

impl Changes<'_> {
    /// Whether every node has its pod, of any template version.
    fn is_settled(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// State of a run.
pub(crate) struct Run<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// The DaemonSet's spec.
    pub spec: &'a DaemonSetSpec,
    /// Current time.
    pub now: Timestamp,
    /// The version of new pods.
    pub version: Version<'a>,
    /// Eligibility of each node.
    pub eligible: BTreeMap<&'a str, Eligibility>,
    /// Pods by node; only the first pod of each node counts.
    pub pods: PodsByNode<'a>,
    changes: Changes<'a>,
}

impl<'a> Run<'a> {
    /// Whether the pod has been ready for at least `minReadySeconds`.
    pub(crate) fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        pod.available_in(min_ready, self.now).is_some_and(|wait| wait.is_zero())
    }

    /// Plans the pods of each node, of any template version.
    fn manage(&mut self, backoff: &mut Backoff) {
        for (node, eligibility) in self.eligible.clone() {
            match (eligibility, self.pods.get(node).cloned()) {
                (Eligibility::Run, None) => self.changes.create.push(node),
                (Eligibility::Keep | Eligibility::Leave, None) => {}
                (Eligibility::Leave, Some(pods)) => {
                    self.changes.delete.extend(pods.into_iter().filter(|pod| !pod.metadata.is_deleting()));
                }
                (Eligibility::Run | Eligibility::Keep, Some(pods)) => {
                    let running = self.remove_ended(node, pods, backoff);
                    self.prune(&running);
                    // Without surge a new pod waits for the terminating one.
                    if running.is_empty()
                        && eligibility == Eligibility::Run
                        && Strategy::of(self.spec).allows_surge()
                        && !self.has_waiting_failure(node)
                    {
                        self.changes.create.push(node);
                    }
                }
            }
        }
        // No kubelet reports these pods, and the pod garbage collector covers only bound ones.
        let is_lost = |pod: &&Arc<Pod>| pod.spec.node_name.is_empty() && !pod.metadata.is_deleting();
        let lost = self.pods.iter().filter(|(node, _)| !self.eligible.contains_key(*node));
        self.changes.delete.extend(lost.flat_map(|(_, pods)| pods.iter().copied()).filter(is_lost));
    }

    /// Deletes ended pods, failed ones after their back-off. Returns the remaining pods.
    fn remove_ended(
        &mut self,
        node: &'a str,
        pods: Vec<&'a Arc<Pod>>,
        backoff: &mut Backoff,
    ) -> Vec<&'a Arc<Pod>> {
        let mut running = vec![];
        for pod in pods.into_iter().filter(|pod| !pod.metadata.is_deleting()) {
            let found = |state: &str, what: &str| {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                format!("Found {state} daemon pod {namespace}/{name} on node {node}, will try to {what} it")
            };
            let event = match pod.status.phase {
                Phase::Failed => {
                    if let Some(wait) = backoff.wait(node, self.now) {
                        self.changes.wake = Some(self.changes.wake.map_or(wait, |w| w.min(wait)));
                        continue;
                    }
                    backoff.advance(node, self.now);
                    Action::warning(about(self.set), "FailedDaemonPod", found("failed", "kill"))
                }
                Phase::Succeeded => {
                    Action::normal(about(self.set), "SucceededDaemonPod", found("succeeded", "delete"))
                }
                Phase::Pending | Phase::Running | Phase::Unknown => {
                    running.push(pod);
                    continue;
                }
            };
            self.changes.events.push(event);
            self.changes.delete.push(pod);
        }
        running
    }

    /// Whether a failed pod on the node waits for its back-off. Another pod would fail in the same way.
    fn has_waiting_failure(&self, node: &str) -> bool {
        let is_kept = |pod: &Arc<Pod>| {
            !pod.metadata.is_deleting()
                && !self.changes.delete.iter().any(|gone| gone.metadata.uid == pod.metadata.uid)
        };
        let mut pods = self.pods.get(node).into_iter().flatten();
        pods.any(|pod| pod.status.phase == Phase::Failed && is_kept(pod))
    }

    /// Deletes surplus pods of a node: all but the first. With surge, the first of the new version and the
    /// first of an old one stay; of these the old one is deleted once it is not ready or the new one is
    /// available.
    fn prune(&mut self, running: &[&'a Arc<Pod>]) {
        if !Strategy::of(self.spec).allows_surge() {
            self.changes.delete.extend(running.iter().skip(1));
            return;
        }
        let (new, old): (Vec<_>, Vec<_>) = running.iter().copied().partition(|pod| self.version.is_of(pod));
        self.changes.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.ready() || self.is_available(new))
        {
            self.changes.delete.push(old);
        }
    }

    fn finish(self, backoff: Backoff) -> PlannedWrites {
        let (status, available_in) = report(&self);
        let template = template(self.set, self.version);
        let Changes { create, delete, events, wake } = self.changes;
        let create = create.into_iter().take(DAEMON_BURST);
        PlannedWrites {
            events,
            create: create.map(|node| Object::of(&for_node(&template, node))).collect(),
            delete: delete.into_iter().take(DAEMON_BURST).cloned().collect(),
            status,
            wake: wake.into_iter().chain(available_in).min(),
            backoff,
            ..PlannedWrites::default()
        }
    }
}
