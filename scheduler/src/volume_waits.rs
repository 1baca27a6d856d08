//! Pods that have a node and wait for their claims to become bound. Such a pod counts on its node; the
//! scheduler binds it when its volumes are bound. A wait does not count as a write in flight, so that the
//! scheduler assigns other pods meanwhile. Pure.

use crate::action::Binding;
use crate::node::NodeInfo;
use crate::pod::Uid;
use crate::storage::{Progress, Storage, StorageEvent, VolumePlan};
use jiff::Timestamp;
use kstore_informer::Revision;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A pod that waits for its volumes.
#[derive(Debug)]
pub(crate) struct VolumeWait {
    /// The decision for the pod.
    pub(crate) binding: Binding,
    /// The plan for the pod's claims.
    pub(crate) plan: VolumePlan,
    /// The revision of the plan's write and the deadline of the wait; `None` while the write is in flight.
    written: Option<(Revision, Timestamp)>,
}

/// The outcome of a wait: the revision that bound the last claim, or the reason of the failure.
pub(crate) type WaitOutcome = Result<Revision, String>;

/// The pods that wait for their volumes, and the pods whose wait has ended.
#[derive(Debug, Default)]
pub(crate) struct VolumeWaits {
    waits: BTreeMap<Uid, VolumeWait>,
    deadlines: BTreeSet<(Timestamp, Uid)>,
    ended: VecDeque<Uid>,
    outcomes: BTreeMap<Uid, WaitOutcome>,
}

impl VolumeWaits {
    /// Adds a wait; the write of its plan is in flight.
    pub(crate) fn add(&mut self, binding: Binding, plan: VolumePlan) {
        let uid = Arc::clone(&binding.pod.uid);
        let before = self.waits.insert(uid, VolumeWait { binding, plan, written: None });
        assert!(before.is_none(), "a pod waits for its volumes once");
    }

    /// Whether the pod waits, or its wait has ended and [`next`](Self::next) has not returned it.
    pub(crate) fn has(&self, uid: &Uid) -> bool {
        self.waits.contains_key(uid)
    }

    /// Removes a wait, ended or not.
    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<VolumeWait> {
        let wait = self.waits.remove(uid)?;
        if let Some((_, deadline)) = wait.written {
            self.deadlines.remove(&(deadline, Arc::clone(uid)));
        }
        self.outcomes.remove(uid);
        self.ended.retain(|other| other != uid);
        Some(wait)
    }

    /// Records that the writes of a plan succeeded at `revision`; the claims now have the plan's timeout
    /// to become bound. Ignored if the pod no longer waits, or waits for another attempt.
    pub(crate) fn written<'a>(
        &mut self,
        (uid, attempts): (&Uid, u32),
        (revision, now): (Revision, Timestamp),
        storage: &Storage,
        node: impl Fn(&str) -> Option<&'a NodeInfo>,
    ) {
        let is_awaited = |wait: &&mut VolumeWait| wait.binding.attempts == attempts && wait.written.is_none();
        if let Some(wait) = self.waits.get_mut(uid).filter(is_awaited) {
            let deadline = now.saturating_add(wait.plan.timeout).unwrap_or(Timestamp::MAX);
            wait.written = Some((revision, deadline));
            self.deadlines.insert((deadline, Arc::clone(uid)));
            self.evaluate(uid, storage, revision, node);
        }
    }

    /// Records that the API refused the writes of a plan. Ignored if the pod no longer waits, or waits for
    /// another attempt.
    pub(crate) fn refused(&mut self, uid: &Uid, attempts: u32, why: String) {
        if self.waits.get(uid).is_some_and(|wait| wait.binding.attempts == attempts) {
            self.end(uid, Err(why));
        }
    }

    /// Evaluates the waits that a change of storage concerns.
    pub(crate) fn on_storage_event<'a>(
        &mut self,
        event: &StorageEvent,
        revision: Revision,
        storage: &Storage,
        node: impl Fn(&str) -> Option<&'a NodeInfo>,
    ) {
        let concerned = self.waits.iter().filter(|(_, wait)| wait.plan.concerns(event));
        let concerned: Vec<Uid> = concerned.map(|(uid, _)| Arc::clone(uid)).collect();
        concerned.iter().for_each(|uid| self.evaluate(uid, storage, revision, &node));
    }

    /// Ends the waits for a deleted node.
    pub(crate) fn on_node_removed(&mut self, name: &str, storage: &Storage) {
        let there = self.waits.iter().filter(|(_, wait)| *wait.binding.choice.node == *name);
        let there: Vec<Uid> = there.map(|(uid, _)| Arc::clone(uid)).collect();
        there.iter().for_each(|uid| self.evaluate(uid, storage, Revision(0), |_| None));
    }

    /// The next ended wait and its outcome.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<(VolumeWait, WaitOutcome)> {
        if let Some(uid) = self.ended.front().cloned() {
            let outcome = self.outcomes.remove(&uid).expect("a wait that ended has an outcome");
            let wait = self.remove(&uid).expect("a wait that ended was not removed");
            return Some((wait, outcome));
        }
        let (_, uid) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?.clone();
        let wait = self.remove(&uid).expect("a deadline is that of a wait");
        Some((wait, Err("context deadline exceeded".to_owned())))
    }

    /// Whether [`next`](Self::next) returns a wait without further time passing.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The time at which [`next`](Self::next) returns a wait without a further change.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn evaluate<'a>(
        &mut self,
        uid: &Uid,
        storage: &Storage,
        revision: Revision,
        node: impl Fn(&str) -> Option<&'a NodeInfo>,
    ) {
        let wait = &self.waits[uid];
        let Some((written, _)) = wait.written else { return };
        match wait.plan.progress(storage, node(&wait.binding.choice.node), written) {
            Progress::Waiting => {}
            Progress::Bound => self.end(uid, Ok(revision)),
            Progress::Failed(why) => self.end(uid, Err(why)),
        }
    }

    /// Ends a wait. The newest outcome counts.
    fn end(&mut self, uid: &Uid, outcome: WaitOutcome) {
        if self.outcomes.insert(Arc::clone(uid), outcome).is_none() {
            self.ended.push_back(Arc::clone(uid));
        }
    }
}
