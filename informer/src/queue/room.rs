//! Where workers wait. It decides whom to call, and says nothing of what they will find.
//!
//! One worker is called for each key that is ready, and not one more. One of those that wait keeps the time for all, so
//! that a time that comes wakes one worker and not all. A worker that was called and goes away without a look has its call
//! passed on.

use std::{
    collections::{BTreeMap, BTreeSet},
    task::Waker,
};

use tokio::time::Instant;

/// The workers that wait.
///
/// Invariants whenever the lock is free: as many are called as keys are ready, or nobody waits uncalled. If a time is to
/// come and somebody waits, then somebody keeps that time or has been called.
#[derive(Default)]
pub(super) struct Room {
    /// Who waits, in order of arrival.
    seats: BTreeMap<Seat, Waker>,
    /// Who was called and has not come yet.
    called: BTreeSet<Seat>,
    /// Who of those that wait will look at which time.
    keeper: Option<(Seat, Instant)>,
    next: Seat,
}

/// A place in the order of arrival, kept until the worker leaves.
pub(super) type Seat = u64;

impl Room {
    /// A worker found nothing and waits. If it gets a time, it has to come back by itself then. What it left as waker before
    /// is to be dropped without the lock, since that may run anything.
    pub(super) fn sit(
        &mut self,
        seat: &mut Option<Seat>,
        waker: &Waker,
        alarm: Option<Instant>,
    ) -> (Option<Instant>, Option<Waker>) {
        let seat = *seat.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.called.remove(&seat);
        let known = self.seats.get(&seat).is_some_and(|known| known.will_wake(waker));
        let before = if known { None } else { self.seats.insert(seat, waker.clone()) };
        let keeps = self.keeper.is_none_or(|(keeper, _)| keeper == seat);
        if keeps {
            self.keeper = alarm.map(|at| (seat, at));
        }
        (alarm.filter(|_| keeps), before)
    }

    /// A worker goes, with a key or without. Its waker is to be dropped without the lock.
    pub(super) fn leave(&mut self, seat: Option<Seat>) -> Option<Waker> {
        let seat = seat?;
        self.called.remove(&seat);
        if self.keeper.is_some_and(|(keeper, _)| keeper == seat) {
            self.keeper = None;
        }
        self.seats.remove(&seat)
    }

    /// Whom to wake so that the invariants hold.
    pub(super) fn call(&mut self, ready: usize, alarm: Option<Instant>) -> Calls {
        let mut calls = Calls::default();
        if self.seats.is_empty() {
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
            // It must be told of the earlier time. Whoever was called comes first, and keeps the time or calls on.
            Some((keeper, _)) => calls.extend(self.take(keeper)),
            None if self.called.is_empty() => calls.extend(self.pick()),
            None => {}
        }
        calls
    }

    /// Everybody: it is over.
    pub(super) fn call_all(&mut self) -> Calls {
        let mut calls = Calls::default();
        std::mem::take(&mut self.seats).into_values().for_each(|waker| calls.push(waker));
        self.called.clear();
        self.keeper = None;
        calls
    }

    /// The one that waits for longest; the keeper of the time only if there is no other.
    fn pick(&mut self) -> Option<Waker> {
        let keeper = self.keeper.map(|(seat, _)| seat);
        let other = self.seats.keys().copied().find(|seat| Some(*seat) != keeper);
        self.take(other.or(keeper)?)
    }

    fn take(&mut self, seat: Seat) -> Option<Waker> {
        let waker = self.seats.remove(&seat)?;
        self.called.insert(seat);
        if self.keeper.is_some_and(|(keeper, _)| keeper == seat) {
            self.keeper = None;
        }
        Some(waker)
    }
}

/// Workers to wake once the lock is free. Nearly always none or one.
#[derive(Default)]
#[must_use]
pub(super) struct Calls {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl Calls {
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

    /// Wakes them. Not under the lock: a waker may run anything.
    pub(super) fn ring(self) {
        if let Some(first) = self.first {
            first.wake();
            self.rest.into_iter().for_each(Waker::wake);
        }
    }
}
