//! Waiting workers of a queue, and which of them to wake. Workers then look at the queue themselves.
//!
//! One worker is woken for each ready key, never more. One waiting worker keeps the timer for all, so that a
//! due time wakes one worker only. If a woken worker leaves without looking, its wake-up passes to another.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;
use tokio::time::Instant;

/// Waiting workers of a queue.
///
/// Invariants whenever the lock is free: as many workers are woken as keys are ready, or no worker waits
/// unwoken. If a time is pending and workers wait, one of them keeps the timer or has been woken.
#[derive(Default)]
pub(super) struct WaitingWorkers {
    /// Wakers of the waiting workers, in order of arrival.
    wakers: BTreeMap<WorkerId, Waker>,
    /// Workers that were woken and have not looked yet.
    called: BTreeSet<WorkerId>,
    /// The worker that keeps the timer, and its time.
    keeper: Option<(WorkerId, Instant)>,
    next: WorkerId,
}

/// Registration number of a waiting worker, in order of arrival, kept until the worker leaves.
pub(super) type WorkerId = u64;

impl WaitingWorkers {
    /// Registers a worker that found no key. A returned time means that the worker must keep the timer. The
    /// caller must drop the returned old waker outside the lock, because its drop may run arbitrary code.
    pub(super) fn register(
        &mut self,
        worker: &mut Option<WorkerId>,
        waker: &Waker,
        alarm: Option<Instant>,
    ) -> (Option<Instant>, Option<Waker>) {
        let worker = *worker.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.called.remove(&worker);
        let known = self.wakers.get(&worker).is_some_and(|known| known.will_wake(waker));
        let before = if known { None } else { self.wakers.insert(worker, waker.clone()) };
        let keeps = self.keeper.is_none_or(|(keeper, _)| keeper == worker);
        if keeps {
            self.keeper = alarm.map(|at| (worker, at));
        }
        (alarm.filter(|_| keeps), before)
    }

    /// Removes a worker, which may have taken a key. The caller must drop the returned waker outside the
    /// lock.
    pub(super) fn leave(&mut self, worker: Option<WorkerId>) -> Option<Waker> {
        let worker = worker?;
        self.called.remove(&worker);
        if self.keeper.is_some_and(|(keeper, _)| keeper == worker) {
            self.keeper = None;
        }
        self.wakers.remove(&worker)
    }

    /// Selects the workers to wake so that the invariants hold.
    pub(super) fn call(&mut self, ready: usize, alarm: Option<Instant>) -> WakeUps {
        let mut calls = WakeUps::default();
        if self.wakers.is_empty() {
            return calls;
        }
        while self.called.len() < ready
            && let Some(waker) = self.pick()
        {
            calls.push(waker);
        }
        let Some(at) = alarm else { return calls };
        match self.keeper {
            Some((_, kept)) if kept <= at => {}
            // The timer must move to the earlier time. A worker that was woken before comes first, and keeps
            // the timer or wakes another.
            Some((keeper, _)) => calls.extend(self.take(keeper)),
            None if self.called.is_empty() => calls.extend(self.pick()),
            None => {}
        }
        calls
    }

    /// Selects all workers: the queue has closed.
    pub(super) fn call_all(&mut self) -> WakeUps {
        let mut calls = WakeUps::default();
        std::mem::take(&mut self.wakers).into_values().for_each(|waker| calls.push(waker));
        self.called.clear();
        self.keeper = None;
        calls
    }

    /// Selects the worker that has waited longest; the timer's keeper only if there is no other.
    fn pick(&mut self) -> Option<Waker> {
        let keeper = self.keeper.map(|(worker, _)| worker);
        let other = self.wakers.keys().copied().find(|worker| Some(*worker) != keeper);
        self.take(other.or(keeper)?)
    }

    fn take(&mut self, worker: WorkerId) -> Option<Waker> {
        let waker = self.wakers.remove(&worker)?;
        self.called.insert(worker);
        if self.keeper.is_some_and(|(keeper, _)| keeper == worker) {
            self.keeper = None;
        }
        Some(waker)
    }
}

/// Wakers to call after the lock is released. Usually none or one.
#[derive(Default)]
#[must_use]
pub(super) struct WakeUps {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl WakeUps {
    fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    fn extend(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.push(waker);
        }
    }

    /// Wakes the workers. Must be called without the lock, because a waker may run arbitrary code.
    pub(super) fn wake_all(self) {
        if let Some(first) = self.first {
            first.wake();
            self.rest.into_iter().for_each(Waker::wake);
        }
    }
}
