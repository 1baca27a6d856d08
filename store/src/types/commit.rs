//! Commit: the changes of one request, which are logged, published and delivered as a unit.

use crate::types::alarm::Alarms;
use crate::types::event::Events;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::{LeaseId, Revision};
use bytes::Bytes;

/// The effects of one request, complete in themselves: replaying them needs no evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The commit's sequence number in the log. Every commit has one, also a commit without a revision.
    pub(crate) seq: u64,
    /// The store's revision after the commit: a new one if there are events, otherwise the previous one.
    pub(crate) revision: Revision,
    /// The changes of keys; an event's index is its sub-revision.
    pub(crate) events: Events,
    /// The note that the transaction carried.
    pub(crate) note: Option<Bytes>,
    /// The changes of leases.
    pub(crate) leases: Vec<LeaseChange>,
    /// The new compacted revision.
    pub(crate) compacted: Option<Revision>,
    /// All raised alarms after the commit, if it changed them.
    pub(crate) alarms: Option<Alarms>,
}

/// A change to the set of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    /// Granted, with its time to live in seconds.
    Granted(LeaseId, i64),
    /// Revoked or expired.
    Gone(LeaseId),
}

impl Commit {
    /// Approximate bytes that holding the commit takes.
    pub(crate) fn cost(&self) -> usize {
        self.events.iter().map(|event| event.cost()).sum::<usize>() + self.leases.len() * 24 + 96
    }

    /// The records that the engine stores of the commit, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        let main = self.revision;
        let changes = self.events.iter().zip(0..).map(move |(event, sub)| Record {
            key: RecordKey::new(main, sub),
            kind: event.kind.into(),
            bytes: event.kv.encoded().clone(),
        });
        let note = self.note.iter().map(move |note| Record {
            key: RecordKey::note(main),
            kind: RecordKind::Note,
            bytes: note.clone(),
        });
        changes.chain(note)
    }
}
