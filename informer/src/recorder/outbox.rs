//! [`Outbox`]: schedules the writes of events. Pure: time and randomness are arguments.
//!
//! The outbox has one entry per event name. Only the newest state of an event waits, and at most one write
//! per event is active. This keeps the order of one event's writes, and a failed write delays no other event.
//! The first two states of an event are written at once. Later states are delayed, each time longer, and the
//! last state is always written.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::{Event, SinkError, recent::Recent};
use crate::limits::{
    RECORDER_FLUSH_RETRY, RECORDER_REFRESH, RECORDER_REFRESH_CAP, RECORDER_RETRY, RECORDER_SERIES,
    RECORDER_TRIES,
};

/// Queue of event writes with pacing and retries.
pub(super) struct Outbox {
    letters: BTreeMap<String, Letter>,
    /// Waiting entries by due time.
    due: BTreeSet<(Instant, String)>,
    pace: Recent<String, Pace>,
    /// Whether pacing is off, during a flush or at the end.
    urgent: bool,
    /// Largest number of entries.
    bound: usize,
}

struct Letter {
    event: Event,
    state: State,
    tries: u32,
}

enum State {
    Waiting,
    /// A write is active; `newer` tells whether a newer state has arrived since.
    Flying {
        newer: bool,
    },
}

/// How often an event was written, and when the next write is allowed.
#[derive(Clone, Copy)]
struct Pace {
    writes: u32,
    next: Option<Instant>,
}

/// Result of a write for its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Written,
    Retried,
    Refused,
    GivenUp,
}

impl Outbox {
    /// An outbox for at most `bound` events.
    pub(super) fn new(bound: usize) -> Self {
        let (letters, due) = (BTreeMap::new(), BTreeSet::new());
        Self { letters, due, pace: Recent::new(RECORDER_SERIES), urgent: false, bound }
    }

    /// Adds the newest state of an event. Returns false if the outbox is full.
    pub(super) fn put(&mut self, mut event: Event, now: Instant) -> bool {
        if let Some(letter) = self.letters.get_mut(&event.name) {
            event.causes.merge(&letter.event.causes);
            letter.event = event;
            if let State::Flying { newer } = &mut letter.state {
                *newer = true;
            }
            return true;
        }
        if self.letters.len() >= self.bound {
            return false;
        }
        let rests = self.pace.peek(&event.name).and_then(|pace| pace.next).filter(|_| !self.urgent);
        let at = rests.map_or(now, |next| next.max(now));
        self.wait(Letter { event, state: State::Waiting, tries: 0 }, at);
        true
    }

    fn wait(&mut self, letter: Letter, at: Instant) {
        let name = letter.event.name.clone();
        self.due.insert((at, name.clone()));
        self.letters.insert(name, Letter { state: State::Waiting, ..letter });
    }

    /// Takes an event that is due. Its write is active until [`settled`](Self::settled).
    pub(super) fn take(&mut self, now: Instant) -> Option<Event> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, name) = self.due.pop_first()?;
        let known = self.pace.peek(&name).is_some_and(|pace| pace.writes > 0);
        let letter = self.letters.get_mut(&name).expect("what is due is in the outbox");
        letter.state = State::Flying { newer: false };
        letter.event.known = known;
        Some(letter.event.clone())
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
    ) -> Fate {
        let letter = self.letters.remove(name).expect("what was under way is in the outbox");
        match outcome {
            Ok(()) => {
                let next = self.written(name, now);
                if matches!(letter.state, State::Flying { newer: true }) {
                    let at = if self.urgent { now } else { next };
                    self.wait(Letter { tries: 0, ..letter }, at);
                }
                Fate::Written
            }
            Err(SinkError::Refused(_)) => Fate::Refused,
            Err(SinkError::Retry(_)) if letter.tries + 1 >= RECORDER_TRIES => Fate::GivenUp,
            Err(SinkError::Retry(_)) => {
                let tries = letter.tries + 1;
                self.wait(Letter { tries, ..letter }, now + self.pause(tries, unit));
                Fate::Retried
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
        let pace = self.pace.entry(&name.to_owned(), || Pace { writes: 0, next: None });
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
    pub(super) fn hurry(&mut self, now: Instant) {
        self.urgent = true;
        self.due = std::mem::take(&mut self.due).into_iter().map(|(_, name)| (now, name)).collect();
    }

    /// Turns pacing on again.
    pub(super) fn calm(&mut self) {
        self.urgent = false;
    }

    /// Number of events that wait or are being written.
    pub(super) fn len(&self) -> usize {
        self.letters.len()
    }
}
