//! The log stage: one write and one sync per group, then the group is published and answered. It runs on the log's own
//! thread, or on the writer thread when nothing else is in progress; on one of them at a time.

use crate::Durability;
use crate::engine::feed::Feed;
use crate::published::core::Core;
use crate::runtime::group::Group;
use crate::types::commit::Commit;
use crate::types::invariants;
use crate::wal::Wal;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The write-ahead log with its sync schedule, and the commits that wait to be given to the engine.
pub(crate) struct Log {
    core: Arc<Core>,
    wal: Wal,
    /// Sync interval of relaxed durability; none if every group is synced.
    relaxed: Option<Duration>,
    /// When the next sync is due, if data is unsynced.
    due: Option<Instant>,
    /// When the log becomes idle; none if it is idle already.
    idle: Option<Instant>,
    /// Published commits that the engine has not got. The engine must not be ahead of the log.
    unfed: Vec<Arc<Commit>>,
    /// Whether the next log file was requested; once per segment.
    spare_requested: bool,
}

impl Log {
    pub(crate) fn new(core: Arc<Core>, wal: Wal, durability: Durability) -> Self {
        let relaxed = match durability {
            Durability::Relaxed { interval } => Some(interval),
            Durability::Sync | Durability::Memory => None,
        };
        let idle = wal.needs_sync_marker().then(|| Instant::now() + core.limits.log_idle);
        Self { core, wal, relaxed, due: None, idle, unfed: Vec::new(), spare_requested: false }
    }

    /// Logs a group, publishes it and sends its answers; leaves it empty. After an error nothing of the group was
    /// published or answered, and the store must stop.
    pub(crate) fn step(&mut self, group: &mut Group) -> io::Result<()> {
        if !group.commits.is_empty() {
            self.write(&group.commits)?;
        }
        if self.core.has_failed() {
            return Err(io::Error::other("another part of the store failed"));
        }
        group.publish(&self.core);
        // Callers before watchers: the thread woken first runs first, and watchers do not depend on the answers.
        group.send_answers();
        self.core.deliver_soon();
        self.unfed.append(&mut group.commits);
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

    /// When [`Log::run_due_work`] is next due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.idle).min()
    }

    /// Does the due work. Returns whether the log becomes idle.
    pub(crate) fn run_due_work(&mut self) -> io::Result<bool> {
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

    /// Syncs the log and records that everything is synced.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.idle = None;
        self.due = None;
        let owed = self.wal.needs_sync_marker();
        self.wal.write_sync_marker()?;
        self.core.metrics.sync_markers.add(u64::from(owed));
        Ok(())
    }

    /// Takes the commits that the engine may store, if any, and whether the next log file is requested.
    pub(crate) fn take_synced(&mut self) -> Option<(Vec<Arc<Commit>>, bool)> {
        if self.unfed.is_empty() || self.wal.has_unsynced() {
            return None;
        }
        invariants::log_covers(self.wal.synced_seq(), &self.unfed);
        let wants = self.wal.needs_spare();
        let asks = wants && !std::mem::replace(&mut self.spare_requested, wants);
        self.spare_requested = wants;
        Some((std::mem::take(&mut self.unfed), asks))
    }

    /// Passes synced commits to the feed; waits while the feed is full.
    pub(crate) fn feed(&mut self, feed: &Feed) {
        if let Some((commits, prepare)) = self.take_synced() {
            feed.push(commits, prepare);
        }
    }
}
