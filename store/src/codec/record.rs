//! Log records: the effects of one commit, complete in themselves.
//!
//! Version 1 has no alarms; version 2 appends the set of alarms. A commit that changes no alarm is written as version
//! 1, so that a program that only knows version 1 can read a log without alarms. A set of alarms with an unknown bit is
//! malformed.

use super::{DecodeError, VERSION};
use crate::types::alarm::Alarms;
use crate::types::commit::{Commit, LeaseChange};
use crate::types::event::EventKind;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::{LeaseId, Revision};
use bincode::{BorrowDecode, Encode};
use bytes::Bytes;

/// The version with alarms.
const WITH_ALARMS: u8 = 2;

/// A logged commit. It borrows the encoded versions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogRecord<'a> {
    pub(crate) seq: u64,
    pub(crate) revision: i64,
    pub(crate) changes: Vec<LogChange<'a>>,
    pub(crate) note: Option<&'a [u8]>,
    pub(crate) leases: Vec<LogLease>,
    pub(crate) compacted: Option<i64>,
    pub(crate) alarms: Option<Alarms>,
}

/// The fields of version 1, which are the first fields of version 2.
#[derive(Encode, BorrowDecode)]
struct LogRecordV1<'a> {
    seq: u64,
    revision: i64,
    changes: Vec<LogChange<'a>>,
    note: Option<&'a [u8]>,
    leases: Vec<LogLease>,
    compacted: Option<i64>,
}

impl<'a> LogRecordV1<'a> {
    fn with(self, alarms: Option<Alarms>) -> LogRecord<'a> {
        let Self { seq, revision, changes, note, leases, compacted } = self;
        LogRecord { seq, revision, changes, note, leases, compacted, alarms }
    }
}

impl LogRecord<'_> {
    /// The history record with this key, if the commit made it. A commit without changes has no revision of its own, and
    /// so no record.
    pub(crate) fn record(&self, key: RecordKey) -> Option<Record> {
        if Revision(self.revision) != key.main || self.changes.is_empty() {
            return None;
        }
        let (kind, bytes) = if key.is_note() {
            (RecordKind::Note, self.note?)
        } else {
            match self.changes.get(key.sub as usize)? {
                LogChange::Put(bytes) => (RecordKind::Put, *bytes),
                LogChange::Delete(bytes) => (RecordKind::Delete, *bytes),
            }
        };
        Some(Record { key, kind, bytes: Bytes::copy_from_slice(bytes) })
    }

    /// The commit without its changes of keys and its note, which need decoding.
    pub(crate) fn effects(&self) -> Commit {
        let leases = self.leases.iter().map(|change| match *change {
            LogLease::Granted { id, ttl } => LeaseChange::Granted(LeaseId(id), ttl),
            LogLease::Gone { id } => LeaseChange::Gone(LeaseId(id)),
        });
        Commit {
            seq: self.seq,
            revision: Revision(self.revision),
            leases: leases.collect(),
            compacted: self.compacted.map(Revision),
            alarms: self.alarms,
            ..Commit::default()
        }
    }

    /// The history records that the commit made, in order, as `Commit::records` has them.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        let main = Revision(self.revision);
        let changes = (0..).take(self.changes.len()).map(move |sub| RecordKey::new(main, sub));
        changes.chain([RecordKey::note(main)]).filter_map(|key| self.record(key))
    }
}

/// A changed key: the encoded version or tombstone.
#[derive(Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub(crate) enum LogChange<'a> {
    Put(&'a [u8]),
    Delete(&'a [u8]),
}

/// A changed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub(crate) enum LogLease {
    Granted { id: i64, ttl: i64 },
    Gone { id: i64 },
}

/// Appends the record of a commit.
pub(crate) fn encode(out: &mut Vec<u8>, commit: &Commit) {
    let changes = commit.events.iter().map(|event| match event.kind {
        EventKind::Put => LogChange::Put(event.kv.encoded()),
        EventKind::Delete => LogChange::Delete(event.kv.encoded()),
    });
    let leases = commit.leases.iter().map(|change| match *change {
        LeaseChange::Granted(id, ttl) => LogLease::Granted { id: id.0, ttl },
        LeaseChange::Gone(id) => LogLease::Gone { id: id.0 },
    });
    let v1 = LogRecordV1 {
        seq: commit.seq,
        revision: commit.revision.0,
        changes: changes.collect(),
        note: commit.note.as_deref(),
        leases: leases.collect(),
        compacted: commit.compacted.map(|revision| revision.0),
    };
    match commit.alarms {
        None => super::put(out, &v1),
        Some(alarms) => super::put_as(out, WITH_ALARMS, &(v1, alarms.bits())),
    }
}

/// Decodes one record and returns its length.
pub(crate) fn decode(bytes: &[u8]) -> Result<(LogRecord<'_>, usize), DecodeError> {
    match super::version(bytes)? {
        (VERSION, body) => super::take_body::<LogRecordV1<'_>>(body).map(|(v1, len)| (v1.with(None), len)),
        (WITH_ALARMS, body) => {
            let ((v1, bits), len) = super::take_body::<(LogRecordV1<'_>, u8)>(body)?;
            let alarms = Alarms::from_bits(bits).ok_or(DecodeError::Malformed)?;
            Ok((v1.with(Some(alarms)), len))
        }
        (other, _) => Err(DecodeError::Version(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::event::Event;
    use crate::types::kv::Stamp;
    use crate::{KeyValue, LeaseId, Revision};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use std::sync::Arc;

    proptest! {
        #[test]
        fn logged_commits_decode(
            keys in vec((vec(any::<u8>(), 1..9), vec(any::<u8>(), 0..300), any::<bool>()), 0..5),
            (seq, revision) in any::<(u64, i64)>(),
            note in option::of(vec(any::<u8>(), 0..9)),
            leases in vec((any::<i64>(), option::of(any::<i64>())), 0..4),
            compacted in option::of(any::<i64>()),
            alarms in option::of(0u8..8),
        ) {
            let event = |(key, value, put): &(Vec<u8>, Vec<u8>, bool)| Arc::new(Event {
                kind: if *put { EventKind::Put } else { EventKind::Delete },
                kv: Arc::new(KeyValue::new(key, value, Stamp::default())),
                prev_kv: None,
                note: None,
            });
            let commit = Commit {
                seq,
                revision: Revision(revision),
                events: keys.iter().map(event).collect(),
                note: note.clone().map(Into::into),
                leases: leases.iter().map(|(id, ttl)| match ttl {
                    Some(ttl) => LeaseChange::Granted(LeaseId(*id), *ttl),
                    None => LeaseChange::Gone(LeaseId(*id)),
                }).collect(),
                compacted: compacted.map(Revision),
                alarms: alarms.and_then(Alarms::from_bits),
            };
            let mut bytes = Vec::new();
            encode(&mut bytes, &commit);
            let len = bytes.len();
            bytes.extend_from_slice(b"the next record");
            let (read, read_len) = decode(&bytes).unwrap();
            prop_assert_eq!(read_len, len);
            prop_assert_eq!((read.seq, read.revision, read.compacted), (seq, revision, compacted));
            prop_assert_eq!(read.alarms.map(Alarms::bits), alarms);
            prop_assert_eq!(bytes[0], if alarms.is_some() { 2 } else { 1 });
            prop_assert_eq!(read.note, note.as_deref());
            prop_assert_eq!(read.leases.len(), leases.len());
            for (change, event) in read.changes.iter().zip(commit.events.iter()) {
                let expected = match event.kind {
                    EventKind::Put => LogChange::Put(event.kv.encoded()),
                    EventKind::Delete => LogChange::Delete(event.kv.encoded()),
                };
                prop_assert_eq!(change, &expected);
            }
        }

        #[test]
        fn anything_else_is_refused_without_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
