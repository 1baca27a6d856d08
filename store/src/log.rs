//! The log's step: one write and one sync for a group, then it is visible and answered. Runs on the log's own thread, or on
//! the evaluating one when nothing else is under way; on one of them at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Durability;
use crate::commit::Commit;
use crate::core::Core;
use crate::feed::Feed;
use crate::group::Group;
use crate::invariants;
use crate::wal::Wal;

/// See the module.
pub(crate) struct Log {
    core: Arc<Core>,
    wal: Wal,
    /// Sync at this interval, not per group.
    relaxed: Option<Duration>,
    /// When the next sync is due, if something is unsynced.
    due: Option<Instant>,
    /// When the log counts as idle, if it does not yet.
    idle: Option<Instant>,
    /// Published but not yet given to the engine, which must not be ahead of the log.
    held: Vec<Arc<Commit>>,
    /// The next file was asked for; once per segment.
    asked: bool,
}

impl Log {
    pub(crate) fn new(core: Arc<Core>, wal: Wal, durability: Durability) -> Self {
        let relaxed = match durability {
            Durability::Relaxed { interval } => Some(interval),
            Durability::Sync | Durability::Memory => None,
        };
        let idle = wal.owes_note().then(|| Instant::now() + core.limits.log_idle);
        Self { core, wal, relaxed, due: None, idle, held: Vec::new(), asked: false }
    }

    /// Logs a group, publishes and answers it; leaves it empty. On an error nothing of it was published or answered, and
    /// the store must stop.
    pub(crate) fn step(&mut self, group: &mut Group) -> io::Result<()> {
        if !group.commits.is_empty() {
            self.write(&group.commits)?;
        }
        if self.core.has_failed() {
            return Err(io::Error::other("another part of the store failed"));
        }
        group.publish(&self.core);
        // Callers before watchers: whoever is woken first is served first, and watchers do not wait for the answer.
        group.release();
        self.core.deliver_soon();
        self.held.append(&mut group.commits);
        Ok(())
    }

    fn write(&mut self, commits: &[Arc<Commit>]) -> io::Result<()> {
        let bytes = self.wal.append(commits)?;
        let now = Instant::now();
        match self.relaxed {
            None => self.sync()?,
            Some(interval) => drop(self.due.get_or_insert(now + interval)),
        }
        self.idle = Some(now + self.core.limits.log_idle);
        let metrics = &self.core.metrics;
        metrics.groups.add(1);
        metrics.log_bytes.add(bytes as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let began = Instant::now();
        self.wal.sync()?;
        self.due = None;
        let metrics = &self.core.metrics;
        metrics.log_sync_time.add(began.elapsed());
        metrics.syncs.add(1);
        Ok(())
    }

    /// When [`Log::visit`] wants to be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.idle).min()
    }

    /// Does what is due. Says whether the log is idle from now on.
    pub(crate) fn visit(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        if self.due.is_some_and(|due| due <= now) {
            self.sync()?;
        }
        let idle = self.idle.is_some_and(|idle| idle <= now);
        if idle {
            self.finish()?;
        }
        Ok(idle)
    }

    /// Syncs what is unsynced and notes that all is.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.idle = None;
        self.due = None;
        let owed = self.wal.owes_note();
        self.wal.note()?;
        self.core.metrics.notes_of_sync.add(u64::from(owed));
        Ok(())
    }

    /// What the engine may be given, if anything, and whether the next log file is wanted.
    pub(crate) fn yielded(&mut self) -> Option<(Vec<Arc<Commit>>, bool)> {
        if self.held.is_empty() || self.wal.has_unsynced() {
            return None;
        }
        invariants::log_covers(self.wal.synced_seq(), &self.held);
        let wants = self.wal.wants_spare();
        let asks = wants && !std::mem::replace(&mut self.asked, wants);
        self.asked = wants;
        Some((std::mem::take(&mut self.held), asks))
    }

    /// Passes on what the engine may be given; waits while it has too much.
    pub(crate) fn feed(&mut self, feed: &Feed) {
        if let Some((commits, prepare)) = self.yielded() {
            feed.push(commits, prepare);
        }
    }
}
