//! Restore: creates a data directory from a snapshot of kstore or etcd.
//!
//! The manifest is written last, so a directory is a store only when it is complete and durable. An interrupted restore
//! leaves a marker file: no store opens the directory, and the next restore clears it.

use super::contents::{self, HIGHEST, SnapshotContents};
use super::data_dir;
use super::snapshot_file::{SnapshotFile, SnapshotFileError};
use crate::codec::manifest::Manifest;
use crate::disk::real::{DirLock, RealDisk};
use crate::disk::{Disk, private};
use crate::engine::{Engine, EngineError};
use crate::types::error::OpenError;
use crate::types::record::{Record, RecordKind};
use crate::types::state::DurableState;
use crate::wal::{ReplayResult, Wal, WalSegments};
use crate::{EngineKind, KeyValue, Limits, Revision, manifest};
use kstore_nondet::Rng;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// A request to restore a snapshot.
#[derive(Clone, Debug)]
pub struct Restore {
    /// The snapshot file: from [`crate::Store::snapshot`], `etcdctl snapshot save`, or (with `unchecked`) from an
    /// etcd's data directory.
    pub snapshot: PathBuf,
    /// The directory to create. If it exists, it must not contain a store.
    pub dir: PathBuf,
    /// The engine to write; the store must be opened with the same one.
    pub engine: EngineKind,
    /// Whether to accept a file without a checksum.
    pub unchecked: bool,
    /// Number by which the revision is raised; everything before is compacted. Watchers of the lost store then get a compaction
    /// error, instead of different changes under the same revisions. Zero keeps the snapshot's revision.
    pub bump: u64,
}

/// Result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The revision at which the store starts.
    pub revision: Revision,
    /// The oldest readable revision.
    pub compacted: Revision,
    /// Number of history records.
    pub records: u64,
    /// Number of leases; each starts with its full time to live.
    pub leases: u64,
    /// Whether the snapshot has users and roles, from an etcd with authentication. They are not restored: the store
    /// grants access to every client that can reach it.
    pub users_left_out: bool,
}

/// Why a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The snapshot cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotFileError),
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The directory contains a store: choose another one.
    #[error("{} contains a store already: choose another directory", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
    },
    /// The revision cannot be raised that far.
    #[error("the revision cannot be raised by {0}")]
    Bump(u64),
    /// The memory engine has no directory.
    #[error("the memory engine stores nothing on disk: choose another engine")]
    NoEngine,
    /// A version of a new store is older than the one before it, or of a revision that no store has.
    #[error("revision {0} is out of order or out of range in a new store")]
    Order(Revision),
    /// The operating system refused a write.
    #[error("cannot write in {}: {source}", dir.display())]
    Write {
        /// The directory.
        dir: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Progress callback: bytes done, total bytes.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Callback for each version of a key: the version, and whether it is a deletion.
pub type VisitVersion<'a> = dyn FnMut(&KeyValue, bool) + 'a;

/// The callbacks of a restore.
pub(super) struct Observers<'a, 'v, 'p> {
    pub(super) visit: &'a mut VisitVersion<'v>,
    pub(super) progress: &'a mut Progress<'p>,
}

/// Restores a snapshot. On return the directory is durable, complete and unlocked; after an error it contains no store.
pub fn restore(
    request: &Restore,
    rng: &Rng,
    progress: &mut Progress<'_>,
) -> Result<RestoreReport, RestoreError> {
    restore_visiting(request, rng, &mut |_, _| {}, progress)
}

/// Restores like [`restore`], and passes each version in the snapshot to `visit`, in the order of revisions.
pub fn restore_visiting(
    request: &Restore,
    rng: &Rng,
    visit: &mut VisitVersion<'_>,
    progress: &mut Progress<'_>,
) -> Result<RestoreReport, RestoreError> {
    let io = |source| SnapshotFileError::Io { path: request.snapshot.clone(), source };
    let file = RealDisk.open_read(&request.snapshot).map_err(io)?;
    let snapshot = SnapshotFile::of(&request.snapshot, file).map_err(io)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_dir(&request.dir).map_err(|source| write_error(&request.dir, source))?;
    let _lock = DirLock::take(&request.dir)?;
    private::protect(&request.dir)?;
    restore_from(&disk, &snapshot, request, rng, Observers { visit, progress })
}

pub(super) fn write_error(dir: &Path, source: io::Error) -> RestoreError {
    RestoreError::Write { dir: dir.to_owned(), source }
}

/// Restores on any disk, into a directory that exists and is locked.
pub(super) fn restore_from(
    disk: &Arc<dyn Disk>,
    snapshot: &SnapshotFile,
    request: &Restore,
    rng: &Rng,
    observers: Observers<'_, '_, '_>,
) -> Result<RestoreReport, RestoreError> {
    if request.engine == EngineKind::Memory {
        return Err(RestoreError::NoEngine);
    }
    if !snapshot.has_checksum() && !request.unchecked {
        return Err(SnapshotFileError::NoChecksum { path: request.snapshot.clone() }.into());
    }
    snapshot.check()?;
    let target = Target { disk, dir: &request.dir, engine: request.engine, rng };
    target.prepare()?;
    let restored = target.fill(snapshot, request.bump, observers);
    if restored.is_err() {
        // Best effort: remaining files are marked, and the next restore clears them.
        let _ = target.clear();
    }
    restored
}

/// The log's sequence number of the restored state, before the first record that will be logged.
const SEQ: u64 = 1;

/// The directory that is being restored.
pub(super) struct Target<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) dir: &'a Path,
    pub(super) engine: EngineKind,
    pub(super) rng: &'a Rng,
}

impl Target<'_> {
    fn wal(&self) -> PathBuf {
        self.dir.join("wal")
    }

    fn engine(&self) -> PathBuf {
        self.dir.join("engine")
    }

    fn error(&self) -> impl Fn(io::Error) -> RestoreError {
        |source| write_error(self.dir, source)
    }

    /// Checks that there is no store, and writes the marker file.
    pub(super) fn prepare(&self) -> Result<(), RestoreError> {
        let occupied = || RestoreError::Occupied { dir: self.dir.to_owned() };
        let names = self.disk.list(self.dir).map_err(self.error())?;
        let marked = names.iter().any(|name| name == manifest::RESTORING);
        if names.iter().any(|name| manifest::is_manifest(name)) {
            return Err(occupied());
        }
        let log = self.disk.list(&self.wal()).map_err(self.error())?;
        if !marked && log.iter().any(|name| !name.ends_with(".tmp")) {
            return Err(occupied());
        }
        let make = || {
            self.disk.create_dir(&self.wal())?;
            self.disk.create_dir(&self.engine())?;
            self.disk.create(&self.dir.join(manifest::RESTORING))?.sync()?;
            self.disk.sync_dir(self.dir)?;
            self.clear_files()
        };
        make().map_err(self.error())
    }

    /// Removes all files of an incomplete restore, the marker last.
    pub(super) fn clear(&self) -> io::Result<()> {
        self.clear_files()?;
        self.unmark()
    }

    fn clear_files(&self) -> io::Result<()> {
        for dir in [self.engine(), self.wal()] {
            for name in self.disk.list(&dir)? {
                self.disk.remove(&dir.join(name))?;
            }
            self.disk.sync_dir(&dir)?;
        }
        // sled's files exist only on the operating system's file system.
        let sled = data_dir::sled_dir(&self.engine());
        if self.engine == EngineKind::Sled && sled.exists() { fs::remove_dir_all(sled) } else { Ok(()) }
    }

    fn unmark(&self) -> io::Result<()> {
        self.disk.remove(&self.dir.join(manifest::RESTORING))?;
        self.disk.sync_dir(self.dir)
    }

    fn fill(
        &self,
        snapshot: &SnapshotFile,
        bump: u64,
        observers: Observers<'_, '_, '_>,
    ) -> Result<RestoreReport, RestoreError> {
        let cluster = self.begin_log()?;
        let (contents, token) = self.fill_engine(snapshot, observers)?;
        let (revision, compacted) = bumped(&contents.state, bump)?;
        let state = DurableState { revision, compacted, ..contents.state };
        let leases = state.leases.len() as u64;
        self.complete(cluster, state, token)?;
        let (records, users_left_out) = (contents.records, contents.has_users);
        Ok(RestoreReport { revision, compacted, records, leases, users_left_out })
    }

    /// Creates a log that starts after the restored state; returns the store's identity. No store opens a directory that has a log and no
    /// manifest.
    pub(super) fn begin_log(&self) -> Result<u64, RestoreError> {
        let cluster = self.rng.next_u64() | 1;
        let begin = || {
            let segments = Arc::new(WalSegments::list(self.disk.clone(), &self.wal())?);
            let before = ReplayResult { last_seq: SEQ, confirmed: (SEQ, 0), ..ReplayResult::default() };
            Wal::begin(segments, cluster, self.rng.fork("wal"), &before, &Limits::default()).map(drop)
        };
        begin().map_err(self.error())?;
        Ok(cluster)
    }

    /// Writes the manifest: from now on the directory is a store. `token` is that of the sealed engine.
    pub(super) fn complete(
        &self,
        cluster: u64,
        state: DurableState,
        token: Vec<u8>,
    ) -> Result<(), RestoreError> {
        let manifest = Manifest {
            cluster,
            generation: 1,
            state: DurableState { seq: SEQ, ..state },
            engine: self.engine.name().to_owned(),
            token,
            swept: Revision::NEVER_COMPACTED.0,
        };
        manifest::replace(&**self.disk, self.dir, &manifest)
            .and_then(|()| self.unmark())
            .map_err(self.error())
    }

    /// An engine without records in the directory.
    pub(super) fn new_engine(&self) -> Result<Arc<dyn Engine>, RestoreError> {
        let engine = data_dir::new_engine(self.disk, &self.engine(), self.engine);
        engine.map_err(|error| self.engine_error(error))
    }

    pub(super) fn engine_error(&self, error: EngineError) -> RestoreError {
        write_error(self.dir, engine_error(error))
    }

    /// Writes all records to a new engine; returns its token.
    fn fill_engine(
        &self,
        snapshot: &SnapshotFile,
        Observers { visit, progress }: Observers<'_, '_, '_>,
    ) -> Result<(SnapshotContents, Vec<u8>), RestoreError> {
        let engine = self.new_engine()?;
        let mut batch = Batch::new(&*engine, snapshot.len(), progress);
        let read = contents::read(snapshot, &mut |record| {
            let is_version = matches!(record.kind, RecordKind::Put | RecordKind::Delete);
            if let Some(version) = KeyValue::decode(record.bytes.clone()).filter(|_| is_version) {
                visit(&version, record.kind == RecordKind::Delete);
            }
            batch.add(record)
        });
        let flushed = batch.finish();
        // An engine error also fails the reading, so it is reported first.
        flushed.map_err(|error| self.engine_error(error))?;
        let contents = read?;
        let token = engine.seal().map_err(|error| self.engine_error(error))?;
        engine.close();
        Ok((contents, token.to_vec()))
    }
}

fn engine_error(error: EngineError) -> io::Error {
    match error {
        EngineError::Io(error) => error,
        EngineError::Damaged(_) | EngineError::Corrupt(_) => io::Error::other(error.to_string()),
    }
}

/// The store's first revision and compacted revision.
fn bumped(state: &DurableState, bump: u64) -> Result<(Revision, Revision), RestoreError> {
    if bump == 0 {
        return Ok((state.revision, state.compacted));
    }
    let moved = i64::try_from(bump).ok().and_then(|bump| state.revision.0.checked_add(bump));
    let revision = moved.map(Revision).filter(|moved| *moved <= HIGHEST);
    let revision = revision.ok_or(RestoreError::Bump(bump))?;
    Ok((revision, revision))
}

/// Batches records for an engine.
pub(super) struct Batch<'a, 'p> {
    engine: &'a dyn Engine,
    records: Vec<Record>,
    bytes: usize,
    done: u64,
    total: u64,
    progress: &'a mut Progress<'p>,
    failed: Option<EngineError>,
}

impl<'a, 'p> Batch<'a, 'p> {
    pub(super) fn new(engine: &'a dyn Engine, total: u64, progress: &'a mut Progress<'p>) -> Self {
        Self { engine, records: Vec::new(), bytes: 0, done: 0, total, progress, failed: None }
    }

    /// Adds a record, and writes the batch if it is full. An error is only the text of what [`Self::finish`] returns.
    pub(super) fn add(&mut self, record: Record) -> Result<(), String> {
        /// Bytes written per batch.
        const FULL: usize = 1 << 20;
        /// Bytes that a record takes in addition to its content.
        const EACH: usize = 64;
        self.bytes += record.bytes.len() + EACH;
        self.records.push(record);
        if self.bytes >= FULL { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), String> {
        if let Err(error) = self.engine.put(&self.records) {
            let text = error.to_string();
            self.failed.get_or_insert(error);
            return Err(text);
        }
        self.done = (self.done + self.bytes as u64).min(self.total);
        (self.progress)(self.done, self.total);
        self.records.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Writes the rest. Returns the first error of all writes.
    pub(super) fn finish(mut self) -> Result<(), EngineError> {
        if self.failed.is_none() {
            let _ = self.flush();
        }
        self.failed.map_or(Ok(()), Err)
    }
}
