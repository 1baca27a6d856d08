//! Opening a store: creates a new one or recovers an existing one from manifest, engine and log, in this order. Each
//! step can be repeated if a crash interrupts it.

use crate::background::compact::Sweeper;
use crate::background::worker::{BackgroundWorker, EngineCoverage, WorkerEnv};
use crate::codec::manifest::Manifest;
use crate::codec::record::{LogChange, LogRecord};
use crate::disk::real::{DirLock, RealDisk};
use crate::disk::space::{DiskSpace, is_full};
use crate::disk::{Disk, private};
use crate::engine::memory::MemoryEngine;
use crate::engine::reader::{self, LoadCallbacks};
use crate::engine::segments::{self, SegmentsEngine};
use crate::engine::sled::SledEngine;
use crate::engine::{Engine, EngineError, Repairable};
use crate::mvcc::index::Index;
use crate::mvcc::window::Window;
use crate::published::core::{Core, PublishedState};
use crate::published::lease_clock::duration;
use crate::recovery::rebuild::{self, Rebuild};
use crate::runtime::driver::Driver;
use crate::runtime::log::Log;
use crate::runtime::threads::Threads;
use crate::runtime::writer::Writer;
use crate::runtime::writer_thread::WriterThread;
use crate::txn::lease_table::LeaseTable;
use crate::types::commit::{Commit, LeaseChange};
use crate::types::error::OpenError;
use crate::types::event::{Event, EventKind};
use crate::types::state::DurableState;
use crate::wal::{self, ReplayResult, Wal, WalSegments};
use crate::{Config, Durability, EngineKind, KeyValue, Limits, Revision, manifest};
use kstore_nondet::{Nondet, Rng};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// Opens the store that `config` describes.
pub(crate) fn open(config: Config, nondet: &Nondet) -> Result<Driver, OpenError> {
    config.limits.check()?;
    let rng = nondet.rng.fork("store");
    if config.durability == Durability::Memory {
        let engine = Arc::new(MemoryEngine::default());
        let core = Core::new(empty(), engine.clone(), identity(&rng), config.limits);
        let writer = Writer::new(Arc::new(core), rng, LeaseTable::default());
        return Ok(Driver::in_memory(writer, engine, Sweeper::new(Revision::NEVER_COMPACTED)));
    }
    let dir = config.dir.clone().ok_or(OpenError::NoDirectory)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_dir(&dir).map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let lock = DirLock::take(&dir)?;
    private::protect(&dir)?;
    let parts = recover(disk, &dir, &config, &rng, None)?;
    parts.start(Some(lock)).map_err(|source| OpenError::Io { path: dir, source })
}

/// Opens a test's own engine, given the manifest's token.
pub(crate) type OpenEngine<'a> = &'a dyn Fn(Option<&[u8]>) -> Result<Arc<dyn Repairable>, EngineError>;

/// Opens a store without threads, on any disk and with any engine.
#[cfg(test)]
pub(crate) fn open_stepped(
    disk: Arc<dyn Disk>,
    config: &Config,
    rng: &Rng,
    engine: Option<OpenEngine<'_>>,
) -> Result<Driver, OpenError> {
    config.limits.check()?;
    let dir = config.dir.clone().ok_or(OpenError::NoDirectory)?;
    disk.create_dir(&dir).map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let parts = recover(disk, &dir, config, rng, engine)?;
    let RecoveredStore { core, writer, log, background } = parts;
    let mut stepped = crate::runtime::stepped::SteppedStore::new(core.clone(), writer, log, background);
    stepped.work();
    Ok(Driver::stepped(core, stepped))
}

/// Opens a store with threads, on any disk.
#[cfg(test)]
pub(crate) fn open_threads(disk: Arc<dyn Disk>, config: &Config, rng: &Rng) -> Result<Driver, OpenError> {
    config.limits.check()?;
    let dir = config.dir.clone().ok_or(OpenError::NoDirectory)?;
    disk.create_dir(&dir).map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let parts = recover(disk, &dir, config, rng, None)?;
    parts.start(None).map_err(|source| OpenError::Io { path: dir, source })
}

/// The components of a recovered store, before their threads are started.
struct RecoveredStore {
    core: Arc<Core>,
    writer: WriterThread,
    log: Log,
    background: BackgroundWorker,
}

impl RecoveredStore {
    fn start(self, lock: Option<DirLock>) -> io::Result<Driver> {
        let Self { core, writer, log, background } = self;
        let threads = Threads::start(core.clone(), writer, log, background, lock)?;
        Ok(Driver::threads(core, threads))
    }
}

/// The published state of a new store.
fn empty() -> PublishedState {
    let state = DurableState::default();
    PublishedState { window: Window::after(state.revision), index: Index::default(), state }
}

/// A random id for new data; never zero.
pub(crate) fn identity(rng: &Rng) -> u64 {
    rng.next_u64() | 1
}

/// Recovers the store in `dir`. If the file system is full, deletes the reserve file and tries again.
fn recover(
    disk: Arc<dyn Disk>,
    dir: &Path,
    config: &Config,
    rng: &Rng,
    engine: Option<OpenEngine<'_>>,
) -> Result<RecoveredStore, OpenError> {
    loop {
        let (path, source) = match try_recover(disk.clone(), dir, config, rng, engine) {
            Err(OpenError::Io { path, source }) if is_full(&source) => (path, source),
            other => return other,
        };
        let disk_space = DiskSpace::open(disk.clone(), dir, &config.limits);
        if disk_space.is_ok_and(|disk_space| disk_space.on_disk_full()) {
            tracing::warn!(%source, "no space to open the store; deleting the reserve file");
            continue;
        }
        let need = config.limits.disk_free_bytes.max(config.limits.first_segment_bytes);
        return Err(OpenError::NoSpace { dir: dir.to_owned(), path, need, source });
    }
}

fn try_recover(
    disk: Arc<dyn Disk>,
    dir: &Path,
    config: &Config,
    rng: &Rng,
    engine: Option<OpenEngine<'_>>,
) -> Result<RecoveredStore, OpenError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| OpenError::Io { path, source }
    };
    let (wal_dir, engine_dir) = (dir.join("wal"), dir.join("engine"));
    disk.create_dir(&wal_dir).map_err(io(&wal_dir))?;
    disk.create_dir(&engine_dir).map_err(io(&engine_dir))?;
    // The last process may have ended at a failed sync: the directory's cached entries may not be on disk.
    disk.sync_dir(dir).map_err(io(dir))?;
    let disk_space = DiskSpace::open(disk.clone(), dir, &config.limits).map_err(io(dir))?;
    let segments = WalSegments::list(disk.clone(), &wal_dir).map_err(io(&wal_dir))?;
    let segments = Arc::new(segments.within(disk_space));
    segments.remove_unused().map_err(io(&wal_dir))?;
    let found = manifests(&*disk, dir, config, rng, &segments)?;
    let site = RecoverySource { disk: &disk, dir: &engine_dir, segments: &segments, config, engine };
    let state = site.load(&found)?;
    let RecoveredState { manifest, core, leases, replayed, backlog } = state;
    let core = Arc::new(core);
    debug_assert_eq!(core.visible().state.seq, replayed.last_seq, "the whole log is published");
    core.set_log(segments.clone());
    core.share_copies();
    let wal = Wal::begin(segments.clone(), manifest.cluster, rng.fork("wal"), &replayed, &config.limits);
    let wal = wal.map_err(io(&wal_dir))?;
    let now = Instant::now();
    leases.iter().for_each(|(id, ttl)| core.leases.begin(id, ttl, now + duration(ttl)));
    let env = WorkerEnv { disk, dir: dir.to_owned(), segments, engine: config.engine };
    let background = BackgroundWorker::new(core.clone(), env, manifest, coverage(&replayed, backlog));
    let writer = Writer::new(core.clone(), rng.fork("leases"), leases);
    let log = Log::new(core.clone(), wal, config.durability);
    Ok(RecoveredStore { core, writer: WriterThread::new(writer), log, background })
}

/// Which commits the engine has after recovery.
fn coverage(replayed: &ReplayResult, backlog: Option<Vec<Arc<Commit>>>) -> EngineCoverage {
    match backlog {
        Some(backlog) => EngineCoverage::AsInManifest { backlog },
        None => EngineCoverage::All { log_bytes: replayed.bytes },
    }
}

/// The manifests of the directory; writes a first one if the directory is empty.
fn manifests(
    disk: &dyn Disk,
    dir: &Path,
    config: &Config,
    rng: &Rng,
    segments: &WalSegments,
) -> Result<manifest::FoundManifests, OpenError> {
    let engine = config.engine.name();
    if let Some(found) = manifest::load(disk, dir)? {
        return if found.newest.engine == engine {
            Ok(found)
        } else {
            Err(OpenError::OtherEngine { dir: dir.to_owned(), found: found.newest.engine })
        };
    }
    if !segments.first_seqs().is_empty() {
        let detail = "there is a log but no manifest".to_owned();
        return Err(OpenError::Damaged { file: dir.join("MANIFEST"), detail });
    }
    let names = disk.list(dir).map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
    if names.iter().any(|name| name == manifest::RESTORING) {
        let detail = "a restore into this directory did not finish: run it again".to_owned();
        return Err(OpenError::Damaged { file: dir.join(manifest::RESTORING), detail });
    }
    let newest = Manifest {
        cluster: identity(rng),
        swept: Revision::NEVER_COMPACTED.0,
        engine: engine.to_owned(),
        ..Manifest::default()
    };
    manifest::replace(disk, dir, &newest)
        .map_err(|source| OpenError::Io { path: dir.join("MANIFEST"), source })?;
    Ok(manifest::FoundManifests { newest, previous: None })
}

/// The disk, directories, configuration and engine of a recovery.
struct RecoverySource<'a> {
    disk: &'a Arc<dyn Disk>,
    /// The engine's directory.
    dir: &'a PathBuf,
    segments: &'a WalSegments,
    config: &'a Config,
    /// A test's engine that replaces the one in `config`.
    engine: Option<OpenEngine<'a>>,
}

/// The state that recovery established.
struct RecoveredState {
    manifest: Manifest,
    core: Core,
    leases: LeaseTable,
    replayed: ReplayResult,
    /// All commits after the manifest's, if the engine had no space for them.
    backlog: Option<Vec<Arc<Commit>>>,
}

/// Whether replay gives the log's commits to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplayTarget {
    Now,
    /// The file system is full. The commits stay in memory, and the background worker gives them to the engine when
    /// there is space.
    Later,
}

impl RecoverySource<'_> {
    /// Loads the newest state whose engine is intact: the newest manifest's, the previous one's, or, if the log is
    /// complete, an empty one. Replay of the log adds the missing commits.
    fn load(&self, found: &manifest::FoundManifests) -> Result<RecoveredState, OpenError> {
        let scratch = Manifest {
            state: DurableState::default(),
            swept: Revision::NEVER_COMPACTED.0,
            token: Vec::new(),
            ..found.newest.clone()
        };
        let complete = self.segments.first_seqs().first().is_none_or(|first| *first == 1);
        let candidates = [Some(&found.newest), found.previous.as_ref(), complete.then_some(&scratch)];
        let mut lost = None;
        self.remove_unnamed(found)?;
        for base in candidates.into_iter().flatten() {
            if base.state.seq == 0 && lost.is_some() {
                self.set_aside()?;
            }
            match self.rebuild(found, base) {
                Ok(state) => {
                    self.fall_back(found, &state.manifest)?;
                    return Ok(state);
                }
                Err(LoadError::Open(error)) => return Err(error),
                // An I/O error does not depend on the state: an older one would fail in the same way.
                Err(LoadError::Engine(EngineError::Io(source))) => return Err(self.engine_io(source)),
                Err(LoadError::Engine(error @ (EngineError::Corrupt(_) | EngineError::Damaged(_)))) => {
                    tracing::error!(%error, seq = base.state.seq, "cannot open this state of the history engine");
                    lost.get_or_insert(error);
                }
            }
        }
        let detail = lost.map(|error| error.to_string()).unwrap_or_default();
        Err(OpenError::EngineLost { dir: self.dir.clone(), detail })
    }

    /// Loads one state and replays the log on it. If the engine has no space, deletes the reserve file and retries; if
    /// that does not suffice, retries without feeding the engine.
    fn rebuild(
        &self,
        found: &manifest::FoundManifests,
        base: &Manifest,
    ) -> Result<RecoveredState, LoadError> {
        let mut feeding = ReplayTarget::Now;
        loop {
            let (core, leases) = self.load_engine(base)?;
            match self.replay(&found.newest, base, core, leases, feeding) {
                Err(LoadError::Engine(error)) if error.is_full() && feeding == ReplayTarget::Now => {
                    if !self.segments.disk_space().is_some_and(DiskSpace::on_disk_full) {
                        tracing::warn!(%error, "the history engine has no space; the log alone holds the newest changes");
                        feeding = ReplayTarget::Later;
                        // The files that it did write would leave no space for the log.
                        self.remove_unnamed(found)?;
                    }
                }
                other => return other,
            }
        }
    }

    /// Removes files that a failed attempt left in the engine's directory: files that no manifest names.
    fn remove_unnamed(&self, found: &manifest::FoundManifests) -> Result<(), OpenError> {
        if self.engine.is_some() || self.config.engine != EngineKind::Segments {
            return Ok(());
        }
        let named = std::iter::once(&found.newest).chain(&found.previous);
        let named: Vec<_> = named.map(|manifest| &manifest.token[..]).collect();
        segments::remove_unnamed(&**self.disk, self.dir, &named).map_err(|source| self.engine_io(source))
    }

    fn engine_io(&self, source: io::Error) -> OpenError {
        OpenError::Io { path: self.dir.clone(), source }
    }

    /// Moves the unusable engine's files aside for inspection. The log is complete, so the engine is rebuilt from it.
    fn set_aside(&self) -> Result<(), OpenError> {
        tracing::error!(dir = %self.dir.display(), "the history engine is set aside and rebuilt from the log");
        // sled moves its own files aside.
        segments::set_aside(&**self.disk, self.dir)
            .map_err(|source| OpenError::Io { path: self.dir.clone(), source })
    }

    /// Makes an older state, if recovery used one, the newest manifest. Otherwise the next checkpoint would keep the
    /// unusable manifest as the previous one.
    fn fall_back(&self, found: &manifest::FoundManifests, base: &Manifest) -> Result<(), OpenError> {
        // Compares tokens, not sequence numbers: a sweep makes a newer state with the same sequence number.
        if base.token == found.newest.token {
            return Ok(());
        }
        let dir = self.dir.parent().expect("the engine is below the store");
        manifest::replace(&**self.disk, dir, base)
            .map_err(|source| OpenError::Io { path: dir.to_owned(), source })
    }

    /// Opens the engine and passes its records to `reader`.
    fn open_engine(
        &self,
        base: &Manifest,
        reader: &mut LoadCallbacks<'_>,
    ) -> Result<Arc<dyn Repairable>, EngineError> {
        let limits: &Limits = &self.config.limits;
        let token = (base.state.seq > 0).then_some(&base.token[..]);
        let engine: Arc<dyn Repairable> = match (self.engine, self.config.engine) {
            (Some(open), _) => open(token)?,
            (None, EngineKind::Segments) => {
                let disk = self.disk.clone();
                let find = |key| wal::find(self.segments, &BTreeSet::from([key])).remove(&key);
                let opened = SegmentsEngine::open_reading(disk, self.dir, token, limits, &find, reader)?;
                return Ok(Arc::new(opened));
            }
            (None, EngineKind::Sled) => Arc::new(SledEngine::open(&self.dir.join("sled"), token)?),
            (None, EngineKind::Memory) => Arc::new(MemoryEngine::default()),
        };
        reader::read(&*engine, base.state.revision, reader)?;
        Ok(engine)
    }

    /// Opens the engine and builds the index from it.
    fn load_engine(&self, base: &Manifest) -> Result<(Core, LeaseTable), EngineError> {
        let mut rebuild = Rebuild::default();
        let mut take = |prepared, wanted: &dyn Fn(u32) -> bool| rebuild.take(prepared, wanted);
        let engine =
            self.open_engine(base, &mut LoadCallbacks { prepare: rebuild::prepare, take: &mut take })?;
        let mut leases = LeaseTable::default();
        base.state.leases.iter().for_each(|(id, ttl)| leases.grant(*id, *ttl));
        let index = rebuild.finish(&mut leases);
        let window = Window::after(base.state.revision);
        let visible = PublishedState { state: base.state.clone(), index, window };
        Ok((Core::new(visible, engine, base.cluster, self.config.limits.clone()), leases))
    }

    /// Fails if the engine has more than the log. The engine gets only synced commits, so the log has lost some in that
    /// case.
    fn not_ahead(&self, core: &Core, replayed: &ReplayResult) -> Result<(), LoadError> {
        let newest = core.engine.newest()?;
        let current = core.revision();
        match newest.filter(|newest| *newest > current) {
            None => Ok(()),
            Some(newest) => Err(LoadError::Open(OpenError::Damaged {
                file: self.segments.path(replayed.last_seq + 1),
                detail: format!("the log ends at revision {current}, but the engine has revision {newest}"),
            })),
        }
    }

    /// Replays the commits that the log has and the engine has not.
    fn replay(
        &self,
        newest: &Manifest,
        base: &Manifest,
        core: Core,
        mut leases: LeaseTable,
        feeding: ReplayTarget,
    ) -> Result<RecoveredState, LoadError> {
        let (mut backlog, mut refused) = (Vec::new(), None);
        let mut visit = |record: LogRecord<'_>| {
            let commit = redo(&core, &mut leases, &record)?;
            match feeding {
                ReplayTarget::Now => core.write_to_engine(std::slice::from_ref(&commit)).map_err(|error| {
                    let text = error.to_string();
                    refused = Some(error);
                    text
                }),
                ReplayTarget::Later => {
                    core.usage.staged(commit.cost());
                    backlog.push(commit);
                    Ok(())
                }
            }
        };
        let replayed = wal::replay(self.segments, newest.cluster, base.state.seq, &mut visit);
        if let Some(error) = refused {
            // The engine failed, not the log.
            return Err(LoadError::Engine(error));
        }
        let replayed = replayed?;
        if replayed.last_seq < newest.state.seq {
            let detail = format!("it ends before record {}, which was checkpointed", newest.state.seq);
            let file = self.segments.path(replayed.last_seq + 1);
            return Err(LoadError::Open(OpenError::Damaged { file, detail }));
        }
        self.not_ahead(&core, &replayed)?;
        core.deliver();
        core.update_usage(0);
        core.count_current();
        // After a fallback to an older state, the log that it needs stays until the next checkpoint.
        let manifest = Manifest { generation: newest.generation, ..base.clone() };
        let backlog = (feeding == ReplayTarget::Later).then_some(backlog);
        Ok(RecoveredState { manifest, core, leases, replayed, backlog })
    }
}

/// Why a state could not be recovered.
enum LoadError {
    /// The failure does not come from the engine's content.
    Open(OpenError),
    Engine(EngineError),
}

impl From<OpenError> for LoadError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<EngineError> for LoadError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Publishes a logged commit again during replay.
fn redo(core: &Core, leases: &mut LeaseTable, record: &LogRecord<'_>) -> Result<Arc<Commit>, String> {
    let (commit, current) = {
        let visible = core.visible();
        (revive(&visible, record)?, visible.state.revision)
    };
    let expected = if commit.events.is_empty() { current } else { current.next() };
    if commit.revision != expected {
        return Err(format!("it makes revision {} after {current}", commit.revision));
    }
    for change in &commit.leases {
        match *change {
            LeaseChange::Granted(id, ttl) => leases.grant(id, ttl),
            LeaseChange::Gone(id) => leases.remove(id),
        }
    }
    commit.events.iter().for_each(|event| leases.attach(event.key(), event.kv.lease()));
    let commit = Arc::new(commit);
    core.publish(std::slice::from_ref(&commit));
    Ok(commit)
}

/// Rebuilds the commit that a log record describes.
fn revive(visible: &PublishedState, record: &LogRecord<'_>) -> Result<Commit, String> {
    let note = record.note.map(bytes::Bytes::copy_from_slice);
    let revision = Revision(record.revision);
    let mut events: Vec<Arc<Event>> = Vec::with_capacity(record.changes.len());
    for change in &record.changes {
        let (kind, bytes) = match change {
            LogChange::Put(bytes) => (EventKind::Put, bytes),
            LogChange::Delete(bytes) => (EventKind::Delete, bytes),
        };
        let kv =
            KeyValue::decode(bytes::Bytes::copy_from_slice(bytes)).ok_or("a version in it is malformed")?;
        if kv.mod_revision() != revision {
            return Err(format!("a version in it is of revision {}", kv.mod_revision()));
        }
        let mut event = Event { kind, kv: Arc::new(kv), prev_kv: None, note: note.clone() };
        if !event.is_create() {
            event.prev_kv = visible.index.get(event.key()).and_then(|entry| entry.newest().live().cloned());
        }
        events.push(Arc::new(event));
    }
    Ok(Commit { events: events.into(), note, ..record.effects() })
}
