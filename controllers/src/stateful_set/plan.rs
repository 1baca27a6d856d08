//! What a StatefulSet needs next: which pods and claims are created, corrected or deleted, in which order, and what its status says. Pure.
//!
//! Under `OrderedReady` the walk goes from the lowest ordinal up and stops at the first pod that is missing, on its way out, or not
//! available; only behind the last one surplus pods are deleted, from the highest ordinal down, one at a time; only when none is left
//! a pod with an old template is deleted. Under `Parallel` nothing waits for another pod, but updates still go from the highest
//! ordinal down and wait for each pod.
//!
//! A pod keeps its name, so a new one can be created only when the old object is gone: a pod on a node that does not answer is not
//! replaced before somebody has removed it.

use super::identity::{Range, claim_names, claims, correction, has_storage, new_pod, ordinal, pod_name};
use super::retention::{Ownership, Policy, is_conflicting};
use super::status::{Revisions, report};
use super::step::{Step, Verb, about};
use crate::action::Action;
use crate::limits::STATEFUL_BURST;
use crate::object::Object;
use crate::portion::{Round, portion};
use crate::revision::{Newest, Owner, POD_LABEL, labels_of, newest, surplus, template_of};
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

/// The label of revisions that holds their hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Finds a claim of the set's namespace by its name.
pub(crate) type FindClaim<'a> = &'a dyn Fn(&str) -> Option<&'a PersistentVolumeClaim>;

/// What a plan is made from.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    /// The set.
    pub set: &'a StatefulSet,
    /// The pods that it has claimed, all with names that it gives, also those on their way out.
    pub pods: &'a [Arc<Pod>],
    /// The revisions that it has claimed.
    pub revisions: &'a [&'a ControllerRevision],
    /// The claims of its namespace.
    pub claims: FindClaim<'a>,
}

/// The next writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// The newest revision has to be written first. Then there is nothing else in here.
    pub revision: Option<Action>,
    /// What the pods need.
    pub steps: Vec<Step>,
    /// The steps do not depend on one another.
    pub is_parallel: bool,
    /// The write of the status, if it changes; to be tried even if a step fails.
    pub status: Option<Action>,
    /// Revisions that are no longer needed.
    pub history: Vec<Action>,
    /// When to look again if nothing happens before.
    pub wake: Option<Duration>,
}

/// The set as the owner of its revisions.
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

/// Makes the next revision of a set have another name.
pub(crate) fn rename_revision(set: &StatefulSet) -> Action {
    let mut set = set.clone();
    let count = &mut set.status.get_or_insert_default().collision_count;
    *count = Some(count.unwrap_or(0).saturating_add(1));
    Action::UpdateStatus(Object::of(&set))
}

/// Plans a run.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> Work {
    let Some(spec) = seen.set.spec.as_ref() else { return Work::default() };
    let owner = owner(seen.set, spec);
    let is_deleting = seen.set.metadata.deletion_timestamp.is_some();
    let update = match newest(owner, seen.revisions) {
        Newest::Is(revision) => revision,
        Newest::After(_) if is_deleting => return Work::default(),
        Newest::After(action) => return Work { revision: Some(*action), ..Work::default() },
    };
    let before = seen.set.status.as_ref().and_then(|s| s.current_revision.as_deref());
    let is_current = |r: &&&ControllerRevision| before.is_some() && r.metadata.name.as_deref() == before;
    let current = seen.revisions.iter().find(is_current).copied().unwrap_or(update);
    let (status, wake) = report(seen, spec, Revisions { current, update }, now);
    let mut work = Work {
        is_parallel: spec.pod_management_policy.as_deref() == Some("Parallel"),
        status,
        wake,
        ..Work::default()
    };
    if !is_deleting {
        let mut walk = Walk::new(seen, spec, Revisions { current, update }, now, work.is_parallel);
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

/// A run under way.
struct Walk<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    claims: FindClaim<'a>,
    revisions: Revisions<'a>,
    now: Timestamp,
    is_parallel: bool,
    range: Range,
    policy: Policy,
    /// Pods of wanted ordinals.
    wanted: BTreeMap<i32, &'a Arc<Pod>>,
    /// Pods of other ordinals.
    condemned: BTreeMap<i32, &'a Arc<Pod>>,
    /// Ordinals whose pods this run deletes.
    doomed: BTreeSet<i32>,
    /// Ordinals whose claims have been looked at.
    settled: BTreeSet<i32>,
    steps: Vec<Step>,
}

/// Whether the walk goes on.
type Flow = ControlFlow<()>;

const STOP: Flow = ControlFlow::Break(());
const GO_ON: Flow = ControlFlow::Continue(());

impl<'a> Walk<'a> {
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

    /// Wanted ordinals without a pod, lowest first.
    fn missing(&self) -> impl Iterator<Item = i32> {
        let all = (self.range.start..self.range.end).filter_map(|ordinal| i32::try_from(ordinal).ok());
        all.filter(|ordinal| !self.wanted.contains_key(ordinal))
    }

    /// The ordered walk over wanted ordinals: stops at the first that is not as it should be.
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

    /// Looks after a pod of a wanted ordinal. Ordered walks stop at a pod that is not available.
    fn visit(&mut self, ordinal: i32, pod: &Pod) -> Flow {
        if pod.status.phase.is_terminal() && !pod.metadata.deleting() {
            // The next one has the same name: it can come only when this one is gone.
            self.delete(ordinal, pod);
            return STOP;
        }
        self.tend_claims(ordinal, pod);
        if pod.metadata.deleting() || !self.is_parallel && !self.is_available(pod) {
            return STOP;
        }
        self.correct(ordinal, pod);
        GO_ON
    }

    /// Running, and ready for as long as `minReadySeconds` asks. Whether it is on its way out does not matter here.
    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        pod.status.phase == Phase::Running
            && pod.available_in(min_ready, self.now).is_some_and(|wait| wait.is_zero())
    }

    /// Neither available and staying: it counts against availability.
    fn is_unavailable(&self, ordinal: i32, pod: &Pod) -> bool {
        !self.is_available(pod) || pod.metadata.deleting() || self.doomed.contains(&ordinal)
    }

    /// Deletes a pod, after its claims have got the owners that they should have without it.
    fn delete(&mut self, ordinal: i32, pod: &Pod) {
        self.doomed.insert(ordinal);
        let mut step = Step::new(Verb::Delete, &pod.metadata.name);
        self.settle_owners(&mut step, ordinal, pod);
        step.delete_pod(self.set, pod);
        self.steps.push(step);
    }

    /// Creates the claims that a pod lacks, then the pod.
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

    /// The revision that a new pod of an ordinal has, and its template. Below the partition it is the current one.
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

    /// Makes the claims that a pending pod waits for, and gives those that exist their owners.
    fn tend_claims(&mut self, ordinal: i32, pod: &Pod) {
        let mut step = Step::new(Verb::Update, &pod.metadata.name);
        let is_waiting = pod.status.phase == Phase::Pending && !pod.metadata.deleting();
        if is_waiting {
            self.create_missing_claims(&mut step, ordinal);
        }
        self.settle_owners(&mut step, ordinal, pod);
        if !is_waiting && !step.actions.is_empty() {
            step.succeed(self.set);
        }
        self.push(step);
    }

    /// Gives a pod of a wanted ordinal its identity and storage.
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

    /// Brings the owners of a pod's claims in line with the retention policy, once in a run.
    fn settle_owners(&mut self, step: &mut Step, ordinal: i32, pod: &Pod) {
        if !self.settled.insert(ordinal) {
            return;
        }
        let names = claim_names(self.set, &pod.metadata.name);
        for claim in names.filter_map(|name| (self.claims)(&name)) {
            let Ownership::Owners(owners) = self.policy.judge(self.set, pod, ordinal, claim) else {
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

    /// Deletes pods of ordinals that are not wanted: in order, the highest first and one at a time, or all at once. Their claims get their
    /// owners before.
    fn scale_down(&mut self) -> Flow {
        let condemned: Vec<_> = self.condemned.iter().rev().map(|(o, pod)| (*o, *pod)).collect();
        // Only the lowest unavailable pod may be deleted as such: the others wait for it.
        let first_unavailable =
            condemned.iter().rev().find(|(o, pod)| self.is_unavailable(*o, pod)).map(|(o, _)| *o);
        for (ordinal, pod) in condemned {
            if pod.metadata.deleting() {
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

    /// Deletes pods that do not have the update revision, the highest ordinal first and none below the partition.
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

    /// The pod is not of the update revision, and stays if nobody deletes it.
    fn is_outdated(&self, ordinal: i32, pod: &Pod) -> bool {
        let revision = pod.metadata.labels.get(POD_LABEL);
        revision != self.revisions.update.metadata.name.as_ref()
            && !pod.metadata.deleting()
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

    /// Deletes outdated pods as far as no more than `most` are unavailable. In parallel, outdated pods that are unavailable already are
    /// deleted first and cost nothing: otherwise they could hold the update up for ever.
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
