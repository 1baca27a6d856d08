//! Plan of a StatefulSet: pods and claims to create, correct or delete, their order, and the status. Pure.
//!
//! With `OrderedReady` the plan walks from the lowest ordinal up and stops at the first pod that is missing,
//! terminating or unavailable. Only then are surplus pods deleted, from the highest ordinal down, one at a
//! time. Only when none is left, an outdated pod is deleted. With `Parallel` no pod waits for another, but
//! updates still proceed from the highest ordinal down and wait for each pod.
//!
//! A pod keeps its name, so its successor can be created only after the old object is gone. A pod on an
//! unreachable node is therefore not replaced until a user removes it.

use super::identity::{Range, claim_names, claims, correction, has_storage, new_pod, ordinal, pod_name};
use super::retention::{Ownership, Policy, is_conflicting};
use super::status::{Revisions, report};
use super::step::{Step, Verb, about};
use crate::action::Action;
use crate::limits::STATEFUL_BURST;
use crate::object::Object;
use crate::portion::{Round, portion};
use crate::revision::{NewestRevision, Owner, POD_LABEL, labels_of, newest, surplus, template_of};
use crate::view::{Phase, Pod};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Label of a revision with its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Finds a claim in the StatefulSet's namespace by name.
pub(crate) type FindClaim<'a> = &'a dyn Fn(&str) -> Option<&'a PersistentVolumeClaim>;

/// Input of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    /// The StatefulSet.
    pub set: &'a StatefulSet,
    /// The claimed pods, all with valid names, including terminating ones.
    pub pods: &'a [Arc<Pod>],
    /// The claimed revisions.
    pub revisions: &'a [&'a ControllerRevision],
    /// The claims of its namespace.
    pub claims: FindClaim<'a>,
}

/// Writes of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlannedWrites {
    /// Write of the newest revision that must come first; all other fields are empty then.
    pub revision: Option<Action>,
    /// Writes for the pods.
    pub steps: Vec<Step>,
    /// Whether the steps are independent.
    pub is_parallel: bool,
    /// The status update, if it changed; executed even if a step fails.
    pub status: Option<Action>,
    /// Obsolete revisions to delete.
    pub history: Vec<Action>,
    /// Delay until the next run without a change.
    pub wake: Option<Duration>,
}

/// The StatefulSet as owner of its revisions.
pub(crate) fn owner<'a>(set: &'a StatefulSet, spec: &'a StatefulSetSpec) -> Owner<'a> {
    Owner {
        kind: "StatefulSet",
        metadata: &set.metadata,
        selector: &spec.selector,
        template: &spec.template,
        collisions: set.status.as_ref().and_then(|s| s.collision_count),
        limit: spec.revision_history_limit,
        label: HASH_LABEL,
    }
}

/// Increments the collision count, so that the next revision gets another name.
pub(crate) fn rename_revision(set: &StatefulSet) -> Action {
    let mut set = set.clone();
    let count = &mut set.status.get_or_insert_default().collision_count;
    *count = Some(count.unwrap_or(0).saturating_add(1));
    Action::UpdateStatus(Object::of(&set))
}

/// Plans a run of the StatefulSet.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> PlannedWrites {
    let Some(spec) = seen.set.spec.as_ref() else { return PlannedWrites::default() };
    let owner = owner(seen.set, spec);
    let is_deleting = seen.set.metadata.deletion_timestamp.is_some();
    let update = match newest(owner, seen.revisions) {
        NewestRevision::Is(revision) => revision,
        NewestRevision::After(_) if is_deleting => return PlannedWrites::default(),
        NewestRevision::After(action) => {
            return PlannedWrites { revision: Some(*action), ..PlannedWrites::default() };
        }
    };
    let before = seen.set.status.as_ref().and_then(|s| s.current_revision.as_deref());
    let is_current = |r: &&&ControllerRevision| before.is_some() && r.metadata.name.as_deref() == before;
    let current = seen.revisions.iter().find(is_current).copied().unwrap_or(update);
    let (status, wake) = report(seen, spec, Revisions { current, update }, now);
    let mut work = PlannedWrites {
        is_parallel: spec.pod_management_policy.as_deref() == Some("Parallel"),
        status,
        wake,
        ..PlannedWrites::default()
    };
    if !is_deleting {
        let mut walk = PlanState::new(seen, spec, Revisions { current, update }, now, work.is_parallel);
        let _ = walk.run();
        work.steps = walk.steps;
    }
    let used = labels_of(seen.pods.iter().map(|pod| &pod.metadata.labels));
    let is_live = |r: &ControllerRevision| {
        let name = r.metadata.name.as_deref().unwrap_or_default();
        [current, update].iter().any(|live| live.metadata.name.as_deref() == Some(name))
            || used.contains(name)
    };
    let old: Vec<_> = seen.revisions.iter().copied().filter(|r| !is_live(r)).collect();
    work.history = surplus(owner, &old, |_| false);
    work
}

/// State of a run.
struct PlanState<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    claims: FindClaim<'a>,
    revisions: Revisions<'a>,
    now: Timestamp,
    is_parallel: bool,
    range: Range,
    policy: Policy,
    /// Pods of desired ordinals.
    wanted: BTreeMap<i32, &'a Arc<Pod>>,
    /// Pods of other ordinals.
    condemned: BTreeMap<i32, &'a Arc<Pod>>,
    /// Ordinals whose pods this run deletes.
    doomed: BTreeSet<i32>,
    /// Ordinals whose claims have been checked.
    settled: BTreeSet<i32>,
    steps: Vec<Step>,
}

/// Whether the walk continues.
type Flow = ControlFlow<()>;

const STOP: Flow = ControlFlow::Break(());
const GO_ON: Flow = ControlFlow::Continue(());

impl<'a> PlanState<'a> {
    fn new(
        seen: Observed<'a>,
        spec: &'a StatefulSetSpec,
        revisions: Revisions<'a>,
        now: Timestamp,
        is_parallel: bool,
    ) -> Self {
        let range = Range::of(spec);
        let all = seen.pods.iter().filter_map(|pod| Some((ordinal(seen.set, &pod.metadata.name)?, pod)));
        let (wanted, condemned) = all.partition(|(ordinal, _)| range.contains(*ordinal));
        let (set, claims, policy) = (seen.set, seen.claims, Policy::of(seen.set));
        Self {
            set,
            spec,
            claims,
            revisions,
            now,
            is_parallel,
            range,
            policy,
            wanted,
            condemned,
            doomed: BTreeSet::new(),
            settled: BTreeSet::new(),
            steps: vec![],
        }
    }

    fn run(&mut self) -> Flow {
        if self.is_parallel {
            let present: Vec<_> = self.wanted.iter().map(|(ordinal, pod)| (*ordinal, *pod)).collect();
            for (ordinal, pod) in present {
                let _ = self.visit(ordinal, pod);
            }
            let missing: Vec<i32> = self.missing().take(STATEFUL_BURST).collect();
            missing.into_iter().for_each(|ordinal| self.create(ordinal));
        } else {
            self.ascend()?;
        }
        self.scale_down()?;
        self.update()
    }

    /// Desired ordinals without a pod, lowest first.
    fn missing(&self) -> impl Iterator<Item = i32> {
        let all = (self.range.start..self.range.end).filter_map(|ordinal| i32::try_from(ordinal).ok());
        all.filter(|ordinal| !self.wanted.contains_key(ordinal))
    }

    /// Ordered walk over desired ordinals; stops at the first pod that needs work or is unavailable.
    fn ascend(&mut self) -> Flow {
        let first_missing = self.missing().next();
        let before = |ordinal: &i32| first_missing.is_none_or(|missing| *ordinal < missing);
        let present: Vec<_> =
            self.wanted.iter().filter(|(o, _)| before(o)).map(|(o, pod)| (*o, *pod)).collect();
        for (ordinal, pod) in present {
            self.visit(ordinal, pod)?;
        }
        match first_missing {
            Some(ordinal) => {
                self.create(ordinal);
                STOP
            }
            None => GO_ON,
        }
    }

    /// Handles a pod of a desired ordinal. Ordered walks stop at an unavailable pod.
    fn visit(&mut self, ordinal: i32, pod: &Pod) -> Flow {
        if pod.status.phase.is_terminal() && !pod.metadata.is_deleting() {
            // The successor has the same name: it can be created only after this pod is gone.
            self.delete(ordinal, pod);
            return STOP;
        }
        self.tend_claims(ordinal, pod);
        if pod.metadata.is_deleting() || !self.is_parallel && !self.is_available(pod) {
            return STOP;
        }
        self.correct(ordinal, pod);
        GO_ON
    }

    /// Whether the pod is running and has been ready for `minReadySeconds`, terminating or not.
    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        pod.status.phase == Phase::Running
            && pod.available_in(min_ready, self.now).is_some_and(|wait| wait.is_zero())
    }

    /// Whether the pod counts as unavailable: it is not available, is terminating, or is deleted by this run.
    fn is_unavailable(&self, ordinal: i32, pod: &Pod) -> bool {
        !self.is_available(pod) || pod.metadata.is_deleting() || self.doomed.contains(&ordinal)
    }

    /// Deletes a pod, after updating the owners of its claims.
    fn delete(&mut self, ordinal: i32, pod: &Pod) {
        self.doomed.insert(ordinal);
        let mut step = Step::new(Verb::Delete, &pod.metadata.name);
        self.settle_owners(&mut step, ordinal, pod);
        step.delete_pod(self.set, pod);
        self.steps.push(step);
    }

    /// Creates the missing claims of a pod, then the pod.
    fn create(&mut self, ordinal: i32) {
        let name = pod_name(self.set, ordinal);
        let have: Vec<_> = claim_names(self.set, &name).filter_map(|claim| (self.claims)(&claim)).collect();
        if have.iter().any(|claim| self.policy.is_stale(claim, &name)) {
            return;
        }
        let mut step = Step::new(Verb::Create, &name);
        let leaving = have.iter().find(|claim| claim.metadata.deletion_timestamp.is_some());
        if let Some(claim) = leaving {
            let claim = claim.metadata.name.as_deref().unwrap_or_default();
            step.actions = vec![step.complaint(self.set, &format!("pvc {claim} is being deleted"))];
        } else {
            self.create_missing_claims(&mut step, ordinal);
            let (revision, template) = self.template(ordinal);
            step.create_pod(self.set, &new_pod(self.set, ordinal, template, revision));
        }
        self.steps.push(step);
    }

    fn create_missing_claims(&self, step: &mut Step, ordinal: i32) {
        for mut claim in claims(self.set, ordinal) {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            if (self.claims)(name).is_none() {
                claim.metadata.owner_references = self.policy.owners_at_creation(self.set);
                step.create_claim(self.set, &claim);
            }
        }
    }

    /// The revision and template of a new pod. Below the partition it is the current revision.
    fn template(&self, ordinal: i32) -> (&'a str, k8s_openapi::api::core::v1::PodTemplateSpec) {
        let Revisions { current, update } = self.revisions;
        let below = match self.rolling() {
            Some(rolling) => i64::from(rolling.partition.unwrap_or(0)),
            None if self.is_rolling() => {
                self.set.status.as_ref().and_then(|s| s.current_replicas).unwrap_or(0).into()
            }
            None => 0,
        };
        let is_old = i64::from(ordinal) < self.range.start + below;
        let old = is_old.then(|| Some((current, template_of(current)?))).flatten();
        let (revision, template) = old.unwrap_or_else(|| (update, self.spec.template.clone()));
        (revision.metadata.name.as_deref().unwrap_or_default(), template)
    }

    fn is_rolling(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
        strategy != Some("OnDelete")
    }

    fn rolling(&self) -> Option<&'a RollingUpdateStatefulSetStrategy> {
        self.spec.update_strategy.as_ref()?.rolling_update.as_ref()
    }

    /// Creates the claims that a pending pod waits for, and updates the owners of existing ones.
    fn tend_claims(&mut self, ordinal: i32, pod: &Pod) {
        let mut step = Step::new(Verb::Update, &pod.metadata.name);
        let is_waiting = pod.status.phase == Phase::Pending && !pod.metadata.is_deleting();
        if is_waiting {
            self.create_missing_claims(&mut step, ordinal);
        }
        self.settle_owners(&mut step, ordinal, pod);
        if !is_waiting && !step.actions.is_empty() {
            step.succeed(self.set);
        }
        self.push(step);
    }

    /// Corrects identity and storage of a pod.
    fn correct(&mut self, ordinal: i32, pod: &Pod) {
        let Some(correction) = correction(self.set, pod, ordinal) else { return };
        let mut step = Step::new(Verb::Update, &pod.metadata.name);
        if pod.status.phase != Phase::Pending && !has_storage(self.set, pod) {
            self.create_missing_claims(&mut step, ordinal);
        }
        step.actions.push(correction);
        step.succeed(self.set);
        self.push(step);
    }

    fn push(&mut self, step: Step) {
        if !step.actions.is_empty() {
            self.steps.push(step);
        }
    }

    /// Updates the owners of a pod's claims by the retention policy, once per run.
    fn settle_owners(&mut self, step: &mut Step, ordinal: i32, pod: &Pod) {
        if !self.settled.insert(ordinal) {
            return;
        }
        let names = claim_names(self.set, &pod.metadata.name);
        for claim in names.filter_map(|name| (self.claims)(&name)) {
            let Ownership::Owners(owners) = self.policy.evaluate(self.set, pod, ordinal, claim) else {
                continue;
            };
            if is_conflicting(self.set, pod, claim) {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the \
                     retention policy is ignored for this claim"
                );
                step.actions.push(Action::warning(about(self.set), "ConflictingController", message));
            }
            let mut claim = claim.clone();
            claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
            step.actions.push(Action::Update(Object::of(&claim)));
        }
    }

    /// Deletes pods of undesired ordinals: in order, the highest first and one at a time, or all at once. The
    /// owners of their claims are updated first.
    fn scale_down(&mut self) -> Flow {
        let condemned: Vec<_> = self.condemned.iter().rev().map(|(o, pod)| (*o, *pod)).collect();
        // Only the lowest unavailable pod may be deleted: the others wait for it.
        let first_unavailable =
            condemned.iter().rev().find(|(o, pod)| self.is_unavailable(*o, pod)).map(|(o, _)| *o);
        for (ordinal, pod) in condemned {
            if pod.metadata.is_deleting() {
                self.tend_claims(ordinal, pod);
                if self.is_parallel { continue } else { return STOP }
            }
            if !self.is_parallel && !self.is_available(pod) && first_unavailable != Some(ordinal) {
                return STOP;
            }
            self.delete(ordinal, pod);
            if !self.is_parallel {
                return STOP;
            }
        }
        GO_ON
    }

    /// Deletes pods without the update revision, the highest ordinal first and none below the partition.
    fn update(&mut self) -> Flow {
        if !self.is_rolling() {
            return STOP;
        }
        let rolling = self.rolling();
        let partition = i64::from(rolling.and_then(|r| r.partition).unwrap_or(0).max(0));
        match rolling.and_then(|r| r.max_unavailable.as_ref()) {
            None => self.update_one(self.range.start + partition),
            Some(most) => {
                let size = i32::try_from(self.range.len()).unwrap_or(i32::MAX);
                let most = i64::from(portion(most, size, Round::Down).max(1));
                self.update_several(self.range.start + partition, most);
            }
        }
        GO_ON
    }

    /// Whether the pod lacks the update revision and is not being deleted.
    fn is_outdated(&self, ordinal: i32, pod: &Pod) -> bool {
        let revision = pod.metadata.labels.get(POD_LABEL);
        revision != self.revisions.update.metadata.name.as_ref()
            && !pod.metadata.is_deleting()
            && !self.doomed.contains(&ordinal)
    }

    /// Deletes the highest outdated pod, if all above it are available.
    fn update_one(&mut self, lowest: i64) {
        for ordinal in (lowest..self.range.end).rev().filter_map(|o| i32::try_from(o).ok()) {
            let Some(pod) = self.wanted.get(&ordinal).copied() else { return };
            if self.is_outdated(ordinal, pod) {
                return self.delete(ordinal, pod);
            }
            if self.is_unavailable(ordinal, pod) {
                return;
            }
        }
    }

    /// Deletes outdated pods while at most `most` are unavailable. With `Parallel`, unavailable outdated pods
    /// are deleted first and do not count: otherwise they could block the update forever.
    fn update_several(&mut self, lowest: i64, most: i64) {
        let pods: Vec<_> = self.wanted.iter().rev().map(|(o, pod)| (*o, *pod)).collect();
        let available = pods.iter().filter(|(o, pod)| !self.is_unavailable(*o, pod)).count();
        let mut left = most - (self.range.len() - i64::try_from(available).unwrap_or(i64::MAX));
        let (free, costly): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .filter(|(o, pod)| i64::from(*o) >= lowest && self.is_outdated(*o, pod))
            .partition(|(_, pod)| self.is_parallel && !self.is_available(pod));
        for (ordinal, pod) in free {
            self.delete(ordinal, pod);
        }
        for (ordinal, pod) in costly {
            if left <= 0 {
                return;
            }
            self.delete(ordinal, pod);
            left -= 1;
        }
    }
}
