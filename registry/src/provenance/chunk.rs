//! [`Chunk`]: some thousand records in one allocation, with each string stored once. Long-lived records in a
//! few large allocations leave no holes in the heap. `log` decides which chunks are kept.

use super::record::{Effect, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes after which a chunk is full. Large enough that repeating strings in each chunk costs little; small
/// enough that the log drops old records in small steps.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// The initial capacity of a chunk.
const FIRST_BYTES: usize = 4 * 1024;
/// Free capacity that is more than almost every record needs.
const MIN_FREE_BYTES: usize = 512;

/// A full chunk: encoded records in the order of their revisions.
#[derive(Clone, Debug)]
pub(super) struct Chunk(Arc<[u8]>);

/// The chunk that new records are appended to.
#[derive(Debug, Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    /// The number of each storage key, in the order of first occurrence.
    keys: BTreeMap<Box<str>, u32>,
    /// The number of each writer: user, agent and verb.
    writers: BTreeMap<[Box<str>; 3], u32>,
    last: PreviousRecord,
}

/// The revision and time of the previous record: the next record is encoded relative to them.
#[derive(Clone, Copy, Debug, Default)]
struct PreviousRecord {
    revision: i64,
    time_us: i64,
}

/// A string, or several, written in full at the first occurrence and as a number from then on.
#[derive(bincode::Encode, bincode::BorrowDecode)]
enum Interned<T> {
    New(T),
    Known(u32),
}

/// The encoded form of a record.
#[derive(bincode::Encode, bincode::BorrowDecode)]
struct EncodedRecord<'c> {
    /// Revisions since the previous record.
    revisions: i64,
    /// Microseconds since the previous record.
    microseconds: i64,
    writer: Interned<Writer<'c>>,
    /// The distance of each cause from the record's revision.
    causes: Vec<i64>,
    keys: Vec<(Interned<&'c str>, Effect)>,
}

/// The author and the kind of a write: the same few combinations occur again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::BorrowDecode)]
pub(super) struct Writer<'c> {
    pub(super) user: &'c str,
    pub(super) agent: &'c str,
    pub(super) verb: &'c str,
}

/// A record that was decoded from a chunk.
#[derive(Clone, Debug)]
pub(super) struct RecordedWrite<'c> {
    pub(super) revision: i64,
    pub(super) time_us: i64,
    pub(super) writer: Writer<'c>,
    /// Revisions of the causes; all are earlier than the record's.
    pub(super) causes: Vec<i64>,
    /// Storage keys with the effect on each; at least one.
    pub(super) keys: Vec<(&'c str, Effect)>,
}

impl Builder {
    /// Adds a record, which must be newer than all others of the chunk.
    pub(super) fn push(&mut self, record: &Record) {
        let note = &record.note;
        let last = std::mem::replace(
            &mut self.last,
            PreviousRecord { revision: record.revision, time_us: note.time_us },
        );
        let writer = [&*note.user, &*note.agent, &*note.verb].map(Box::from);
        let next = number(self.writers.len());
        let writer = match *self.writers.entry(writer).or_insert(next) {
            known if known < next => Interned::Known(known),
            _ => Interned::New(Writer { user: &note.user, agent: &note.agent, verb: &note.verb }),
        };
        let mut keys = Vec::with_capacity(record.keys.len());
        for (key, effect) in &record.keys {
            let key = match self.keys.get(&**key) {
                Some(known) => Interned::Known(*known),
                None => {
                    self.keys.insert(key.as_str().into(), number(self.keys.len()));
                    Interned::New(key.as_str())
                }
            };
            keys.push((key, *effect));
        }
        let earlier = note.causes.iter().filter(|cause| **cause < record.revision);
        let stored = EncodedRecord {
            revisions: record.revision.wrapping_sub(last.revision),
            microseconds: note.time_us.wrapping_sub(last.time_us),
            writer,
            causes: earlier.map(|cause| record.revision.wrapping_sub(*cause)).collect(),
            keys,
        };
        self.reserve();
        bincode::encode_into_std_write(stored, &mut self.bytes, bincode::config::standard())
            .expect("encoding into memory does not fail");
    }

    /// Doubles the capacity up to a whole chunk. The log of a short-lived cluster stays small, and that of a
    /// long-lived one has little unused capacity.
    fn reserve(&mut self) {
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity - len < MIN_FREE_BYTES && capacity < CHUNK_BYTES {
            let wanted = (2 * capacity).clamp(FIRST_BYTES, CHUNK_BYTES);
            self.bytes.reserve_exact(wanted - len);
        }
    }

    /// Whether the next record should begin a new chunk.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK_BYTES
    }

    /// The size in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Finishes the chunk; `None` if it has no records.
    pub(super) fn seal(self) -> Option<Chunk> {
        (!self.bytes.is_empty()).then(|| Chunk(self.bytes.into()))
    }

    /// Copies the records so far into a chunk; the builder can be used further.
    pub(super) fn snapshot(&self) -> Option<Chunk> {
        (!self.bytes.is_empty()).then(|| Chunk(self.bytes.as_slice().into()))
    }
}

fn number(len: usize) -> u32 {
    u32::try_from(len).expect("a chunk has fewer strings than bytes")
}

impl Chunk {
    /// The size in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The records, in the order of their revisions.
    pub(super) fn writes(&self) -> RecordedWrites<'_> {
        RecordedWrites {
            rest: &self.0,
            keys: Vec::new(),
            writers: Vec::new(),
            last: PreviousRecord::default(),
        }
    }
}

/// An iterator over the records of a chunk.
pub(super) struct RecordedWrites<'c> {
    rest: &'c [u8],
    keys: Vec<&'c str>,
    writers: Vec<Writer<'c>>,
    last: PreviousRecord,
}

/// The value of a reference; a new value gets the next number.
fn resolve<T: Copy>(named: Interned<T>, known: &mut Vec<T>) -> Option<T> {
    match named {
        Interned::New(new) => {
            known.push(new);
            Some(new)
        }
        Interned::Known(number) => known.get(number as usize).copied(),
    }
}

impl<'c> Iterator for RecordedWrites<'c> {
    type Item = RecordedWrite<'c>;

    fn next(&mut self) -> Option<RecordedWrite<'c>> {
        if self.rest.is_empty() {
            return None;
        }
        let read = bincode::borrow_decode_from_slice(self.rest, bincode::config::standard());
        let (stored, length): (EncodedRecord<'c>, usize) = read.expect("a chunk holds what was encoded");
        self.rest = &self.rest[length..];
        self.last.revision = self.last.revision.wrapping_add(stored.revisions);
        self.last.time_us = self.last.time_us.wrapping_add(stored.microseconds);
        let PreviousRecord { revision, time_us } = self.last;
        let keys = stored.keys.into_iter();
        let keys = keys.filter_map(|(key, effect)| Some((resolve(key, &mut self.keys)?, effect))).collect();
        let writer =
            resolve(stored.writer, &mut self.writers).expect("a writer is named after it was written out");
        let causes = stored.causes.into_iter().map(|before| revision.wrapping_sub(before)).collect();
        Some(RecordedWrite { revision, time_us, writer, causes, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Note;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let text = || prop_oneof![Just(String::new()), "[a-c]{1,2}", "\\PC{0,20}"];
        let effect = prop_oneof![Just(Effect::Created), Just(Effect::Updated), Just(Effect::Deleted)];
        let keys = prop::collection::vec((text(), effect), 1..4);
        let causes = prop::collection::vec(prop_oneof![0..100_i64, any::<i64>()], 0..4);
        let one = (1..50_i64, keys, text(), text(), causes, any::<i64>());
        prop::collection::vec(one, 0..60).prop_map(|all| {
            let mut revision = 1;
            let records = all.into_iter().map(|(step, keys, user, agent, causes, time_us)| {
                revision += step;
                let note = Note { user, agent, verb: "update/status".to_owned(), causes, time_us };
                Record { revision, keys, note }
            });
            records.collect()
        })
    }

    proptest! {
        #[test]
        fn records_round_trip_and_keep_only_earlier_causes(records in records()) {
            let mut builder = Builder::default();
            records.iter().for_each(|record| builder.push(record));
            let chunk = builder.snapshot();
            let read: Vec<Record> = chunk.iter().flat_map(Chunk::writes).map(|write| Record {
                revision: write.revision,
                keys: write.keys.into_iter().map(|(key, effect)| (key.to_owned(), effect)).collect(),
                note: Note {
                    user: write.writer.user.to_owned(),
                    agent: write.writer.agent.to_owned(),
                    verb: write.writer.verb.to_owned(),
                    causes: write.causes,
                    time_us: write.time_us,
                },
            }).collect();
            let mut expected = records;
            for record in &mut expected {
                record.note.causes.retain(|cause| *cause < record.revision);
            }
            prop_assert_eq!(read, expected);
        }
    }
}
