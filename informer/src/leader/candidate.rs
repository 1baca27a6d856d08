//! [`Candidate`]: one candidate's knowledge of the lease, and the rules that decide its next action. Pure:
//! both clocks are arguments.

use super::LeaseRecord;
use super::lease::micros;
use super::options::ElectorOptions;
use crate::Revision;
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

pub(super) struct Candidate {
    identity: String,
    lease: Duration,
    /// The record as last seen, and when this candidate first saw it in this state.
    seen: Option<SeenLease>,
    /// The term in which this candidate leads.
    term: Option<Term>,
    /// The last term that this candidate tried to start; it may not know whether that succeeded.
    attempted: Option<Term>,
    /// The highest transitions ever seen. A deleted lease continues from there, so that no term reuses the
    /// number of an earlier one.
    transitions: Option<u32>,
}

struct SeenLease {
    record: LeaseRecord,
    revision: Revision,
    since: Instant,
    /// Whether the record is known to be the stored one, or only to have been.
    certain: bool,
}

/// One term of leadership of this candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    acquired: Timestamp,
    pub(super) transitions: u32,
}

/// The next request for the lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// Another candidate holds the lease.
    Wait,
    /// This candidate led, and the lease now names another term.
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
            attempted: None,
            transitions: None,
        }
    }

    /// Whether this candidate holds the lease as far as it knows: its last renewal has not expired.
    pub(super) fn holds(&self, now: Instant) -> bool {
        let ours = |seen: &SeenLease| seen.certain && seen.record.holder == self.identity;
        self.term.is_some() && self.seen.as_ref().is_some_and(|s| ours(s) && now < s.since + self.lease)
    }

    /// Whether the known record may be outdated.
    pub(super) fn is_uncertain(&self) -> bool {
        self.seen.as_ref().is_none_or(|seen| !seen.certain)
    }

    /// Start of the attempt that wrote the known record.
    pub(super) fn renewed_at(&self) -> Option<Instant> {
        self.seen.as_ref().map(|seen| seen.since)
    }

    /// The term in which this candidate leads.
    pub(super) fn term(&self) -> Option<Term> {
        self.term
    }

    /// The holder of the lease as last seen; `None` if the lease is free.
    pub(super) fn leader(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| seen.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Records the stored lease. Its expiry counts from when the record was first seen, not from when it was
    /// written.
    pub(super) fn saw(&mut self, stored: Option<(LeaseRecord, Revision)>, now: Instant) {
        self.seen = stored.map(|(record, revision)| {
            let since = match &self.seen {
                // A new revision of the same record is no renewal, but for example a changed label.
                Some(seen) if seen.record == record => seen.since,
                _ => now,
            };
            SeenLease { record, revision, since, certain: true }
        });
        let transitions = self.seen.as_ref().map(|seen| seen.record.transitions);
        self.transitions = self.transitions.max(transitions);
    }

    /// The next request, given the record as last seen. The holder renews. A candidate takes over a record
    /// that is released, expired or left from its own earlier term, and starts a new term. A leader that
    /// finds the lease deleted writes the same record again.
    pub(super) fn next(&self, wall: Timestamp, now: Instant) -> LeaseAction {
        let Some(seen) = &self.seen else {
            let transitions = self.transitions.map_or(0, |last| last.saturating_add(1));
            let term = self.term.unwrap_or(Term { acquired: wall, transitions });
            return LeaseAction::Create(self.record(term, wall));
        };
        let ours = seen.record.holder == self.identity;
        let stored = Term { acquired: seen.record.acquired, transitions: seen.record.transitions };
        let renew = || LeaseAction::Replace(self.record(stored, self.later(seen, wall, now)), seen.revision);
        match self.term {
            Some(term) if ours && term.transitions == stored.transitions => renew(),
            Some(_) => LeaseAction::Lost,
            // The own attempt was stored, but its response was lost.
            None if ours && self.attempted == Some(stored) => renew(),
            None if ours || seen.record.holder.is_empty() || now >= seen.since + seen.record.duration => {
                let term = Term { acquired: wall, transitions: stored.transitions.saturating_add(1) };
                LeaseAction::Replace(self.record(term, wall), seen.revision)
            }
            None => LeaseAction::Wait,
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

    /// The time of a renewal. Other candidates detect a renewal by its change, so it advances even if the
    /// wall clock does not.
    fn later(&self, seen: &SeenLease, wall: Timestamp, now: Instant) -> Timestamp {
        let later = seen.record.renewed.saturating_add(now.duration_since(seen.since));
        later.map_or(wall, |later| micros(later).max(wall))
    }

    /// Records that a write is about to be sent.
    pub(super) fn attempts(&mut self, record: &LeaseRecord) {
        self.attempted = Some(Term { acquired: record.acquired, transitions: record.transitions });
    }

    /// Records that the own write is stored: this candidate leads. The lease counts from the start of the
    /// write, because other candidates may have seen it that early.
    pub(super) fn wrote(&mut self, record: LeaseRecord, revision: Revision, began: Instant) {
        self.term = Some(Term { acquired: record.acquired, transitions: record.transitions });
        self.transitions = self.transitions.max(Some(record.transitions));
        self.seen = Some(SeenLease { record, revision, since: began, certain: true });
    }

    /// Marks the record as uncertain: a failed write may have happened, so the stored record must be read
    /// again.
    pub(super) fn forget(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.certain = false;
        }
    }

    /// Ends the term. A later hold of the lease is a new term.
    pub(super) fn resign(&mut self) {
        (self.term, self.attempted) = (None, None);
    }

    /// Whether this candidate leads, or an attempt of it may have succeeded unnoticed.
    pub(super) fn may_hold(&self) -> bool {
        self.term.is_some() || self.attempted.is_some()
    }

    /// The record that releases the lease, if this candidate holds it.
    pub(super) fn release_record(&self, wall: Timestamp) -> Option<(LeaseRecord, Revision)> {
        let mine = self.term.or(self.attempted)?;
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
