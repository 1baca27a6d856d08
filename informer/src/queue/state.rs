//! The state of a queue and its transitions. Pure: `now` is an argument, and nobody waits here.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use kstore_nondet::{HashMap, Rng};
use tokio::time::Instant;

use super::QueueStats;
use crate::{
    Causes,
    limits::{RETRY_BASE, RETRY_CAP},
};

/// Everything a queue knows. Invariant: an entry per key that is ready, waiting or running, and none for others; a key is
/// in `ready` once iff its place is `Ready`, and in `timers` once iff it is `Waiting`.
pub(super) struct State<K> {
    entries: HashMap<K, Entry>,
    ready: VecDeque<K>,
    timers: BTreeMap<(Instant, u64), K>,
    next_timer: u64,
    mode: Mode,
    rng: Rng,
    stats: QueueStats,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    Draining,
    Closed,
}

struct Entry {
    place: Place,
    /// Causes of the next run.
    causes: Causes,
    /// Failures that count, since the last success.
    failures: u32,
    /// End of the newest back-off. A run that starts before it was made by an event, and its failure does not count: an
    /// outage must not drive the wait to its cap by being noticed often.
    backoff_until: Option<Instant>,
}

enum Place {
    Ready,
    Waiting((Instant, u64)),
    Running {
        /// Added meanwhile.
        dirty: bool,
        /// Asked for at this time meanwhile.
        again: Option<Instant>,
    },
}

pub(super) enum Verdict {
    Done,
    Retry,
    Again(Duration),
}

pub(super) enum Taken<K> {
    Run {
        key: K,
        causes: Causes,
        failures: u32,
    },
    /// Nothing is ready before this time.
    Nothing {
        until: Option<Instant>,
    },
    Closed,
}

impl<K: Ord + Hash + Clone> State<K> {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            entries: HashMap::default(),
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            mode: Mode::Open,
            rng,
            stats: QueueStats::default(),
        }
    }

    /// True if a worker should look.
    pub(super) fn add(&mut self, key: K, causes: &Causes) -> bool {
        if self.mode != Mode::Open {
            return false;
        }
        self.stats.adds += 1;
        let Some(entry) = self.entries.get_mut(&key) else {
            self.entries.insert(key.clone(), Entry::new(Place::Ready, causes.clone()));
            self.ready.push_back(key);
            return true;
        };
        entry.causes.merge(causes);
        match &mut entry.place {
            Place::Ready => self.stats.merged += 1,
            Place::Waiting(timer) => {
                self.stats.merged += 1;
                self.timers.remove(timer);
                entry.place = Place::Ready;
                self.ready.push_back(key);
                return true;
            }
            Place::Running { dirty, .. } => self.stats.merged += u64::from(std::mem::replace(dirty, true)),
        }
        false
    }

    /// True if a worker should look at the timers again.
    pub(super) fn add_at(&mut self, key: K, at: Instant) -> bool {
        if self.mode != Mode::Open {
            return false;
        }
        self.stats.adds += 1;
        match self.entries.get_mut(&key).map(|entry| &mut entry.place) {
            None => {
                let timer = self.start_timer(key.clone(), at);
                self.entries.insert(key, Entry::new(Place::Waiting(timer), Causes::none()));
                return true;
            }
            Some(Place::Ready) => {}
            Some(Place::Running { again, .. }) => *again = Some(again.map_or(at, |other| other.min(at))),
            Some(Place::Waiting(timer)) if timer.0 <= at => {}
            Some(Place::Waiting(timer)) => {
                self.timers.remove(timer);
                let timer = self.start_timer(key.clone(), at);
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.place = Place::Waiting(timer);
                }
                self.stats.merged += 1;
                return true;
            }
        }
        self.stats.merged += 1;
        false
    }

    /// The next key to run, which is running from now on.
    pub(super) fn take(&mut self, now: Instant) -> Taken<K> {
        if self.mode == Mode::Closed {
            return Taken::Closed;
        }
        self.ripen(now);
        let Some(key) = self.ready.pop_front() else {
            return match self.mode {
                Mode::Draining => Taken::Closed,
                _ => Taken::Nothing { until: self.timers.first_key_value().map(|((at, _), _)| *at) },
            };
        };
        self.stats.runs += 1;
        self.stats.running += 1;
        let entry = self.entries.get_mut(&key).expect("every ready key has an entry");
        entry.place = Place::Running { dirty: false, again: None };
        let causes = std::mem::take(&mut entry.causes);
        Taken::Run { causes, failures: entry.failures, key }
    }

    /// Makes the keys ready whose time has come.
    fn ripen(&mut self, now: Instant) {
        while let Some(timer) = self.timers.first_entry()
            && timer.key().0 <= now
        {
            let key = timer.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place = Place::Ready;
            }
            self.ready.push_back(key);
        }
    }

    /// Ends a run. True if a worker should look.
    pub(super) fn finish(
        &mut self,
        key: &K,
        causes: Causes,
        started: Instant,
        verdict: Verdict,
        now: Instant,
    ) -> bool {
        self.stats.running -= 1;
        self.stats.retries += u64::from(matches!(verdict, Verdict::Retry));
        if self.mode == Mode::Closed {
            return false;
        }
        let Some(entry) = self.entries.get_mut(key) else { return false };
        let Place::Running { dirty, again } = entry.place else { return false };
        let at = match verdict {
            Verdict::Done => entry.succeeded(again),
            Verdict::Again(delay) => {
                // What led to this run leads to the one it asks for.
                entry.causes.merge(&causes);
                let at = now + delay;
                entry.succeeded(Some(again.map_or(at, |other| other.min(at))))
            }
            Verdict::Retry => {
                entry.causes.merge(&causes);
                Some(entry.failed(started, now, &self.rng))
            }
        };
        match (dirty, at) {
            (true, _) => {
                entry.place = Place::Ready;
                self.ready.push_back(key.clone());
            }
            (false, Some(at)) if self.mode == Mode::Open => {
                let timer = (at, self.next_timer);
                self.next_timer += 1;
                entry.place = Place::Waiting(timer);
                self.timers.insert(timer, key.clone());
            }
            (false, _) => {
                self.entries.remove(key);
                return false;
            }
        }
        true
    }

    fn start_timer(&mut self, key: K, at: Instant) -> (Instant, u64) {
        let timer = (at, self.next_timer);
        self.next_timer += 1;
        self.timers.insert(timer, key);
        timer
    }

    /// Whether something is left for another worker: to run, or to wait for.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty() || !self.timers.is_empty()
    }

    pub(super) fn drain(&mut self) {
        if self.mode != Mode::Open {
            return;
        }
        self.mode = Mode::Draining;
        for (_, key) in std::mem::take(&mut self.timers) {
            self.entries.remove(&key);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.mode != Mode::Open && self.ready.is_empty() && self.stats.running == 0
    }

    pub(super) fn close(&mut self) {
        self.mode = Mode::Closed;
        self.entries.clear();
        self.ready.clear();
        self.timers.clear();
    }

    pub(super) fn stats(&self) -> QueueStats {
        QueueStats { ready: self.ready.len(), waiting: self.timers.len(), ..self.stats }
    }
}

#[cfg(test)]
impl<K> State<K> {
    /// Whether no trace of any key is left.
    pub(super) fn is_forgetful(&self) -> bool {
        self.entries.is_empty() && self.ready.is_empty() && self.timers.is_empty()
    }
}

impl Entry {
    fn new(place: Place, causes: Causes) -> Self {
        Self { place, causes, failures: 0, backoff_until: None }
    }

    fn succeeded(&mut self, again: Option<Instant>) -> Option<Instant> {
        self.failures = 0;
        self.backoff_until = None;
        again
    }

    /// When to try again: `RETRY_BASE · 2ⁿ` after the n-th failure that counts, up to the cap, spread by a fifth.
    fn failed(&mut self, started: Instant, now: Instant, rng: &Rng) -> Instant {
        if let Some(until) = self.backoff_until.filter(|until| started < *until) {
            return until.max(now);
        }
        let wait = RETRY_BASE.saturating_mul(1 << self.failures.min(20)).min(RETRY_CAP);
        self.failures += 1;
        let until = now + wait.mul_f64(0.8 + 0.4 * rng.unit());
        self.backoff_until = Some(until);
        until
    }
}
