//! The background worker: feeds published commits to the engine, compacts, prepares log files, defragments, and
//! checkpoints. A checkpoint makes the engine's state durable, so that old log segments can be deleted. A thread drives
//! the worker; tests drive it step by step.

use crate::background::compact::{RECORDS, Sweeper};
use crate::background::pace;
use crate::codec::manifest::Manifest;
use crate::disk::Disk;
use crate::disk::space::{DiskSpace, is_full};
use crate::engine::{DefragmentOutcome, Engine, EngineError, ScrubOutcome};
use crate::published::core::Core;
use crate::types::commit::Commit;
use crate::types::state::DurableState;
use crate::wal::WalSegments;
use crate::{EngineKind, Revision, manifest};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

/// The background worker's state: what the engine has stored, the current manifest, and the pending sweep.
pub(crate) struct BackgroundWorker {
    core: Arc<Core>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segments: Arc<WalSegments>,
    /// The manifest that is on disk.
    manifest: Manifest,
    /// The state after the newest commit that the engine has stored, which the next manifest will have.
    stored: DurableState,
    sweeper: Sweeper,
    /// Changes that the engine stored since the last step of the sweep.
    absorbed: usize,
    /// Consecutive attempts to free space by dropping old states. Absorbing a commit resets it.
    reclaim_attempts: u8,
    /// The engine keeps nothing over a restart, so no log segment may be deleted.
    volatile: bool,
    /// Bytes of log since the last checkpoint.
    log_bytes: u64,
    /// A sync of the engine failed, so what is on disk is unknown, and another sync would not report it. Until the next
    /// start the store relies only on the engine state that the manifest describes.
    untrusted: bool,
    /// Recovered commits that the engine has not stored; see [`BackgroundWorker::take_backlog`].
    backlog: Vec<Arc<Commit>>,
    /// When the next scrub step (reading engine files in search of damage) is due.
    next_scrub: Instant,
    /// When the current scrub pass through the engine's files began.
    scrub_began: Instant,
    /// When the next step of packing is due; none until something is stored.
    next_pack: Option<Instant>,
}

/// The disk, directory, log and engine kind that the background worker uses.
pub(crate) struct WorkerEnv {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) segments: Arc<WalSegments>,
    pub(crate) engine: EngineKind,
}

/// Which commits the engine has when the background worker starts.
pub(crate) enum EngineCoverage {
    /// The engine has every recovered commit.
    All {
        /// Bytes of log that no checkpoint covers.
        log_bytes: u64,
    },
    /// The engine has what the manifest says, and perhaps some of the later commits.
    AsInManifest {
        /// All commits after the manifest's, in order.
        backlog: Vec<Arc<Commit>>,
    },
}

impl BackgroundWorker {
    /// Starts the worker at the state that recovery established.
    pub(crate) fn new(core: Arc<Core>, env: WorkerEnv, manifest: Manifest, coverage: EngineCoverage) -> Self {
        let (stored, log_bytes, backlog) = match coverage {
            EngineCoverage::All { log_bytes } => (core.visible().state.clone(), log_bytes, Vec::new()),
            EngineCoverage::AsInManifest { backlog } => (manifest.state.clone(), 0, backlog),
        };
        let WorkerEnv { disk, dir, segments, engine } = env;
        let volatile = engine == EngineKind::Memory;
        core.background_waiters.record_sweep(Revision(manifest.swept));
        core.set_swept(Revision(manifest.swept));
        // A crash may have interrupted the physical part of the last compaction.
        let mut sweeper = Sweeper::new(Revision(manifest.swept));
        sweeper.want(stored.compacted);
        // Opening the store has just read every file, so a scrub pass counts as done.
        let scrub_began = Instant::now();
        let next_scrub = scrub_began + core.limits.scrub_interval;
        Self {
            next_scrub,
            scrub_began,
            next_pack: None,
            core,
            disk,
            dir,
            segments,
            manifest,
            stored,
            sweeper,
            volatile,
            log_bytes,
            untrusted: false,
            absorbed: 0,
            reclaim_attempts: 0,
            backlog,
        }
    }

    /// Takes the recovered commits that the engine has not stored. The caller absorbs them before any newer commit.
    pub(crate) fn take_backlog(&mut self) -> Vec<Arc<Commit>> {
        std::mem::take(&mut self.backlog)
    }

    /// Stores published commits in the engine. After an error the caller may pass the same commits again.
    pub(crate) fn absorb(&mut self, commits: &[Arc<Commit>]) -> Result<(), EngineError> {
        if !commits.is_empty() {
            self.reclaim_attempts = 0;
        }
        self.store(commits)?;
        if !self.volatile && !commits.is_empty() {
            let rest = self.core.limits.pack_rest;
            self.next_pack.get_or_insert_with(|| Instant::now() + rest);
        }
        self.absorbed += commits.iter().map(|commit| commit.events.len()).sum::<usize>();
        let taken = commits.iter().map(|commit| self.record(commit)).sum();
        self.core.update_usage(taken);
        self.log_bytes += taken as u64;
        Ok(())
    }

    /// Gives commits to the engine. If the disk is full, it deletes the reserve file and tries once more.
    fn store(&self, commits: &[Arc<Commit>]) -> Result<(), EngineError> {
        match self.core.write_to_engine(commits) {
            Err(error) if error.is_full() && self.core.on_disk_full() => self.core.write_to_engine(commits),
            other => other,
        }
    }

    /// Checkpoints if enough log was written since the last checkpoint.
    pub(crate) fn checkpoint_if_due(&mut self) -> Result<(), EngineError> {
        let due = pace::checkpoint_bytes(&self.core.limits, self.core.engine.size().live);
        if self.log_bytes >= due { self.checkpoint() } else { Ok(()) }
    }

    /// Bytes of log written since the last checkpoint; zero if the engine is volatile and never checkpointed.
    pub(crate) fn log_bytes_since_checkpoint(&self) -> u64 {
        if self.volatile { 0 } else { self.log_bytes }
    }

    /// Records a stored commit for the next manifest and schedules its compaction. Returns the commit's cost in bytes.
    fn record(&mut self, commit: &Commit) -> usize {
        self.stored.apply(commit);
        self.sweeper.want(self.stored.compacted);
        commit.cost()
    }

    /// Prepares the next log file, unless free space is low: then the space is reserved for work that frees some.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let Some(disk_space) = self.core.disk_space() else { return Ok(()) };
        disk_space.check();
        if disk_space.is_low() {
            return Ok(());
        }
        self.segments.prepare(pace::segment_bytes(&self.core.limits, self.core.engine.size().live))
    }

    /// Makes the engine's state durable and deletes log segments that only older states need. It keeps one generation
    /// of log more than needed, so that the store could also open from the previous manifest. If the disk is full,
    /// nothing changes.
    pub(crate) fn checkpoint(&mut self) -> Result<(), EngineError> {
        let swept = self.swept();
        if self.volatile || (self.stored.seq, swept) == (self.manifest.state.seq, self.manifest.swept) {
            return Ok(());
        }
        self.seal()
    }

    fn seal(&mut self) -> Result<(), EngineError> {
        if self.untrusted {
            return Ok(());
        }
        self.core.disk_space().into_iter().for_each(DiskSpace::check);
        let (began, keep_above) = (Instant::now(), self.manifest.state.seq);
        let token = self.core.engine.seal().inspect_err(|_| self.untrusted = true)?;
        let next = Manifest {
            generation: self.manifest.generation + 1,
            state: self.stored.clone(),
            token: token.to_vec(),
            swept: self.swept(),
            ..self.manifest.clone()
        };
        if !self.draft(&next)? {
            return Ok(());
        }
        manifest::adopt(&*self.disk, &self.dir)?;
        self.manifest = next;
        self.log_bytes = 0;
        self.core.engine.sealed()?;
        self.segments.remove_upto(keep_above)?;
        self.core.metrics.checkpoints.add(1);
        self.core.metrics.checkpoint_time.add(began.elapsed());
        self.core.background_waiters.record_sweep(Revision(self.manifest.swept));
        Ok(())
    }

    /// Writes the next manifest to a temporary file. Returns false if the disk is full.
    fn draft(&self, next: &Manifest) -> io::Result<bool> {
        loop {
            match manifest::draft(&*self.disk, &self.dir, next) {
                Ok(()) => return Ok(true),
                Err(error) if !is_full(&error) => return Err(error),
                Err(_) if self.core.on_disk_full() => {}
                Err(error) => {
                    tracing::warn!(%error, "no space for a checkpoint");
                    return Ok(false);
                }
            }
        }
    }

    /// The revision up to which all superseded records are removed. While a pin exists, this is the manifest's value.
    fn swept(&self) -> i64 {
        if self.core.pins.has_none_delayed() { self.sweeper.done().0 } else { self.manifest.swept }
    }

    /// Does one bounded step of deferrable work: sweeping, defragmentation, repair, releasing space. Returns whether
    /// there is more to do.
    pub(crate) fn work(&mut self) -> Result<bool, EngineError> {
        if !self.core.engine.confine()? {
            self.core.report_unconfined_damage();
        }
        match self.sweep() {
            Err(error) if error.is_full() => return Ok(self.core.on_disk_full() || self.reclaim_space()?),
            Err(error) => return Err(error),
            Ok(true) => return Ok(true),
            Ok(false) => {}
        }
        if self.core.background_waiters.has_sweep_waiters() {
            self.confirm_sweep()?;
        }
        let ticket = self.core.background_waiters.pending_defragment();
        match (self.core.engine.defragment(), ticket) {
            (Ok(DefragmentOutcome::More), _) => {
                if self.core.is_low() {
                    // The copied records occupy space twice until the old states are dropped.
                    self.drop_old_states()?;
                }
                return Ok(true);
            }
            (Ok(DefragmentOutcome::Damaged(_)), ticket) => {
                self.core.report_unconfined_damage();
                let reason = "stored data is damaged".to_owned();
                ticket.into_iter().for_each(|ticket| {
                    self.core.background_waiters.complete_defragment(ticket, Err(reason.clone()));
                });
            }
            (Ok(DefragmentOutcome::Idle), None) if self.core.engine.take_unsealed() => {
                // Without a checkpoint, a crash would bring the damaged file back.
                self.seal()?;
                return Ok(true);
            }
            (Ok(DefragmentOutcome::Idle), None) => return self.release(),
            (Ok(DefragmentOutcome::Idle), Some(ticket)) => {
                self.drop_old_states()?;
                self.core.background_waiters.complete_defragment(ticket, Ok(()));
            }
            (Err(error), _) if error.is_full() && (self.core.on_disk_full() || self.reclaim_space()?) => {
                return Ok(true);
            }
            (Err(error), ticket) => {
                tracing::error!(%error, "defragmentation failed");
                ticket.into_iter().for_each(|ticket| {
                    self.core.background_waiters.complete_defragment(ticket, Err(error.to_string()));
                });
                self.reclaim_attempts = 0;
            }
        }
        Ok(false)
    }

    /// When [`BackgroundWorker::scrub`] or [`BackgroundWorker::pack`] is next due.
    pub(crate) fn next_due(&self) -> Instant {
        self.next_pack.map_or(self.next_scrub, |next| next.min(self.next_scrub))
    }

    /// Stores superseded versions in fewer bytes, a file a step, if a step is due. Steps rest for as long as keeps them at a small part
    /// of a processor. Returns whether the next step is due at once.
    pub(crate) fn pack(&mut self) -> Result<bool, EngineError> {
        let now = Instant::now();
        if self.next_pack.is_none_or(|next| now < next) {
            return Ok(false);
        }
        // What is copied occupies space twice for a while; without that space it stays as it is.
        let packed = if self.core.is_low() { Ok(0) } else { self.core.engine.pack() };
        let bytes = match packed {
            Err(error) if error.is_full() => {
                tracing::warn!(%error, "no space to compress superseded versions");
                0
            }
            other => other?,
        };
        self.next_pack = (bytes > 0).then(|| now + pace::pack_rest(&self.core.limits, bytes));
        Ok(self.next_pack.is_some_and(|next| next <= now))
    }

    /// Reads the next part of the engine's files in search of damage, if a step is due. The rate is chosen so that a
    /// pass takes [`crate::Limits::scrub_pass`]; a shorter pass is followed by a rest. Returns whether damage was
    /// found; the next work step repairs it.
    pub(crate) fn scrub(&mut self) -> Result<bool, EngineError> {
        let now = Instant::now();
        if now < self.next_scrub {
            return Ok(false);
        }
        let limits = &self.core.limits;
        let bytes = pace::scrub_bytes(limits, self.core.engine.size().allocated);
        let scrubbed = self.core.engine.scrub(bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot scrub the engine's files; retrying later");
            ScrubOutcome::default()
        });
        if scrubbed.damaged {
            // More damage is likely nearby, and in-memory copies are dropped over time, so the scrub continues at once.
            return Ok(true);
        }
        self.next_scrub = now + limits.scrub_interval;
        if scrubbed.complete {
            self.next_scrub = self.next_scrub.max(self.scrub_began + limits.scrub_pass);
            self.scrub_began = self.next_scrub;
        }
        Ok(false)
    }

    /// Repairs known damage before the last checkpoint, so that the next start does not find it.
    pub(crate) fn repair_known_damage(&mut self) -> Result<(), EngineError> {
        /// Most files that are rewritten, so that closing stays bounded in time.
        const FILES: usize = 64;
        if !self.core.engine.confine()? {
            self.core.report_unconfined_damage();
        }
        if !self.core.engine.take_unsealed() {
            return Ok(());
        }
        for _ in 0..FILES {
            if self.core.engine.defragment()? != DefragmentOutcome::More {
                break;
            }
        }
        self.seal()
    }

    /// Does a bounded part of physical compaction: at least as many records as the engine has stored since the last part, so that the
    /// removal keeps up with the writers.
    fn sweep(&mut self) -> Result<bool, EngineError> {
        let steps = 1 + std::mem::take(&mut self.absorbed) / RECORDS;
        let mut more = true;
        for _ in 0..steps {
            more = self.sweeper.step(&self.core)?;
            if !more {
                break;
            }
        }
        if more {
            self.core.update_usage(0);
        } else {
            self.core.set_swept(self.sweeper.done());
            self.core.pins.remove_delayed()?;
        }
        Ok(more)
    }

    /// Makes the finished sweep durable, for callers that wait for physical compaction.
    fn confirm_sweep(&mut self) -> Result<(), EngineError> {
        if self.volatile {
            // The log has the compaction, and the next start rebuilds the engine from the log.
            self.core.background_waiters.record_sweep(Revision(self.swept()));
        }
        self.checkpoint()
    }

    /// Drops old states to free space. Returns whether that freed any.
    fn reclaim_space(&mut self) -> Result<bool, EngineError> {
        /// Most attempts in a row. Unfinished work can use up the freed space again, so the attempts must be bounded.
        const TIMES: u8 = 4;
        if self.reclaim_attempts >= TIMES {
            return Ok(false);
        }
        self.reclaim_attempts += 1;
        let free = |core: &Core| core.disk_space().map_or(0, DiskSpace::free);
        let before = free(&self.core);
        self.drop_old_states()?;
        Ok(free(&self.core) > before)
    }

    /// Deletes everything that only older states need. There are two older states: the previous manifest's and the
    /// engine's.
    fn drop_old_states(&mut self) -> Result<(), EngineError> {
        const STATES: usize = 2;
        if self.volatile {
            return Ok(());
        }
        (0..STATES).try_for_each(|_| self.seal())
    }

    /// Checkpoints when idle, if that would free much space. Returns whether it did.
    fn release(&mut self) -> Result<bool, EngineError> {
        let engine = &self.core.engine;
        let worth = pace::is_worth_sealing(&self.core.limits, engine.size().live, engine.retired());
        if worth && !self.volatile {
            self.seal()?;
        }
        Ok(worth && !self.volatile)
    }
}
