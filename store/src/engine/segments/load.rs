//! Loading the files of a state, each once, several in parallel, and newest first: so a record's removal or replacement
//! is known before the record is read.

use super::files::{Files, walk};
use super::locations::{LocationMap, Row};
use super::repair::{FileRepair, FindCopy, ReplacedRanges, repair_entries};
use super::{EngineError, Location, QuarantinedRecord, Removal};
use crate::codec::history::{self, FileList, HistoryEntry};
use crate::engine::reader::{LoadCallbacks, LoadedRecord, PrepareVersions, PreparedVersions};
use crate::types::record::RecordKey;
use std::collections::{BTreeMap, VecDeque};
use std::thread;

/// Most loading threads, regardless of the machine: each holds a run of files in memory.
const AT_ONCE: usize = 4;

/// Bytes of files that one thread reads together; a single file may be larger.
const RUN: u64 = 24 << 20;

/// The entries of all files.
#[derive(Default)]
pub(super) struct LoadedFiles {
    rows: Vec<Row>,
    /// Removed records that are still in a file; see `Inner::removed`.
    pub(super) removed: BTreeMap<RecordKey, Removal>,
    /// Records that are removed in older files, each with the file that has the removal.
    gone: BTreeMap<RecordKey, u32>,
    /// Damaged bytes that stand-ins replace.
    pub(super) replaced: ReplacedRanges,
    /// Bytes of dictionaries by file.
    pub(super) dictionaries: BTreeMap<u32, u64>,
    /// Stand-ins with their locations.
    stand_ins: Vec<(RecordKey, Location, QuarantinedRecord)>,
    /// Number of repaired entries.
    pub(super) repaired: u64,
}

/// The entries of some files, in order.
#[derive(Default)]
struct LoadedRun {
    seen: Vec<LoadedEntry>,
    prepared: PreparedVersions,
    repaired: u64,
}

enum LoadedEntry {
    Record(RecordKey, Location),
    Removed(Vec<RecordKey>, u32),
    Dictionary(Location),
    /// The previous record is a stand-in.
    StandIn(RecordKey, Location, QuarantinedRecord),
}

impl LoadedFiles {
    pub(super) fn locations(&mut self) -> LocationMap {
        // Oldest first: if a record is in two places, the newer one is current.
        self.rows.reverse();
        LocationMap::of(std::mem::take(&mut self.rows))
    }

    /// The records that stand-ins replace. Requires the final locations.
    pub(super) fn lost(&mut self, locations: &LocationMap) -> BTreeMap<RecordKey, QuarantinedRecord> {
        let stand_ins = std::mem::take(&mut self.stand_ins).into_iter();
        let wanted = stand_ins.filter(|(key, location, _)| locations.get(*key) == Some(*location));
        wanted.map(|(key, _, lost)| (key, lost)).collect()
    }

    /// Notes a record and returns whether it is live.
    fn index_record(&mut self, key: RecordKey, location: Location) -> bool {
        let gone = self.gone.get(&key);
        match gone {
            None => self.rows.push(Row::new(key, location)),
            Some(marked) => {
                let removal = Removal { record_file: location.file, removal_file: *marked };
                self.removed.entry(key).or_insert(removal);
            }
        }
        gone.is_none()
    }

    fn take(&mut self, part: LoadedRun, reader: &mut LoadCallbacks<'_>) {
        self.repaired += part.repaired;
        let records = part.seen.iter().filter(|seen| matches!(seen, LoadedEntry::Record(..))).count();
        let (mut wanted, mut at) = (vec![true; records], records);
        for seen in part.seen.into_iter().rev() {
            match seen {
                LoadedEntry::Removed(keys, file) => {
                    for key in keys {
                        self.gone.entry(key).or_insert(file);
                    }
                }
                LoadedEntry::Dictionary(Location { file, len, .. }) => {
                    *self.dictionaries.entry(file).or_default() += u64::from(len);
                }
                LoadedEntry::Record(key, location) => {
                    at -= 1;
                    wanted[at] = self.index_record(key, location);
                }
                LoadedEntry::StandIn(key, location, lost) => {
                    self.replaced.insert((lost.location.file, lost.location.offset), lost.location.len);
                    self.stand_ins.push((key, location, lost));
                }
            }
        }
        (reader.take)(part.prepared, &|at| wanted[at as usize]);
    }
}

/// Reads all files of a list and repairs damaged entries; `find` finds copies in the log.
pub(super) fn load(
    files: &Files,
    list: &FileList,
    find: FindCopy<'_>,
    reader: &mut LoadCallbacks<'_>,
) -> Result<LoadedFiles, EngineError> {
    let mut loaded = LoadedFiles::default();
    let prepare = reader.prepare;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
    let runs = runs(&list.files);
    if threads == 1 || runs.len() == 1 {
        for run in runs {
            loaded.take_run(files, run, find, read(files, run, prepare), reader)?;
        }
        return Ok(loaded);
    }
    thread::scope(|scope| {
        let mut parts = VecDeque::new();
        for run in runs {
            if parts.len() == threads {
                let (run, read) = wait(&mut parts);
                loaded.take_run(files, run, find, read, reader)?;
            }
            let builder = thread::Builder::new().name("kstore-load".to_owned());
            match builder.spawn_scoped(scope, move || read(files, run, prepare)) {
                Ok(handle) => parts.push_back((run, handle)),
                // Thread creation failed: continue without more threads.
                Err(_) => {
                    while !parts.is_empty() {
                        let (run, read) = wait(&mut parts);
                        loaded.take_run(files, run, find, read, reader)?;
                    }
                    loaded.take_run(files, run, find, read(files, run, prepare), reader)?;
                }
            }
        }
        while !parts.is_empty() {
            let (run, read) = wait(&mut parts);
            loaded.take_run(files, run, find, read, reader)?;
        }
        Ok(loaded)
    })
}

impl LoadedFiles {
    /// Takes over what was read of a run. If the read found damage, reads the run again file by file, newest first, so
    /// that the stand-ins of newer files are known, and repairs it.
    fn take_run(
        &mut self,
        files: &Files,
        run: &[(u32, u64)],
        find: FindCopy<'_>,
        read: Result<LoadedRun, EngineError>,
        reader: &mut LoadCallbacks<'_>,
    ) -> Result<(), EngineError> {
        match read {
            Ok(part) => self.take(part, reader),
            Err(EngineError::Corrupt(_)) => {
                for (number, len) in run.iter().rev() {
                    let part = read_repairing(files, *number, *len, find, &self.replaced, reader.prepare)?;
                    self.take(part, reader);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Splits the files into runs that are read together, newest first. A run is large enough that its records enter the
/// index in long sorted sequences, and small enough to be held in memory.
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

type Handle<'a> = thread::ScopedJoinHandle<'a, Result<LoadedRun, EngineError>>;

type Run<'a> = &'a [(u32, u64)];

/// Waits for the oldest run that is being read.
fn wait<'a>(parts: &mut VecDeque<(Run<'a>, Handle<'_>)>) -> (Run<'a>, Result<LoadedRun, EngineError>) {
    let (run, oldest) = parts.pop_front().expect("something is being read");
    (run, oldest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn read(files: &Files, run: &[(u32, u64)], prepare: PrepareVersions) -> Result<LoadedRun, EngineError> {
    let bytes = run.iter().map(|(number, len)| Ok((*number, files.read_whole(*number, *len)?)));
    let bytes = bytes.collect::<Result<Vec<_>, EngineError>>()?;
    let bytes = bytes.iter().map(|(number, bytes)| (*number, &bytes[..]));
    part(bytes, &BTreeMap::new(), prepare)
}

/// Reads one file, repairs its entries and writes the repaired bytes back in place.
fn read_repairing(
    files: &Files,
    number: u32,
    len: u64,
    find: FindCopy<'_>,
    replaced: &ReplacedRanges,
    prepare: PrepareVersions,
) -> Result<LoadedRun, EngineError> {
    let mut bytes = files.read_whole(number, len)?;
    let FileRepair { written, passed } = repair_entries(number, &mut bytes, find, replaced)?;
    let part = part([(number, &bytes[..])].into_iter(), &passed, prepare)?;
    let file = files.file(number);
    for location in &written {
        let from = location.offset as usize;
        // The same bytes at the same offset, so every token that names the file stays valid.
        match file.write_at(from as u64, &bytes[from..from + location.len as usize]) {
            Ok(()) => tracing::warn!(
                file = %files.path(number).display(), offset = location.offset, "repaired damage in an engine file"
            ),
            Err(error) => tracing::warn!(
                %error, file = %files.path(number).display(), offset = location.offset,
                "cannot write the repair of an engine file; it is repaired in memory only"
            ),
        }
    }
    if !written.is_empty()
        && let Err(error) = file.sync()
    {
        tracing::warn!(%error, file = %files.path(number).display(), "the repair of an engine file may not be durable");
    }
    Ok(LoadedRun { repaired: written.len() as u64, ..part })
}

fn part<'a>(
    files: impl Iterator<Item = (u32, &'a [u8])>,
    passed: &BTreeMap<usize, usize>,
    prepare: PrepareVersions,
) -> Result<LoadedRun, EngineError> {
    let (mut seen, mut loaded) = (Vec::new(), Vec::new());
    for (number, bytes) in files {
        walk(number, bytes, passed, |entry, location| match entry {
            HistoryEntry::Record(kind, key, bytes) => {
                seen.push(LoadedEntry::Record(key, location));
                loaded.push(LoadedRecord { key, kind, bytes });
            }
            HistoryEntry::Removed(keys) => {
                seen.push(LoadedEntry::Removed(history::removed_keys(keys).collect(), location.file));
            }
            // Packed records are superseded by others that the engine has: their values are not needed.
            HistoryEntry::Packed(packed) => {
                seen.push(LoadedEntry::Record(packed.key, location));
                loaded.push(LoadedRecord { key: packed.key, kind: packed.kind, bytes: packed.prefix });
            }
            HistoryEntry::Dictionary(_) => seen.push(LoadedEntry::Dictionary(location)),
            HistoryEntry::StandIn(stand_in) => {
                seen.push(LoadedEntry::Record(stand_in.key, location));
                loaded.push(LoadedRecord { key: stand_in.key, kind: stand_in.kind, bytes: stand_in.name });
                seen.push(LoadedEntry::StandIn(stand_in.key, location, QuarantinedRecord::of(&stand_in)));
            }
        })?;
    }
    let prepared = prepare(&loaded)?;
    Ok(LoadedRun { seen, prepared, repaired: 0 })
}
