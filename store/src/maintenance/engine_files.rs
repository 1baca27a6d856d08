//! Reading an engine's files without the engine, for damaged directories: where the engine would refuse to open, intact
//! records are found all the same.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::data_dir;
use super::survey::{Problems, RecordMap};
use crate::EngineKind;
use crate::codec::history::{self, FILE_HEADER, HistoryEntry};
use crate::disk::{Disk, File, read_all, read_full};
use crate::engine::Record;
use crate::engine::segments::{file_name, file_number};
use crate::engine::sled::{self as sled_engine, SEAL_KEY};
use crate::mvcc::commit::RecordKey;

/// The records found in an engine's files.
#[derive(Default)]
pub(super) struct EngineRecords {
    pub(super) records: RecordMap<RecordSource>,
    /// Damaged records whose names can be read.
    pub(super) damaged: Vec<RecordKey>,
    /// Total size of the files in bytes.
    pub(super) bytes: u64,
    files: Vec<Arc<dyn File>>,
    sled: Option<sled::Db>,
}

/// Location of a found record.
#[derive(Clone, Debug)]
pub(super) enum RecordSource {
    /// In a file: its index, the offset, and the length with its header.
    File(usize, u64, u32),
    /// In the sled database.
    Sled,
    /// In memory.
    Held(Record),
}

impl EngineRecords {
    /// Reads the record and checks it again.
    pub(super) fn read(&self, key: RecordKey, located: &RecordSource) -> io::Result<Option<Record>> {
        match located {
            RecordSource::Held(record) => Ok(Some(record.clone())),
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
                    Some(_) | None => None,
                })
            }
        }
    }
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
    let mut found = EngineRecords::default();
    for (path, len) in listed(disk, dir, token, problems)? {
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                problems.add(&path, None, "the file is missing");
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut bytes = read_all(&*file)?;
        found.bytes += bytes.len() as u64;
        if let Some(len) = len {
            if (bytes.len() as u64) < len {
                problems.add(&path, Some(bytes.len() as u64), "the file is cut off");
            }
            // Bytes beyond the listed length were never confirmed durable.
            bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        }
        found.files.push(file);
        found.walk(&path, &bytes, problems);
    }
    Ok(found)
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

impl EngineRecords {
    /// Reads the records of one file, which must be the last one that was opened.
    fn walk(&mut self, path: &Path, bytes: &[u8], problems: &mut Problems) {
        if !bytes.starts_with(FILE_HEADER) {
            problems.add(path, Some(0), "it does not start like an engine file");
        }
        let file = self.files.len() - 1;
        let mut offset = FILE_HEADER.len().min(bytes.len());
        while offset < bytes.len() {
            let Some((entry, len)) = history::read(&bytes[offset..]) else {
                offset = self.pass_over(path, bytes, offset, problems);
                continue;
            };
            match entry {
                HistoryEntry::Record(_, key, _) => {
                    self.records.insert(key, RecordSource::File(file, offset as u64, len as u32));
                }
                HistoryEntry::StandIn(stand_in) => {
                    self.records.remove(&stand_in.key);
                    self.damaged.push(stand_in.key);
                    let what = format!("the record of revision {} is lost to damage", stand_in.key.main);
                    problems.add(path, Some(offset as u64), what);
                }
                HistoryEntry::Removed(keys) => history::removed_keys(keys).for_each(|key| {
                    self.records.remove(&key);
                }),
            }
            offset += len;
        }
    }

    /// Reports the damage at `offset`, and returns the offset of the next intact entry.
    fn pass_over(&mut self, path: &Path, bytes: &[u8], offset: usize, problems: &mut Problems) -> usize {
        let claim = history::peek(&bytes[offset..]);
        let checks = |at: &usize| *at == bytes.len() || history::read(&bytes[*at..]).is_some();
        // If only the content is damaged, the header has the offset of the next entry.
        let claimed = claim.map(|(_, len)| offset + len).filter(|at| *at <= bytes.len() && checks(at));
        let next = claimed.or_else(|| (offset + 1..bytes.len()).find(checks)).unwrap_or(bytes.len());
        let named = claim.filter(|_| claimed.is_some()).map(|(key, _)| key);
        let what = match named {
            Some(key) => format!("the record of revision {} is damaged", key.main),
            None => format!("{} bytes are damaged", next - offset),
        };
        problems.add(path, Some(offset as u64), what);
        self.damaged.extend(named);
        next
    }
}

fn find_sled(dir: &Path, problems: &mut Problems) -> EngineRecords {
    let mut found = EngineRecords::default();
    if !dir.exists() {
        problems.add(dir, None, "the engine is missing");
        return found;
    }
    let db = match sled::Config::new().path(dir).flush_every_ms(None).open() {
        Ok(db) => db,
        Err(error) => {
            problems.add(dir, None, error.to_string());
            return found;
        }
    };
    found.bytes = db.size_on_disk().unwrap_or(0);
    for entry in db.range(SEAL_KEY..).filter(|entry| !entry.as_ref().is_ok_and(|(key, _)| key == SEAL_KEY)) {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(error) => {
                problems.add(dir, None, error.to_string());
                break;
            }
        };
        match sled_engine::decode_key(&key) {
            None => problems.add(dir, None, "there is a key that is not the engine's"),
            Some(key) if sled_engine::decode_value(key, &value).is_ok() => {
                found.records.insert(key, RecordSource::Sled);
            }
            Some(key) => {
                problems.add(dir, None, format!("the record of revision {} is damaged", key.main));
                found.damaged.push(key);
            }
        }
    }
    found.sled = Some(db);
    found
}
