//! State machine of a queue. Pure: `now` is an argument, and no transition waits.

use super::entry::{EndedRun, FailureCount, KeyEntry, KeyPhase, ParkedRun, earlier};
use super::metrics::DecadeHistogram;
use super::rate::Reservations;
use super::ready::Ready;
use super::slots::{List, SlotId, Slots};
use super::timers::{Timer, Timers};
use super::{Add, Backoff, QueueMetrics, QueueOptions, QueueStats, Verdict};
use crate::limits::QUEUE_FAR;
use crate::{Causes, Priority};
use kstore_nondet::Rng;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// All data of a queue.
///
/// Invariant: there is an entry for each key that is ready, waiting, running or parked, and for no other. A
/// key is in `ready` iff its phase is `Ready`, has one timer in `timers` iff it is `Waiting` or `Parked`, and
/// is in `running` iff it is `Running`.
pub(super) struct QueueState<K> {
    slots: Slots<K, KeyEntry>,
    ready: Ready,
    timers: Timers,
    /// Running keys, by start time.
    running: List,
    mode: QueueMode,
    backoff: Backoff,
    rate: Reservations,
    /// Whether the rate also applies to failed keys.
    rates_retries: bool,
    rng: Rng,
    /// Counts of the queue. Of its gauges only `running` and `parked` are maintained.
    stats: QueueStats,
    queue_duration: DecadeHistogram,
    work_duration: DecadeHistogram,
    /// Keys that a drain gave up.
    left: Vec<K>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueMode {
    Open,
    /// Refuses adds and waiting keys.
    Draining,
    /// Refuses everything.
    Closed,
}

/// A key with its hash and tenant, computed before the lock is taken.
pub(super) struct HashedKey<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    pub(super) tenant: Option<u64>,
}

/// An active run, as its lease stores it.
#[derive(Default)]
pub(super) struct Run {
    pub(super) at: SlotId,
    pub(super) causes: Causes,
    pub(super) priority: Priority,
    pub(super) failures: u32,
    pub(super) stale: bool,
}

pub(super) enum TakeResult<K> {
    Run(K, Run),
    /// No key is ready.
    Nothing,
    Closed,
}

/// `now` plus `delay`, cut at [`QUEUE_FAR`].
fn later(now: Instant, delay: Duration) -> Instant {
    now + delay.min(QUEUE_FAR)
}

impl<K: Eq + Hash + Clone> QueueState<K> {
    pub(super) fn new(options: &QueueOptions<K>, rng: Rng) -> Self {
        Self {
            slots: Slots::new(),
            ready: Ready::new(options.ageing),
            timers: Timers::default(),
            running: List::EMPTY,
            mode: QueueMode::Open,
            backoff: options.backoff,
            rate: Reservations::new(options.rate.unwrap_or_default()),
            rates_retries: options.rate.is_some(),
            rng,
            stats: QueueStats::default(),
            queue_duration: DecadeHistogram::default(),
            work_duration: DecadeHistogram::default(),
            left: Vec::new(),
        }
    }

    /// Adds a request for a run of a key. Reads the clock only if needed: the read costs as much as the rest
    /// of the transition.
    pub(super) fn add(&mut self, named: HashedKey<K>, add: Add, clock: impl Fn() -> Instant) {
        if self.mode != QueueMode::Open {
            return;
        }
        if self.timers.len() > 0 {
            self.ripen(clock());
        }
        self.stats.adds += 1;
        match self.slots.find(named.hash, &named.key) {
            None => self.admit(named, add, clock()),
            Some(at) => {
                let entry = self.entry(at);
                match entry.phase {
                    KeyPhase::Ready if add.priority <= entry.priority => {
                        entry.causes.absorb(add.causes);
                        self.stats.merged += 1;
                    }
                    KeyPhase::Ready => self.raise(at, add),
                    KeyPhase::Waiting(_) | KeyPhase::Running(_) | KeyPhase::Parked(_) => {
                        self.merge(at, add, clock());
                    }
                }
            }
        }
    }

    fn admit(&mut self, named: HashedKey<K>, add: Add, now: Instant) {
        let due = self.due(&add, None, now);
        let entry = KeyEntry::new(add.priority, add.causes, named.tenant, now);
        let at = self.slots.insert(named.hash, named.key, entry);
        self.schedule(at, due, now);
    }

    /// Raises the priority of a ready key, which moves behind the others of its new priority.
    fn raise(&mut self, at: SlotId, add: Add) {
        self.stats.merged += 1;
        let rank = self.entry(at).rank();
        self.ready.remove(&mut self.slots, at, rank);
        let entry = self.entry(at);
        entry.join(add.priority, add.causes);
        let rank = entry.rank();
        self.ready.push(&mut self.slots, at, rank);
    }

    /// Merges an add into a key that is not ready.
    fn merge(&mut self, at: SlotId, add: Add, now: Instant) {
        let planned = self.entry(at).planned();
        let due = self.due(&add, planned, now);
        self.stats.merged += u64::from(planned.is_some());
        let entry = self.entry(at);
        entry.join(add.priority, add.causes);
        match &mut entry.phase {
            KeyPhase::Waiting(timer) => {
                // Also ends a wait after a failure: the change may fix its reason.
                let timer = *timer;
                if due < timer.at {
                    self.timers.cancel(timer);
                    self.schedule(at, due, now);
                }
            }
            KeyPhase::Running(added) => *added = earlier(*added, Some(due)),
            KeyPhase::Parked(parked) => {
                parked.ended.added = earlier(parked.ended.added, Some(due));
            }
            KeyPhase::Ready => {}
        }
    }

    /// When an add is due. Reserves from the rate only if the add can make a key run earlier than `planned`.
    fn due(&mut self, add: &Add, planned: Option<Instant>, now: Instant) -> Instant {
        let due = add.after.map_or(now, |delay| later(now, delay));
        if !add.rate_limited {
            return due;
        }
        let limited = self.rate.when(now).max(due);
        if planned.is_none_or(|planned| limited < planned) {
            self.rate.reserve(now);
        }
        limited
    }

    /// Puts a key in no phase into the ready or the waiting phase.
    fn schedule(&mut self, at: SlotId, due: Instant, now: Instant) {
        if due > now {
            let timer = self.timers.set(due, at);
            self.entry(at).phase = KeyPhase::Waiting(timer);
            return;
        }
        let entry = self.entry(at);
        entry.phase = KeyPhase::Ready;
        entry.since = due.max(entry.since);
        let rank = entry.rank();
        self.ready.push(&mut self.slots, at, rank);
    }

    /// Processes due timers. Every transition starts with it: otherwise keys that were due earlier would
    /// queue behind keys that the transition makes ready.
    fn ripen(&mut self, now: Instant) {
        while let Some((timer, at)) = self.timers.pop(now) {
            match self.entry(at).phase {
                KeyPhase::Waiting(_) => self.schedule(at, timer.at, timer.at),
                KeyPhase::Parked(_) => self.expire(at, timer.at),
                KeyPhase::Ready | KeyPhase::Running(_) => {}
            }
        }
        if self.is_drained() {
            self.close();
        }
    }

    /// Takes the next ready key, which is then running.
    pub(super) fn take(&mut self, now: Instant) -> TakeResult<K> {
        self.ripen(now);
        if self.mode == QueueMode::Closed {
            return TakeResult::Closed;
        }
        let Some(at) = self.ready.pop(&mut self.slots) else { return TakeResult::Nothing };
        self.stats.runs += 1;
        self.stats.running += 1;
        self.slots.push(&mut self.running, at);
        let key = self.slots.key(at).expect("a ready slot has a key").clone();
        let entry = self.entry(at);
        let waited = now.saturating_duration_since(entry.since);
        let run = Run {
            at,
            causes: std::mem::take(&mut entry.causes),
            priority: std::mem::replace(&mut entry.priority, Priority::LOWEST),
            failures: entry.failing.as_ref().map_or(0, |failing| failing.count),
            stale: std::mem::take(&mut entry.stale),
        };
        entry.phase = KeyPhase::RUNNING;
        entry.since = now;
        self.queue_duration.record(waited);
        TakeResult::Run(key, run)
    }

    fn entry(&mut self, at: SlotId) -> &mut KeyEntry {
        self.slots.get_mut(at).expect("lists and timers refer to used slots")
    }

    /// Number of ready keys, and the earliest pending time.
    pub(super) fn outlook(&self) -> (usize, Option<Instant>) {
        (self.ready.len(), self.timers.first())
    }

    pub(super) fn stats(&mut self, now: Instant) -> QueueStats {
        self.ripen(now);
        let waiting = self.timers.len() - self.stats.parked;
        QueueStats { ready: self.ready.len(), waiting, ..self.stats }
    }

    /// All metrics of the queue. The cost is proportional to the running keys and the priorities.
    pub(super) fn metrics(&mut self, name: std::sync::Arc<str>, now: Instant) -> QueueMetrics {
        let stats = self.stats(now);
        let running = self.slots.list(self.running);
        let took: Vec<_> = running.map(|entry| now.saturating_duration_since(entry.since)).collect();
        QueueMetrics {
            name,
            stats,
            depth: self.ready.depth(),
            queue_duration: self.queue_duration.histogram(),
            work_duration: self.work_duration.histogram(),
            unfinished_work: took.iter().sum(),
            longest_running: took.first().copied().unwrap_or_default(),
        }
    }
}

impl<K: Eq + Hash + Clone> QueueState<K> {
    /// Ends a run and applies its verdict.
    pub(super) fn finish(&mut self, run: Run, verdict: Verdict, now: Instant) {
        self.ripen(now);
        if self.mode == QueueMode::Closed {
            return;
        }
        let ended = self.stop(run, verdict, now);
        self.conclude(ended, now);
        self.ripen(now);
    }

    /// Ends a run, and delays its verdict until its release, at most for `deadline`. Returns the arguments of
    /// [`QueueState::release`].
    pub(super) fn park(
        &mut self,
        run: Run,
        verdict: Verdict,
        deadline: Duration,
        now: Instant,
    ) -> Option<(SlotId, Timer)> {
        self.ripen(now);
        if self.mode == QueueMode::Closed {
            return None;
        }
        let (at, ended) = (run.at, self.stop(run, verdict, now));
        self.stats.parked += 1;
        let deadline = self.timers.set(later(now, deadline), at);
        self.entry(at).phase = KeyPhase::Parked(Box::new(ParkedRun { deadline, ended }));
        Some((at, deadline))
    }

    /// Applies the verdict of a parked run, unless its deadline did before.
    pub(super) fn release(&mut self, at: SlotId, deadline: Timer, now: Instant) {
        self.ripen(now);
        let parked =
            |phase: &KeyPhase| matches!(phase, KeyPhase::Parked(parked) if parked.deadline == deadline);
        if self.slots.value(at).is_some_and(|entry| parked(&entry.phase)) {
            self.timers.cancel(deadline);
            self.unpark(at, now);
            self.ripen(now);
        }
    }

    /// Ends the parking of a key whose deadline passed.
    fn expire(&mut self, at: SlotId, now: Instant) {
        self.stats.stale += 1;
        self.entry(at).stale = true;
        self.unpark(at, now);
    }

    fn unpark(&mut self, at: SlotId, now: Instant) {
        let phase = std::mem::replace(&mut self.entry(at).phase, KeyPhase::RUNNING);
        if let KeyPhase::Parked(parked) = phase {
            self.stats.parked -= 1;
            self.conclude(parked.ended, now);
        }
    }

    /// Ends the running phase of a key and records its duration.
    fn stop(&mut self, run: Run, verdict: Verdict, now: Instant) -> EndedRun {
        self.stats.running -= 1;
        self.slots.unlink(&mut self.running, run.at);
        let entry = self.entry(run.at);
        let added = if let KeyPhase::Running(added) = entry.phase { added } else { None };
        let started = entry.since;
        self.work_duration.record(now.saturating_duration_since(started));
        EndedRun { run, verdict, started, added }
    }

    /// Applies the verdict and the adds since the start to a key in no phase.
    fn conclude(&mut self, ended: EndedRun, now: Instant) {
        let EndedRun { run, verdict, started, added } = ended;
        let at = run.at;
        let due = match verdict {
            Verdict::Done => added,
            Verdict::Again(delay) => {
                self.inherit(run, added);
                earlier(added, Some(later(now, delay)))
            }
            Verdict::Retry | Verdict::RetryIn(_) => {
                self.stats.retries += 1;
                self.inherit(run, added);
                earlier(added, Some(self.fail(at, verdict, started, now)))
            }
        };
        if matches!(verdict, Verdict::Done | Verdict::Again(_)) {
            self.entry(at).failing = None;
        }
        match due {
            None => self.slots.free(at),
            Some(due) if due > now && self.mode == QueueMode::Draining => self.give_up(at),
            Some(due) => self.schedule(at, due, now),
        }
    }

    /// Passes the causes and the priority of a run to the next run that it requests.
    fn inherit(&mut self, run: Run, added: Option<Instant>) {
        self.stats.requeues += 1;
        self.stats.merged += u64::from(added.is_some());
        self.entry(run.at).join(run.priority, run.causes);
    }

    /// Counts a failure and returns when to retry.
    fn fail(&mut self, at: SlotId, verdict: Verdict, started: Instant, now: Instant) -> Instant {
        let failing = self.entry(at).failing.as_deref().copied();
        let early = failing.filter(|failing| started < failing.until);
        let count = failing.map_or(0, |failing| failing.count);
        let mut until = match (verdict, early) {
            (Verdict::RetryIn(delay), _) => later(now, delay),
            (_, Some(failing)) => failing.until.max(now),
            (_, None) => later(now, self.backoff.wait(count, self.rng.unit())),
        };
        if self.rates_retries {
            until = until.max(self.rate.reserve(now));
        }
        let count = if early.is_some() { count } else { count.saturating_add(1) };
        self.entry(at).failing = Some(Box::new(FailureCount { count, until }));
        until
    }
}

impl<K: Eq + Hash + Clone> QueueState<K> {
    /// Refuses adds and gives up waiting keys. The queue closes by itself when no key is left.
    pub(super) fn drain(&mut self, now: Instant) {
        self.ripen(now);
        if self.mode != QueueMode::Open {
            return;
        }
        self.mode = QueueMode::Draining;
        for (timer, at) in self.timers.all() {
            if matches!(self.entry(at).phase, KeyPhase::Waiting(_)) {
                self.timers.cancel(timer);
                self.give_up(at);
            }
        }
        self.ripen(now);
    }

    /// Gives up a key in no phase.
    fn give_up(&mut self, at: SlotId) {
        self.stats.dropped += 1;
        self.left.extend(self.slots.key(at).cloned());
        self.slots.free(at);
    }

    /// Whether a drain is complete.
    fn is_drained(&self) -> bool {
        self.mode == QueueMode::Draining && self.slots.len() == 0
    }

    pub(super) fn close(&mut self) {
        let wanted = self.slots.iter().filter(|(_, entry)| entry.planned().is_some()).count();
        self.stats.dropped += wanted as u64;
        if self.mode == QueueMode::Draining {
            self.left.extend(self.slots.iter().map(|(key, _)| key.clone()));
        }
        self.mode = QueueMode::Closed;
        (self.stats.running, self.stats.parked) = (0, 0);
        self.slots.clear();
        self.ready.clear();
        self.timers.clear();
        self.running = List::EMPTY;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.mode == QueueMode::Closed
    }

    /// Takes the keys that a drain gave up.
    pub(super) fn take_left(&mut self) -> Vec<K> {
        std::mem::take(&mut self.left)
    }
}

#[cfg(test)]
impl<K: Eq> QueueState<K> {
    /// Whether no data of any key is left.
    pub(super) fn is_forgetful(&self) -> bool {
        self.slots.len() == 0 && self.ready.len() == 0 && self.timers.len() == 0 && self.running.is_empty()
    }
}
