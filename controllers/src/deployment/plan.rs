//! Plan of a Deployment: ReplicaSets to create, scale or delete, and the status. Pure.
//!
//! The new ReplicaSet is the oldest one whose template equals the Deployment's, apart from the hash label;
//! all others are old. One run moves sizes in one direction: if the new ReplicaSet can grow, it grows and
//! nothing shrinks.

use super::arith::{ActiveReplicaSet, Bounds, OldReplicaSet, new_size, old_sizes, proportional_sizes};
use super::revision::{
    DESIRED_REPLICAS, MAX_REPLICAS, REVISION, annotate_new, new_set, number, revision_of, same_template,
};
use super::status::{
    PROGRESSING, carry_failure, complete, counted, counts, deadline, deadline_in, evaluate, set_condition,
    size, total_size, with_pause,
};
use crate::action::{Action, Plan, Propagation, Target};
use crate::claim::ControlledObject;
use crate::object::Object;
use crate::selector::selects_everything;
use crate::view::{Pod, subject};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use kstore_informer::Reference;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// The claimed ReplicaSets.
    pub sets: &'a [&'a ReplicaSet],
    /// Pods of the claimed ReplicaSets; used only with strategy Recreate.
    pub pods: &'a [Arc<Pod>],
}

/// Plans a run of the Deployment.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> Plan {
    let d = seen.deployment;
    if d.spec.as_ref().is_none_or(|s| selects_everything(&s.selector)) {
        return refuse_empty_selector(d);
    }
    let mut rollout = Rollout::new(seen, now);
    if d.metadata.deletion_timestamp.is_some() {
        return rollout.finish(Report::Counts);
    }
    if d.spec.as_ref().and_then(|s| s.paused).unwrap_or(false) {
        rollout.number_new();
        rollout.resize();
        rollout.clean_history();
        return rollout.finish(Report::Counts);
    }
    if rollout.was_resized() {
        rollout.number_new();
        rollout.resize();
        return rollout.finish(Report::Counts);
    }
    if rollout.recreates {
        rollout.recreate();
    } else {
        rollout.roll();
    }
    rollout.finish(Report::Progress)
}

fn refuse_empty_selector(d: &Deployment) -> Plan {
    let mut status = d.status.clone().unwrap_or_default();
    if status.observed_generation >= d.metadata.generation {
        return Plan::nothing();
    }
    status.observed_generation = d.metadata.generation;
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    Plan::of(vec![
        Action::warning(about(d), "SelectingAll", message.into()),
        Action::UpdateStatus(Object::of(&Deployment { status: Some(status), ..d.clone() })),
    ])
}

pub(crate) fn about(d: &Deployment) -> Reference {
    subject("apps/v1", "Deployment", &d.metadata)
}

/// Which part of the status to update at the end of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    /// Counts only: no rollout can progress.
    Counts,
    /// Counts, progress and failures.
    Progress,
}

/// A ReplicaSet during a run.
struct PlannedSet<'a> {
    /// The observed state; `None` if this run creates the ReplicaSet.
    seen: Option<&'a ReplicaSet>,
    /// The planned state, borrowed until it changes.
    set: Cow<'a, ReplicaSet>,
}

impl PlannedSet<'_> {
    fn size(&self) -> i32 {
        size(&self.set)
    }

    /// Available pods within the planned size: surplus pods are about to be deleted, even if the status still
    /// counts them.
    fn available(&self) -> i32 {
        counts(&self.set).available_replicas.unwrap_or(0).min(self.size())
    }

    fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.set.metadata.annotations.as_ref()
    }
}

/// State of a run.
struct Rollout<'a> {
    d: &'a Deployment,
    pods: &'a [Arc<Pod>],
    now: Timestamp,
    bounds: Bounds,
    recreates: bool,
    /// The status before this run, with conditions that this run has updated.
    before: DeploymentStatus,
    /// ReplicaSets, oldest first; a created one is last.
    slots: Vec<PlannedSet<'a>>,
    new: Option<usize>,
    doomed: Vec<Target>,
}

impl<'a> Rollout<'a> {
    fn new(seen: Observed<'a>, now: Timestamp) -> Self {
        let d = seen.deployment;
        let mut sets = seen.sets.to_vec();
        sets.sort_by(|a, b| age(a).cmp(&age(b)));
        let spec = d.spec.as_ref();
        let wanted = spec.map(|s| &s.template);
        let fits = |s: &&ReplicaSet| {
            let template = s.spec.as_ref().and_then(|s| s.template.as_ref());
            template.zip(wanted).is_some_and(|(have, want)| same_template(have, want))
        };
        Self {
            d,
            pods: seen.pods,
            now,
            bounds: Bounds::of(d),
            recreates: spec.and_then(|s| s.strategy.as_ref()?.type_.as_deref()) == Some("Recreate"),
            before: with_pause(d, now),
            new: sets.iter().position(fits),
            slots: sets
                .into_iter()
                .map(|set| PlannedSet { seen: Some(set), set: Cow::Borrowed(set) })
                .collect(),
            doomed: vec![],
        }
    }

    fn sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.slots.iter().map(|s| &*s.set)
    }

    fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.slots.len()).filter(move |i| Some(*i) != new)
    }

    fn total(&self) -> i32 {
        total_size(self.sets())
    }

    /// Whether an active ReplicaSet was sized for another desired number of replicas. With Recreate and
    /// several active ReplicaSets there are no proportions to keep; the rollout itself ends that state.
    fn was_resized(&self) -> bool {
        let active: Vec<&PlannedSet<'_>> = self.slots.iter().filter(|s| s.size() > 0).collect();
        if self.recreates && active.len() > 1 {
            return false;
        }
        active
            .iter()
            .any(|s| number(s.annotations(), DESIRED_REPLICAS).is_some_and(|n| n != self.bounds.wanted))
    }

    /// Updates the revision and the copied annotations of the new ReplicaSet, if it exists.
    fn number_new(&mut self) {
        let Some(new) = self.new else { return };
        let next = self.next_revision();
        let min_ready = self.d.spec.as_ref().and_then(|s| s.min_ready_seconds);
        let slot = &mut self.slots[new];
        let mut annotations = slot.annotations().cloned().unwrap_or_default();
        annotate_new(&mut annotations, self.d, next);
        let stale_ready =
            slot.set.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or(0) != min_ready.unwrap_or(0);
        if slot.annotations() != Some(&annotations) || stale_ready {
            let set = slot.set.to_mut();
            set.metadata.annotations = Some(annotations);
            set.spec.get_or_insert_default().min_ready_seconds = min_ready;
        }
        if deadline(self.d).is_some() && !self.has_progressing() {
            let why =
                ("FoundNewReplicaSet", format!("Found new replica set {:?}", name(&self.slots[new].set)));
            set_condition(&mut self.before, PROGRESSING, "True", why, self.now);
        }
    }

    fn has_progressing(&self) -> bool {
        self.before.conditions.iter().flatten().any(|c| c.type_ == PROGRESSING)
    }

    fn next_revision(&self) -> i64 {
        self.old().map(|i| revision_of(self.slots[i].annotations())).max().unwrap_or(0).saturating_add(1)
    }

    /// Ensures that the new ReplicaSet exists.
    fn ensure_new(&mut self) {
        if self.new.is_some() {
            return self.number_new();
        }
        let mut set = new_set(self.d);
        let first = if self.recreates { self.bounds.wanted } else { new_size(self.bounds, self.total(), 0) };
        let mut annotations = BTreeMap::new();
        annotate_new(&mut annotations, self.d, self.next_revision());
        set.metadata.annotations = Some(annotations);
        if deadline(self.d).is_some() {
            let why = ("NewReplicaSetCreated", format!("Created new replica set {:?}", name(&set)));
            set_condition(&mut self.before, PROGRESSING, "True", why, self.now);
        }
        self.new = Some(self.slots.len());
        self.slots.push(PlannedSet { seen: None, set: Cow::Owned(set) });
        self.scale(self.slots.len() - 1, first);
    }

    /// Sets the size of a ReplicaSet, and the annotations that distinguish a later resize from a rollout
    /// step. Returns whether the size changed.
    fn scale(&mut self, at: usize, to: i32) -> bool {
        let slot = &mut self.slots[at];
        let marks = [(DESIRED_REPLICAS, self.bounds.wanted), (MAX_REPLICAS, self.bounds.most())];
        let resized = slot.size() != to;
        if resized || marks.iter().any(|(key, n)| number(slot.annotations(), key) != Some(*n)) {
            let set = slot.set.to_mut();
            set.spec.get_or_insert_default().replicas = Some(to);
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.extend(marks.map(|(key, n)| (key.to_owned(), n.to_string())));
        }
        resized
    }

    /// Scales to the desired number without a rollout step.
    fn resize(&mut self) {
        let active: Vec<usize> = (0..self.slots.len()).filter(|i| self.slots[*i].size() > 0).collect();
        match active.as_slice() {
            [] => {
                if let Some(latest) = self.new.or(self.slots.len().checked_sub(1)) {
                    self.scale(latest, self.bounds.wanted);
                }
            }
            [only] => {
                self.scale(*only, self.bounds.wanted);
            }
            _ if self.new_is_saturated() => {
                for i in self.old() {
                    self.scale(i, 0);
                }
            }
            _ if !self.recreates => self.resize_in_proportion(active),
            _ => {}
        }
    }

    fn new_is_saturated(&self) -> bool {
        let wanted = self.bounds.wanted;
        self.new.is_some_and(|i| {
            let slot = &self.slots[i];
            slot.size() == wanted
                && slot.available() == wanted
                && number(slot.annotations(), DESIRED_REPLICAS) == Some(wanted)
        })
    }

    /// Larger ReplicaSets are served first; among equals, the newer when growing and the older when
    /// shrinking.
    fn resize_in_proportion(&mut self, mut active: Vec<usize>) {
        let growing = self.bounds.most() > self.total();
        active.sort_by_key(|i| (-self.slots[*i].size(), if growing { usize::MAX - i } else { *i }));
        let fallback = self.d.status.as_ref().and_then(|s| s.replicas).unwrap_or(0);
        let shares: Vec<ActiveReplicaSet> = active
            .iter()
            .map(|i| {
                let slot = &self.slots[*i];
                let most_before = number(slot.annotations(), MAX_REPLICAS).unwrap_or(fallback);
                ActiveReplicaSet { size: slot.size(), most_before }
            })
            .collect();
        for (at, to) in active.into_iter().zip(proportional_sizes(self.bounds, &shares)) {
            self.scale(at, to);
        }
    }

    fn roll(&mut self) {
        self.ensure_new();
        let Some(new) = self.new else { return };
        let created = self.slots[new].seen.is_none();
        let to = new_size(self.bounds, self.total(), self.slots[new].size());
        if self.scale(new, to) || created && to > 0 {
            return;
        }
        if self.shrink_old(new) {
            return;
        }
        self.clean_when_complete();
    }

    fn shrink_old(&mut self, new: usize) -> bool {
        let measure =
            |slot: &PlannedSet<'_>| OldReplicaSet { spec: slot.size(), available: slot.available() };
        let indices: Vec<usize> = self.old().collect();
        let old: Vec<OldReplicaSet> = indices.iter().map(|i| measure(&self.slots[*i])).collect();
        let sizes = old_sizes(self.bounds, &old, measure(&self.slots[new]));
        let mut changed = false;
        for ((at, to), was) in indices.into_iter().zip(sizes).zip(old) {
            changed |= to != was.spec && self.scale(at, to);
        }
        changed
    }

    fn recreate(&mut self) {
        self.number_new();
        let mut stopped = false;
        for i in self.old() {
            stopped |= self.slots[i].size() > 0 && self.scale(i, 0);
        }
        if stopped || self.old_pods_run() {
            return;
        }
        self.ensure_new();
        let Some(new) = self.new else { return };
        self.scale(new, self.bounds.wanted);
        self.clean_when_complete();
    }

    /// Whether a pod of an old ReplicaSet may still run: it has not ended, terminating or not.
    fn old_pods_run(&self) -> bool {
        let new = self.new.and_then(|i| self.slots[i].set.metadata.uid.as_deref());
        let old = |i: usize| counts(&self.slots[i].set).replicas > 0;
        self.old().any(old)
            || self.pods.iter().any(|pod| {
                let owner =
                    crate::claim::controller_of(&pod.metadata.owner_references).map(|o| o.uid.as_str());
                owner != new && !pod.status.phase.is_terminal()
            })
    }

    fn clean_when_complete(&mut self) {
        if complete(self.d, &self.status(Report::Counts)) {
            self.clean_history();
        }
    }

    /// Deletes old ReplicaSets above the history limit, lowest revision first, if they have no pods.
    fn clean_history(&mut self) {
        let limit = self.d.spec.as_ref().and_then(|s| s.revision_history_limit).unwrap_or(10);
        let alive = |i: &usize| self.slots[*i].set.metadata.deletion_timestamp.is_none();
        let mut old: Vec<usize> = self.old().filter(alive).collect();
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|i| (revision_of(self.slots[*i].annotations()), *i));
        old.truncate(excess);
        old.retain(|i| is_spent(&self.slots[*i].set));
        self.doomed = old
            .into_iter()
            .map(|i| Target { resource_version: None, ..self.slots[i].set.at_version() })
            .collect();
    }

    fn status(&self, report: Report) -> DeploymentStatus {
        let all: Vec<&ReplicaSet> = self.sets().collect();
        let new = self.new.map(|i| &*self.slots[i].set);
        let mut status = counted(self.d, &self.before, new, &all, self.now);
        if report == Report::Progress {
            evaluate(self.d, &self.before, &mut status, new, self.now);
            carry_failure(&mut status, new, &all, self.now);
        }
        status
    }

    fn finish(self, report: Report) -> Plan {
        let status = self.status(report);
        let mut plan = Plan::nothing();
        for slot in &self.slots {
            push_set(&mut plan.actions, self.d, slot);
        }
        plan.actions.extend(self.doomed.iter().map(|target| Action::Delete {
            target: target.clone(),
            propagation: Propagation::Background,
            force: false,
        }));
        let revision = self.unstamped_revision();
        if revision.is_some() || self.d.status.as_ref() != Some(&status) {
            let mut d = Deployment { status: Some(status.clone()), ..self.d.clone() };
            if let Some(revision) = revision {
                // Written through `/status`, as upstream: there an annotation does not change the generation.
                d.metadata.annotations.get_or_insert_default().insert(REVISION.to_owned(), revision.clone());
            }
            plan.actions.push(Action::UpdateStatus(Object::of(&d)));
        }
        if report == Report::Progress
            && let Some(wait) = deadline_in(self.d, &status, self.now)
        {
            plan.wake_in(wait);
        }
        plan
    }

    /// The revision of the new ReplicaSet, if the Deployment's annotation differs.
    fn unstamped_revision(&self) -> Option<&String> {
        let have = self.d.metadata.annotations.as_ref().and_then(|a| a.get(REVISION));
        let want = self.slots[self.new?].annotations()?.get(REVISION)?;
        let stamped = have == Some(want) || self.d.metadata.deletion_timestamp.is_some();
        (!stamped).then_some(want)
    }
}

fn push_set(actions: &mut Vec<Action>, d: &Deployment, slot: &PlannedSet<'_>) {
    let to = slot.size();
    let from = match &slot.seen {
        Some(_) if matches!(slot.set, Cow::Borrowed(_)) => return,
        Some(seen) => {
            actions.push(Action::Update(Object::of(&*slot.set)));
            size(seen)
        }
        None => {
            actions.push(Action::Create(Object::of(&*slot.set)));
            0
        }
    };
    if from != to {
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {from} to {to}", name(&slot.set));
        actions.push(Action::normal(about(d), "ScalingReplicaSet", message));
    }
}

/// Whether a ReplicaSet has size zero, no pods, and an up-to-date status.
fn is_spent(set: &ReplicaSet) -> bool {
    let observed = set.status.as_ref().and_then(|s| s.observed_generation).unwrap_or(0);
    size(set) == 0 && counts(set).replicas == 0 && observed >= set.metadata.generation.unwrap_or(0)
}

fn name(set: &ReplicaSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

fn age(set: &ReplicaSet) -> (Option<Timestamp>, &str) {
    (set.metadata.creation_timestamp.as_ref().map(|t| t.0), name(set))
}

/// The conflict if the name of the new ReplicaSet is taken: by which object.
#[derive(Debug, PartialEq)]
pub(crate) enum Collision {
    /// By an own ReplicaSet with the same template: an earlier run created it, and the cache will show it.
    Ours,
    /// By another object: this status changes the next name.
    Renamed(Box<Action>),
}

/// Handles a taken name by its holder.
pub(crate) fn collision(d: &Deployment, holder: &ReplicaSet) -> Collision {
    let owner = crate::claim::controller_of(holder.owners()).map(|o| o.uid.as_str());
    let have = holder.spec.as_ref().and_then(|s| s.template.as_ref());
    let want = d.spec.as_ref().map(|s| &s.template);
    let same = have.zip(want).is_some_and(|(have, want)| same_template(have, want));
    if same && owner.is_some() && owner == d.metadata.uid.as_deref() {
        return Collision::Ours;
    }
    let mut d = d.clone();
    let status = d.status.get_or_insert_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    Collision::Renamed(Box::new(Action::UpdateStatus(Object::of(&d))))
}

/// The status update that reports the failed creation of the new ReplicaSet; empty if the status reports it
/// already.
pub(crate) fn creation_failed(d: &Deployment, set: &str, message: &str, now: Timestamp) -> Vec<Action> {
    let mut status = d.status.clone().unwrap_or_default();
    if deadline(d).is_some() {
        let why = ("ReplicaSetCreateError", format!("Failed to create new replica set {set:?}: {message}"));
        set_condition(&mut status, PROGRESSING, "False", why.clone(), now);
    }
    if d.status.as_ref() == Some(&status) {
        return vec![];
    }
    let text = format!("Failed to create new replica set {set:?}: {message}");
    let d = Deployment { status: Some(status), ..d.clone() };
    vec![Action::warning(about(&d), "ReplicaSetCreateError", text), Action::UpdateStatus(Object::of(&d))]
}
