//! State shared by readers, writer and background worker: the published state and the reads of it. Only the writer
//! publishes.

use crate::disk::space::DiskSpace;
use crate::engine::feed::Feed;
use crate::engine::healing::HealingEngine;
use crate::engine::{Engine, EngineError, Repairable};
use crate::mvcc::index::{Index, Version, VersionRef};
use crate::mvcc::view::{self, SelectedVersion};
use crate::mvcc::window::Window;
use crate::published::hub::{Hub, WatchEnd};
use crate::published::lease_clock::LeaseClock;
use crate::published::pins::Pins;
use crate::published::quota::Usage;
use crate::published::waiters::BackgroundWaiters;
use crate::types::alarm::{Alarm, AlarmChange, Alarms, NoSpaceReason};
use crate::types::commit::Commit;
use crate::types::error::Stopped;
use crate::types::event::EventKind;
use crate::types::invariants;
use crate::types::key_version::{KeyVersion, VersionEffect};
use crate::types::metrics::Metrics;
use crate::types::range::{Range, RangeResult};
use crate::types::record::RecordKey;
use crate::types::state::DurableState;
use crate::wal::WalSegments;
use crate::{KeyRange, KeyValue, Limits, RangeError, Revision};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// Published state: durable, and what every reader sees.
#[derive(Debug)]
pub(crate) struct PublishedState {
    pub(crate) state: DurableState,
    pub(crate) index: Index,
    pub(crate) window: Window,
}

impl PublishedState {
    fn publish(&mut self, commit: &Arc<Commit>) {
        invariants::follows(self.state.revision, commit);
        for (sub, event) in commit.events.iter().enumerate() {
            let dead = event.kind == EventKind::Delete;
            let sub = u32::try_from(sub).expect("a commit's changes are numbered by 32 bits");
            self.index.apply(Version { kv: event.kv.clone(), main: commit.revision, sub, dead });
        }
        self.state.apply(commit);
        if !commit.events.is_empty() {
            self.window.push(commit.clone());
        }
    }
}

/// The published state, the engine, and the components that every thread of the store shares.
pub(crate) struct Core {
    visible: RwLock<PublishedState>,
    /// A copy of `PublishedState::revision` that is read without the lock.
    revision: AtomicI64,
    /// The newest revision up to which the engine has everything.
    stored: AtomicI64,
    /// The revision up to which the superseded records are removed from the engine, or wait for pins.
    swept: AtomicI64,
    state: AtomicU8,
    /// Damage was found that cannot be confined to single records, and no alarm is raised yet.
    damaged: AtomicBool,
    /// Held by the thread that delivers published commits to the watchers.
    delivering: Mutex<()>,
    /// A random id of the data, constant over restarts.
    pub(crate) cluster: u64,
    /// The engine, which repairs what it finds damaged.
    pub(crate) engine: Arc<HealingEngine>,
    pub(crate) hub: Hub,
    pub(crate) leases: LeaseClock,
    /// Pins of long reads of history, and the removals that they delay.
    pub(crate) pins: Pins,
    /// The queue of commits from the log to the background worker.
    pub(crate) feed: Arc<Feed>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) usage: Usage,
    pub(crate) background_waiters: BackgroundWaiters,
    /// Notified once, when the store is closed or has failed.
    pub(crate) ended: Notify,
    /// The log's files, if there is a log.
    log: OnceLock<Arc<WalSegments>>,
}

const SERVING: u8 = 0;
const CLOSED: u8 = 1;
const FAILED: u8 = 2;

impl Core {
    pub(crate) fn new(
        visible: PublishedState,
        engine: Arc<dyn Repairable>,
        cluster: u64,
        limits: Limits,
    ) -> Self {
        let revision = visible.state.revision;
        let feed = Arc::new(Feed::new(limits.feed_batch_bytes, limits.feed_bytes));
        let engine = Arc::new(HealingEngine::new(engine, feed.clone()));
        Self {
            hub: Hub::new(revision, &limits),
            visible: RwLock::new(visible),
            revision: AtomicI64::new(revision.0),
            stored: AtomicI64::new(revision.0),
            swept: AtomicI64::new(Revision::NEVER_COMPACTED.0),
            state: AtomicU8::new(SERVING),
            damaged: AtomicBool::new(false),
            delivering: Mutex::default(),
            cluster,
            pins: Pins::new(engine.clone(), feed.clone()),
            feed,
            engine,
            leases: LeaseClock::default(),
            limits,
            metrics: Metrics::default(),
            usage: Usage::default(),
            background_waiters: BackgroundWaiters::default(),
            ended: Notify::new(),
            log: OnceLock::new(),
        }
    }

    /// Sets the log's files. Called once, when the store has a log.
    pub(crate) fn set_log(&self, segments: Arc<WalSegments>) {
        self.engine.set_log(segments.clone());
        self.log.set(segments).expect("a store has one log");
    }

    /// The monitor of free disk space, if the store has a log on a file system.
    pub(crate) fn disk_space(&self) -> Option<&DiskSpace> {
        self.log.get()?.disk_space()
    }

    /// Why [`Alarm::NoSpace`] is raised in `alarms`. None if it is not raised, or if the reason is over and the next
    /// write ends the alarm.
    pub(crate) fn no_space_reason(&self, alarms: Alarms) -> Option<NoSpaceReason> {
        if !alarms.contains(Alarm::NoSpace) {
            return None;
        }
        if alarms.is_at_quota() && !alarms.is_kept(Alarm::NoSpace) && !alarms.is_disk_low() {
            let quota = self.limits.quota_bytes.filter(|_| self.limits.history_bytes.is_some())?;
            return Some(NoSpaceReason::Quota { used: self.usage.current(), quota });
        }
        let (used, quota) = (self.usage.used(), self.limits.quota_bytes);
        let raised = |dir| NoSpaceReason::Raised { dir, used, quota };
        match self.disk_space() {
            Some(disk_space) if !alarms.is_kept(Alarm::NoSpace) => {
                let (dir, free, least) = (disk_space.dir().to_owned(), disk_space.free(), disk_space.least());
                (free < least).then_some(NoSpaceReason::LowDisk { dir, free, least })
            }
            Some(disk_space) => Some(raised(Some(disk_space.dir().to_owned()))),
            None => Some(raised(None)),
        }
    }

    /// The alarm change that follows from an operation that found no space.
    pub(crate) fn out_of_space(&self) -> AlarmChange {
        self.disk_space().map_or(AlarmChange::Raise(Alarm::NoSpace), DiskSpace::out_of_space)
    }

    /// Whether free space on the file system is low.
    pub(crate) fn is_low(&self) -> bool {
        self.disk_space().is_some_and(DiskSpace::is_low)
    }

    /// Reacts to a write that failed because the disk is full. Returns whether another try makes sense.
    pub(crate) fn on_disk_full(&self) -> bool {
        self.disk_space().is_some_and(DiskSpace::on_disk_full)
    }

    /// Total size of the log's files in bytes.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.get().map_or(0, |segments| segments.bytes())
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    pub(crate) fn engine_revision(&self) -> Revision {
        Revision(self.stored.load(Ordering::Acquire))
    }

    /// The revision up to which the superseded records are removed from the engine, or wait for pins.
    pub(crate) fn swept(&self) -> Revision {
        Revision(self.swept.load(Ordering::Acquire))
    }

    pub(crate) fn set_swept(&self, revision: Revision) {
        self.swept.store(revision.0, Ordering::Release);
    }

    /// Whether the history has more bytes than its bound.
    pub(crate) fn has_excess_history(&self) -> bool {
        self.limits.history_bytes.is_some_and(|bound| self.usage.history() > bound)
    }

    /// Counts the bytes of the versions that exist, after the index was built.
    pub(crate) fn count_current(&self) {
        let visible = self.visible.read();
        let everything = KeyRange::all();
        let live = visible.index.range(&everything).filter_map(|entry| entry.newest().live());
        let bytes = live.map(|kv| kv.current_bytes()).sum();
        self.usage.set_current(bytes);
    }

    /// Locks the published state for reading. Callers hold the lock for a few lines, never while waiting.
    pub(crate) fn visible(&self) -> parking_lot::RwLockReadGuard<'_, PublishedState> {
        self.visible.read()
    }

    /// Locks the published state for reading in a thread that may hold the read lock already.
    pub(crate) fn visible_recursive(&self) -> parking_lot::RwLockReadGuard<'_, PublishedState> {
        self.visible.read_recursive()
    }

    pub(crate) fn visible_mut(&self) -> parking_lot::RwLockWriteGuard<'_, PublishedState> {
        self.visible.write()
    }

    /// Refuses once the store is closed or has failed.
    pub(crate) fn check_serving(&self) -> Result<(), Stopped> {
        if self.state.load(Ordering::Acquire) == SERVING { Ok(()) } else { Err(Stopped) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state.load(Ordering::Acquire) == FAILED
    }

    /// Makes the store refuse new calls.
    pub(crate) fn stop_accepting(&self) {
        let _ = self.state.compare_exchange(SERVING, CLOSED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Ends the watches in order, after the remaining commits are delivered.
    pub(crate) fn close(&self) {
        self.stop_accepting();
        self.hub.end(WatchEnd::Closed);
        self.leases.changed.notify_one();
        self.background_waiters.notify();
        self.ended.notify_waiters();
    }

    /// Stops the store after a disk failure: it acknowledges, publishes and delivers nothing more.
    pub(crate) fn fail(&self, what: &str, error: &dyn std::fmt::Display) {
        if self.state.swap(FAILED, Ordering::AcqRel) != FAILED {
            tracing::error!(%error, "{what}; the store stops, because the state on disk is unknown");
        }
        self.hub.end(WatchEnd::Failed);
        self.leases.changed.notify_one();
        self.background_waiters.notify();
        self.ended.notify_waiters();
    }

    /// Reports an error of the engine. If the error is damage beyond single records, the background worker raises the
    /// alarm.
    pub(crate) fn report_engine_error(&self, error: &EngineError) {
        if matches!(error, EngineError::Corrupt(_)) {
            self.report_unconfined_damage();
        }
    }

    /// Reports damage that cannot be confined to single records: the background worker raises the alarm.
    pub(crate) fn report_unconfined_damage(&self) {
        self.damaged.store(true, Ordering::Release);
        self.feed.wake();
    }

    /// Takes the flag that damage was reported since the last call.
    pub(crate) fn take_damage_report(&self) -> bool {
        self.damaged.swap(false, Ordering::AcqRel)
    }

    /// Makes durable commits visible to readers. Revisions arrive in order.
    pub(crate) fn publish(&self, commits: &[Arc<Commit>]) {
        /// Commits published per lock acquisition. Readers wait for one such batch.
        const BATCH: usize = 64;
        for chunk in commits.chunks(BATCH) {
            let mut visible = self.visible.write();
            for commit in chunk {
                visible.publish(commit);
            }
            visible.window.trim(&self.limits, self.engine_revision());
            self.revision.store(visible.state.revision.0, Ordering::Release);
        }
        if commits.iter().any(|commit| commit.alarms.is_some()) {
            self.leases.changed.notify_one();
        }
    }

    /// Writes published commits to the engine in few batches.
    pub(crate) fn write_to_engine(&self, commits: &[Arc<Commit>]) -> Result<(), EngineError> {
        /// Commits per batch. The engine copies them once more, so this bounds memory too.
        const PUT: usize = 64;
        for part in commits.chunks(PUT) {
            let records: Vec<_> = part.iter().flat_map(|commit| commit.records()).collect();
            if let Some(last) = records.last() {
                self.engine.put(&records)?;
                self.stored.store(last.key.main.0, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Delivers published commits to the watchers: on this thread if that is little work, otherwise on the delivery
    /// thread. For a single write, waking another thread would cost more than the delivery.
    pub(crate) fn deliver_soon(&self) {
        const REVISIONS: i64 = 32;
        const WATCHERS: usize = 32;
        let outstanding = self.revision().0 - self.hub.delivered().0;
        let little = outstanding <= REVISIONS && self.hub.watchers() <= WATCHERS;
        match self.delivering.try_lock() {
            _ if outstanding == 0 => {}
            Some(_guard) if little => self.deliver_pending(),
            Some(_) | None => self.hub.notify_published(),
        }
    }

    /// Updates the size of stored data after the engine stored `taken` bytes or removed data.
    pub(crate) fn update_usage(&self, taken: usize) {
        self.usage.stored(taken, self.engine.size().live);
    }

    /// Number of keys at the published revision.
    pub(crate) fn keys(&self) -> u64 {
        let visible = self.visible.read();
        visible.index.count(&KeyRange::all(), visible.state.revision) as u64
    }

    /// Delivers published commits to the watchers.
    pub(crate) fn deliver(&self) {
        let _guard = self.delivering.lock();
        self.deliver_pending();
    }

    fn deliver_pending(&self) {
        /// Commits delivered per acquisition of the hub's lock.
        const BATCH: usize = 64;
        loop {
            let next = self.hub.delivered().next();
            let chunk = {
                let visible = self.visible.read();
                let since = visible.window.since(next);
                since
                    .map(|commits| commits.take(BATCH).cloned().collect::<Vec<_>>())
                    .ok_or(visible.window.first())
            };
            match chunk {
                Ok(commits) if commits.is_empty() => return,
                Ok(commits) => self.hub.deliver(&commits, &self.metrics),
                Err(first) => self.hub.skip_to(first.previous(), &self.metrics),
            }
        }
    }

    pub(crate) fn range(&self, request: &Range) -> Result<RangeResult, RangeError> {
        self.check_serving()?;
        self.metrics.ranges.add(1);
        let visible = self.visible.read();
        let revision = visible.state.revision;
        let at = view::resolve(request, revision, visible.state.compacted)?;
        let mut selection = view::select(&visible.index, request, at);
        for pick in &mut selection.picks {
            if let SelectedVersion::Stored(key) = pick
                && let Some(event) = visible.window.event(*key)
            {
                *pick = SelectedVersion::Ready(event.kv.clone());
            }
        }
        drop(visible);
        let mut left = self.limits.read_bytes;
        let kvs = view::read(request, &mut selection, &mut left, |key| self.read(key, at))?;
        Ok(view::finish(request, revision, &selection, kvs))
    }

    /// Reads an old version from the window or the engine.
    pub(crate) fn fetch(
        &self,
        visible: &PublishedState,
        key: RecordKey,
    ) -> Result<Arc<KeyValue>, RangeError> {
        match visible.window.event(key) {
            Some(event) => Ok(event.kv.clone()),
            None => self.read_engine(key)?.ok_or(RangeError::Damaged { revision: key.main }),
        }
    }

    /// Reads an old version that a read at `revision` selected. If the version is gone, compaction has overtaken the
    /// read.
    fn read(&self, key: RecordKey, revision: Revision) -> Result<Arc<KeyValue>, RangeError> {
        if let Some(kv) = self.read_engine(key)? {
            return Ok(kv);
        }
        let compacted = self.visible.read().state.compacted;
        if revision < compacted {
            Err(RangeError::Compacted { requested: revision, compacted })
        } else {
            Err(RangeError::Damaged { revision: key.main })
        }
    }

    fn read_engine(&self, key: RecordKey) -> Result<Option<Arc<KeyValue>>, RangeError> {
        self.metrics.engine_reads.add(1);
        let damaged = RangeError::Damaged { revision: key.main };
        let bytes = self.engine.get(key).map_err(|error| {
            tracing::error!(%error, revision = key.main.0, "cannot read a version from the engine");
            self.report_engine_error(&error);
            damaged
        })?;
        bytes.map(|bytes| KeyValue::decode(bytes).map(Arc::new).ok_or(damaged)).transpose()
    }

    /// The changes of a key whose results can be read, ascending.
    pub(crate) fn versions(&self, key: &[u8]) -> Result<Vec<KeyVersion>, RangeError> {
        self.check_serving()?;
        let visible = self.visible.read();
        let compacted = visible.state.compacted;
        let Some(entry) = visible.index.get(key) else { return Ok(Vec::new()) };
        let mut records: Vec<(RecordKey, bool)> = Vec::new();
        for (record, is_deletion) in entry.record_keys() {
            // Replaced by another change of its revision, or by one up to the oldest readable revision: nothing reads its result.
            records.pop_if(|(known, _)| known.main == record.main || record.main <= compacted);
            records.push((record, is_deletion));
        }
        records.retain(|(record, is_deletion)| !is_deletion || record.main > compacted);
        // Whether the key was there before the first change is in the version that it made; of all others it is known.
        let oldest = records.first().map(|(record, _)| *record).filter(|record| record.main <= compacted);
        let in_memory = oldest.and_then(|record| match entry.at(record.main)? {
            VersionRef::Newest(kv) => Some(kv.clone()),
            VersionRef::Stored(stored) => visible.window.event(stored).map(|event| event.kv.clone()),
        });
        drop(visible);
        let oldest_version = match (oldest, in_memory) {
            (Some(record), None) => Some(self.read(record, compacted)?),
            (_, known) => known,
        };
        let existed = oldest_version.is_some_and(|kv| kv.create_revision() < kv.mod_revision());
        Ok(key_versions(&records, existed))
    }

    pub(crate) fn note(&self, revision: Revision) -> Option<Bytes> {
        let visible = self.visible.read();
        if let Some(commit) = visible.window.get(revision) {
            return commit.note.clone();
        }
        drop(visible);
        self.engine.get(RecordKey::note(revision)).unwrap_or_else(|error| {
            tracing::error!(%error, revision = revision.0, "cannot read a note from the engine");
            None
        })
    }
}

/// Records of a key with whether each is a deletion, as changes. `existed`: the key was there before the first one.
fn key_versions(records: &[(RecordKey, bool)], mut existed: bool) -> Vec<KeyVersion> {
    let change = |&(record, is_deletion): &(RecordKey, bool)| {
        let effect = match (existed, is_deletion) {
            (_, true) => VersionEffect::Deleted,
            (true, false) => VersionEffect::Updated,
            (false, false) => VersionEffect::Created,
        };
        existed = !is_deletion;
        KeyVersion { revision: record.main, effect }
    };
    records.iter().map(change).collect()
}
