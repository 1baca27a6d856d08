//! Reading the files of a state, each once and several at a time, newest first: so that whatever became of a record later is
//! known before the record is met.

use std::collections::{BTreeMap, VecDeque};
use std::thread;

use super::files::{Files, walk};
use super::places::{Places, Row};
use super::{EngineError, Place, Removal};
use crate::codec::history::{self, Entry, FileList};
use crate::commit::RecordKey;
use crate::engine::reader::{Met, Prepare, Prepared, Reader};

/// Threads at most, whatever the machine has: each holds a run of files.
const AT_ONCE: usize = 4;

/// Bytes of files that one thread reads together; a single file may be larger.
const RUN: u64 = 24 << 20;

/// What stands in the files.
#[derive(Default)]
pub(super) struct Loaded {
    rows: Vec<Row>,
    /// See `Inner::removed`.
    pub(super) removed: BTreeMap<RecordKey, Removal>,
    /// Records that are no longer wanted where they will be met from now on, with the file that says so.
    gone: BTreeMap<RecordKey, u32>,
}

/// What stands in some files, in order.
struct Part {
    seen: Vec<Seen>,
    prepared: Prepared,
}

enum Seen {
    Record(RecordKey, Place),
    Removed(Vec<RecordKey>, u32),
}

impl Loaded {
    pub(super) fn places(&mut self) -> Places {
        // Oldest first: of a record that stands in two places the newer one counts.
        self.rows.reverse();
        Places::of(std::mem::take(&mut self.rows))
    }

    /// Says whether the record is wanted.
    fn meet(&mut self, key: RecordKey, place: Place) -> bool {
        let gone = self.gone.get(&key);
        match gone {
            None => self.rows.push(Row::new(key, place)),
            Some(marked) => {
                let removal = Removal { stands: place.file, marked: *marked };
                self.removed.entry(key).or_insert(removal);
            }
        }
        gone.is_none()
    }

    fn take(&mut self, part: Part, reader: &mut Reader<'_>) {
        let records = part.seen.iter().filter(|seen| matches!(seen, Seen::Record(..))).count();
        let (mut wanted, mut at) = (vec![true; records], records);
        for seen in part.seen.into_iter().rev() {
            match seen {
                Seen::Removed(keys, file) => {
                    for key in keys {
                        self.gone.entry(key).or_insert(file);
                    }
                }
                Seen::Record(key, place) => {
                    at -= 1;
                    wanted[at] = self.meet(key, place);
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
    let threads = thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
    let runs = runs(&list.files);
    if threads == 1 || runs.len() == 1 {
        for run in runs {
            loaded.take(read(files, run, prepare)?, reader);
        }
        return Ok(loaded);
    }
    thread::scope(|scope| {
        let mut parts = VecDeque::new();
        for run in runs {
            if parts.len() == threads {
                loaded.take(wait(&mut parts)?, reader);
            }
            let builder = thread::Builder::new().name("kstore-load".to_owned());
            match builder.spawn_scoped(scope, move || read(files, run, prepare)) {
                Ok(handle) => parts.push_back(handle),
                // No more threads: then without.
                Err(_) => {
                    while !parts.is_empty() {
                        loaded.take(wait(&mut parts)?, reader);
                    }
                    loaded.take(read(files, run, prepare)?, reader);
                }
            }
        }
        while !parts.is_empty() {
            loaded.take(wait(&mut parts)?, reader);
        }
        Ok(loaded)
    })
}

/// Neighbouring files that are read together, newest first: enough of them that what they hold goes into the index in long
/// sorted runs, few enough to be held whole.
fn runs(mut files: &[(u32, u64)]) -> Vec<&[(u32, u64)]> {
    let mut runs = Vec::new();
    while !files.is_empty() {
        let mut bytes = 0;
        let few = files.iter().rev().take_while(|(_, len)| {
            bytes += len;
            bytes <= RUN
        });
        let count = few.count().max(1);
        let (older, run) = files.split_at(files.len() - count);
        runs.push(run);
        files = older;
    }
    runs
}

type Handle<'a> = thread::ScopedJoinHandle<'a, Result<Part, EngineError>>;

/// The oldest of those that are being read.
fn wait(parts: &mut VecDeque<Handle<'_>>) -> Result<Part, EngineError> {
    let oldest = parts.pop_front().expect("something is being read");
    oldest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn read(files: &Files, run: &[(u32, u64)], prepare: Prepare) -> Result<Part, EngineError> {
    let bytes = run.iter().map(|(number, len)| files.read_whole(*number, *len));
    let bytes = bytes.collect::<Result<Vec<_>, _>>()?;
    let (mut seen, mut met) = (Vec::new(), Vec::new());
    for ((number, _), bytes) in run.iter().zip(&bytes) {
        walk(*number, bytes, |entry, place| match entry {
            Entry::Record(kind, key, bytes) => {
                seen.push(Seen::Record(key, place));
                met.push(Met { key, kind, bytes });
            }
            Entry::Removed(keys) => {
                seen.push(Seen::Removed(history::removed_keys(keys).collect(), place.file));
            }
        })?;
    }
    let prepared = prepare(&met)?;
    Ok(Part { seen, prepared })
}
