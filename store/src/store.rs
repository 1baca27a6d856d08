//! The façade: every operation of a store, without its logic.

use std::io::{Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use kstore_nondet::Nondet;
use tokio::time::Instant;

use crate::alarm::AlarmChange;
use crate::chores::Hurry;
use crate::driver::Driver;
use crate::error::{
    AlarmError, CompactError, DefragmentError, LeaseError, OpenError, RangeError, TxnError, WatchError,
};
use crate::lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
use crate::metrics::MetricsSnapshot;
use crate::request::{Answer, Refused, Request};
use crate::tasks::Tasks;
use crate::watch::{WatchRequest, Watcher};
use crate::{
    Alarm, Config, DamagedRecord, Delete, HashKv, ImageError, KeyRange, KeyValue, LEASE_TTL_MAX_SECONDS,
    LeaseId, NoSpaceReason, Op, OpResult, Range, RangeResult, Revision, SnapshotError, SnapshotInfo,
    StoreImage, StoreSize, StoreStatus, Txn, TxnResult, recover, txn,
};

/// A handle on an open store. Cheap to clone; the store closes when the last handle is dropped, or by [`Store::close`].
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
    /// Opens the store that `config` describes, making it if the directory is empty. On return it is recovered, locked
    /// against other processes, and serves. Call it inside a tokio runtime: leases expire on its timer. When that runtime ends
    /// before the store, they do on the timer of the next one in which the store is asked to read, watch or change something.
    pub async fn open(config: Config, nondet: Nondet) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open(config, &nondet)?))
    }

    /// Opens a store in memory that begins with an image: the same revisions, history, leases and alarms. It shares memory with the
    /// image, and is independent of the store that the image was taken of. Like [`Store::open`], call it inside a tokio runtime.
    pub fn from_image(image: &StoreImage, nondet: &Nondet) -> Self {
        Self::start(image.driver(nondet))
    }

    /// An image of what this store, which must be in memory, holds at its newest revision. Waits for a write that is under way.
    ///
    /// # Errors
    /// If the store is on disk, or was closed.
    pub fn image(&self) -> Result<StoreImage, ImageError> {
        self.driver.image()
    }

    /// Opens a store without threads on a disk of the test's own.
    #[cfg(test)]
    pub(crate) fn open_stepped(
        disk: Arc<dyn crate::disk::Disk>,
        config: &Config,
        rng: &kstore_nondet::Rng,
    ) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open_stepped(disk, config, rng, None)?))
    }

    /// The same with an engine of the test's own.
    #[cfg(test)]
    pub(crate) fn open_stepped_with(
        disk: Arc<dyn crate::disk::Disk>,
        config: &Config,
        rng: &kstore_nondet::Rng,
        engine: recover::OpenEngine<'_>,
    ) -> Result<Self, OpenError> {
        Ok(Self::start(recover::open_stepped(disk, config, rng, Some(engine))?))
    }

    /// The same with threads.
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

    /// Starts the tasks of the store in the caller's runtime, if they do not run: the runtime that had them may be gone.
    fn keep_tasks(&self) {
        let driver = &self.driver;
        self.tasks.expiry.keep(|| crate::lease::expire::run(driver.core().clone(), Arc::downgrade(driver)));
        self.tasks.release.keep(|| crate::release::run(driver.core().clone()));
    }

    async fn submit(&self, request: Request, bytes: usize) -> Result<Answer, Refused> {
        self.keep_tasks();
        self.driver.submit(request, bytes).await
    }

    #[cfg(test)]
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The revision that readers see; everything up to it is durable. Never goes back.
    pub fn revision(&self) -> Revision {
        self.driver.core().revision()
    }

    /// The oldest revision that can be read; [`Revision::NEVER_COMPACTED`] at first.
    pub fn compacted(&self) -> Revision {
        self.driver.core().visible().compacted
    }

    /// Reads keys at one revision. Never waits for a writer or the disk, except to fetch old versions.
    pub fn range(&self, request: &Range) -> Result<RangeResult, RangeError> {
        self.keep_tasks();
        self.driver.core().range(request)
    }

    /// Does a transaction. Resolves when what it wrote and what it observed is durable. Dropping the future does not
    /// take the transaction back.
    pub async fn txn(&self, txn: Txn) -> Result<TxnResult, TxnError> {
        let bytes = txn::check::check(&txn, &self.driver.core().limits)?;
        match self.submit(Request::Txn(txn), bytes).await? {
            Answer::Txn(result) => result,
            other => unreachable!("a transaction was answered with {other:?}"),
        }
    }

    /// The key as it is; none if it does not exist. Needs no runtime: like [`Store::range`], it is an ordinary call.
    pub fn get(&self, key: impl Into<Bytes>) -> Result<Option<Arc<KeyValue>>, RangeError> {
        Ok(self.range(&Range::key(key))?.kvs.pop())
    }

    /// Writes one key; says the new revision. Durable on return.
    pub async fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<Revision, TxnError> {
        Ok(self.txn(Txn::of(vec![Op::put(key, value)])).await?.revision)
    }

    /// Deletes one key; says whether it existed. Durable on return.
    pub async fn delete(&self, key: impl Into<Bytes>) -> Result<bool, TxnError> {
        Ok(self.delete_range(KeyRange::single(key)).await? > 0)
    }

    /// Deletes keys in one revision; says how many there were. Durable on return.
    pub async fn delete_range(&self, keys: KeyRange) -> Result<u64, TxnError> {
        let result = self.txn(Txn::of(vec![Op::Delete(Delete { keys, prev_kv: false })])).await?;
        let deleted = result.responses.iter().map(|response| match response {
            OpResult::Delete(delete) => delete.deleted.unsigned_abs(),
            OpResult::Range(_) | OpResult::Put(_) | OpResult::Txn(_) => 0,
        });
        Ok(deleted.sum())
    }

    /// Writes one key if its mod revision is still `expected` (zero: if it does not exist). Otherwise nothing changes, and the
    /// key as it is comes back as the error's other half: none if it does not exist.
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

    /// Begins a watch. Everything from its start on is delivered, in order, once, whole revisions at a time; a start that
    /// has been compacted is reported by the first [`Watcher::next`].
    pub fn watch(&self, request: WatchRequest) -> Result<Watcher, WatchError> {
        self.keep_tasks();
        Watcher::new(self.driver.core().clone(), request)
    }

    /// Gives up what only reads below `revision` could see. Takes effect for reads and watches on return; space comes back
    /// in the background.
    pub async fn compact(&self, revision: Revision) -> Result<(), CompactError> {
        match self.submit(Request::Compact(revision), 0).await? {
            Answer::Compact(result) => result,
            other => unreachable!("a compaction was answered with {other:?}"),
        }
    }

    /// As [`Store::compact`], but resolves only when what became superfluous is gone, and gone for good: not even a crash
    /// brings it back. Dropping the future does not take the compaction back.
    pub async fn compact_physical(&self, revision: Revision) -> Result<(), CompactError> {
        let hurry = Hurry::new(self.driver.core().clone());
        self.compact(revision).await?;
        hurry.swept(revision).await
    }

    /// Wins back all space that can be won back, which happens by itself too, but only where it is worth it. Nobody waits
    /// for it but the caller.
    pub async fn defragment(&self) -> Result<(), DefragmentError> {
        let core = self.driver.core();
        core.serving()?;
        let wish = core.chores.ask();
        self.driver.nudge();
        core.chores.answered(core, wish).await?.map_err(DefragmentError::Engine)
    }

    /// etcd's hash of the history up to `revision` ([`Revision::CURRENT`]: everything): equal in every store, etcd's own
    /// included, that holds the same history compacted at the same revision. Reads the whole history, in steps that block
    /// nobody: call it where blocking is allowed.
    pub fn hash_kv(&self, revision: Revision) -> Result<HashKv, RangeError> {
        crate::hash::hash_kv(self.driver.core(), revision)
    }

    /// Writes the current state with its history and leases as a bbolt database, which etcd's own tools open and
    /// `maintenance::restore` reads, notes included. Writers, readers and compaction go on meanwhile; memory use does not
    /// depend on the size of the store, apart from its leases. What is in `to` is not synced, and not a database before the
    /// return. Reads and writes files: call it where blocking is allowed.
    pub fn snapshot(&self, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
        crate::snapshot::snapshot(self.driver.core(), to)
    }

    /// Where a snapshot's temporary file belongs: in the data directory, whose file system has room for it now; `None` for a store
    /// in memory. The system's own folder for temporary files is memory on many machines.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Write`] if the file could leave the store less than [`crate::Limits::disk_free_bytes`].
    pub fn snapshot_dir(&self) -> Result<Option<PathBuf>, SnapshotError> {
        let core = self.driver.core();
        core.room().map(|room| room.snapshot_dir(self.size().live)).transpose().map_err(SnapshotError::Write)
    }

    /// The note of the transaction that made `revision`, if it carried one. Goes with compaction, but not while the
    /// revision is the create or mod revision of a key that exists.
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
            Answer::Grant(result) => {
                // Counted from the answer, not from the question: a lease never ends early.
                if let Ok(granted) = &result {
                    core.leases.renew(granted.id, Instant::now());
                }
                result
            }
            other => unreachable!("a lease grant was answered with {other:?}"),
        }
    }

    /// Ends a lease and deletes its keys in one revision, which is returned (the current one if it had no keys).
    ///
    /// Keys whose deletions are more than [`crate::Limits::commit_bytes`] go in several revisions, in the order of the keys; the
    /// last one is returned. Meanwhile the lease can neither be renewed nor get keys. If the future is dropped or the store
    /// crashes half-way, the rest goes when the lease's time is over. What expires goes in the same way.
    pub async fn lease_revoke(&self, id: LeaseId) -> Result<Revision, LeaseError> {
        loop {
            match self.submit(Request::Revoke(id), 0).await? {
                Answer::Revoke(result) => return result,
                Answer::RevokedInPart => {}
                other => unreachable!("a lease revocation was answered with {other:?}"),
            }
        }
    }

    /// Counts a lease's time anew from now. That is remembered in memory only and waits for nothing: over a restart every
    /// lease gets its whole time again. For a lease that is over but not yet gone, it resolves when it is.
    pub async fn lease_keep_alive(&self, id: LeaseId) -> Result<LeaseRenewed, LeaseError> {
        let core = self.driver.core();
        core.serving()?;
        let (now, revision) = (Instant::now(), core.revision());
        let renewed = match core.leases.renew(id, now) {
            Some(ttl) => Ok(LeaseRenewed { ttl, revision }),
            None => match self.submit(Request::KeepAlive { id, now }, 0).await? {
                Answer::KeepAlive(result) => result.and_then(|renewed| {
                    // The grant was not published when the writer judged, so the lease began with the time of the grant.
                    core.leases.renew(id, Instant::now()).map(|_| renewed).ok_or(LeaseError::NotFound(id))
                }),
                other => unreachable!("a keep-alive was answered with {other:?}"),
            },
        };
        renewed.inspect(|_| core.metrics.leases_renewed.add(1))
    }

    /// What is known of a lease, with its keys if `keys`.
    pub async fn lease_time_to_live(&self, id: LeaseId, keys: bool) -> Result<LeaseStatus, LeaseError> {
        let (granted_ttl, keys, revision) = match self.submit(Request::Inspect { id, keys }, 0).await? {
            Answer::Inspect(result) => result?,
            other => unreachable!("a question about a lease was answered with {other:?}"),
        };
        let deadline = self.driver.core().leases.deadline(id).ok_or(LeaseError::NotFound(id))?;
        let ttl = deadline.saturating_duration_since(Instant::now()).as_secs() as i64;
        Ok(LeaseStatus { ttl, granted_ttl, keys, revision })
    }

    /// All leases, by id.
    pub async fn leases(&self) -> Result<Vec<LeaseId>, LeaseError> {
        match self.submit(Request::List, 0).await? {
            Answer::List(leases) => Ok(leases),
            other => unreachable!("a question about leases was answered with {other:?}"),
        }
    }

    /// The alarms that are raised, ascending. Only durable ones: whoever sees one will still see it after a crash.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.driver.core().visible().alarms.iter().collect()
    }

    /// Raises an alarm by hand; says whether it was not raised before. Durable on return.
    pub async fn alarm_raise(&self, alarm: Alarm) -> Result<bool, AlarmError> {
        self.change_alarms(AlarmChange::Raise(alarm)).await
    }

    /// Disarms an alarm; says whether it was raised. Durable on return. If its cause is still there, it comes back with the
    /// next write that meets it.
    pub async fn alarm_disarm(&self, alarm: Alarm) -> Result<bool, AlarmError> {
        self.change_alarms(AlarmChange::Disarm(alarm)).await
    }

    /// Why [`Alarm::NoSpace`] is raised; `None` if it is not, or if the next write ends it.
    pub fn no_space_reason(&self) -> Option<NoSpaceReason> {
        let alarms = self.driver.core().visible().alarms;
        self.driver.core().no_space_reason(alarms)
    }

    async fn change_alarms(&self, change: AlarmChange) -> Result<bool, AlarmError> {
        match self.submit(Request::Alarm(change), 0).await? {
            Answer::Alarm(changed) => Ok(changed),
            other => unreachable!("an alarm was answered with {other:?}"),
        }
    }

    /// The stored records that are damaged and of which no copy is left, by revision; empty if all is well. At most a few
    /// thousand are listed.
    pub fn damage(&self) -> Vec<DamagedRecord> {
        self.driver.core().healing.damage()
    }

    /// Why the history engine is given nothing more, if it failed. Nothing is lost and everything is served, but the log grows,
    /// and at [`crate::Limits::log_budget_bytes`] the store stops: see to the disk and open the store again before that.
    pub fn engine_failure(&self) -> Option<String> {
        self.driver.core().chores.failure()
    }

    /// How the store is: where it stands, what it occupies, what is wrong.
    pub fn status(&self) -> StoreStatus {
        StoreStatus::of(self.driver.core())
    }

    /// What the store occupies.
    pub fn size(&self) -> StoreSize {
        StoreSize::of(self.driver.core())
    }

    /// A random number that names the data: the same over restarts, never zero.
    pub fn identity(&self) -> u64 {
        self.driver.core().cluster
    }

    /// What the store has done since it was opened, and how much it has to do.
    pub fn metrics(&self) -> MetricsSnapshot {
        let core = self.driver.core();
        let (watchers_behind, events_pending) = core.hub.load();
        MetricsSnapshot {
            keys: core.keys(),
            watchers: core.hub.watchers() as u64,
            watchers_behind,
            events_pending,
            pending_bytes: core.usage.pending(),
            engine_failed: u64::from(core.chores.failure().is_some()),
            records_healed: core.healing.healed.get(),
            records_damaged: core.healing.damaged(),
            ..core.metrics.snapshot()
        }
    }

    /// Finishes what is queued, syncs, checkpoints and releases the directory. Watches end; later calls are refused as
    /// stopped. Other handles are closed with it.
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
