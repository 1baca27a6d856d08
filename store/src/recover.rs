//! Opening a store: from nothing, or from what the last one left. Manifest, engine, log, in this order; each step can be
//! repeated if a crash interrupts it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kstore_nondet::{Nondet, Rng};
use tokio::time::Instant;

use crate::alarm::Alarms;
use crate::checkpoint::{Background, Place};
use crate::codec::manifest::Manifest;
use crate::codec::record::{LogChange, LogLease, LogRecord};
use crate::commit::{Commit, LeaseChange};
use crate::committer::Committer;
use crate::core::{Core, Visible};
use crate::disk::Disk;
use crate::disk::real::{DirLock, RealDisk};
use crate::driver::Driver;
use crate::engine::memory::MemoryEngine;
use crate::engine::reader::{self, Reader};
use crate::engine::segments::{self, SegmentsEngine};
use crate::engine::sled::SledEngine;
use crate::engine::{Engine, EngineError};
use crate::error::OpenError;
use crate::event::{Event, EventKind};
use crate::index::Index;
use crate::lease::clock::duration;
use crate::lease::table::LeaseTable;
use crate::log::Log;
use crate::rebuild::{self, Rebuild};
use crate::room::Room;
use crate::threads::Threads;
use crate::wal::{self, Replayed, Segments, Wal};
use crate::window::Window;
use crate::writer::{Recovered, Writer};
use crate::{Config, Durability, EngineKind, KeyValue, LeaseId, Limits, Revision, manifest};

/// Opens what `config` describes.
pub(crate) fn open(config: Config, nondet: &Nondet) -> Result<Driver, OpenError> {
    let rng = nondet.rng.fork("store");
    if config.durability == Durability::Memory {
        let core = Core::new(empty(), Arc::new(MemoryEngine::default()), identity(&rng), config.limits);
        let recovered = Recovered { seq: 0, leases: LeaseTable::default() };
        return Ok(Driver::in_memory(Writer::new(Arc::new(core), rng, recovered)));
    }
    let dir = config.dir.clone().ok_or(OpenError::NoDirectory)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_dir(&dir).map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let lock = DirLock::take(&dir)?;
    let parts = recover(disk, &dir, &config, &rng, None)?;
    parts.start(Some(lock)).map_err(|source| OpenError::Io { path: dir, source })
}

/// Opens an engine of a test's own, given the token.
pub(crate) type OpenEngine<'a> = &'a dyn Fn(Option<&[u8]>) -> Result<Arc<dyn Engine>, EngineError>;

/// The same without threads, on any disk, with any engine.
#[cfg(test)]
pub(crate) fn open_stepped(
    disk: Arc<dyn Disk>,
    config: &Config,
    rng: &Rng,
    engine: Option<OpenEngine<'_>>,
) -> Result<Driver, OpenError> {
    let dir = config.dir.clone().ok_or(OpenError::NoDirectory)?;
    disk.create_dir(&dir).map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let parts = recover(disk, &dir, config, rng, engine)?;
    let Parts { core, committer, log, background } = parts;
    let mut stepped = crate::stepped::Stepped::new(core.clone(), committer, log, background);
    stepped.work();
    Ok(Driver::stepped(core, stepped))
}

/// The same with threads.
#[cfg(test)]
pub(crate) fn open_threads(disk: Arc<dyn Disk>, config: &Config, rng: &Rng) -> Result<Driver, OpenError> {
    let dir = config.dir.clone().ok_or(OpenError::NoDirectory)?;
    disk.create_dir(&dir).map_err(|source| OpenError::Io { path: dir.clone(), source })?;
    let parts = recover(disk, &dir, config, rng, None)?;
    parts.start(None).map_err(|source| OpenError::Io { path: dir, source })
}

/// A recovered store, ready to be driven.
struct Parts {
    core: Arc<Core>,
    committer: Committer,
    log: Log,
    background: Background,
}

impl Parts {
    fn start(self, lock: Option<DirLock>) -> io::Result<Driver> {
        let Self { core, committer, log, background } = self;
        let threads = Threads::start(core.clone(), committer, log, background, lock)?;
        Ok(Driver::threads(core, threads))
    }
}

/// The state of a store that never saw a write.
fn empty() -> Visible {
    Visible {
        revision: Revision::FIRST,
        compacted: Revision::NEVER_COMPACTED,
        seq: 0,
        alarms: Alarms::default(),
        index: Index::default(),
        window: Window::after(Revision::FIRST),
    }
}

/// A name for new data; never zero.
fn identity(rng: &Rng) -> u64 {
    rng.next_u64() | 1
}

fn engine_name(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Segments => "segments",
        EngineKind::Sled => "sled",
        EngineKind::Memory => "memory",
    }
}

fn recover(
    disk: Arc<dyn Disk>,
    dir: &Path,
    config: &Config,
    rng: &Rng,
    engine: Option<OpenEngine<'_>>,
) -> Result<Parts, OpenError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| OpenError::Io { path, source }
    };
    let (wal_dir, engine_dir) = (dir.join("wal"), dir.join("engine"));
    disk.create_dir(&wal_dir).map_err(io(&wal_dir))?;
    disk.create_dir(&engine_dir).map_err(io(&engine_dir))?;
    // The last process may have ended at a sync that failed: what the cache shows of its names may not be on the disk.
    disk.sync_dir(dir).map_err(io(dir))?;
    let room = Room::open(disk.clone(), dir, &config.limits).map_err(io(dir))?;
    let segments = Segments::list(disk.clone(), &wal_dir).map_err(io(&wal_dir))?;
    let segments = Arc::new(segments.within(room));
    let found = manifests(&*disk, dir, config, rng, &segments)?;
    let site = Site { disk: &disk, dir: &engine_dir, segments: &segments, config, engine };
    let state = site.load(&found)?;
    let State { manifest, core, leases, replayed } = state;
    let core = Arc::new(core);
    core.set_log(segments.clone());
    let wal = Wal::begin(segments.clone(), manifest.cluster, rng.fork("wal"), &replayed, &config.limits);
    let wal = wal.map_err(io(&wal_dir))?;
    let now = Instant::now();
    leases.iter().for_each(|(id, ttl)| core.leases.begin(id, ttl, now + duration(ttl)));
    core.granted.seed(leases.iter());
    let place = Place { disk, dir: dir.to_owned(), segments, engine: config.engine };
    let known = leases.iter().map(|(id, ttl)| (id.0, ttl)).collect::<Vec<_>>();
    let background =
        Background::new(core.clone(), place, manifest, replayed.last_seq, known.into_iter(), replayed.bytes);
    let writer = Writer::new(core.clone(), rng.fork("leases"), Recovered { seq: replayed.last_seq, leases });
    let log = Log::new(core.clone(), wal, config.durability);
    Ok(Parts { core, committer: Committer::new(writer), log, background })
}

/// The manifests of the directory; a first one is made if it is empty.
fn manifests(
    disk: &dyn Disk,
    dir: &Path,
    config: &Config,
    rng: &Rng,
    segments: &Segments,
) -> Result<manifest::Found, OpenError> {
    let engine = engine_name(config.engine);
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
    let newest = Manifest {
        cluster: identity(rng),
        revision: Revision::FIRST.0,
        compacted: Revision::NEVER_COMPACTED.0,
        swept: Revision::NEVER_COMPACTED.0,
        engine: engine.to_owned(),
        ..Manifest::default()
    };
    manifest::replace(disk, dir, &newest)
        .map_err(|source| OpenError::Io { path: dir.join("MANIFEST"), source })?;
    Ok(manifest::Found { newest, previous: None })
}

/// Where to recover from.
struct Site<'a> {
    disk: &'a Arc<dyn Disk>,
    /// The engine's.
    dir: &'a PathBuf,
    segments: &'a Segments,
    config: &'a Config,
    /// In place of the one that `config` names.
    engine: Option<OpenEngine<'a>>,
}

/// What was recovered.
struct State {
    manifest: Manifest,
    core: Core,
    leases: LeaseTable,
    replayed: Replayed,
}

impl Site<'_> {
    /// Loads the newest state whose engine is whole: the newest manifest's, the one before, or, if the log is complete, an
    /// empty one. The log makes up for the difference.
    fn load(&self, found: &manifest::Found) -> Result<State, OpenError> {
        let scratch = Manifest {
            seq: 0,
            revision: Revision::FIRST.0,
            compacted: Revision::NEVER_COMPACTED.0,
            leases: Vec::new(),
            alarms: Alarms::default(),
            swept: Revision::NEVER_COMPACTED.0,
            token: Vec::new(),
            ..found.newest.clone()
        };
        let complete = self.segments.first_seqs().first().is_none_or(|first| *first == 1);
        let candidates = [Some(&found.newest), found.previous.as_ref(), complete.then_some(&scratch)];
        let mut lost = None;
        for base in candidates.into_iter().flatten() {
            if base.seq == 0 && lost.is_some() {
                self.set_aside()?;
            }
            match self.load_engine(base) {
                Ok((core, leases)) => {
                    let state = self.replay(&found.newest, base, core, leases)?;
                    self.fall_back(found, &state.manifest)?;
                    return Ok(state);
                }
                // Not a matter of what the engine holds: another state would fare no better.
                Err(EngineError::Io(source)) => return Err(OpenError::Io { path: self.dir.clone(), source }),
                Err(error @ (EngineError::Corrupt(_) | EngineError::Damaged(_))) => {
                    tracing::error!(%error, seq = base.seq, "the history engine cannot be used in this state");
                    lost.get_or_insert(error);
                }
            }
        }
        let detail = lost.map(|error| error.to_string()).unwrap_or_default();
        Err(OpenError::EngineLost { dir: self.dir.clone(), detail })
    }

    /// Nothing that the engine has can be used. It is kept for a person to look at; the log is complete.
    fn set_aside(&self) -> Result<(), OpenError> {
        tracing::error!(dir = %self.dir.display(), "the history engine is set aside and made anew from the log");
        // sled's own files it sets aside itself.
        segments::set_aside(&**self.disk, self.dir)
            .map_err(|source| OpenError::Io { path: self.dir.clone(), source })
    }

    /// If an older state had to do, it is the newest from now on. Otherwise the next checkpoint would keep the one that cannot
    /// be used as the one to fall back on.
    fn fall_back(&self, found: &manifest::Found, base: &Manifest) -> Result<(), OpenError> {
        // Not by the place in the log: a state may be newer only by what was swept.
        if base.token == found.newest.token {
            return Ok(());
        }
        let dir = self.dir.parent().expect("the engine is below the store");
        manifest::replace(&**self.disk, dir, base)
            .map_err(|source| OpenError::Io { path: dir.to_owned(), source })
    }

    /// Opens the engine; `reader` gets what it holds.
    fn open_engine(&self, base: &Manifest, reader: &mut Reader<'_>) -> Result<Arc<dyn Engine>, EngineError> {
        let limits: &Limits = &self.config.limits;
        let token = (base.seq > 0).then_some(&base.token[..]);
        let engine: Arc<dyn Engine> = match (self.engine, self.config.engine) {
            (Some(open), _) => open(token)?,
            (None, EngineKind::Segments) => {
                let disk = self.disk.clone();
                return Ok(Arc::new(SegmentsEngine::open_reading(disk, self.dir, token, limits, reader)?));
            }
            (None, EngineKind::Sled) => Arc::new(SledEngine::open(&self.dir.join("sled"), token)?),
            (None, EngineKind::Memory) => Arc::new(MemoryEngine::default()),
        };
        reader::read(&*engine, Revision(base.revision), reader)?;
        Ok(engine)
    }

    /// Opens the engine and builds the index from it.
    fn load_engine(&self, base: &Manifest) -> Result<(Core, LeaseTable), EngineError> {
        let mut rebuild = Rebuild::default();
        let mut take = |prepared, wanted: &dyn Fn(u32) -> bool| rebuild.take(prepared, wanted);
        let engine = self.open_engine(base, &mut Reader { prepare: rebuild::prepare, take: &mut take })?;
        let mut leases = LeaseTable::default();
        base.leases.iter().for_each(|(id, ttl)| leases.grant(LeaseId(*id), *ttl));
        let index = rebuild.finish(&mut leases);
        let (revision, compacted) = (Revision(base.revision), Revision(base.compacted));
        let window = Window::after(revision);
        let visible = Visible { revision, compacted, seq: base.seq, alarms: base.alarms, index, window };
        Ok((Core::new(visible, engine, base.cluster, self.config.limits.clone()), leases))
    }

    /// The engine is given only what the log has durably: if it has more, the log has lost something.
    fn not_ahead(&self, core: &Core, replayed: &Replayed) -> Result<(), OpenError> {
        let newest = core
            .engine
            .newest()
            .map_err(|error| OpenError::EngineLost { dir: self.dir.clone(), detail: error.to_string() })?;
        let current = core.revision();
        match newest.filter(|newest| *newest > current) {
            None => Ok(()),
            Some(newest) => Err(OpenError::Damaged {
                file: self.segments.path(replayed.last_seq + 1),
                detail: format!("the log ends at revision {current}, but the engine has revision {newest}"),
            }),
        }
    }

    /// Does again what the log has beyond the engine.
    fn replay(
        &self,
        newest: &Manifest,
        base: &Manifest,
        core: Core,
        mut leases: LeaseTable,
    ) -> Result<State, OpenError> {
        let mut visit = |record: LogRecord<'_>| redo(&core, &mut leases, &record);
        let replayed = wal::replay(self.segments, newest.cluster, base.seq, &mut visit)?;
        if replayed.last_seq < newest.seq {
            let detail = format!("it ends before record {}, which was checkpointed", newest.seq);
            return Err(OpenError::Damaged { file: self.segments.path(replayed.last_seq + 1), detail });
        }
        self.not_ahead(&core, &replayed)?;
        core.deliver();
        core.measure(0);
        // If an older state had to do, the log it needed stays until the next checkpoint.
        let manifest = Manifest { generation: newest.generation, ..base.clone() };
        Ok(State { manifest, core, leases, replayed })
    }
}

/// Publishes a logged commit again and gives it to the engine.
fn redo(core: &Core, leases: &mut LeaseTable, record: &LogRecord<'_>) -> Result<(), String> {
    let (commit, current) = {
        let visible = core.visible();
        (revive(&visible, record)?, visible.revision)
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
    let commit = std::slice::from_ref(&commit);
    core.publish(commit);
    core.store(commit).map_err(|error| error.to_string())
}

/// The commit that a record logged.
fn revive(visible: &Visible, record: &LogRecord<'_>) -> Result<Commit, String> {
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
    let leases = record.leases.iter().map(|change| match *change {
        LogLease::Granted { id, ttl } => LeaseChange::Granted(LeaseId(id), ttl),
        LogLease::Gone { id } => LeaseChange::Gone(LeaseId(id)),
    });
    Ok(Commit {
        seq: record.seq,
        revision,
        events: events.into(),
        note,
        leases: leases.collect(),
        compacted: record.compacted.map(Revision),
        alarms: record.alarms,
    })
}
