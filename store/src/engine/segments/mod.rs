//! The segment engine: history in append-only files. Each record has its own checksum, and a map in memory has the
//! location of each record. Defragmentation copies live records out of files that contain few of them, and superseded ones
//! in packed form out of files that consist of them (`pack`).
//!
//! A file never changes within the length that a token names, and is never appended to after a restart. So a token
//! describes a state exactly, removals included, as long as its files exist. They exist until two newer tokens are in
//! the manifest.

mod defragment;
mod dictionaries;
mod files;
mod load;
mod locations;
mod pack;
mod repair;
mod scrub;

use self::defragment::DefragmentStep;
use self::dictionaries::Dictionaries;
use self::files::{Files, Tail};
pub(crate) use self::files::{name as file_name, number as file_number, remove_unnamed, set_aside};
use self::locations::LocationMap;
use self::pack::Packing;
pub(crate) use self::repair::FindCopy;
use super::reader::LoadCallbacks;
use super::{
    DefragmentOutcome, Engine, EngineError, EngineSize, FindNewest, LostRecord, Repairable, Scan,
    ScrubOutcome,
};
use crate::codec::history::{self, FileList, HistoryEntry, RECORD_HEADER, StandIn};
use crate::disk::{Disk, File, read_full};
use crate::types::record::{Record, RecordKey};
use crate::{Limits, Revision};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An engine that stores history in append-only segment files.
pub(crate) struct SegmentsEngine {
    inner: RwLock<Inner>,
    /// The file being written. Only the feeding thread uses it; locked before `inner`.
    tail: Mutex<Tail>,
    scrub: Mutex<scrub::Cursor>,
    /// Dictionaries of packed records that were read.
    dictionaries: Dictionaries,
    /// Finds superseded versions. Until it is set, nothing is packed.
    newest: OnceLock<Box<FindNewest>>,
    /// Number of entries that were repaired when the engine was opened.
    repaired: u64,
}

struct Inner {
    locations: LocationMap,
    /// Removed records that are still in a file. Their removals must be kept as long as they are.
    removed: BTreeMap<RecordKey, Removal>,
    files: Files,
    /// Records that stand-ins replace.
    lost: BTreeMap<RecordKey, QuarantinedRecord>,
    /// Files with damaged entries, which defragmentation copies first.
    damaged: BTreeSet<u32>,
    /// Files that cannot be copied, because a record in them is damaged or the disk cannot read them. They are tried
    /// again after one of their records is removed, or after the scrub finds them intact.
    blocked: BTreeSet<u32>,
    /// When files are looked at for superseded records.
    packing: Packing,
}

/// The damaged bytes and the name of a record that a stand-in replaces.
#[derive(Clone, Debug)]
struct QuarantinedRecord {
    /// Location of the damaged bytes.
    location: Location,
    /// The record's name; see [`StandIn::name`].
    name: Bytes,
}

impl QuarantinedRecord {
    fn of(stand_in: &StandIn<'_>) -> Self {
        let StandIn { file, offset, len, name, .. } = *stand_in;
        Self { location: Location { file, offset, len }, name: Bytes::copy_from_slice(name) }
    }
}

/// A removed record that is still in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Removal {
    /// The file with the record.
    record_file: u32,
    /// The file with its removal.
    removal_file: u32,
}

/// The location of a record: file, offset and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Location {
    file: u32,
    offset: u32,
    /// Length in bytes, including the header.
    len: u32,
}

/// Most bytes of adjacent records that are read at once.
const RUN: usize = 1 << 20;

impl SegmentsEngine {
    /// Opens the state that `token` names; without a token, a new engine. `dir` must exist. Passes all records to
    /// `reader`. Repairs damage as far as possible, with the copies that `find` finds.
    pub(crate) fn open_reading(
        disk: Arc<dyn Disk>,
        dir: &Path,
        token: Option<&[u8]>,
        limits: &Limits,
        find: FindCopy<'_>,
        reader: &mut LoadCallbacks<'_>,
    ) -> Result<Self, EngineError> {
        let list = match token {
            Some(token) => {
                history::decode_list(token).map_err(|error| EngineError::Corrupt(error.to_string()))?
            }
            None => FileList::default(),
        };
        let (mut files, next) = Files::open(disk, dir, &list)?;
        let mut loaded = load::load(&files, &list, find, reader)?;
        let locations = loaded.locations();
        let lost = loaded.lost(&locations);
        let damaged: BTreeSet<_> = loaded.replaced.keys().map(|(file, _)| *file).collect();
        // A number in a stand-in must not be given to another file.
        let next = damaged.last().map_or(next, |last| next.max(last + 1));
        let damaged = damaged.into_iter().filter(|file| files.is_open(*file)).collect();
        locations.iter().for_each(|row| files.grow_live(row.location()));
        loaded.removed.values().for_each(|removal| files.add_removal_bytes(removal.removal_file));
        loaded.dictionaries.iter().for_each(|(file, bytes)| files.add_dictionary_bytes(*file, *bytes));
        let (removed, blocked, packing) = (loaded.removed, BTreeSet::new(), Packing::default());
        let inner = Inner { locations, removed, files, lost, damaged, blocked, packing };
        Ok(Self {
            inner: RwLock::new(inner),
            tail: Mutex::new(Tail::new(next, limits.engine_file_bytes)),
            scrub: Mutex::default(),
            dictionaries: Dictionaries::default(),
            newest: OnceLock::new(),
            repaired: loaded.repaired,
        })
    }

    /// Opens the engine without reading its records, for tests.
    #[cfg(test)]
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        token: Option<&[u8]>,
        limits: &Limits,
    ) -> Result<Self, EngineError> {
        let mut reader = LoadCallbacks { prepare: |_| Ok(Vec::new()), take: &mut |_, _| () };
        Self::open_reading(disk, dir, token, limits, &|_| None, &mut reader)
    }

    /// The location of a record, and its open file.
    fn find(&self, key: RecordKey) -> Option<(Location, Arc<dyn File>)> {
        let inner = self.inner.read();
        let location = inner.locations.get(key)?;
        Some((location, inner.files.file(location.file)))
    }

    /// Appends an entry to the file being written, which must not be `not_in`.
    fn append(
        &self,
        tail: &mut Tail,
        not_in: u32,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Location, EngineError> {
        tail.leave(not_in, &self.inner)?;
        let location = tail.append(&self.inner, encode)?;
        tail.flush(&self.inner)?;
        Ok(location)
    }
}

impl Inner {
    fn insert(&mut self, key: RecordKey, location: Location) {
        self.drop_removal(key);
        self.files.grow_live(location);
        if let Some(old) = self.locations.insert(key, location) {
            self.files.shrink_live(old);
        }
    }

    /// Marks a record as removed; the file `marked` has the removal.
    fn mark_removed(&mut self, key: RecordKey, marked: u32) {
        let Some(location) = self.locations.remove(key) else { return };
        self.files.shrink_live(location);
        self.lost.remove(&key);
        self.blocked.remove(&location.file);
        self.keep_removal(key, Removal { record_file: location.file, removal_file: marked });
    }

    /// Keeps a removal.
    fn keep_removal(&mut self, key: RecordKey, removal: Removal) {
        self.files.add_removal_bytes(removal.removal_file);
        if let Some(old) = self.removed.insert(key, removal) {
            self.files.sub_removal_bytes(old.removal_file);
        }
    }

    /// Drops a removal that is no longer needed.
    fn drop_removal(&mut self, key: RecordKey) {
        if let Some(removal) = self.removed.remove(&key) {
            self.files.sub_removal_bytes(removal.removal_file);
        }
    }
}

impl Engine for SegmentsEngine {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        let mut tail = self.tail.lock();
        let known = {
            let inner = self.inner.read();
            records.iter().filter(|record| inner.locations.get(record.key).is_none()).collect::<Vec<_>>()
        };
        let mut locations = Vec::with_capacity(known.len());
        for record in &known {
            locations.push(
                tail.append(&self.inner, |out| history::put(out, record.kind, record.key, &record.bytes))?,
            );
        }
        tail.flush(&self.inner)?;
        let mut inner = self.inner.write();
        for (record, location) in known.into_iter().zip(locations) {
            inner.packing.written(location.len);
            inner.insert(record.key, location);
        }
        Ok(())
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        let mut tail = self.tail.lock();
        let wanted: Vec<_> = {
            let inner = self.inner.read();
            keys.iter().filter(|key| inner.locations.get(**key).is_some()).copied().collect()
        };
        if !wanted.is_empty() {
            let mark = tail.append(&self.inner, |out| history::put_removed(out, &wanted))?;
            tail.flush(&self.inner)?;
            let mut inner = self.inner.write();
            wanted.iter().for_each(|key| inner.mark_removed(*key, mark.file));
        }
        Ok(())
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        let Some((location, file)) = self.find(key) else { return Ok(None) };
        self.read_record(&*file, key, location).map(|record| Some(record.bytes))
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        self.scan_without(from, to, budget, &BTreeSet::new())
    }

    fn scan_without(
        &self,
        from: Revision,
        to: Revision,
        budget: usize,
        left_out: &BTreeSet<RecordKey>,
    ) -> Result<Scan, EngineError> {
        let mut scan = Scan { records: Vec::new(), next: to.next() };
        let mut wanted = Vec::new();
        {
            let inner = self.inner.read();
            let mut bytes = 0;
            for row in inner.locations.range(RecordKey::new(from, 0)..=RecordKey::note(to)) {
                let (key, location) = (row.key(), row.location());
                if left_out.contains(&key) {
                    continue;
                }
                let same =
                    wanted.last().is_some_and(|(last, _, _): &(RecordKey, _, _)| last.main == key.main);
                if bytes >= budget && !same {
                    scan.next = key.main;
                    break;
                }
                bytes += location.len as usize;
                wanted.push((key, location, inner.files.file(location.file)));
            }
        }
        scan.records.reserve(wanted.len());
        let adjacent =
            |a: &RecordRead, b: &RecordRead| a.1.file == b.1.file && a.1.offset + a.1.len == b.1.offset;
        for run in wanted.chunk_by(adjacent) {
            self.read_run(run, &mut scan.records)?;
        }
        Ok(scan)
    }

    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError> {
        let inner = self.inner.read();
        let keys = inner.locations.range(..RecordKey::new(below, 0)).map(|row| row.key());
        Ok(keys.filter(|key| key.is_note()).map(|key| key.main).collect())
    }

    fn seal(&self) -> Result<Bytes, EngineError> {
        let mut tail = self.tail.lock();
        tail.flush(&self.inner)?;
        self.inner.write().files.sync()?;
        let list = self.inner.read().files.list();
        Ok(history::encode_list(&list).into())
    }

    fn sealed(&self) -> Result<(), EngineError> {
        let _tail = self.tail.lock();
        self.inner.write().files.remove_retired()
    }

    fn defragment(&self) -> Result<DefragmentOutcome, EngineError> {
        let mut tail = self.tail.lock();
        Ok(match defragment::step(&self.inner, &mut tail)? {
            DefragmentStep::Idle => DefragmentOutcome::Idle,
            DefragmentStep::Copied { more: true } | DefragmentStep::Unreadable => DefragmentOutcome::More,
            DefragmentStep::Copied { more: false } | DefragmentStep::LeftAlone => DefragmentOutcome::Idle,
            DefragmentStep::Damaged(keys) => DefragmentOutcome::Damaged(keys),
        })
    }

    fn pack(&self) -> Result<u64, EngineError> {
        match self.newest.get() {
            Some(newest) => defragment::pack_step(&self.inner, &mut self.tail.lock(), &**newest),
            None => Ok(0),
        }
    }

    fn scrub(&self, bytes: u64) -> Result<ScrubOutcome, EngineError> {
        scrub::step(&self.inner, &mut self.tail.lock(), &mut self.scrub.lock(), bytes)
    }

    fn retired(&self) -> u64 {
        self.inner.read().files.retired()
    }

    fn size(&self) -> EngineSize {
        self.inner.read().files.size()
    }

    fn close(&self) {}
}

impl Repairable for SegmentsEngine {
    fn repair(&self, record: &Record) -> Result<(), EngineError> {
        let Some((location, file)) = self.find(record.key) else { return Ok(()) };
        let mut bytes = Vec::with_capacity(location.len as usize);
        history::put(&mut bytes, record.kind, record.key, &record.bytes);
        if bytes.len() != location.len as usize {
            return Err(EngineError::Damaged(record.key));
        }
        // The same bytes at the same offset, so a token that names the file stays valid.
        file.write_at(u64::from(location.offset), &bytes)?;
        Ok(file.sync()?)
    }

    fn correct(&self, key: RecordKey) -> Result<Option<Record>, EngineError> {
        let Some((location, file)) = self.find(key) else { return Ok(None) };
        let mut bytes = vec![0; location.len as usize];
        let read = read_full(&*file, u64::from(location.offset), &mut bytes)?;
        // The first read may have failed although the bytes are intact.
        if let Some(record) = self.decode(&bytes[..read], key, (&*file, location))? {
            return Ok(Some(record));
        }
        match history::correct(&bytes[..read]).filter(|corrected| corrected.len() == location.len as usize) {
            Some(corrected) => self.decode(&corrected, key, (&*file, location)),
            None => Ok(None),
        }
    }

    fn rewrite(&self, record: &Record) -> Result<(), EngineError> {
        let mut tail = self.tail.lock();
        let Some((old, _)) = self.find(record.key) else { return Ok(()) };
        let location = self.append(&mut tail, old.file, |out| {
            history::put(out, record.kind, record.key, &record.bytes);
        })?;
        let mut inner = self.inner.write();
        inner.insert(record.key, location);
        inner.damaged.insert(old.file);
        Ok(())
    }

    fn quarantine(&self, record: &Record) -> Result<bool, EngineError> {
        let mut tail = self.tail.lock();
        let known = self.inner.read().lost.contains_key(&record.key);
        let Some((old, _)) = self.find(record.key).filter(|_| !known) else { return Ok(true) };
        let Location { file, offset, len } = old;
        let stand_in = StandIn { kind: record.kind, key: record.key, file, offset, len, name: &record.bytes };
        let location = self.append(&mut tail, file, |out| history::put_stand_in(out, &stand_in))?;
        let mut inner = self.inner.write();
        inner.insert(record.key, location);
        inner.lost.insert(record.key, QuarantinedRecord::of(&stand_in));
        inner.damaged.insert(file);
        Ok(true)
    }

    fn skip_damaged(&self, key: RecordKey) {
        let mut inner = self.inner.write();
        if let Some(location) = inner.locations.get(key) {
            inner.blocked.insert(location.file);
        }
    }

    fn quarantined(&self) -> Vec<LostRecord> {
        let inner = self.inner.read();
        let lost = inner.lost.iter().map(|(key, lost)| LostRecord {
            key: *key,
            name: lost.name.clone(),
            file: inner.files.path(lost.location.file),
            offset: u64::from(lost.location.offset),
        });
        lost.collect()
    }

    fn locate(&self, key: RecordKey) -> Option<(PathBuf, u64)> {
        let inner = self.inner.read();
        let location = inner.lost.get(&key).map(|lost| lost.location).or_else(|| inner.locations.get(key))?;
        Some((inner.files.path(location.file), u64::from(location.offset)))
    }

    fn repaired(&self) -> u64 {
        self.repaired
    }

    fn set_newest(&self, newest: Box<FindNewest>) {
        assert!(self.newest.set(newest).is_ok(), "a store has one index");
    }
}

type RecordRead = (RecordKey, Location, Arc<dyn File>);

impl SegmentsEngine {
    /// Reads records that are adjacent in their file.
    fn read_run(&self, run: &[RecordRead], records: &mut Vec<Record>) -> Result<(), EngineError> {
        let mut rest = run;
        while let Some((_, first, file)) = rest.first() {
            let mut len = 0;
            let count = rest.iter().take_while(|(_, location, _)| {
                let fits = len == 0 || len + location.len as usize <= RUN;
                len += if fits { location.len as usize } else { 0 };
                fits
            });
            let (now, later) = rest.split_at(count.count());
            let mut bytes = vec![0; now.iter().map(|(_, location, _)| location.len as usize).sum()];
            let read = read_full(&**file, u64::from(first.offset), &mut bytes)?;
            bytes.truncate(read);
            for (key, location, _) in now {
                let at = (location.offset - first.offset) as usize;
                let own = bytes.get(at..at + location.len as usize).ok_or(EngineError::Damaged(*key))?;
                let record = self.decode(own, *key, (&**file, *location))?;
                records.push(record.ok_or(EngineError::Damaged(*key))?);
            }
            rest = later;
        }
        Ok(())
    }

    fn read_record(
        &self,
        file: &dyn File,
        key: RecordKey,
        location: Location,
    ) -> Result<Record, EngineError> {
        let mut bytes = vec![0; location.len as usize];
        let read = read_full(file, u64::from(location.offset), &mut bytes)?;
        self.decode(&bytes[..read], key, (file, location))?.ok_or(EngineError::Damaged(key))
    }

    /// The record of an entry, which is at a location of its file. None if the bytes are not intact, or have another key. It is a copy, so
    /// that it does not keep its neighbours in memory.
    fn decode(
        &self,
        bytes: &[u8],
        expected: RecordKey,
        (file, location): (&dyn File, Location),
    ) -> Result<Option<Record>, EngineError> {
        Ok(match history::read(bytes) {
            Some((HistoryEntry::Record(kind, key, body), _)) if key == expected => {
                Some(Record { key, kind, bytes: Bytes::copy_from_slice(body) })
            }
            Some((HistoryEntry::Packed(entry), _)) if entry.key == expected => {
                self.dictionaries.unpack(file, location, &entry)?
            }
            _ => None,
        })
    }
}

/// Length of a record's content, without its header.
fn body_len(location: Location) -> u64 {
    u64::from(location.len) - RECORD_HEADER as u64
}
