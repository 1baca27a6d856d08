//! The public interface of a store: every operation, without its logic.
//!
//! `image` copies a store in memory, `status` reports one moment of a store. `tasks` runs the store's tokio tasks:
//! `expire` revokes expired leases, `release` frees memory after a burst of writes.
//!
//! Promise: an operation is one call of a lower level, with its result as the public type; dropping its future never
//! leaves half a change. Never here: state (the levels below have it), and work on a closed directory (`maintenance`).

mod expire;
pub(crate) mod image;
mod release;
pub(crate) mod status;
mod tasks;

use self::tasks::Tasks;
use crate::published::waiters::SweepWaiter;
use crate::read::watcher::Watcher;
use crate::recovery::recover;
use crate::runtime::driver::Driver;
use crate::runtime::request::{Rejection, Request, Response};
use crate::types::alarm::AlarmChange;
use crate::types::error::{
    AlarmError, CompactError, DefragmentError, LeaseError, OpenError, RangeError, TxnError, WatchError,
};
use crate::types::lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
use crate::types::metrics::MetricsSnapshot;
use crate::types::watch::WatchRequest;
use crate::{
    Alarm, Config, DamagedRecord, Delete, HashKv, ImageError, KeyRange, KeyValue, KeyVersion,
    LEASE_TTL_MAX_SECONDS, LeaseId, NoSpaceReason, Op, OpResult, Range, RangeResult, Revision, SnapshotError,
    SnapshotInfo, StoreImage, StoreSize, StoreStatus, Txn, TxnResult, txn,
};
use bytes::Bytes;
use kstore_nondet::Nondet;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

/// A handle to an open store. It is cheap to clone. The store closes when the last handle is dropped, or by
/// [`Store::close`].
#[derive(Clone)]
pub struct Store {
    driver: Arc<Driver>,
    tasks: Arc<Tasks>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store that `config` describes, and creates it if the directory is empty. On return it is recovered,
    /// locked against other processes, and serves.
    ///
    /// Call it inside a tokio runtime: leases expire on its timer. If that runtime ends before the store, the next call
    /// of [`Store::range`], [`Store::watch`] or a writing operation inside another runtime moves the timers there.
    pub async fn open(config: Config, nondet: Nondet) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open(config, &nondet)?))
    }

    /// Opens a store in memory that starts from an image, with the same revisions, history, leases and alarms. It
    /// shares memory with the image, and is independent of the store that the image was taken of. Call it inside a
    /// tokio runtime, like [`Store::open`].
    pub fn from_image(image: &StoreImage, nondet: &Nondet) -> Self {
        Self::start(image.driver(nondet))
    }

    /// Takes an image of this store, which must be in memory, at its newest revision. Waits for a write in progress.
    ///
    /// # Errors
    /// [`ImageError`] if the store is on disk, or was closed.
    pub fn image(&self) -> Result<StoreImage, ImageError> {
        StoreImage::of(&self.driver)
    }

    /// Opens a store without threads on a test's own disk.
    #[cfg(test)]
    pub(crate) fn open_stepped(
        disk: Arc<dyn crate::disk::Disk>,
        config: &Config,
        rng: &kstore_nondet::Rng,
    ) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open_stepped(disk, config, rng, None)?))
    }

    /// Opens a store without threads on a test's own disk with a test's own engine.
    #[cfg(test)]
    pub(crate) fn open_stepped_with(
        disk: Arc<dyn crate::disk::Disk>,
        config: &Config,
        rng: &kstore_nondet::Rng,
        engine: recover::OpenEngine<'_>,
    ) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open_stepped(disk, config, rng, Some(engine))?))
    }

    /// Opens a store with threads on a test's own disk.
    #[cfg(test)]
    pub(crate) fn open_threads(
        disk: Arc<dyn crate::disk::Disk>,
        config: &Config,
        rng: &kstore_nondet::Rng,
    ) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open_threads(disk, config, rng)?))
    }

    fn start(driver: Driver) -> Self {
        let store = Self { driver: Arc::new(driver), tasks: Arc::default() };
        store.keep_tasks();
        store
    }

    /// Starts the store's tasks in the caller's runtime, unless they run already. The runtime that ran them may have
    /// ended.
    fn keep_tasks(&self) {
        let driver = &self.driver;
        self.tasks.expiry.keep(|| expire::run(driver.core().clone(), Arc::downgrade(driver)));
        self.tasks.release.keep(|| release::run(driver.core().clone()));
    }

    async fn submit(&self, request: Request, bytes: usize) -> Result<Response, Rejection> {
        self.keep_tasks();
        self.driver.submit(request, bytes).await
    }

    #[cfg(test)]
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The revision that readers see. Everything up to it is durable. It never decreases.
    pub fn revision(&self) -> Revision {
        self.driver.core().revision()
    }

    /// The oldest readable revision; [`Revision::NEVER_COMPACTED`] at first.
    pub fn compacted(&self) -> Revision {
        self.driver.core().visible().state.compacted
    }

    /// Reads keys at one revision. It waits neither for a writer nor for the disk, except to read old versions.
    pub fn range(&self, request: &Range) -> Result<RangeResult, RangeError> {
        self.keep_tasks();
        self.driver.core().range(request)
    }

    /// Executes a transaction. Returns after everything that it wrote and observed is durable. Dropping the future does
    /// not cancel the transaction.
    pub async fn txn(&self, txn: Txn) -> Result<TxnResult, TxnError> {
        let bytes = txn::check::check(&txn, &self.driver.core().limits)?;
        match self.submit(Request::Txn(txn), bytes).await? {
            Response::Txn(result) => result,
            other => unreachable!("a transaction was answered with {other:?}"),
        }
    }

    /// Executes transactions one after the other, each at a revision of its own, in one group of commits: they share one sync, and no other
    /// request comes between them. Returns their results in order, after everything that they wrote and observed is durable. A
    /// transaction that fails changes nothing, and those after it are executed all the same. Dropping the future does not cancel them.
    ///
    /// # Errors
    /// The outer error is that of the first transaction that no store would accept, or [`TxnError::TooManyOps`] and
    /// [`TxnError::TooLarge`] where there are more transactions than [`crate::Limits::txn_ops`], or where they have more bytes together
    /// than [`crate::Limits::request_bytes`]: nothing was executed. A result is [`TxnError::TooLarge`], too, where those before it
    /// changed [`crate::Limits::commit_bytes`].
    pub async fn each(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnResult, TxnError>>, TxnError> {
        let bytes = txn::check::check_each(&txns, &self.driver.core().limits)?;
        match self.submit(Request::Each(txns), bytes).await? {
            Response::Each(results) => Ok(results),
            other => unreachable!("transactions were answered with {other:?}"),
        }
    }

    /// Reads one key at the current revision; none if it does not exist. It needs no runtime, like [`Store::range`].
    pub fn get(&self, key: impl Into<Bytes>) -> Result<Option<Arc<KeyValue>>, RangeError> {
        Ok(self.range(&Range::key(key))?.kvs.pop())
    }

    /// Writes one key. Returns the new revision; durable on return.
    pub async fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<Revision, TxnError> {
        Ok(self.txn(Txn::of(vec![Op::put(key, value)])).await?.revision)
    }

    /// Deletes one key. Returns whether it existed; durable on return.
    pub async fn delete(&self, key: impl Into<Bytes>) -> Result<bool, TxnError> {
        Ok(self.delete_range(KeyRange::single(key)).await? > 0)
    }

    /// Deletes the keys of a range in one revision. Returns the number of deleted keys; durable on return.
    pub async fn delete_range(&self, keys: KeyRange) -> Result<u64, TxnError> {
        let result = self.txn(Txn::of(vec![Op::Delete(Delete { keys, prev_kv: false })])).await?;
        let deleted = result.responses.iter().map(|response| match response {
            OpResult::Delete(delete) => delete.deleted.unsigned_abs(),
            OpResult::Range(_) | OpResult::Put(_) | OpResult::Txn(_) => 0,
        });
        Ok(deleted.sum())
    }

    /// Writes one key if its mod revision is still `expected` (zero: if it does not exist). Otherwise nothing changes,
    /// and the inner result's error has the current version, or none if the key does not exist.
    pub async fn put_if_unchanged(
        &self,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        expected: Revision,
    ) -> Result<Result<Revision, Option<Arc<KeyValue>>>, TxnError> {
        let key = key.into();
        let result = self.txn(Txn::if_unchanged(key.clone(), expected, Op::put(key, value))).await?;
        if result.succeeded {
            return Ok(Ok(result.revision));
        }
        let found = result.responses.into_iter().find_map(OpResult::into_range);
        Ok(Err(found.and_then(|mut range| range.kvs.pop())))
    }

    /// Starts a watch. It delivers every event from its start on, in order, once, and whole revisions at a time. If the
    /// start revision has been compacted, the first [`Watcher::next`] returns an error.
    pub fn watch(&self, request: WatchRequest) -> Result<Watcher, WatchError> {
        self.keep_tasks();
        Watcher::new(self.driver.core().clone(), request)
    }

    /// Compacts the history up to `revision`: discards versions that only reads below it could see. Takes effect for
    /// reads and watches on return; the disk space is freed in the background.
    pub async fn compact(&self, revision: Revision) -> Result<(), CompactError> {
        match self.submit(Request::Compact(revision), 0).await? {
            Response::Compact(result) => result,
            other => unreachable!("a compaction was answered with {other:?}"),
        }
    }

    /// Compacts the history up to `revision`, and returns after the superseded records are removed durably: not even a
    /// crash brings them back. Dropping the future does not cancel the compaction.
    pub async fn compact_physical(&self, revision: Revision) -> Result<(), CompactError> {
        let waiter = SweepWaiter::new(self.driver.core().clone());
        self.compact(revision).await?;
        waiter.swept(revision).await
    }

    /// Defragments: frees all disk space that removed records occupy. The background worker does this by itself too,
    /// but only where it is worth the cost. Other operations do not wait for it.
    pub async fn defragment(&self) -> Result<(), DefragmentError> {
        let core = self.driver.core();
        core.check_serving()?;
        let ticket = core.background_waiters.request_defragment();
        self.driver.wake();
        core.background_waiters.wait_defragmented(core, ticket).await?.map_err(DefragmentError::Engine)
    }

    /// etcd's hash of the history up to `revision` ([`Revision::CURRENT`]: everything). All stores with the same
    /// history compacted at the same revision have the same hash, etcd's own included. Reads the whole history in steps
    /// that block no other operation, but blocks the calling thread.
    pub fn hash_kv(&self, revision: Revision) -> Result<HashKv, RangeError> {
        crate::read::hash::hash_kv(self.driver.core(), revision)
    }

    /// Writes the current state with its history and leases as a bbolt database, notes included. etcd's own tools open
    /// it and `maintenance::restore` reads it. Writers, readers and compaction continue meanwhile. Memory use does not
    /// depend on the size of the store, apart from its leases.
    ///
    /// `to` is not synced, and is not a valid database before the return. Blocks the calling thread.
    pub fn snapshot(&self, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
        crate::snapshot::snapshot(self.driver.core(), to)
    }

    /// The directory for a snapshot's temporary file: the data directory, if its file system has enough space; `None`
    /// for a store in memory. The system's temporary directory is in memory on many machines.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Write`] if the file could leave the store less than [`crate::Limits::disk_free_bytes`].
    pub fn snapshot_dir(&self) -> Result<Option<PathBuf>, SnapshotError> {
        let core = self.driver.core();
        core.disk_space()
            .map(|disk_space| disk_space.snapshot_dir(self.size().live))
            .transpose()
            .map_err(SnapshotError::Write)
    }

    /// The changes of a key whose results can be read, ascending, at most one a revision: those after the oldest readable revision, and
    /// before them the change that made the version of that revision. Reads no value; takes time and memory in proportion to the changes.
    ///
    /// # Errors
    /// The store has stopped, or the key's oldest version cannot be read.
    pub fn versions(&self, key: &[u8]) -> Result<Vec<KeyVersion>, RangeError> {
        self.driver.core().versions(key)
    }

    /// The note of the transaction that made `revision`, if it carried one. Compaction removes it, unless the revision
    /// is the create or mod revision of an existing key.
    pub fn note(&self, revision: Revision) -> Option<Bytes> {
        self.driver.core().note(revision)
    }

    /// Grants a lease of `ttl` seconds. [`LeaseId::NONE`] lets the store choose the id.
    pub async fn lease_grant(&self, ttl: i64, id: LeaseId) -> Result<LeaseGranted, LeaseError> {
        if ttl > LEASE_TTL_MAX_SECONDS {
            return Err(LeaseError::TtlTooLarge);
        }
        let core = self.driver.core();
        let ttl = ttl.max(core.limits.lease_ttl_min.as_secs() as i64);
        match self.submit(Request::Grant { id, ttl, now: Instant::now() }, 0).await? {
            Response::Grant(result) => {
                // The time counts from the answer, not from the request, so that a lease never ends early.
                if let Ok(granted) = &result {
                    core.leases.renew(granted.id, Instant::now());
                }
                result
            }
            other => unreachable!("a lease grant was answered with {other:?}"),
        }
    }

    /// Revokes a lease and deletes its keys in one revision. Returns that revision, or the current one if it had no
    /// keys.
    ///
    /// If the deletions exceed [`crate::Limits::commit_bytes`], they take several revisions, in key order; the last one
    /// is returned. Meanwhile the lease can neither be renewed nor get keys. If the future is dropped or the store
    /// crashes meanwhile, the remaining keys are deleted when the lease expires. Expiry deletes keys in the same way.
    pub async fn lease_revoke(&self, id: LeaseId) -> Result<Revision, LeaseError> {
        loop {
            match self.submit(Request::Revoke(id), 0).await? {
                Response::Revoke(result) => return result,
                Response::RevokedInPart => {}
                other => unreachable!("a lease revocation was answered with {other:?}"),
            }
        }
    }

    /// Renews a lease: its time starts again now. Renewals are kept in memory only and wait for nothing; after a
    /// restart every lease gets its full time again. For a lease that has expired but is not yet removed, it returns
    /// after the removal.
    pub async fn lease_keep_alive(&self, id: LeaseId) -> Result<LeaseRenewed, LeaseError> {
        let core = self.driver.core();
        core.check_serving()?;
        let (now, revision) = (Instant::now(), core.revision());
        let renewed = match core.leases.renew(id, now) {
            Some(ttl) => Ok(LeaseRenewed { ttl, revision }),
            None => match self.submit(Request::KeepAlive { id, now }, 0).await? {
                Response::KeepAlive(result) => result.and_then(|renewed| {
                    // The writer evaluated this before the grant was published, so the lease's time counts from the
                    // grant.
                    core.leases.renew(id, Instant::now()).map(|_| renewed).ok_or(LeaseError::NotFound(id))
                }),
                other => unreachable!("a keep-alive was answered with {other:?}"),
            },
        };
        renewed.inspect(|_| core.metrics.leases_renewed.add(1))
    }

    /// Returns the granted and remaining time of a lease, with its keys if `keys`.
    pub async fn lease_time_to_live(&self, id: LeaseId, keys: bool) -> Result<LeaseStatus, LeaseError> {
        let (granted_ttl, keys, revision) = match self.submit(Request::Inspect { id, keys }, 0).await? {
            Response::Inspect(result) => result?,
            other => unreachable!("a question about a lease was answered with {other:?}"),
        };
        let deadline = self.driver.core().leases.deadline(id).ok_or(LeaseError::NotFound(id))?;
        let ttl = deadline.saturating_duration_since(Instant::now()).as_secs() as i64;
        Ok(LeaseStatus { ttl, granted_ttl, keys, revision })
    }

    /// Lists all leases, ascending by id.
    pub async fn leases(&self) -> Result<Vec<LeaseId>, LeaseError> {
        match self.submit(Request::List, 0).await? {
            Response::List(leases) => Ok(leases),
            other => unreachable!("a question about leases was answered with {other:?}"),
        }
    }

    /// The raised alarms, ascending. Only durable ones: an alarm that was returned is still raised after a crash.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.driver.core().visible().state.alarms.iter().collect()
    }

    /// Raises an alarm. Returns whether it was not raised before; durable on return.
    pub async fn alarm_raise(&self, alarm: Alarm) -> Result<bool, AlarmError> {
        self.change_alarms(AlarmChange::Raise(alarm)).await
    }

    /// Disarms an alarm. Returns whether it was raised; durable on return. If its cause persists, the next affected
    /// write raises it again.
    pub async fn alarm_disarm(&self, alarm: Alarm) -> Result<bool, AlarmError> {
        self.change_alarms(AlarmChange::Disarm(alarm)).await
    }

    /// Why [`Alarm::NoSpace`] is raised; `None` if it is not, or if the next write ends it.
    pub fn no_space_reason(&self) -> Option<NoSpaceReason> {
        let alarms = self.driver.core().visible().state.alarms;
        self.driver.core().no_space_reason(alarms)
    }

    async fn change_alarms(&self, change: AlarmChange) -> Result<bool, AlarmError> {
        match self.submit(Request::Alarm(change), 0).await? {
            Response::Alarm(changed) => Ok(changed),
            other => unreachable!("an alarm was answered with {other:?}"),
        }
    }

    /// The damaged records without an intact copy, by revision; empty if there are none. At most a few thousand are
    /// listed.
    pub fn damage(&self) -> Vec<DamagedRecord> {
        self.driver.core().engine.damage()
    }

    /// Why the history engine gets no more commits, if it failed. No data is lost and all requests are served, but the log
    /// grows. At [`crate::Limits::log_budget_bytes`] the store stops: check the disk and open the store again before
    /// that.
    pub fn engine_failure(&self) -> Option<String> {
        self.driver.core().background_waiters.failure()
    }

    /// The store's status: revisions, sizes, alarms and engine failure.
    pub fn status(&self) -> StoreStatus {
        StoreStatus::of(self.driver.core())
    }

    /// Bytes that the store occupies.
    pub fn size(&self) -> StoreSize {
        StoreSize::of(self.driver.core())
    }

    /// A random number that identifies the data: constant over restarts, never zero.
    pub fn identity(&self) -> u64 {
        self.driver.core().cluster
    }

    /// Values of the store's metrics since it was opened.
    pub fn metrics(&self) -> MetricsSnapshot {
        let core = self.driver.core();
        let (watchers_behind, events_pending) = core.hub.load();
        MetricsSnapshot {
            keys: core.keys(),
            watchers: core.hub.watchers() as u64,
            watchers_behind,
            events_pending,
            pending_bytes: core.usage.pending(),
            engine_failed: u64::from(core.background_waiters.failure().is_some()),
            records_healed: core.engine.healed.get(),
            records_damaged: core.engine.damaged(),
            ..core.metrics.snapshot()
        }
    }

    /// Closes the store: finishes queued requests, syncs, checkpoints and unlocks the directory. Watches end; later
    /// calls return [`crate::Stopped`]. It closes the store for all handles.
    pub async fn close(&self) {
        if !self.driver.has_threads() {
            self.driver.close();
            return;
        }
        let driver = self.driver.clone();
        if tokio::task::spawn_blocking(move || driver.close()).await.is_err() {
            tracing::error!("closing the store panicked");
        }
    }
}
