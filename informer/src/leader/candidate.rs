//! [`Candidate`]: what one candidate knows of the lease, and what it may do. Pure: both clocks are arguments.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{LeaseRecord, lease::micros, options::ElectorOptions};
use crate::Revision;

pub(super) struct Candidate {
    identity: String,
    lease: Duration,
    /// The record as last seen, and when it was first seen to be so.
    seen: Option<Seen>,
    /// The term that we lead in.
    term: Option<Term>,
    /// The term that we last tried to begin; whether that happened may be unknown.
    asked: Option<Term>,
    /// The most transitions that were ever seen. A lease that was deleted goes on from there, so that no term of ours has
    /// the number of an earlier one.
    transitions: Option<u32>,
}

struct Seen {
    record: LeaseRecord,
    revision: Revision,
    since: Instant,
    /// Whether we know that this is what is stored, or only that it was.
    certain: bool,
}

/// One leadership of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    acquired: Timestamp,
    pub(super) transitions: u32,
}

/// What to do to the lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Someone else holds it.
    Wait,
    /// We led, and the lease now says something else.
    Lost,
    Create(LeaseRecord),
    Replace(LeaseRecord, Revision),
}

impl Candidate {
    pub(super) fn new(options: &ElectorOptions) -> Self {
        Self {
            identity: options.identity.clone(),
            lease: options.lease,
            seen: None,
            term: None,
            asked: None,
            transitions: None,
        }
    }

    /// Whether our own renewal is younger than the lease, and nothing has told us otherwise.
    pub(super) fn holds(&self, now: Instant) -> bool {
        let ours = |seen: &Seen| seen.certain && seen.record.holder == self.identity;
        self.term.is_some() && self.seen.as_ref().is_some_and(|s| ours(s) && now < s.since + self.lease)
    }

    /// Whether what we know may be old.
    pub(super) fn is_uncertain(&self) -> bool {
        self.seen.as_ref().is_none_or(|seen| !seen.certain)
    }

    /// When the attempt began that made or renewed what we know of.
    pub(super) fn renewed_at(&self) -> Option<Instant> {
        self.seen.as_ref().map(|seen| seen.since)
    }

    /// The term that we lead in.
    pub(super) fn term(&self) -> Option<Term> {
        self.term
    }

    /// Who holds the lease, as far as we know; none if nobody does.
    pub(super) fn leader(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| seen.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Takes note of what is stored. The time counts from when a record is first seen, not from when it was written.
    pub(super) fn saw(&mut self, stored: Option<(LeaseRecord, Revision)>, now: Instant) {
        self.seen = stored.map(|(record, revision)| {
            let since = match &self.seen {
                // A new revision of the same record is no renewal: someone labelled the lease.
                Some(seen) if seen.record == record => seen.since,
                _ => now,
            };
            Seen { record, revision, since, certain: true }
        });
        let transitions = self.seen.as_ref().map(|seen| seen.record.transitions);
        self.transitions = self.transitions.max(transitions);
    }

    /// What to do, given what was seen. The holder renews; a record that was given up, that has not changed for as long as
    /// it says, or that is left from an earlier term of ours, is taken over as a new term. A leader who finds the lease
    /// deleted writes it again as it was.
    pub(super) fn next(&self, wall: Timestamp, now: Instant) -> Move {
        let Some(seen) = &self.seen else {
            let transitions = self.transitions.map_or(0, |last| last.saturating_add(1));
            let term = self.term.unwrap_or(Term { acquired: wall, transitions });
            return Move::Create(self.record(term, wall));
        };
        let ours = seen.record.holder == self.identity;
        let stored = Term { acquired: seen.record.acquired, transitions: seen.record.transitions };
        let renew = || Move::Replace(self.record(stored, self.later(seen, wall, now)), seen.revision);
        match self.term {
            Some(term) if ours && term.transitions == stored.transitions => renew(),
            Some(_) => Move::Lost,
            // Our own attempt, whose answer was lost.
            None if ours && self.asked == Some(stored) => renew(),
            None if ours || seen.record.holder.is_empty() || now >= seen.since + seen.record.duration => {
                let term = Term { acquired: wall, transitions: stored.transitions.saturating_add(1) };
                Move::Replace(self.record(term, wall), seen.revision)
            }
            None => Move::Wait,
        }
    }

    fn record(&self, term: Term, renewed: Timestamp) -> LeaseRecord {
        LeaseRecord {
            holder: self.identity.clone(),
            duration: self.lease,
            acquired: term.acquired,
            renewed,
            transitions: term.transitions,
        }
    }

    /// The time of a renewal: others see the lease live by its change, so it moves on even if the wall clock does not.
    fn later(&self, seen: &Seen, wall: Timestamp, now: Instant) -> Timestamp {
        let later = seen.record.renewed.saturating_add(now.duration_since(seen.since));
        later.map_or(wall, |later| micros(later).max(wall))
    }

    /// A write is about to be tried.
    pub(super) fn asks(&mut self, record: &LeaseRecord) {
        self.asked = Some(Term { acquired: record.acquired, transitions: record.transitions });
    }

    /// Our write is stored, and we lead. It counts from when it was begun: others may have seen it that early.
    pub(super) fn wrote(&mut self, record: LeaseRecord, revision: Revision, began: Instant) {
        self.term = Some(Term { acquired: record.acquired, transitions: record.transitions });
        self.transitions = self.transitions.max(Some(record.transitions));
        self.seen = Some(Seen { record, revision, since: began, certain: true });
    }

    /// A write failed, and may have happened: what is stored has to be read again.
    pub(super) fn forget(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.certain = false;
        }
    }

    /// The term is over. What we led in is no attempt of ours any more: holding it again is a new term.
    pub(super) fn resign(&mut self) {
        (self.term, self.asked) = (None, None);
    }

    /// Whether an attempt of ours may have happened without our knowing.
    pub(super) fn may_hold(&self) -> bool {
        self.term.is_some() || self.asked.is_some()
    }

    /// The record that gives the lease up, if it is ours.
    pub(super) fn farewell(&self, wall: Timestamp) -> Option<(LeaseRecord, Revision)> {
        let mine = self.term.or(self.asked)?;
        let seen = self.seen.as_ref().filter(|seen| seen.certain)?;
        let ours = seen.record.holder == self.identity && seen.record.transitions == mine.transitions;
        let record = LeaseRecord {
            holder: String::new(),
            duration: Duration::from_secs(1),
            acquired: wall,
            renewed: wall,
            transitions: seen.record.transitions,
        };
        ours.then_some((record, seen.revision))
    }
}
