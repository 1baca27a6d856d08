//! Reading the files of a state, each once and several at a time, newest first: so that whatever became of a record later is
//! known before the record is met.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;

use super::files::{Files, walk};
use super::places::{Places, Row};
use super::{EngineError, Place};
use crate::codec::history::{self, Entry, FileList};
use crate::commit::RecordKey;
use crate::engine::reader::{Met, Prepare, Prepared, Reader};

/// Files read at the same time at most, whatever the machine has: each is held whole.
const AT_ONCE: usize = 4;

/// So many bytes are not worth a thread.
const SMALL: u64 = 4 << 20;

/// What stands in the files.
#[derive(Default)]
pub(super) struct Loaded {
    rows: Vec<Row>,
    /// See `Inner::removed`.
    pub(super) removed: BTreeMap<RecordKey, u32>,
    /// Records that are no longer wanted where they will be met from now on.
    gone: BTreeSet<RecordKey>,
}

/// What stands in one file, in order.
struct Part {
    number: u32,
    seen: Vec<Seen>,
    prepared: Prepared,
}

enum Seen {
    Record(RecordKey, Place),
    Removed(Vec<RecordKey>),
}

impl Loaded {
    pub(super) fn places(&mut self) -> Places {
        // Oldest first: of a record that stands in two places the newer one counts.
        self.rows.reverse();
        Places::of(std::mem::take(&mut self.rows))
    }

    fn take(&mut self, part: Part, reader: &mut Reader<'_>) {
        let records = part.seen.iter().filter(|seen| matches!(seen, Seen::Record(..))).count();
        let (mut wanted, mut at) = (vec![true; records], records);
        for seen in part.seen.into_iter().rev() {
            match seen {
                Seen::Removed(keys) => self.gone.extend(keys),
                Seen::Record(key, place) => {
                    at -= 1;
                    wanted[at] = !self.gone.contains(&key);
                    if wanted[at] {
                        self.rows.push(Row::new(key, place));
                    } else {
                        self.removed.entry(key).or_insert(part.number);
                    }
                }
            }
        }
        (reader.take)(part.prepared, &|at| wanted[at as usize]);
    }
}

/// Reads all files of a list.
pub(super) fn load(files: &Files, list: &FileList, reader: &mut Reader<'_>) -> Result<Loaded, EngineError> {
    let mut loaded = Loaded::default();
    let prepare = reader.prepare;
    let bytes: u64 = list.files.iter().map(|(_, len)| len).sum();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
    if threads == 1 || bytes <= SMALL {
        for (number, len) in list.files.iter().rev() {
            loaded.take(read(files, *number, *len, prepare)?, reader);
        }
        return Ok(loaded);
    }
    thread::scope(|scope| {
        let mut parts = VecDeque::new();
        for (number, len) in list.files.iter().rev() {
            if parts.len() == threads {
                loaded.take(wait(&mut parts)?, reader);
            }
            parts.push_back(scope.spawn(move || read(files, *number, *len, prepare)));
        }
        while !parts.is_empty() {
            loaded.take(wait(&mut parts)?, reader);
        }
        Ok(loaded)
    })
}

type Handle<'a> = thread::ScopedJoinHandle<'a, Result<Part, EngineError>>;

/// The oldest of those that are being read.
fn wait(parts: &mut VecDeque<Handle<'_>>) -> Result<Part, EngineError> {
    let oldest = parts.pop_front().expect("something is being read");
    oldest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn read(files: &Files, number: u32, len: u64, prepare: Prepare) -> Result<Part, EngineError> {
    let bytes = files.read_whole(number, len)?;
    let (mut seen, mut met) = (Vec::new(), Vec::new());
    walk(number, &bytes, |entry, place| match entry {
        Entry::Record(kind, key, bytes) => {
            seen.push(Seen::Record(key, place));
            met.push(Met { key, kind, bytes });
        }
        Entry::Removed(keys) => seen.push(Seen::Removed(history::removed_keys(keys).collect())),
    })?;
    let prepared = prepare(&met)?;
    Ok(Part { number, seen, prepared })
}
