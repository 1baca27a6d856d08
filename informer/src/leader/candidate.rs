//! [`Candidate`]: what one candidate knows of the lease, and what it may do. Pure: both clocks are arguments.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::LeaseRecord;
use crate::{Revision, limits::LEASE_DURATION};

pub(super) struct Candidate {
    identity: String,
    /// The record as last seen, and when it was first seen to be so.
    seen: Option<Seen>,
}

struct Seen {
    record: LeaseRecord,
    revision: Revision,
    since: Instant,
    /// Whether we know that this is what is stored, or only that it was.
    certain: bool,
}

/// What to do to the lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Someone else holds it.
    Wait,
    Create(LeaseRecord),
    Replace(LeaseRecord, Revision),
}

impl Candidate {
    pub(super) fn new(identity: &str) -> Self {
        Self { identity: identity.to_owned(), seen: None }
    }

    /// Whether our own renewal is younger than `limit`, and nothing has told us otherwise.
    pub(super) fn holds(&self, now: Instant, limit: Duration) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            seen.certain && seen.record.holder == self.identity && now < seen.since + limit
        })
    }

    /// When the attempt began that made or renewed what we know of.
    pub(super) fn renewed_at(&self) -> Option<Instant> {
        self.seen.as_ref().map(|seen| seen.since)
    }

    /// Takes note of what is stored. The time counts from when a record is first seen, not from when it was written.
    pub(super) fn saw(&mut self, stored: Option<(LeaseRecord, Revision)>, now: Instant) {
        self.seen = stored.map(|(record, revision)| {
            let since = match &self.seen {
                Some(seen) if seen.revision == revision => seen.since,
                _ => now,
            };
            Seen { record, revision, since, certain: true }
        });
    }

    /// What to do, given what was seen. A record is renewed by its holder, and taken over when it was given up or has not
    /// changed for as long as it says.
    pub(super) fn next(&self, wall: Timestamp, now: Instant) -> Move {
        let fresh = |acquired, transitions| LeaseRecord {
            holder: self.identity.clone(),
            duration: LEASE_DURATION,
            acquired,
            renewed: wall,
            transitions,
        };
        let Some(Seen { record, revision, since, .. }) = &self.seen else {
            return Move::Create(fresh(wall, 0));
        };
        if record.holder == self.identity {
            return Move::Replace(fresh(record.acquired, record.transitions), *revision);
        }
        match record.holder.is_empty() || now >= *since + record.duration {
            true => Move::Replace(fresh(wall, record.transitions.saturating_add(1)), *revision),
            false => Move::Wait,
        }
    }

    /// Our write is stored. It counts from when it was begun: others may have seen it that early.
    pub(super) fn wrote(&mut self, record: LeaseRecord, revision: Revision, began: Instant) {
        self.seen = Some(Seen { record, revision, since: began, certain: true });
    }

    /// A write failed, and may have happened: what is stored has to be read again.
    pub(super) fn forget(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.certain = false;
        }
    }

    /// The record that gives the lease up, if it is ours.
    pub(super) fn farewell(&self, wall: Timestamp, now: Instant) -> Option<(LeaseRecord, Revision)> {
        let seen = self.seen.as_ref().filter(|_| self.holds(now, LEASE_DURATION))?;
        let record = LeaseRecord {
            holder: String::new(),
            duration: Duration::from_secs(1),
            renewed: wall,
            ..seen.record.clone()
        };
        Some((record, seen.revision))
    }
}
