//! Reading an engine's files without the engine, for damaged directories: where the engine would refuse to open, intact
//! records are found all the same.

use super::data_dir;
use super::survey::{Problems, RecordMap};
use crate::codec::history::{self, FILE_HEADER, HistoryEntry, PACKED_HEADER, PackedRecord, RECORD_HEADER};
use crate::codec::packed::{ENTRY_BYTES, FileUnpacker, Unpacker, dictionary_places};
use crate::disk::{Disk, File, read_all, read_full};
use crate::engine::segments::{file_name, file_number};
use crate::engine::sled::{self as sled_engine, SEAL_KEY};
use crate::types::kv_encoding;
use crate::types::record::{Record, RecordKey};
use crate::{EngineKind, Revision};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The records found in an engine's files.
#[derive(Default)]
pub(super) struct EngineRecords {
    /// The records of the state that the manifest names.
    pub(super) current: FoundRecords,
    /// Records outside that state: in files that the manifest does not name, and behind the lengths that it names. They
    /// replace lost ones.
    pub(super) spare: RecordMap<RecordSource>,
    /// Total size of the files in bytes.
    pub(super) bytes: u64,
    files: Vec<Arc<dyn File>>,
    sled: Option<sled::Db>,
}

/// Records of some files, and the damage between them.
#[derive(Default)]
pub(super) struct FoundRecords {
    pub(super) records: RecordMap<RecordSource>,
    /// Damaged records whose revisions can be read, with their keys as far as the damaged bytes show them.
    pub(super) damaged: BTreeMap<RecordKey, Option<Bytes>>,
    /// Records in which one flipped bit was corrected. An intact copy is preferred to the correction.
    pub(super) corrected: BTreeSet<RecordKey>,
    /// Number of places that are damaged or missing and do not show which records they had.
    pub(super) unknown: u64,
}

/// Location of a found record.
#[derive(Clone, Debug)]
pub(super) enum RecordSource {
    /// In a file: its index, the offset, and the length with its header.
    File(usize, u64, u32),
    /// In the sled database.
    Sled,
    /// In memory.
    Memory(Record),
}

impl EngineRecords {
    /// Reads the record and checks it again.
    pub(super) fn read(&self, key: RecordKey, located: &RecordSource) -> io::Result<Option<Record>> {
        match located {
            RecordSource::Memory(record) => Ok(Some(record.clone())),
            RecordSource::Sled => {
                let Some(db) = &self.sled else { return Ok(None) };
                let value = db.get(sled_engine::encode_key(key)).map_err(io::Error::other)?;
                Ok(value.and_then(|value| sled_engine::decode_value(key, &value).ok()))
            }
            RecordSource::File(file, offset, len) => {
                let mut bytes = vec![0; *len as usize];
                let read = read_full(&*self.files[*file], *offset, &mut bytes)?;
                Ok(match history::read(&bytes[..read]) {
                    Some((HistoryEntry::Record(kind, found, body), _)) if found == key => {
                        Some(Record { key, kind, bytes: Bytes::copy_from_slice(body) })
                    }
                    Some((HistoryEntry::Packed(entry), _)) if entry.key == key => {
                        unpack(&*self.files[*file], &entry, *offset)?
                    }
                    Some(_) | None => None,
                })
            }
        }
    }
}

/// The record of a packed entry at an offset of a file.
fn unpack(file: &dyn File, entry: &PackedRecord<'_>, offset: u64) -> io::Result<Option<Record>> {
    let (mut unpacker, mut bytes) = (Unpacker::default(), vec![0; ENTRY_BYTES]);
    for place in dictionary_places(entry, offset) {
        let read = read_full(file, place, &mut bytes)?;
        let Some((HistoryEntry::Dictionary(deflated), _)) = history::read(&bytes[..read]) else { continue };
        let record = unpacker.dictionary(deflated).and_then(|content| unpacker.record(entry, &content));
        if record.is_some() {
            return Ok(record);
        }
    }
    Ok(None)
}

/// Finds the records of the state that `token` names; without a token, of all files.
pub(super) fn find(
    disk: &dyn Disk,
    dir: &Path,
    kind: EngineKind,
    token: Option<&[u8]>,
    problems: &mut Problems,
) -> io::Result<EngineRecords> {
    match kind {
        EngineKind::Segments if !disk.is_dir(dir) => {
            problems.add(dir, None, "the engine is missing");
            let current = FoundRecords { unknown: 1, ..FoundRecords::default() };
            Ok(EngineRecords { current, ..EngineRecords::default() })
        }
        EngineKind::Segments => find_files(disk, dir, token, problems),
        EngineKind::Sled => Ok(find_sled(&data_dir::sled_dir(dir), problems)),
        EngineKind::Memory => Ok(EngineRecords::default()),
    }
}

fn find_files(
    disk: &dyn Disk,
    dir: &Path,
    token: Option<&[u8]>,
    problems: &mut Problems,
) -> io::Result<EngineRecords> {
    let (mut found, mut spare) = (EngineRecords::default(), FoundRecords::default());
    // Damage outside the current state loses nothing.
    let mut ignored = Problems::default();
    let listed = listed(disk, dir, token, problems)?;
    for (path, len) in &listed {
        let file = match disk.open(path) {
            Ok(file) => file,
            Err(error) => {
                let is_gone = error.kind() == io::ErrorKind::NotFound;
                let what = if is_gone { "the file is missing".to_owned() } else { error.to_string() };
                problems.add(path, None, what);
                found.current.unknown += 1;
                continue;
            }
        };
        let bytes = read_around(path, &*file, problems)?;
        found.bytes += bytes.len() as u64;
        let len = len.map_or(bytes.len(), |len| usize::try_from(len).unwrap_or(usize::MAX));
        if bytes.len() < len {
            problems.add(path, Some(bytes.len() as u64), "the file is cut off");
            found.current.unknown += 1;
        }
        let at = FileAt { path, index: found.files.len() };
        found.files.push(file);
        found.current.walk_file(at, &bytes[..len.min(bytes.len())], problems);
        if len < bytes.len() {
            spare.walk(at, &bytes, len, &mut ignored);
        }
    }
    for path in unlisted(disk, dir, &listed)? {
        let Ok(file) = disk.open(&path) else { continue };
        let bytes = read_around(&path, &*file, &mut ignored)?;
        let at = FileAt { path: &path, index: found.files.len() };
        found.files.push(file);
        spare.walk_file(at, &bytes, &mut ignored);
    }
    found.spare = spare.records;
    Ok(found)
}

/// Reads a file and reports the parts that the disk cannot read; they are zeros in the result.
pub(super) fn read_around(path: &Path, file: &dyn File, problems: &mut Problems) -> io::Result<Vec<u8>> {
    /// Bytes that one unreadable record costs: a page.
    const PIECE: usize = 4096;
    if let Ok(bytes) = read_all(file) {
        return Ok(bytes);
    }
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    for (at, piece) in (0_u64..).step_by(PIECE).zip(bytes.chunks_mut(PIECE)) {
        if let Err(error) = read_full(file, at, piece) {
            piece.fill(0);
            problems.add(path, Some(at), error.to_string());
        }
    }
    Ok(bytes)
}

/// The engine's files that are not in the list.
fn unlisted(disk: &dyn Disk, dir: &Path, listed: &[(PathBuf, Option<u64>)]) -> io::Result<Vec<PathBuf>> {
    let files = disk.list(dir)?.into_iter().filter(|name| file_number(name).is_some());
    let paths = files.map(|name| dir.join(name));
    Ok(paths.filter(|path| listed.iter().all(|(known, _)| known != path)).collect())
}

/// A file and its index among the open ones.
#[derive(Clone, Copy)]
struct FileAt<'a> {
    path: &'a Path,
    index: usize,
}

/// The files to read, ascending, with the lengths in the token.
fn listed(
    disk: &dyn Disk,
    dir: &Path,
    token: Option<&[u8]>,
    problems: &mut Problems,
) -> io::Result<Vec<(PathBuf, Option<u64>)>> {
    match token.map(history::decode_list) {
        Some(Ok(list)) => {
            let files = list.files.iter().map(|(number, len)| (dir.join(file_name(*number)), Some(*len)));
            return Ok(files.collect());
        }
        Some(Err(error)) => problems.add(dir, None, format!("the list of files: {error}")),
        None => {}
    }
    let mut numbers: Vec<_> = disk.list(dir)?.iter().filter_map(|name| file_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| (dir.join(file_name(number)), None)).collect())
}

impl FoundRecords {
    /// Reads the records of one file.
    fn walk_file(&mut self, at: FileAt<'_>, bytes: &[u8], problems: &mut Problems) {
        if !bytes.starts_with(FILE_HEADER) {
            problems.add(at.path, Some(0), "it does not start like an engine file");
        }
        self.walk(at, bytes, FILE_HEADER.len().min(bytes.len()), problems);
    }

    /// Reads the records of one file from an offset on.
    fn walk(&mut self, at: FileAt<'_>, bytes: &[u8], mut offset: usize, problems: &mut Problems) {
        let mut unpacker = FileUnpacker::default();
        while offset < bytes.len() {
            if let Some((entry, len)) = history::read(&bytes[offset..]) {
                let source = RecordSource::File(at.index, offset as u64, len as u32);
                match entry {
                    HistoryEntry::Packed(packed) => {
                        let record = unpacker.record(bytes, &packed, offset);
                        self.packed(&packed, record.map(|_| source), at.path, offset, problems);
                    }
                    entry => self.entry(entry, Some(source), at.path, offset, problems),
                }
                offset += len;
            } else if let Some(entry) = history::correct(&bytes[offset..]) {
                problems.add(at.path, Some(offset as u64), "a flipped bit, which can be corrected");
                if let Some((corrected, len)) = history::read(&entry) {
                    match corrected {
                        HistoryEntry::Packed(packed) => {
                            self.corrected.insert(packed.key);
                            let record = unpacker.record(bytes, &packed, offset).map(RecordSource::Memory);
                            self.packed(&packed, record, at.path, offset, problems);
                        }
                        corrected => {
                            if let HistoryEntry::Record(_, key, _) = corrected {
                                self.corrected.insert(key);
                            }
                            self.entry(corrected, None, at.path, offset, problems);
                        }
                    }
                    offset += len;
                }
            } else {
                offset = self.pass_over(at.path, bytes, offset, problems);
            }
        }
    }

    /// Applies one packed record; without a source its dictionary is lost.
    fn packed(
        &mut self,
        packed: &PackedRecord<'_>,
        source: Option<RecordSource>,
        path: &Path,
        offset: usize,
        problems: &mut Problems,
    ) {
        match source {
            Some(source) => {
                self.records.insert(packed.key, source);
                self.damaged.remove(&packed.key);
            }
            None => {
                let what = format!("the dictionary of the record of revision {} is damaged", packed.key.main);
                problems.add(path, Some(offset as u64), what);
                if !self.records.contains_key(&packed.key) {
                    self.damaged.insert(packed.key, key_in(packed.prefix));
                }
            }
        }
    }

    /// Applies one entry that is not packed. Without a source, its record is kept in memory.
    fn entry(
        &mut self,
        entry: HistoryEntry<'_>,
        source: Option<RecordSource>,
        path: &Path,
        offset: usize,
        problems: &mut Problems,
    ) {
        match entry {
            HistoryEntry::Record(kind, key, body) => {
                let kept = || RecordSource::Memory(Record { key, kind, bytes: Bytes::copy_from_slice(body) });
                self.records.insert(key, source.unwrap_or_else(kept));
                self.damaged.remove(&key);
            }
            HistoryEntry::StandIn(stand_in) => {
                self.records.remove(&stand_in.key);
                self.damaged.insert(stand_in.key, key_in(stand_in.name));
                let what = format!("the record of revision {} is lost to damage", stand_in.key.main);
                problems.add(path, Some(offset as u64), what);
            }
            HistoryEntry::Removed(keys) => history::removed_keys(keys).for_each(|key| {
                self.records.remove(&key);
                self.damaged.remove(&key);
            }),
            HistoryEntry::Packed(_) | HistoryEntry::Dictionary(_) => {}
        }
    }

    /// Reports the damage at `offset`, and returns the offset of the next intact entry.
    fn pass_over(&mut self, path: &Path, bytes: &[u8], offset: usize, problems: &mut Problems) -> usize {
        let packed = history::peek_packed(&bytes[offset..]);
        let claim = packed.or_else(|| history::peek(&bytes[offset..]));
        let header = if packed.is_some() { PACKED_HEADER } else { RECORD_HEADER };
        let checks = |at: &usize| *at == bytes.len() || history::read(&bytes[*at..]).is_some();
        // If only the content is damaged, the header has the offset of the next entry.
        let claimed = claim.map(|(_, len)| offset + len).filter(|at| *at <= bytes.len() && checks(at));
        let next = claimed.or_else(|| (offset + 1..bytes.len()).find(checks)).unwrap_or(bytes.len());
        let named = claim.filter(|_| claimed.is_some()).map(|(key, _)| key);
        let body = &bytes[(offset + header).min(next)..next];
        match named {
            // Of a version that names another revision, header or content is wrong.
            Some(key) if key.is_note() || names_revision(body, key.main) => {
                problems.add(
                    path,
                    Some(offset as u64),
                    format!("the record of revision {} is damaged", key.main),
                );
                if !self.records.contains_key(&key) {
                    self.damaged.insert(key, key_in(body));
                }
            }
            Some(_) | None => {
                problems.add(path, Some(offset as u64), format!("{} bytes are damaged", next - offset));
                self.unknown += 1;
            }
        }
        next
    }
}

/// Whether a damaged version is, as far as it can be read, one of that revision.
fn names_revision(body: &[u8], main: Revision) -> bool {
    kv_encoding::decode(body).is_none_or(|fields| fields.stamp.mod_revision == main)
}

/// The key in an encoded version, which may be damaged behind it.
fn key_in(version: &[u8]) -> Option<Bytes> {
    version.get(kv_encoding::key(version)).filter(|key| !key.is_empty()).map(Bytes::copy_from_slice)
}

fn find_sled(dir: &Path, problems: &mut Problems) -> EngineRecords {
    let mut found = EngineRecords::default();
    if !dir.exists() {
        problems.add(dir, None, "the engine is missing");
        found.current.unknown += 1;
        return found;
    }
    let db = match sled_engine::open_unlocked(&sled::Config::new().path(dir).flush_every_ms(None)) {
        Ok(db) => db,
        Err(error) => {
            problems.add(dir, None, error.to_string());
            found.current.unknown += 1;
            return found;
        }
    };
    found.bytes = db.size_on_disk().unwrap_or(0);
    for entry in db.range(SEAL_KEY..).filter(|entry| !entry.as_ref().is_ok_and(|(key, _)| key == SEAL_KEY)) {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(error) => {
                problems.add(dir, None, error.to_string());
                found.current.unknown += 1;
                break;
            }
        };
        match sled_engine::decode_key(&key) {
            None => problems.add(dir, None, "there is a key that is not the engine's"),
            Some(key) if sled_engine::decode_value(key, &value).is_ok() => {
                found.current.records.insert(key, RecordSource::Sled);
            }
            Some(key) => {
                problems.add(dir, None, format!("the record of revision {} is damaged", key.main));
                found.current.damaged.insert(key, sled_engine::unchecked_body(&value).and_then(key_in));
            }
        }
    }
    found.sled = Some(db);
    found
}
