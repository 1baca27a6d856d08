//! What a DaemonSet needs next: the nodes that lack a pod, the pods that are too many, failed, or on nodes that are to have none, and,
//! only when all of this is settled, a step of the update. Pure.

use super::backoff::Backoff;
use super::placement::{Eligibility, Placement};
use super::pod::{Version, for_node, node_of, sort, template};
use super::rolling::{Strategy, update};
use super::status::report;
use crate::action::{Action, PatchKind};
use crate::claim::Claimable;
use crate::limits::DAEMON_BURST;
use crate::object::Object;
use crate::revision::{Newest, Owner, POD_LABEL, equal, labels_of, newest, remove, surplus};
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

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The set.
    pub set: &'a DaemonSet,
    /// All pods that it has claimed, also those on their way out.
    pub pods: &'a [Arc<Pod>],
    /// All nodes.
    pub nodes: &'a [&'a Node],
    /// The revisions that it has claimed.
    pub revisions: &'a [&'a ControllerRevision],
    /// Where its pods failed lately.
    pub backoff: &'a Backoff,
}

/// The next writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// The history has to be put in order first. Then there is nothing else in here.
    pub revisions: Vec<Action>,
    /// What the user should know before anything is done.
    pub events: Vec<Action>,
    /// Pods to create.
    pub create: Vec<Object>,
    /// Pods to delete.
    pub delete: Vec<Arc<Pod>>,
    /// The write of the status, if it changes; to be tried even if pods could not be created.
    pub status: Option<Action>,
    /// Revisions that are no longer needed.
    pub history: Vec<Action>,
    /// When to look again if nothing happens before.
    pub wake: Option<Duration>,
    /// Where its pods failed, with the failures that this run deletes.
    pub backoff: Backoff,
}

/// Pods by the node that they are on or were made for. Those that have ended and are on their way out are not there.
pub(crate) type PodsByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Pod>>>;

/// The set as the object of an event.
pub(crate) fn about(set: &DaemonSet) -> Reference {
    subject("apps/v1", "DaemonSet", &set.metadata)
}

/// The set as the owner of its revisions.
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

/// Makes the next revision of a set have another name.
pub(crate) fn rename_revision(set: &DaemonSet) -> Action {
    let mut set = set.clone();
    let count = &mut set.status.get_or_insert_default().collision_count;
    *count = Some(count.unwrap_or(0).saturating_add(1));
    Action::UpdateStatus(Object::of(&set))
}

/// Plans a run.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> Work {
    let Some(spec) = seen.set.spec.as_ref() else { return Work::default() };
    if selects_everything(&spec.selector) {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        let event = Action::warning(about(seen.set), "SelectingAll", message.into());
        return Work { events: vec![event], ..Work::default() };
    }
    // The garbage collector may have taken the revisions already: no status could be right.
    if seen.set.metadata.deletion_timestamp.is_some() {
        return Work::default();
    }
    let owner = owner(seen.set, spec);
    let current = match history(seen, owner) {
        Ok(current) => current,
        Err(revisions) => return Work { revisions, backoff: seen.backoff.clone(), ..Work::default() },
    };
    let version = Version::of(seen.set, hash_of(current));
    let empty = PodSpec::default();
    let placement = Placement::of(spec.template.spec.as_ref().unwrap_or(&empty));
    let eligible: BTreeMap<&str, Eligibility> = seen
        .nodes
        .iter()
        .map(|node| (node.metadata.name.as_deref().unwrap_or_default(), placement.judge(node)))
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

/// The hash of a revision, which pods have as a label.
fn hash_of(revision: &ControllerRevision) -> &str {
    revision.labels().get(POD_LABEL).map(String::as_str).unwrap_or_default()
}

/// The revision of the set's template, or what has to be written before it is clear: every revision has a hash, one has the template,
/// and its number is the highest.
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
        Newest::Is(current) => Ok(current),
        Newest::After(action) => Err(vec![*action]),
    }
}

/// Gives a revision its name as its hash.
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
    for pod in pods.iter().filter(|pod| !(pod.status.phase.is_terminal() && pod.metadata.deleting())) {
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
    /// Nodes that are to get a pod.
    pub create: Vec<&'a str>,
    /// Pods that are to go.
    pub delete: Vec<&'a Arc<Pod>>,
    /// What the user should know.
    pub events: Vec<Action>,
    /// When a failed pod may be deleted.
    pub wake: Option<Duration>,
}

impl Changes<'_> {
    /// Every node has what it should have, of whatever version.
    fn is_settled(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// A run under way.
pub(crate) struct Run<'a> {
    /// The set.
    pub set: &'a DaemonSet,
    /// Its spec.
    pub spec: &'a DaemonSetSpec,
    /// The time.
    pub now: Timestamp,
    /// The template that new pods are made from.
    pub version: Version<'a>,
    /// What each node is to the set.
    pub eligible: BTreeMap<&'a str, Eligibility>,
    /// Pods by node, on each node the one that counts first.
    pub pods: PodsByNode<'a>,
    changes: Changes<'a>,
}

impl<'a> Run<'a> {
    /// The pod is ready, and has been for as long as `minReadySeconds` asks.
    pub(crate) fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        pod.available_in(min_ready, self.now).is_some_and(|wait| wait.is_zero())
    }

    /// Gives each node what it should have, of whatever version.
    fn manage(&mut self, backoff: &mut Backoff) {
        for (node, eligibility) in self.eligible.clone() {
            match (eligibility, self.pods.get(node).cloned()) {
                (Eligibility::Run, None) => self.changes.create.push(node),
                (Eligibility::Keep | Eligibility::Leave, None) => {}
                (Eligibility::Leave, Some(pods)) => {
                    self.changes.delete.extend(pods.into_iter().filter(|pod| !pod.metadata.deleting()));
                }
                (Eligibility::Run | Eligibility::Keep, Some(pods)) => {
                    let running = self.remove_ended(node, pods, backoff);
                    self.prune(&running);
                    // Without surge, the pod that is on its way out holds the new one up.
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
        // No node takes them, and who collects pods of nodes that are gone knows only bound ones.
        let is_lost = |pod: &&Arc<Pod>| pod.spec.node_name.is_empty() && !pod.metadata.deleting();
        let lost = self.pods.iter().filter(|(node, _)| !self.eligible.contains_key(*node));
        self.changes.delete.extend(lost.flat_map(|(_, pods)| pods.iter().copied()).filter(is_lost));
    }

    /// Deletes pods that have ended, failed ones as the back-off allows. Returns the others that stay.
    fn remove_ended(
        &mut self,
        node: &'a str,
        pods: Vec<&'a Arc<Pod>>,
        backoff: &mut Backoff,
    ) -> Vec<&'a Arc<Pod>> {
        let mut running = vec![];
        for pod in pods.into_iter().filter(|pod| !pod.metadata.deleting()) {
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

    /// A failed pod on the node stays as long as the back-off says. A new one beside it would fail in the same way.
    fn has_waiting_failure(&self, node: &str) -> bool {
        let is_kept = |pod: &Arc<Pod>| {
            !pod.metadata.deleting()
                && !self.changes.delete.iter().any(|gone| gone.metadata.uid == pod.metadata.uid)
        };
        let mut pods = self.pods.get(node).into_iter().flatten();
        pods.any(|pod| pod.status.phase == Phase::Failed && is_kept(pod))
    }

    /// Deletes pods that are too many on their node: all but the first; under surge all but the first of the version and the first of
    /// any other, and of these two the old one as soon as it is not ready or the new one is available.
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

    fn finish(self, backoff: Backoff) -> Work {
        let (status, available_in) = report(&self);
        let template = template(self.set, self.version);
        let Changes { create, delete, events, wake } = self.changes;
        let create = create.into_iter().take(DAEMON_BURST);
        Work {
            events,
            create: create.map(|node| Object::of(&for_node(&template, node))).collect(),
            delete: delete.into_iter().take(DAEMON_BURST).cloned().collect(),
            status,
            wake: wake.into_iter().chain(available_in).min(),
            backoff,
            ..Work::default()
        }
    }
}
