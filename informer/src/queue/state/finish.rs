//! End of runs: at once, or after parking.

use std::hash::Hash;

use tokio::time::Instant;

use super::{QueueMode, QueueState, Run, later};
use crate::queue::{
    Verdict,
    entry::{EndedRun, FailureCount, KeyPhase, ParkedRun, earlier},
    slots::SlotId,
    timers::Timer,
};

impl<K: Eq + Hash + Clone> QueueState<K> {
    /// Ends a run and applies its verdict.
    pub(in crate::queue) fn finish(&mut self, run: Run, verdict: Verdict, now: Instant) {
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
    pub(in crate::queue) fn park(
        &mut self,
        run: Run,
        verdict: Verdict,
        deadline: std::time::Duration,
        now: Instant,
    ) -> Option<(SlotId, Timer)> {
        self.ripen(now);
        if self.mode == QueueMode::Closed {
            return None;
        }
        let (at, ended) = (run.at, self.stop(run, verdict, now));
        self.stats.parked += 1;
        let deadline = self.timers.set(later(now, deadline), at);
        self.entry(at).place = KeyPhase::Parked(Box::new(ParkedRun { deadline, ended }));
        Some((at, deadline))
    }

    /// Applies the verdict of a parked run, unless its deadline did before.
    pub(in crate::queue) fn release(&mut self, at: SlotId, deadline: Timer, now: Instant) {
        self.ripen(now);
        let parked =
            |place: &KeyPhase| matches!(place, KeyPhase::Parked(parked) if parked.deadline == deadline);
        if self.slots.value(at).is_some_and(|entry| parked(&entry.place)) {
            self.timers.cancel(deadline);
            self.unpark(at, now);
            self.ripen(now);
        }
    }

    /// Ends the parking of a key whose deadline passed.
    pub(super) fn expire(&mut self, at: SlotId, now: Instant) {
        self.stats.stale += 1;
        self.entry(at).stale = true;
        self.unpark(at, now);
    }

    fn unpark(&mut self, at: SlotId, now: Instant) {
        let place = std::mem::replace(&mut self.entry(at).place, KeyPhase::RUNNING);
        if let KeyPhase::Parked(parked) = place {
            self.stats.parked -= 1;
            self.conclude(parked.ended, now);
        }
    }

    /// Ends the running phase of a key and records its duration.
    fn stop(&mut self, run: Run, verdict: Verdict, now: Instant) -> EndedRun {
        self.stats.running -= 1;
        self.slots.unlink(&mut self.running, run.at);
        let entry = self.entry(run.at);
        let added = if let KeyPhase::Running(added) = entry.place { added } else { None };
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
            Some(due) => self.place(at, due, now),
        }
    }

    /// Passes the causes and the priority of a run to the next one that it requests.
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
