//! The background's work, in order: feeds published commits to the engine, compacts, prepares log files, and from time to
//! time makes the engine's state durable, so that old log segments can go. A thread drives it, or a test step by step.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::alarm::Alarms;
use crate::codec::manifest::Manifest;
use crate::commit::{Commit, LeaseChange};
use crate::compact::compact;
use crate::core::Core;
use crate::disk::Disk;
use crate::engine::EngineError;
use crate::manifest;
use crate::pace;
use crate::wal::Segments;
use crate::{EngineKind, Revision};

/// See the module.
pub(crate) struct Background {
    core: Arc<Core>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segments: Arc<Segments>,
    /// The manifest as it stands.
    manifest: Manifest,
    /// What the engine has been given, beyond it.
    fed: Fed,
    leases: BTreeMap<i64, i64>,
    /// The engine keeps nothing over a restart, so the log must stay whole.
    volatile: bool,
    /// Bytes of log since the last checkpoint.
    since: u64,
}

/// How far the engine is.
#[derive(Clone, Copy, Debug)]
struct Fed {
    seq: u64,
    revision: Revision,
    compacted: Revision,
    alarms: Alarms,
}

/// Where the background works.
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) segments: Arc<Segments>,
    pub(crate) engine: EngineKind,
}

impl Background {
    /// Begins where recovery ended: the engine has everything up to `seq`.
    pub(crate) fn new(
        core: Arc<Core>,
        place: Place,
        manifest: Manifest,
        seq: u64,
        leases: impl Iterator<Item = (i64, i64)>,
        since: u64,
    ) -> Self {
        let fed = {
            let visible = core.visible();
            let alarms = visible.alarms;
            Fed { seq, revision: visible.revision, compacted: visible.compacted, alarms }
        };
        let Place { disk, dir, segments, engine } = place;
        let volatile = engine == EngineKind::Memory;
        Self { core, disk, dir, segments, manifest, fed, leases: leases.collect(), volatile, since }
    }

    /// Repeats the physical part of the last compaction, which a crash may have interrupted.
    pub(crate) fn resume(&mut self) -> Result<(), EngineError> {
        let compacted = self.fed.compacted;
        if compacted > Revision::NEVER_COMPACTED { compact(&self.core, compacted) } else { Ok(()) }
    }

    /// Takes published commits in.
    pub(crate) fn absorb(&mut self, commits: &[Arc<Commit>]) -> Result<(), EngineError> {
        // Stored together, but a compaction comes before what follows it.
        let mut taken = 0;
        for together in commits.chunk_by(|commit, _| commit.compacted.is_none()) {
            self.core.store(together)?;
            taken += together.iter().map(|commit| self.note(commit)).sum::<usize>();
            if let Some(compacted) = together.last().and_then(|commit| commit.compacted) {
                compact(&self.core, compacted)?;
            }
        }
        self.core.measure(taken);
        self.since += taken as u64;
        if self.since >= pace::checkpoint_bytes(&self.core.limits, self.core.engine.size().live) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// What is stored is to be in the next manifest; says what the commit costs.
    fn note(&mut self, commit: &Commit) -> usize {
        self.fed.seq = commit.seq;
        self.fed.revision = commit.revision;
        self.fed.compacted = commit.compacted.unwrap_or(self.fed.compacted);
        self.fed.alarms = commit.alarms.unwrap_or(self.fed.alarms);
        for change in &commit.leases {
            match *change {
                LeaseChange::Granted(id, ttl) => drop(self.leases.insert(id.0, ttl)),
                LeaseChange::Gone(id) => drop(self.leases.remove(&id.0)),
            }
        }
        commit.cost()
    }

    /// Prepares the next log file.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        self.segments.prepare(pace::segment_bytes(&self.core.limits, self.core.engine.size().live))
    }

    /// Makes the engine's state durable and drops the log that only older states need. One generation of log more than
    /// needed is kept, so that the manifest before this one would do as well.
    pub(crate) fn checkpoint(&mut self) -> Result<(), EngineError> {
        if self.volatile || self.fed.seq == self.manifest.seq {
            return Ok(());
        }
        self.seal()
    }

    fn seal(&mut self) -> Result<(), EngineError> {
        let keep_above = self.manifest.seq;
        let token = self.core.engine.seal()?;
        let next = Manifest {
            generation: self.manifest.generation + 1,
            seq: self.fed.seq,
            revision: self.fed.revision.0,
            compacted: self.fed.compacted.0,
            leases: self.leases.iter().map(|(id, ttl)| (*id, *ttl)).collect(),
            token: token.to_vec(),
            alarms: self.fed.alarms,
            ..self.manifest.clone()
        };
        manifest::store(&*self.disk, &self.dir, &next)?;
        self.manifest = next;
        self.since = 0;
        self.core.engine.sealed()?;
        self.segments.remove_upto(keep_above)?;
        self.core.metrics.checkpoints.add(1);
        Ok(())
    }

    /// One bounded step of winning back space; says whether there is more to do.
    pub(crate) fn tidy(&self) -> Result<bool, EngineError> {
        self.core.engine.tidy()
    }

    /// When there is nothing else to do: a checkpoint, if much space waits for it; says whether there was one.
    pub(crate) fn release(&mut self) -> Result<bool, EngineError> {
        let engine = &self.core.engine;
        let worth = pace::is_worth_sealing(&self.core.limits, engine.size().live, engine.retired());
        if worth && !self.volatile {
            self.seal()?;
        }
        Ok(worth && !self.volatile)
    }
}
