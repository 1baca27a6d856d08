//! [`Outbox`]: schedules the writes of events. Pure: time and randomness are arguments.
//!
//! The outbox has one entry per event name. Only the newest state of an event waits, and at most one write
//! per event is active. This keeps the order of one event's writes, and a failed write delays no other event.
//! The first two states of an event are written at once. Later states are delayed, each time longer, and the
//! last state is always written.

use super::recent::LruCache;
use super::{Event, SinkError};
use crate::limits::{
    RECORDER_FLUSH_RETRY, RECORDER_REFRESH, RECORDER_REFRESH_CAP, RECORDER_RETRY, RECORDER_SERIES,
    RECORDER_TRIES,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Queue of event writes with pacing and retries.
pub(super) struct Outbox {
    entries: BTreeMap<String, OutboxEntry>,
    /// Waiting entries by due time.
    due: BTreeSet<(Instant, String)>,
    pace: LruCache<String, WritePacing>,
    /// Whether pacing is off, during a flush or at the end.
    urgent: bool,
    /// Largest number of entries.
    bound: usize,
}

struct OutboxEntry {
    event: Event,
    state: EntryState,
    tries: u32,
}

enum EntryState {
    Waiting,
    /// A write is active; `newer` tells whether a newer state has arrived since.
    Writing {
        newer: bool,
    },
}

/// How often an event was written, and when the next write is allowed.
#[derive(Clone, Copy)]
struct WritePacing {
    writes: u32,
    next: Option<Instant>,
}

/// Result of a write for its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Written,
    Retried,
    Refused,
    GivenUp,
}

impl Outbox {
    /// An outbox for at most `bound` events.
    pub(super) fn new(bound: usize) -> Self {
        let (entries, due) = (BTreeMap::new(), BTreeSet::new());
        Self { entries, due, pace: LruCache::new(RECORDER_SERIES), urgent: false, bound }
    }

    /// Adds the newest state of an event. Returns false if the outbox is full.
    pub(super) fn put(&mut self, mut event: Event, now: Instant) -> bool {
        if let Some(entry) = self.entries.get_mut(&event.name) {
            event.causes.merge(&entry.event.causes);
            entry.event = event;
            if let EntryState::Writing { newer } = &mut entry.state {
                *newer = true;
            }
            return true;
        }
        if self.entries.len() >= self.bound {
            return false;
        }
        let rests = self.pace.peek(&event.name).and_then(|pace| pace.next).filter(|_| !self.urgent);
        let at = rests.map_or(now, |next| next.max(now));
        self.wait(OutboxEntry { event, state: EntryState::Waiting, tries: 0 }, at);
        true
    }

    fn wait(&mut self, entry: OutboxEntry, at: Instant) {
        let name = entry.event.name.clone();
        self.due.insert((at, name.clone()));
        self.entries.insert(name, OutboxEntry { state: EntryState::Waiting, ..entry });
    }

    /// Takes an event that is due. Its write is active until [`settled`](Self::settled).
    pub(super) fn take(&mut self, now: Instant) -> Option<Event> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, name) = self.due.pop_first()?;
        let known = self.pace.peek(&name).is_some_and(|pace| pace.writes > 0);
        let entry = self.entries.get_mut(&name).expect("a due event is in the outbox");
        entry.state = EntryState::Writing { newer: false };
        entry.event.known = known;
        Some(entry.event.clone())
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Records the result of a write; `unit` is a random number in 0..1.
    pub(super) fn settled(
        &mut self,
        name: &str,
        outcome: Result<(), SinkError>,
        now: Instant,
        unit: f64,
    ) -> WriteOutcome {
        let entry = self.entries.remove(name).expect("an event being written is in the outbox");
        match outcome {
            Ok(()) => {
                let next = self.written(name, now);
                if matches!(entry.state, EntryState::Writing { newer: true }) {
                    let at = if self.urgent { now } else { next };
                    self.wait(OutboxEntry { tries: 0, ..entry }, at);
                }
                WriteOutcome::Written
            }
            Err(SinkError::Refused(_)) => WriteOutcome::Refused,
            Err(SinkError::Retry(_)) if entry.tries + 1 >= RECORDER_TRIES => WriteOutcome::GivenUp,
            Err(SinkError::Retry(_)) => {
                let tries = entry.tries + 1;
                self.wait(OutboxEntry { tries, ..entry }, now + self.pause(tries, unit));
                WriteOutcome::Retried
            }
        }
    }

    /// Wait before a retry. The first wait is random, so that writes that failed together are not retried
    /// together.
    fn pause(&self, tries: u32, unit: f64) -> Duration {
        match (self.urgent, tries) {
            (true, _) => RECORDER_FLUSH_RETRY,
            (false, 1) => RECORDER_RETRY.mul_f64(unit),
            (false, _) => RECORDER_RETRY,
        }
    }

    /// Counts a write and returns when the next is allowed.
    fn written(&mut self, name: &str, now: Instant) -> Instant {
        let pace = self.pace.entry(&name.to_owned(), || WritePacing { writes: 0, next: None });
        pace.writes = pace.writes.saturating_add(1);
        let rest = match pace.writes {
            0 | 1 => Duration::ZERO,
            writes => RECORDER_REFRESH * 2u32.saturating_pow(writes - 2),
        };
        let next = now + rest.min(RECORDER_REFRESH_CAP);
        pace.next = Some(next);
        next
    }

    /// Turns pacing off and makes all entries due now.
    pub(super) fn stop_pacing(&mut self, now: Instant) {
        self.urgent = true;
        self.due = std::mem::take(&mut self.due).into_iter().map(|(_, name)| (now, name)).collect();
    }

    /// Turns pacing on again.
    pub(super) fn resume_pacing(&mut self) {
        self.urgent = false;
    }

    /// Number of events that wait or are being written.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
