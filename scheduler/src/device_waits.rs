//! Pods that have a node and devices, and wait until their devices are prepared: every binding condition is true. Such a pod counts on its
//! node, and its claims are written. A wait is no write in flight, so that the scheduler assigns other pods meanwhile. Pure.

use crate::action::Binding;
use crate::devices::Devices;
use crate::devices::binding::{BindingProgress, progress};
use crate::devices::plan::Deallocation;
use crate::pod::Uid;
use jiff::Timestamp;
use kstore_informer::{Key, Revision};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A pod that waits for its devices.
#[derive(Debug)]
pub(crate) struct DeviceWait {
    /// The decision for the pod.
    pub(crate) binding: Binding,
    /// The claims with binding conditions.
    claims: Vec<Key>,
    /// The revision at which the claims were written.
    written: Revision,
    deadline: Timestamp,
}

/// The outcome of a wait: the revision at which the last condition became true; or the reason of the failure, with the claim to
/// deallocate, so that the pod may get other devices.
pub(crate) type DeviceOutcome = Result<Revision, (String, Option<Deallocation>)>;

/// The revision that ended a wait well; or why a wait failed, and because of which claim.
type EndedWait = Result<Revision, (String, Key)>;

/// The pods that wait for their devices, and those whose wait has ended.
#[derive(Debug, Default)]
pub(crate) struct DeviceWaits {
    waits: BTreeMap<Uid, DeviceWait>,
    deadlines: BTreeSet<(Timestamp, Uid)>,
    /// The pods whose wait has ended, oldest first.
    ended: VecDeque<(Uid, EndedWait)>,
}

impl DeviceWaits {
    /// Adds a wait. The claims were written at `written`. The timeout of the plan counts from the allocation of each claim.
    pub(crate) fn add(&mut self, binding: Binding, written: Revision, now: Timestamp, devices: &Devices) {
        let Some(plan) = binding.devices.clone() else { return };
        let began = |claim: &Key| devices.claim(claim)?.allocation.as_ref()?.timestamp;
        let began = plan.unprepared.iter().filter_map(began).min().map_or(now, |began| began.min(now));
        let deadline = began.saturating_add(plan.binding_timeout).unwrap_or(Timestamp::MAX);
        let uid = Arc::clone(&binding.pod.uid);
        self.deadlines.insert((deadline, Arc::clone(&uid)));
        let wait = DeviceWait { binding, claims: plan.unprepared.clone(), written, deadline };
        let before = self.waits.insert(Arc::clone(&uid), wait);
        assert!(before.is_none(), "a pod waits for its devices once");
        self.evaluate(&uid, written, devices);
    }

    /// Whether the pod waits, or its wait has ended and [`next`](Self::next) has not returned it.
    pub(crate) fn has(&self, uid: &Uid) -> bool {
        self.waits.contains_key(uid)
    }

    /// Removes a wait, ended or not.
    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<DeviceWait> {
        let wait = self.waits.remove(uid)?;
        self.deadlines.remove(&(wait.deadline, Arc::clone(uid)));
        self.ended.retain(|(other, _)| other != uid);
        Some(wait)
    }

    /// Evaluates the waits for a claim that has changed.
    pub(crate) fn on_claim(&mut self, claim: &Key, revision: Revision, devices: &Devices) {
        let concerned = self.waits.iter().filter(|(_, wait)| wait.claims.contains(claim));
        let concerned: Vec<Uid> = concerned.map(|(uid, _)| Arc::clone(uid)).collect();
        concerned.iter().for_each(|uid| self.evaluate(uid, revision, devices));
    }

    /// The next ended wait and its outcome.
    pub(crate) fn next(&mut self, now: Timestamp, devices: &Devices) -> Option<(DeviceWait, DeviceOutcome)> {
        if let Some((uid, outcome)) = self.ended.pop_front() {
            let wait = self.remove(&uid)?;
            let outcome = outcome.map_err(|(why, claim)| (why, deallocation(&wait, &claim, devices)));
            return Some((wait, outcome));
        }
        let (_, uid) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?.clone();
        let wait = self.remove(&uid)?;
        let is_pending =
            |key: &&Key| devices.claim(key).is_none_or(|claim| progress(claim) != BindingProgress::Ready);
        let claim = wait.claims.iter().find(is_pending).cloned();
        let name = claim.as_ref().map_or("", Key::name);
        let why = format!("device binding timeout: claim={name}");
        let deallocation = claim.as_ref().and_then(|claim| deallocation(&wait, claim, devices));
        Some((wait, Err((why, deallocation))))
    }

    /// Whether [`next`](Self::next) returns a wait without further time passing.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The time at which [`next`](Self::next) returns a wait without a further change.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn evaluate(&mut self, uid: &Uid, revision: Revision, devices: &Devices) {
        if self.ended.iter().any(|(other, _)| other == uid) {
            return;
        }
        let wait = &self.waits[uid];
        let mut is_ready = true;
        for key in &wait.claims {
            match devices.claim(key).map(|claim| (progress(claim), claim.revision)) {
                // The claim may be older than the write.
                Some((BindingProgress::Failed(_), shown)) if shown < wait.written => is_ready = false,
                Some((BindingProgress::Failed(why), _)) => {
                    return self.ended.push_back((Arc::clone(uid), Err((why, key.clone()))));
                }
                Some((BindingProgress::Ready, shown)) if shown >= wait.written => {}
                Some(_) | None => is_ready = false,
            }
        }
        if is_ready {
            self.ended.push_back((Arc::clone(uid), Ok(revision)));
        }
    }
}

/// The write that takes the devices of a claim away; `None` if the claim has another user.
fn deallocation(wait: &DeviceWait, claim: &Key, devices: &Devices) -> Option<Deallocation> {
    let claim = devices.claim(claim)?;
    let is_own = claim.reserved_for.iter().all(|uid| **uid == *wait.binding.pod.uid);
    (is_own && claim.allocation.is_some()).then(|| Deallocation {
        claim: claim.key.clone(),
        uid: claim.uid.clone(),
        revision: claim.revision,
        deletes: claim.is_of_resources,
    })
}
