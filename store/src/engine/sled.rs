//! The sled engine: history in the embedded database `sled`. sled's own flush is no durability point on Linux: it syncs
//! neither the file nor the blobs with large values. So after a flush the engine syncs sled's files itself, the main
//! one through a descriptor that was opened before the writes.

use super::{DefragmentOutcome, Engine, EngineError, EngineSize, Repairable, Scan};
use crate::Revision;
use crate::disk::real::RealDisk;
use crate::disk::{Disk, private};
use crate::types::record::{Record, RecordKey, RecordKind};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of sled's page cache. The newest versions are in the index; the cache serves history.
const CACHE_BYTES: u64 = 64 << 20;

/// How often an opening of the database is tried while its file is locked, and the time between two tries: together a second. A child
/// process has copies of all descriptors of this one between its fork and the start of its program, and with them the lock of a database
/// that was closed. Another server does not wait here: it does not get the lock of the data directory.
const LOCK_TRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// Key of the last seal's number; it sorts before every record.
pub(crate) const SEAL_KEY: &[u8] = b"";

/// Size of kind and checksum before a record's content.
const HEADER: usize = 5;

/// An engine that stores history in a sled database.
pub(crate) struct SledEngine {
    dir: PathBuf,
    /// None once closed.
    open: RwLock<Option<OpenDatabase>>,
    seals: Mutex<u64>,
    content: Mutex<DatabaseContent>,
}

/// The size of the database's content. It is counted here because sled's files never shrink, so a quota on them could
/// not be met again.
#[derive(Debug, Default)]
struct DatabaseContent {
    /// Bytes of records, without their headers.
    live: u64,
    /// The newest record ever put. Later records are new and need no lookup.
    newest: Option<RecordKey>,
}

impl DatabaseContent {
    /// Counts the content by reading everything once.
    fn count(db: &sled::Db) -> Result<Self, EngineError> {
        let mut content = Self::default();
        for found in db.range(encode_key(RecordKey::new(Revision(0), 0))..) {
            let (key, value) = found.map_err(failed)?;
            content.live += body_len(&value);
            content.newest = decode_key(&key).max(content.newest);
        }
        Ok(content)
    }
}

/// Length of the record in a stored value.
fn body_len(value: &[u8]) -> u64 {
    value.len().saturating_sub(HEADER) as u64
}

/// The open database and its main file.
#[derive(Clone)]
struct OpenDatabase {
    db: sled::Db,
    main: Arc<File>,
}

fn failed(error: sled::Error) -> EngineError {
    match error {
        sled::Error::Io(error) => EngineError::Io(error),
        other => EngineError::Corrupt(other.to_string()),
    }
}

/// Encodes a key so that the bytes sort by revision, then sub-revision.
pub(crate) fn encode_key(key: RecordKey) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&key.main.0.to_be_bytes());
    bytes[8..].copy_from_slice(&key.sub.to_be_bytes());
    bytes
}

pub(crate) fn decode_key(bytes: &[u8]) -> Option<RecordKey> {
    let (main, sub) = bytes.split_first_chunk::<8>()?;
    let sub = u32::from_be_bytes(sub.try_into().ok()?);
    Some(RecordKey::new(Revision(i64::from_be_bytes(*main)), sub))
}

fn encode_value(record: &Record) -> Vec<u8> {
    let kind = record.kind.code();
    let mut bytes = Vec::with_capacity(HEADER + record.bytes.len());
    bytes.push(kind);
    bytes.extend_from_slice(&checksum(kind, record.key, &record.bytes).to_le_bytes());
    bytes.extend_from_slice(&record.bytes);
    bytes
}

fn checksum(kind: u8, key: RecordKey, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(&encode_key(key));
    hasher.update(bytes);
    hasher.finalize()
}

pub(crate) fn decode_value(key: RecordKey, bytes: &[u8]) -> Result<Record, EngineError> {
    let parts = bytes.split_first().and_then(|(kind, rest)| Some((*kind, rest.split_first_chunk::<4>()?)));
    let (tag, (crc, body)) = parts.ok_or(EngineError::Damaged(key))?;
    let kind = RecordKind::from_code(tag).ok_or(EngineError::Damaged(key))?;
    if checksum(tag, key, body) != u32::from_le_bytes(*crc) {
        return Err(EngineError::Damaged(key));
    }
    Ok(Record { key, kind, bytes: Bytes::copy_from_slice(body) })
}

/// The content of a value, which may be damaged.
pub(crate) fn unchecked_body(bytes: &[u8]) -> Option<&[u8]> {
    Some(bytes.split_first()?.1.split_first_chunk::<4>()?.1)
}

impl SledEngine {
    /// Opens the database, which must be at least as new as `token`. Without a token, moves an existing database aside.
    pub(crate) fn open(dir: &Path, token: Option<&[u8]>) -> Result<Self, EngineError> {
        if token.is_none() && dir.exists() {
            let aside = dir.with_extension("broken");
            if aside.exists() {
                fs::remove_dir_all(&aside)?;
            }
            fs::rename(dir, &aside)?;
        }
        let (main, db) = open_files(dir)?;
        let seals = db.get(SEAL_KEY).map_err(failed)?;
        let seals =
            seals.and_then(|bytes| Some(u64::from_le_bytes(bytes.as_ref().try_into().ok()?))).unwrap_or(0);
        let wanted = match token {
            Some(token) => token.try_into().map(u64::from_le_bytes),
            None => Ok(0),
        };
        let wanted = wanted.map_err(|_| EngineError::Corrupt("its token is not one of sled's".to_owned()))?;
        if seals < wanted {
            return Err(EngineError::Corrupt(format!("it is at seal {seals}, but {wanted} was confirmed")));
        }
        let content = Mutex::new(DatabaseContent::count(&db)?);
        let open = RwLock::new(Some(OpenDatabase { db, main: Arc::new(main) }));
        Ok(Self { dir: dir.to_owned(), open, seals: Mutex::new(seals), content })
    }

    fn opened(&self) -> Result<OpenDatabase, EngineError> {
        self.open.read().clone().ok_or_else(|| EngineError::Io(io::Error::other("the engine is closed")))
    }

    fn range(&self, from: RecordKey, to: RecordKey) -> Result<sled::Iter, EngineError> {
        Ok(self.opened()?.db.range(encode_key(from)..=encode_key(to)))
    }
}

/// Opens a database. Waits for up to a second while a child process that has not begun its program keeps the lock of its file.
pub(crate) fn open_unlocked(config: &sled::Config) -> sled::Result<sled::Db> {
    for _ in 1..LOCK_TRIES {
        match config.open() {
            Err(error) if is_locked(&error) => std::thread::park_timeout(LOCK_WAIT),
            opened => return opened,
        }
    }
    config.open()
}

/// Whether a database was not opened because its file is locked. sled says so by its text alone.
fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock"))
}

/// Opens the database, and before it its main file: a descriptor that is opened later could miss a write error.
fn open_files(dir: &Path) -> Result<(File, sled::Db), EngineError> {
    RealDisk.create_dir(dir)?;
    private::restrict_new_files(dir)?;
    let path = dir.join("db");
    let main = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    // sled reports unreadable data as an error or a panic.
    let opened = catch_unwind(AssertUnwindSafe(|| open_unlocked(&config)));
    let opened = opened.map_err(|_| EngineError::Corrupt("sled panicked when it was opened".to_owned()))?;
    let opened = opened.map_err(failed)?;
    private::set_modes(dir)?;
    Ok((main, opened))
}

/// Syncs a directory and everything below it.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}

impl Engine for SledEngine {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        let (db, mut content) = (self.opened()?.db, self.content.lock());
        let (mut batch, mut live, mut newest) = (sled::Batch::default(), content.live, content.newest);
        for record in records {
            if newest.is_some_and(|newest| record.key <= newest)
                && let Some(before) = db.get(encode_key(record.key)).map_err(failed)?
            {
                live = live.saturating_sub(body_len(&before));
            }
            live += record.bytes.len() as u64;
            newest = newest.max(Some(record.key));
            batch.insert(&encode_key(record.key), encode_value(record));
        }
        db.apply_batch(batch).map_err(failed)?;
        *content = DatabaseContent { live, newest };
        Ok(())
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        if keys.is_empty() {
            return Ok(());
        }
        // One batch, so that no tombstone is removed without the versions that it hides.
        let (db, mut content) = (self.opened()?.db, self.content.lock());
        let (mut batch, mut removed) = (sled::Batch::default(), 0);
        for key in keys.iter().map(|key| encode_key(*key)) {
            if let Some(value) = db.get(key).map_err(failed)? {
                removed += body_len(&value);
                batch.remove(&key);
            }
        }
        db.apply_batch(batch).map_err(failed)?;
        content.live = content.live.saturating_sub(removed);
        Ok(())
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        let found = self.opened()?.db.get(encode_key(key)).map_err(failed)?;
        found.map(|bytes| decode_value(key, &bytes).map(|record| record.bytes)).transpose()
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        let (mut records, mut bytes) = (Vec::<Record>::new(), 0);
        for found in self.range(RecordKey::new(from, 0), RecordKey::note(to))? {
            let (key, value) = found.map_err(failed)?;
            let key = decode_key(&key).ok_or_else(|| EngineError::Corrupt("a foreign key".to_owned()))?;
            if bytes >= budget && records.last().is_some_and(|last| last.key.main != key.main) {
                return Ok(Scan { records, next: key.main });
            }
            bytes += value.len();
            records.push(decode_value(key, &value)?);
        }
        Ok(Scan { records, next: to.next() })
    }

    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError> {
        let mut notes = Vec::new();
        for found in self.range(RecordKey::new(Revision(0), 0), RecordKey::note(below.previous()))? {
            let (key, _) = found.map_err(failed)?;
            notes.extend(decode_key(&key).filter(|key| key.is_note()).map(|key| key.main));
        }
        Ok(notes)
    }

    fn newest(&self) -> Result<Option<Revision>, EngineError> {
        let last = self.opened()?.db.last().map_err(failed)?;
        Ok(last.and_then(|(key, _)| decode_key(&key)).map(|key| key.main))
    }

    fn seal(&self) -> Result<Bytes, EngineError> {
        let mut seals = self.seals.lock();
        let next = *seals + 1;
        let OpenDatabase { db, main } = self.opened()?;
        db.insert(SEAL_KEY, next.to_le_bytes().as_slice()).map_err(failed)?;
        db.flush().map_err(failed)?;
        main.sync_all()?;
        private::set_modes(&self.dir)?;
        sync_tree(&self.dir)?;
        *seals = next;
        Ok(Bytes::copy_from_slice(&next.to_le_bytes()))
    }

    fn sealed(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn defragment(&self) -> Result<DefragmentOutcome, EngineError> {
        // sled reuses its space, but gives none back.
        Ok(DefragmentOutcome::Idle)
    }

    fn size(&self) -> EngineSize {
        let allocated = self.opened().ok().and_then(|open| open.db.size_on_disk().ok()).unwrap_or(0);
        EngineSize { allocated, live: self.content.lock().live }
    }

    /// Closes the database. It can be opened again on return.
    fn close(&self) {
        let Some(OpenDatabase { db, main }) = self.open.write().take() else { return };
        drop(db);
        // sled's own threads may hold the database, and with it the lock, a moment longer.
        if let Err(error) = main.lock().and_then(|()| main.unlock()) {
            tracing::warn!(%error, "cannot wait for sled's lock");
        }
        if let Err(error) = private::set_modes(&self.dir) {
            tracing::warn!(%error, "cannot set the modes of sled's files");
        }
    }
}

impl Repairable for SledEngine {
    fn repair(&self, record: &Record) -> Result<(), EngineError> {
        let (db, key) = (self.opened()?.db, encode_key(record.key));
        if let Some(damaged) = db.get(key).map_err(failed)? {
            // No repair if it was removed meanwhile.
            let _ = db.compare_and_swap(key, Some(damaged), Some(encode_value(record))).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        self.close();
    }
}
