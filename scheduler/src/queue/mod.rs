//! The scheduling queue: pods that wait for a decision. Pure: time is an argument.
//!
//! | queue | order | pods in it |
//! |---|---|---|
//! | active | priority, then time | ready for an attempt |
//! | back-off | expiry, in windows of a second, then as above | refused, then woken by an event |
//! | error back-off | the same | failed without a refusal (a bind failed, a write was lost) |
//! | unschedulable | time | refused, waiting for an event |
//! | held | – | refused, waiting until the API has the evictions of their victims; events wake them after that |
//!
//! A popped pod is in flight until the caller gives it back or takes it with [`Queue::land`]. If its decision waits for extenders, events
//! come meanwhile: the queue remembers which plugins' refusals they may change, so that the pod is not parked after what would have woken
//! it. One pod is in flight at a time. Gated pods are not in the queue: the removal of the last gate adds them.

mod backoff;
mod followed;
mod index;
mod refused;

use crate::event::ClusterEvent;
use crate::plugin::PluginSet;
use crate::pod::{PodInfo, Uid};
use crate::profile::Profiles;
pub use backoff::PodBackoff;
use index::{HintIndex, ParkedSince};
use jiff::Timestamp;
use kstore_informer::Revision;
use kstore_nondet::HashMap;
pub use refused::RefusedPods;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A waiting pod with its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPod {
    /// The newest version of the pod.
    pub pod: Arc<PodInfo>,
    /// The number of attempts.
    pub attempts: u32,
    /// The revision of the change that made the pod ready: its own change, or the event that woke it.
    pub cause: Revision,
    /// The time at which the pod was first added.
    pub since: Timestamp,
    /// The number of refusals; determines the back-off.
    refusals: u32,
    /// The number of consecutive failures without a refusal; determines the error back-off.
    errors: u32,
    /// The filters of the last refusal.
    refused_by: PluginSet,
    /// The time of the last entry into the queue.
    queued: Timestamp,
    /// The number of the first entry: orders pods that were added at the same time.
    first_entry: u64,
    /// The number of the last entry: orders pods that entered at the same time.
    entry: u64,
}

impl QueuedPod {
    fn rank(&self) -> Rank {
        (Reverse(self.pod.priority), self.queued, self.entry)
    }
}

/// The number of pods in each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepths {
    /// Ready pods.
    pub active: usize,
    /// Pods that back off, for any reason.
    pub backoff: usize,
    /// Pods that were tried and wait for an event or for evictions.
    pub unschedulable: usize,
    /// Pods that were never tried: something that they need or a gate keeps them out.
    pub gated: usize,
}

/// The order of ready pods: highest priority first, then longest waiting, then order of entry.
type Rank = (Reverse<i32>, Timestamp, u64);

/// A pod on which is being decided.
struct PodInFlight {
    /// The newest version of the pod.
    pod: Arc<PodInfo>,
    /// The plugins whose refusals the events since the pop may change.
    helped: PluginSet,
    /// The revision of the last of these events.
    revision: Revision,
}

#[derive(Clone, Copy, Debug)]
enum QueuePosition {
    Active(Rank),
    Backoff(Timestamp, Rank),
    ErrorBackoff(Timestamp, Rank),
    Unschedulable(Timestamp, u64),
    Held,
}

impl QueuePosition {
    /// Whether the cycle of a gang may take the pod along.
    fn is_takeable(self) -> bool {
        matches!(self, Self::Active(_) | Self::Backoff(..) | Self::Unschedulable(..))
    }
}

/// The scheduling queue: ready pods by rank, pods in back-off by expiry, unschedulable pods by time.
#[derive(Default)]
pub struct Queue {
    profiles: Profiles,
    waits: PodBackoff,
    pods: HashMap<Uid, (QueuePosition, QueuedPod)>,
    in_flight: Option<PodInFlight>,
    active: BTreeMap<Rank, Uid>,
    backoff: BTreeMap<(Timestamp, Rank), Uid>,
    error_backoff: BTreeMap<(Timestamp, Rank), Uid>,
    unschedulable: BTreeMap<(Timestamp, u64), Uid>,
    /// The held pods, with the revision of the last event that would have woken each.
    suspended: BTreeMap<Uid, Option<Revision>>,
    refused: RefusedPods,
    /// The unschedulable and the held pods by what refused them.
    hints: HintIndex,
    /// Number of the unschedulable pods that were never tried.
    untried: usize,
    entries: u64,
    /// How many pods events have asked about.
    #[cfg(test)]
    asked: std::cell::Cell<usize>,
}

impl Queue {
    /// An empty queue. The plugins of a pod's profile decide which events wake it.
    pub fn new(profiles: Profiles, backoff: PodBackoff) -> Self {
        Self { profiles, waits: backoff, ..Self::default() }
    }

    /// Whether `event` may have changed the result of a plugin that refused the pod.
    fn helps(&self, queued: &QueuedPod, event: &ClusterEvent<'_>) -> bool {
        #[cfg(test)]
        self.asked.set(self.asked.get() + 1);
        let plugins = &self.profiles.of(&queued.pod).plugins;
        plugins.may_help(queued.refused_by, &queued.pod, event)
    }

    /// Adds a pod without attempts; it is ready at once. For a pod already in the queue this is an
    /// [update](Self::update).
    pub fn add(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        if self.contains(&pod.uid) {
            return self.update(pod, now);
        }
        let new = self.new_pod(pod, PluginSet::default(), now);
        self.activate(new);
    }

    /// Adds a pod that the filters `by` would refuse now: it waits without an attempt for an event that may change
    /// the result of one of them. For a pod already in the queue this is an [update](Self::update).
    pub fn add_waiting(&mut self, pod: Arc<PodInfo>, by: PluginSet, now: Timestamp) {
        if self.contains(&pod.uid) {
            return self.update(pod, now);
        }
        let new = self.new_pod(pod, by, now);
        self.park(new);
    }

    fn new_pod(&mut self, pod: Arc<PodInfo>, refused_by: PluginSet, now: Timestamp) -> QueuedPod {
        let (cause, entry) = (pod.revision, self.next_entry());
        QueuedPod {
            pod,
            attempts: 0,
            cause,
            since: now,
            refusals: 0,
            errors: 0,
            refused_by,
            queued: now,
            first_entry: entry,
            entry,
        }
    }

    /// Applies a change of a waiting pod. Wakes the pod if the change may satisfy a filter that refused it; a
    /// change of status alone does only by naming the pod's resource claims. Ignores pods that are not in the
    /// queue.
    pub fn update(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        if self.is_in_flight(&pod.uid) {
            return self.update_in_flight(pod);
        }
        let missed = self.suspended.get(&pod.uid).copied().flatten();
        let Some((position, mut queued)) = self.take(&pod.uid) else { return };
        let old = std::mem::replace(&mut queued.pod, pod);
        match position {
            QueuePosition::Active(_) => self.activate(queued),
            QueuePosition::Backoff(expiry, _) => self.back_off(queued, expiry),
            QueuePosition::ErrorBackoff(expiry, _) => self.back_off_after_error(queued, expiry),
            QueuePosition::Unschedulable(..) => {
                if self.helps(&queued, &ClusterEvent::OwnChange(&old)) {
                    queued.cause = queued.pod.revision;
                    self.wake(queued, now);
                } else {
                    self.park(queued);
                }
            }
            QueuePosition::Held => self.hold(queued, missed),
        }
    }

    /// Removes a pod from the queue, if it is there or in flight.
    pub fn remove(&mut self, uid: &Uid) {
        self.land(uid);
        self.take(uid);
    }

    /// Whether the pod is in the queue or in flight.
    pub fn contains(&self, uid: &Uid) -> bool {
        self.pods.contains_key(uid) || self.is_in_flight(uid)
    }

    /// The newest version of a pod in the queue.
    pub(crate) fn waiting(&self, uid: &Uid) -> Option<&PodInfo> {
        self.pods.get(uid).map(|(_, queued)| &*queued.pod)
    }

    /// The newest version of a popped pod; `None` if it was removed since.
    pub fn in_flight(&self, uid: &Uid) -> Option<&Arc<PodInfo>> {
        self.in_flight.as_ref().map(|flight| &flight.pod).filter(|pod| pod.uid == *uid)
    }

    /// Ends the flight of a popped pod that does not come back.
    pub fn land(&mut self, uid: &Uid) {
        if self.is_in_flight(uid) {
            self.in_flight = None;
        }
    }

    fn is_in_flight(&self, uid: &Uid) -> bool {
        self.in_flight(uid).is_some()
    }

    fn update_in_flight(&mut self, pod: Arc<PodInfo>) {
        let Some(flight) = &mut self.in_flight else { return };
        let old = std::mem::replace(&mut flight.pod, pod);
        let plugins = &self.profiles.of(&flight.pod).plugins;
        flight.helped = flight.helped.union(plugins.helped(&flight.pod, &ClusterEvent::OwnChange(&old)));
        flight.revision = flight.pod.revision;
    }

    /// Ends the flight of a pod that comes back refused by the plugins `by`: the revision of an event since its pop that may help it.
    fn missed(&mut self, uid: &Uid, by: PluginSet) -> Option<Revision> {
        let flight = self.in_flight.take_if(|flight| flight.pod.uid == *uid)?;
        (!flight.helped.intersection(by).is_empty()).then_some(flight.revision)
    }

    /// The next pod to try: the first ready one. Without a ready pod, the first that backs off after a
    /// refusal: that back-off only serves to let other pods go first, unless [`PodBackoff::ends_early`] is off. A pod that backs off
    /// after an error waits in any case.
    pub fn pop(&mut self, now: Timestamp) -> Option<QueuedPod> {
        let uid = Arc::clone(&self.next_ready(now)?.uid);
        self.pop_pod(&uid)
    }

    /// The pod that [`pop`](Self::pop) returns now.
    pub(crate) fn next_ready(&mut self, now: Timestamp) -> Option<&Arc<PodInfo>> {
        self.release(now);
        let early = self.backoff.values().next().filter(|_| self.waits.ends_early);
        let uid = self.active.values().next().or(early)?;
        self.pods.get(uid).map(|(_, queued)| &queued.pod)
    }

    /// Of these pods those that [`pop_pod`](Self::pop_pod) may take, in the order in which they are tried: of higher priority first, then
    /// those that wait longest.
    pub(crate) fn takeable<'a>(&self, pods: impl Iterator<Item = &'a Uid>) -> Vec<Uid> {
        let waiting = pods.filter_map(|uid| self.pods.get(uid));
        let mut takeable: Vec<&QueuedPod> =
            waiting.filter(|(position, _)| position.is_takeable()).map(|(_, queued)| queued).collect();
        takeable.sort_by_key(|queued| (Reverse(queued.pod.priority), queued.since, queued.first_entry));
        takeable.into_iter().map(|queued| Arc::clone(&queued.pod.uid)).collect()
    }

    /// Takes a pod that is ready, backs off after a refusal or is unschedulable, as [`pop`](Self::pop) takes the first one. `None` if the
    /// pod is not there, backs off after an error, or is held.
    pub(crate) fn pop_pod(&mut self, uid: &Uid) -> Option<QueuedPod> {
        self.pods.get(uid).filter(|(position, _)| position.is_takeable())?;
        self.pop_any(uid)
    }

    fn pop_any(&mut self, uid: &Uid) -> Option<QueuedPod> {
        let (_, mut queued) = self.take(uid)?;
        queued.attempts += 1;
        let (pod, revision) = (Arc::clone(&queued.pod), queued.cause);
        self.in_flight = Some(PodInFlight { pod, helped: PluginSet::default(), revision });
        Some(queued)
    }

    /// Takes back a popped pod that the filters `by` refused. The pod waits for an event that may change the
    /// result of one of them.
    pub fn give_back_refused(&mut self, mut queued: QueuedPod, by: PluginSet, now: Timestamp) {
        let missed = self.missed(&queued.pod.uid, by);
        self.count_refusal(&mut queued, by, now);
        match missed {
            Some(revision) => {
                queued.cause = revision;
                self.wake(queued, now);
            }
            None => self.park(queued),
        }
    }

    /// Takes back a popped pod whose decision was overtaken by a change: it is tried again at once.
    pub fn give_back_overtaken(&mut self, queued: QueuedPod) {
        self.activate(queued);
    }

    /// Takes back a popped pod for which others are evicted. The pod waits, whatever happens, for
    /// [`end_hold`](Self::end_hold) or [`fail_hold`](Self::fail_hold).
    pub fn give_back_held(&mut self, mut queued: QueuedPod, by: PluginSet, now: Timestamp) {
        let missed = self.missed(&queued.pod.uid, by);
        self.count_refusal(&mut queued, by, now);
        self.hold(queued, missed);
    }

    /// Ends the hold of a pod: its victims are being deleted or gone. If an event would have woken it meanwhile, it
    /// wakes now. Ignores pods that are not held.
    pub fn end_hold(&mut self, uid: &Uid, now: Timestamp) {
        match self.take_held(uid) {
            Some((mut queued, Some(revision))) => {
                queued.cause = revision;
                self.wake(queued, now);
            }
            Some((queued, None)) => self.park(queued),
            None => {}
        }
    }

    /// Takes back a held pod one of whose evictions failed. The queue tries it again after a back-off. Ignores
    /// pods that are not held.
    pub fn fail_hold(&mut self, uid: &Uid, now: Timestamp) {
        if let Some((queued, _)) = self.take_held(uid) {
            self.give_back_failed(queued, now);
        }
    }

    fn take_held(&mut self, uid: &Uid) -> Option<(QueuedPod, Option<Revision>)> {
        let missed = *self.suspended.get(uid)?;
        self.take(uid).map(|(_, queued)| (queued, missed))
    }

    fn count_refusal(&mut self, queued: &mut QueuedPod, by: PluginSet, now: Timestamp) {
        queued.refusals += 1;
        queued.errors = 0;
        queued.refused_by = by;
        (queued.queued, queued.entry) = (now, self.next_entry());
    }

    /// Takes back a popped pod that failed for another reason. The queue tries it again after a back-off.
    pub fn give_back_failed(&mut self, mut queued: QueuedPod, now: Timestamp) {
        queued.errors += 1;
        queued.refused_by = PluginSet::default();
        (queued.queued, queued.entry) = (now, self.next_entry());
        let expiry = self.waits.expiry(now, queued.errors);
        self.back_off_after_error(queued, expiry);
    }

    /// Wakes the unschedulable pods that `event` of `revision` may help. Returns their number.
    pub fn on_event(&mut self, event: ClusterEvent<'_>, revision: Revision, now: Timestamp) -> usize {
        if let Some(flight) = &mut self.in_flight
            && event.pod().is_none_or(|pod| pod.uid != flight.pod.uid)
        {
            let helped = self.profiles.of(&flight.pod).plugins.helped(&flight.pod, &event);
            flight.helped = flight.helped.union(helped);
            flight.revision = revision;
        }
        let (mut woken, held) = self.helped(&event);
        self.suspended.extend(held.into_iter().map(|uid| (uid, Some(revision))));
        // Those that wait longest wake first, whatever refused them.
        woken.sort_unstable_by_key(|(since, _)| *since);
        for (_, uid) in &woken {
            let (_, mut queued) = self.take(uid).expect("a pod in the pool is in the queue");
            queued.cause = revision;
            self.wake(queued, now);
        }
        woken.len()
    }

    /// The unschedulable and the held pods that `event` may help. Of pods that are alike one is asked, and none of pods whose plugins do
    /// not hear of such events.
    fn helped(&self, event: &ClusterEvent<'_>) -> (Vec<(ParkedSince, Uid)>, Vec<Uid>) {
        let (mut woken, mut held) = (Vec::new(), Vec::new());
        let hear = |profile, by| self.profiles.at(profile).plugins.hear(by, event.kind());
        for pods in self.hints.of(hear) {
            if pods.any().is_some_and(|uid| self.helps(&self.pods[uid].1, event)) {
                woken.extend(pods.unschedulable.iter().map(|(since, uid)| (*since, uid.clone())));
                held.extend(pods.held.iter().cloned());
            }
        }
        (woken, held)
    }

    /// The time at which [`pop`](Self::pop) may return a pod without a further change; `None` if only a
    /// change can help.
    pub fn deadline(&self) -> Option<Timestamp> {
        let error = self.error_backoff.keys().next().map(|(expiry, _)| *expiry);
        let refused =
            self.backoff.keys().next().map(|(expiry, _)| *expiry).filter(|_| !self.waits.ends_early);
        let stay = self.unschedulable.keys().next().map(|(queued, _)| self.waits.end_of_stay(*queued));
        error.into_iter().chain(refused).chain(stay).min()
    }

    /// Whether [`pop`](Self::pop) returns a pod now.
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let due = self.deadline().is_some_and(|deadline| deadline <= now);
        let is_early = self.waits.ends_early && !self.backoff.is_empty();
        !self.active.is_empty() || is_early || due
    }

    /// The number of pods in each queue.
    pub fn depths(&self) -> QueueDepths {
        QueueDepths {
            active: self.active.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len() - self.untried + self.suspended.len(),
            gated: self.untried,
        }
    }

    /// How many of the waiting pods each plugin refused.
    pub fn refused(&self) -> &RefusedPods {
        &self.refused
    }

    /// Makes pods ready whose back-off is over, and wakes pods that were unschedulable for too long.
    fn release(&mut self, now: Timestamp) {
        while let Some((key, _)) = self.unschedulable.first_key_value()
            && self.waits.end_of_stay(key.0) <= now
        {
            let uid = self.unschedulable[key].clone();
            let (_, queued) = self.take(&uid).expect("a pod in the pool is in the queue");
            self.wake(queued, now);
        }
        loop {
            let expired = |map: &BTreeMap<(Timestamp, Rank), Uid>| {
                map.first_key_value().filter(|((expiry, _), _)| *expiry <= now).map(|(_, uid)| uid.clone())
            };
            let Some(uid) = expired(&self.backoff).or_else(|| expired(&self.error_backoff)) else { return };
            let (_, queued) = self.take(&uid).expect("a pod that backs off is in the queue");
            self.activate(queued);
        }
    }

    fn wake(&mut self, queued: QueuedPod, now: Timestamp) {
        let expiry = self.waits.expiry(queued.queued, queued.refusals);
        if expiry <= now { self.activate(queued) } else { self.back_off(queued, expiry) }
    }

    fn activate(&mut self, queued: QueuedPod) {
        let rank = queued.rank();
        self.active.insert(rank, Arc::clone(&queued.pod.uid));
        self.put(QueuePosition::Active(rank), queued);
    }

    fn back_off(&mut self, queued: QueuedPod, expiry: Timestamp) {
        let rank = queued.rank();
        self.backoff.insert((expiry, rank), Arc::clone(&queued.pod.uid));
        self.put(QueuePosition::Backoff(expiry, rank), queued);
    }

    fn back_off_after_error(&mut self, queued: QueuedPod, expiry: Timestamp) {
        let rank = queued.rank();
        self.error_backoff.insert((expiry, rank), Arc::clone(&queued.pod.uid));
        self.put(QueuePosition::ErrorBackoff(expiry, rank), queued);
    }

    fn park(&mut self, queued: QueuedPod) {
        let pods = &self.pods;
        let pod = |uid: &Uid| pods.get(uid).map(|(_, queued)| &*queued.pod);
        self.hints.park(self.hint_place(&queued), &queued, pod);
        let position = (queued.queued, queued.entry);
        self.untried += usize::from(queued.attempts == 0);
        self.unschedulable.insert(position, Arc::clone(&queued.pod.uid));
        self.put(QueuePosition::Unschedulable(position.0, position.1), queued);
    }

    /// The place of the pod's profile, and whether this crate has all plugins that refused the pod.
    fn hint_place(&self, queued: &QueuedPod) -> (usize, bool) {
        let place = self.profiles.place_of(&queued.pod);
        (place, self.profiles.at(place).plugins.are_in_tree(queued.refused_by))
    }

    fn hold(&mut self, queued: QueuedPod, missed: Option<Revision>) {
        let pods = &self.pods;
        let pod = |uid: &Uid| pods.get(uid).map(|(_, queued)| &*queued.pod);
        self.hints.hold(self.hint_place(&queued), &queued, pod);
        self.suspended.insert(Arc::clone(&queued.pod.uid), missed);
        self.put(QueuePosition::Held, queued);
    }

    #[cfg(test)]
    pub(crate) fn unschedulable(&self) -> impl Iterator<Item = &PodInfo> {
        self.unschedulable.values().map(|uid| &*self.pods[uid].1.pod)
    }

    fn next_entry(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    fn put(&mut self, position: QueuePosition, queued: QueuedPod) {
        self.land(&queued.pod.uid);
        self.refused.add(self.profiles.place_of(&queued.pod), queued.refused_by);
        let before = self.pods.insert(Arc::clone(&queued.pod.uid), (position, queued));
        assert!(before.is_none(), "a pod is in one queue");
    }

    fn take(&mut self, uid: &Uid) -> Option<(QueuePosition, QueuedPod)> {
        let (position, queued) = self.pods.remove(uid)?;
        self.refused.remove(self.profiles.place_of(&queued.pod), queued.refused_by);
        self.hints.remove(&queued);
        let found = match position {
            QueuePosition::Active(rank) => self.active.remove(&rank),
            QueuePosition::Backoff(expiry, rank) => self.backoff.remove(&(expiry, rank)),
            QueuePosition::ErrorBackoff(expiry, rank) => self.error_backoff.remove(&(expiry, rank)),
            QueuePosition::Unschedulable(queued, entry) => self.unschedulable.remove(&(queued, entry)),
            QueuePosition::Held => self.suspended.remove(uid).map(|_| Arc::clone(uid)),
        };
        assert!(found.is_some(), "a pod is at its recorded position");
        if matches!(position, QueuePosition::Unschedulable(..)) && queued.attempts == 0 {
            self.untried -= 1;
        }
        Some((position, queued))
    }
}

#[cfg(test)]
mod tests;
