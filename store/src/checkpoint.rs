//! The background's work: feeds published commits to the engine, compacts, prepares log files, wins back space, and from time
//! to time makes the engine's state durable, so that old log segments can go. A thread drives it, or a test step by step.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::Instant;

use crate::alarm::Alarms;
use crate::codec::manifest::Manifest;
use crate::commit::{Commit, LeaseChange};
use crate::compact::Sweeper;
use crate::core::Core;
use crate::disk::Disk;
use crate::engine::{EngineError, Scrubbed, Tidied};
use crate::manifest;
use crate::pace;
use crate::room::{Room, is_full};
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
    sweeper: Sweeper,
    /// How often old states were let go of for want of room since something else happened.
    cleared: u8,
    /// The engine keeps nothing over a restart, so the log must stay whole.
    volatile: bool,
    /// Bytes of log since the last checkpoint.
    since: u64,
    /// A sync of the engine failed: what is on disk is unknown, and another sync would not tell. Until the next start the
    /// engine is not relied on for more than the manifest says.
    untrusted: bool,
    /// See [`Background::take_backlog`].
    backlog: Vec<Arc<Commit>>,
    /// When the engine's files are read on, in search of damage.
    next_scrub: Instant,
    /// When the pass through the files that is under way began.
    scrub_began: Instant,
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

/// How far the engine is when the background begins.
pub(crate) enum Stored {
    /// It has everything that was recovered, up to the log's record `seq`.
    All {
        seq: u64,
        leases: Vec<(i64, i64)>,
        /// Bytes of log that no checkpoint covers.
        log_bytes: u64,
    },
    /// It has what the manifest says, and perhaps some of what follows.
    AsInManifest {
        /// All commits that follow.
        backlog: Vec<Arc<Commit>>,
    },
}

impl Background {
    /// Begins where recovery ended.
    pub(crate) fn new(core: Arc<Core>, place: Place, manifest: Manifest, stored: Stored) -> Self {
        let (fed, leases, since, backlog) = match stored {
            Stored::All { seq, leases, log_bytes } => {
                let visible = core.visible();
                let (revision, compacted, alarms) = (visible.revision, visible.compacted, visible.alarms);
                (Fed { seq, revision, compacted, alarms }, leases, log_bytes, Vec::new())
            }
            Stored::AsInManifest { backlog } => {
                let fed = Fed {
                    seq: manifest.seq,
                    revision: Revision(manifest.revision),
                    compacted: Revision(manifest.compacted),
                    alarms: manifest.alarms,
                };
                (fed, manifest.leases.clone(), 0, backlog)
            }
        };
        let Place { disk, dir, segments, engine } = place;
        let volatile = engine == EngineKind::Memory;
        core.chores.swept(Revision(manifest.swept));
        // A crash may have interrupted the physical part of the last compaction.
        let mut sweeper = Sweeper::new(Revision(manifest.swept));
        sweeper.want(fed.compacted);
        let leases = leases.into_iter().collect();
        // Opening has read everything.
        let scrub_began = Instant::now();
        let next_scrub = scrub_began + core.limits.scrub_interval;
        Self {
            next_scrub,
            scrub_began,
            core,
            disk,
            dir,
            segments,
            manifest,
            fed,
            leases,
            sweeper,
            volatile,
            since,
            untrusted: false,
            cleared: 0,
            backlog,
        }
    }

    /// What recovery could not give to the engine, to be absorbed before anything newer.
    pub(crate) fn take_backlog(&mut self) -> Vec<Arc<Commit>> {
        std::mem::take(&mut self.backlog)
    }

    /// Takes published commits in. If it fails, all of them may be given again.
    pub(crate) fn absorb(&mut self, commits: &[Arc<Commit>]) -> Result<(), EngineError> {
        if !commits.is_empty() {
            self.cleared = 0;
        }
        self.store(commits)?;
        let taken = commits.iter().map(|commit| self.note(commit)).sum();
        self.core.measure(taken);
        self.since += taken as u64;
        Ok(())
    }

    /// Gives commits to the engine. If there is no room for them, the reserve is let go of first.
    fn store(&self, commits: &[Arc<Commit>]) -> Result<(), EngineError> {
        match self.core.store(commits) {
            Err(error) if error.is_full() && self.core.ran_out() => self.core.store(commits),
            other => other,
        }
    }

    /// Checkpoints if there is enough for it.
    pub(crate) fn checkpoint_if_due(&mut self) -> Result<(), EngineError> {
        let due = pace::checkpoint_bytes(&self.core.limits, self.core.engine.size().live);
        if self.since >= due { self.checkpoint() } else { Ok(()) }
    }

    /// Bytes of log that no checkpoint covers, though one is wanted.
    pub(crate) fn unsealed_bytes(&self) -> u64 {
        if self.volatile { 0 } else { self.since }
    }

    /// What was stored is to be in the next manifest, and what it compacts is to be swept; says what the commit costs.
    fn note(&mut self, commit: &Commit) -> usize {
        self.fed.seq = commit.seq;
        self.fed.revision = commit.revision;
        if let Some(compacted) = commit.compacted {
            self.fed.compacted = compacted;
            self.sweeper.want(compacted);
        }
        self.fed.alarms = commit.alarms.unwrap_or(self.fed.alarms);
        for change in &commit.leases {
            match *change {
                LeaseChange::Granted(id, ttl) => drop(self.leases.insert(id.0, ttl)),
                LeaseChange::Gone(id) => drop(self.leases.remove(&id.0)),
            }
        }
        commit.cost()
    }

    /// Prepares the next log file, unless room is short: then the space is better left to what frees some.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let Some(room) = self.core.room() else { return Ok(()) };
        room.survey();
        if room.is_short() {
            return Ok(());
        }
        self.segments.prepare(pace::segment_bytes(&self.core.limits, self.core.engine.size().live))
    }

    /// Makes the engine's state durable and drops the log that only older states need. One generation of log more than
    /// needed is kept, so that the manifest before this one would do as well. If there is no room for it, nothing changes.
    pub(crate) fn checkpoint(&mut self) -> Result<(), EngineError> {
        let swept = self.swept();
        if self.volatile || (self.fed.seq, swept) == (self.manifest.seq, self.manifest.swept) {
            return Ok(());
        }
        self.seal()
    }

    fn seal(&mut self) -> Result<(), EngineError> {
        if self.untrusted {
            return Ok(());
        }
        self.core.room().into_iter().for_each(Room::survey);
        let (began, keep_above) = (Instant::now(), self.manifest.seq);
        let token = self.core.engine.seal().inspect_err(|_| self.untrusted = true)?;
        let next = Manifest {
            generation: self.manifest.generation + 1,
            seq: self.fed.seq,
            revision: self.fed.revision.0,
            compacted: self.fed.compacted.0,
            leases: self.leases.iter().map(|(id, ttl)| (*id, *ttl)).collect(),
            token: token.to_vec(),
            alarms: self.fed.alarms,
            swept: self.swept(),
            ..self.manifest.clone()
        };
        if !self.draft(&next)? {
            return Ok(());
        }
        manifest::adopt(&*self.disk, &self.dir)?;
        self.manifest = next;
        self.since = 0;
        self.core.engine.sealed()?;
        self.segments.remove_upto(keep_above)?;
        self.core.metrics.checkpoints.add(1);
        self.core.metrics.checkpoint_time.add(began.elapsed());
        self.core.chores.swept(Revision(self.manifest.swept));
        Ok(())
    }

    /// Writes the next manifest down; false if there is no room for it.
    fn draft(&self, next: &Manifest) -> io::Result<bool> {
        loop {
            match manifest::draft(&*self.disk, &self.dir, next) {
                Ok(()) => return Ok(true),
                Err(error) if !is_full(&error) => return Err(error),
                Err(_) if self.core.ran_out() => {}
                Err(error) => {
                    tracing::warn!(%error, "there is no room for a checkpoint");
                    return Ok(false);
                }
            }
        }
    }

    /// As far as everything superfluous is gone.
    fn swept(&self) -> i64 {
        if self.core.pins.is_clear() { self.sweeper.done().0 } else { self.manifest.swept }
    }

    /// One bounded step of what is not urgent; says whether there is more to do.
    pub(crate) fn work(&mut self) -> Result<bool, EngineError> {
        if !self.core.healing.confine()? {
            self.core.cannot_confine();
        }
        match self.sweep() {
            Err(error) if error.is_full() => return Ok(self.core.ran_out() || self.make_room()?),
            Err(error) => return Err(error),
            Ok(true) => return Ok(true),
            Ok(false) => {}
        }
        if self.core.chores.is_hurried() {
            self.confirm_sweep()?;
        }
        let wish = self.core.chores.wanted();
        match (self.core.engine.tidy(), wish) {
            (Ok(Tidied::More), _) => {
                if self.core.is_short() {
                    // What was copied stands there twice until then.
                    self.forget_old_states()?;
                }
                return Ok(true);
            }
            (Ok(Tidied::Damaged(_)), wish) => {
                self.core.cannot_confine();
                let reason = "stored data is damaged".to_owned();
                wish.into_iter().for_each(|wish| self.core.chores.answer(wish, Err(reason.clone())));
            }
            (Ok(Tidied::Idle), None) if self.core.healing.take_unsealed() => {
                // A crash would bring the damage back.
                self.seal()?;
                return Ok(true);
            }
            (Ok(Tidied::Idle), None) => return self.release(),
            (Ok(Tidied::Idle), Some(wish)) => {
                self.forget_old_states()?;
                self.core.chores.answer(wish, Ok(()));
            }
            (Err(error), _) if error.is_full() && (self.core.ran_out() || self.make_room()?) => {
                return Ok(true);
            }
            (Err(error), wish) => {
                tracing::error!(%error, "space cannot be won back");
                wish.into_iter().for_each(|wish| self.core.chores.answer(wish, Err(error.to_string())));
                self.cleared = 0;
            }
        }
        Ok(false)
    }

    /// When [`Background::scrub`] has something to do.
    pub(crate) fn next_scrub(&self) -> Instant {
        self.next_scrub
    }

    /// Reads the engine's files on, if it is time for it, at a rate at which a pass takes [`crate::Limits::scrub_pass`], and one
    /// of little data rests for the remainder of that; says whether damage was found, which is dealt with next.
    pub(crate) fn scrub(&mut self) -> Result<bool, EngineError> {
        let now = Instant::now();
        if now < self.next_scrub {
            return Ok(false);
        }
        let limits = &self.core.limits;
        let bytes = pace::scrub_bytes(limits, self.core.engine.size().allocated);
        let scrubbed = self.core.engine.scrub(bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "the engine's files cannot be searched for damage; this is tried again");
            Scrubbed::default()
        });
        if scrubbed.damaged {
            // Where there is some, there may be more, and copies do not stay for ever.
            return Ok(true);
        }
        self.next_scrub = now + limits.scrub_interval;
        if scrubbed.complete {
            self.next_scrub = self.next_scrub.max(self.scrub_began + limits.scrub_pass);
            self.scrub_began = self.next_scrub;
        }
        Ok(false)
    }

    /// Before the last checkpoint: deals with damage that is known, so that the next start does not meet it.
    pub(crate) fn settle_damage(&mut self) -> Result<(), EngineError> {
        /// Files that are copied at most: a close must not take for ever.
        const FILES: usize = 64;
        if !self.core.healing.confine()? {
            self.core.cannot_confine();
        }
        if !self.core.healing.take_unsealed() {
            return Ok(());
        }
        for _ in 0..FILES {
            if self.core.engine.tidy()? != Tidied::More {
                break;
            }
        }
        self.seal()
    }

    /// One step of removing what was compacted.
    fn sweep(&mut self) -> Result<bool, EngineError> {
        let more = self.sweeper.step(&self.core)?;
        if more {
            self.core.measure(0);
        } else {
            self.core.pins.settle()?;
        }
        Ok(more)
    }

    /// Makes what was swept durable, for those who wait for it.
    fn confirm_sweep(&mut self) -> Result<(), EngineError> {
        if self.volatile {
            // The log has the compaction; the engine is made anew from it.
            self.core.chores.swept(Revision(self.swept()));
        }
        self.checkpoint()
    }

    /// Lets go of old states; says whether that gave any space back.
    fn make_room(&mut self) -> Result<bool, EngineError> {
        /// What is given up half-way may take what is given back, so that this must not go on for ever.
        const TIMES: u8 = 4;
        if self.cleared >= TIMES {
            return Ok(false);
        }
        self.cleared += 1;
        let free = |core: &Core| core.room().map_or(0, Room::free);
        let before = free(&self.core);
        self.forget_old_states()?;
        Ok(free(&self.core) > before)
    }

    /// Lets go of everything that only older states need. They are two: the manifest before this one, and the engine's.
    fn forget_old_states(&mut self) -> Result<(), EngineError> {
        const STATES: usize = 2;
        if self.volatile {
            return Ok(());
        }
        (0..STATES).try_for_each(|_| self.seal())
    }

    /// When there is nothing else to do: a checkpoint, if much space waits for it; says whether there was one.
    fn release(&mut self) -> Result<bool, EngineError> {
        let engine = &self.core.engine;
        let worth = pace::is_worth_sealing(&self.core.limits, engine.size().live, engine.retired());
        if worth && !self.volatile {
            self.seal()?;
        }
        Ok(worth && !self.volatile)
    }
}
