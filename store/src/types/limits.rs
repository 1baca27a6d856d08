//! Limits of the store: each bound with its reason and what happens when it is reached.

use crate::OpenError;
use std::time::Duration;

/// Lost versions that a salvage lists with their keys: enough for a person, and they stay in memory. Further ones are
/// counted among the lost revisions only.
pub(crate) const LOST_VERSIONS: usize = 10_000;

/// Bounds on the store's requests, memory, disk and timing. [`Limits::default`] suits a server; tests use tiny values
/// to reach rare branches.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Operations in one transaction, nested ones included. A larger transaction is refused; 128 is etcd's default,
    /// which clients expect.
    pub txn_ops: usize,
    /// Bytes of keys, values and notes in one transaction; etcd's default is 1.5 MiB. A larger transaction is refused.
    pub request_bytes: usize,
    /// Bytes of the changes that one transaction's deletions make, and of one group of requests. The store logs,
    /// publishes and delivers them in one piece and holds several copies in memory meanwhile. A transaction that would
    /// delete more (at 64 MiB, about half a million keys) is refused as too large: delete smaller ranges. The keys of
    /// an ending lease are then deleted in several revisions.
    pub commit_bytes: usize,
    /// Bytes of old versions that one range, or all ranges of one transaction, copy from the engine. Newest versions are shared and do not
    /// count. A larger read is refused, since its result would be in memory as a whole. Reads in key order can be made in parts by
    /// [`crate::Range::max_bytes`].
    pub read_bytes: usize,
    /// Requests that wait for the writer. At the bound the store refuses requests as busy, so that memory stays bounded
    /// when the disk stalls.
    pub queue_jobs: usize,
    /// Bytes of requests that wait for the writer. At the bound the store refuses requests as busy.
    pub queue_bytes: usize,
    /// Requests that share one write and one sync. Bounds the latency that a group adds to its first request.
    pub group_jobs: usize,
    /// Bytes of requests that share one write.
    pub group_bytes: usize,
    /// Revisions kept in memory for watchers that lag a little. Older revisions are read from the engine.
    pub window_revisions: usize,
    /// Bytes of events kept in memory for watchers that lag a little.
    pub window_bytes: usize,
    /// How long a commit stays in memory at least, if the other window bounds allow it. Older commits are
    /// dropped, at twice this age at the latest, while the window exceeds [`Limits::window_calm_bytes`]. So a burst of
    /// writes does not occupy memory for ever.
    pub window_age: Duration,
    /// Bytes of events that stay in memory however old they are.
    pub window_calm_bytes: usize,
    /// Events queued for one watcher. Above it the watcher drops its queue and reads history at its own pace.
    pub watcher_events: usize,
    /// Bytes queued for one watcher. Above it the watcher drops its queue and reads history at its own pace.
    pub watcher_bytes: usize,
    /// Revisions that a lagging watcher reads from history per step.
    pub history_revisions: usize,
    /// Bytes of commits queued between the log and the engine. At the bound the log waits for the engine.
    pub feed_bytes: usize,
    /// Bytes of commits that are given to the engine together, unless the log is idle before. Waking the engine for
    /// every write would cost a single client as much as the sync.
    pub feed_batch_bytes: usize,
    /// Bytes of log that may accumulate while the engine takes no commits or cannot be made durable. Memory holds them
    /// too, and the next start reads them. Above it the store stops.
    pub log_budget_bytes: u64,
    /// Pause before the engine is tried again after it refused work.
    pub engine_retry: Duration,
    /// Idle time after which the log records what is synced, and the engine gets the remaining commits.
    pub log_idle: Duration,
    /// Bytes of the log's first segment. It is small, because opening a store waits for it.
    pub first_segment_bytes: u64,
    /// Bytes of later log segments, which the background worker prepares.
    pub segment_bytes: u64,
    /// Bytes of log after which the engine is synced and old log segments are deleted.
    pub checkpoint_bytes: u64,
    /// Bytes of a file of the `segments` engine; the unit of defragmentation.
    pub engine_file_bytes: u64,
    /// Bytes of data that may be stored (`published::quota` defines what counts). A write that would reach it raises
    /// [`crate::Alarm::NoSpace`] and is refused. None means no bound. etcd's default is 2 GiB, which its clients plan
    /// for.
    pub quota_bytes: Option<u64>,
    /// Bytes of history (superseded versions, tombstones, and the engine's framing) above which the store compacts the oldest part, down to
    /// three quarters. The quota then bounds the current versions alone: history never makes a write fail, and the alarm of the quota ends
    /// when enough is deleted. Removal takes place in the background and waits for [pinned](crate::Store::snapshot) reads, so for a while
    /// there may be more. None means etcd's rules: no bound, and history counts against the quota.
    pub history_bytes: Option<u64>,
    /// Free bytes of the file system below which [`crate::Alarm::NoSpace`] is raised: two log segments, the bytes that
    /// a checkpoint writes, and as much again for other programs. Zero disables the check.
    pub disk_free_bytes: u64,
    /// Bytes of a file that reserves space. The store deletes it when the file system is full, so that deletions,
    /// compaction and a checkpoint can finish. Zero reserves none.
    pub reserve_bytes: u64,
    /// Interval between scrub steps, which read the engine's files in search of damage while an intact copy may still
    /// exist.
    pub scrub_interval: Duration,
    /// Bytes that a scrub step reads at least; more if a pass would take longer than [`Limits::scrub_pass`].
    pub scrub_bytes: u64,
    /// Longest duration of a scrub pass through all files, and shortest time between the starts of two passes.
    pub scrub_pass: Duration,
    /// Time for which what is written rests before superseded versions are compressed, since a short history loses them soon. Zero
    /// compresses at once, without a bound on the processor time.
    pub pack_rest: Duration,
    /// Number of leases that may exist. Memory and every checkpoint hold all of them.
    pub leases: usize,
    /// The shortest time to live of a lease; a shorter request is raised to it. It is etcd's minimum with its default
    /// election timeout.
    pub lease_ttl_min: Duration,
}

/// The longest time to live of a lease in seconds. etcd refuses more.
pub const LEASE_TTL_MAX_SECONDS: i64 = 9_000_000_000;

/// Bytes that a queued request takes in addition to its content.
pub(crate) const JOB_BYTES: usize = 64;

impl Default for Limits {
    fn default() -> Self {
        Self {
            txn_ops: 128,
            request_bytes: 3 << 19,
            commit_bytes: 64 << 20,
            read_bytes: 256 << 20,
            queue_jobs: 5_000,
            queue_bytes: 64 << 20,
            group_jobs: 1_024,
            group_bytes: 4 << 20,
            window_revisions: 8_192,
            window_bytes: 32 << 20,
            window_age: Duration::from_secs(20),
            window_calm_bytes: 1 << 20,
            watcher_events: 2_048,
            watcher_bytes: 8 << 20,
            history_revisions: 256,
            feed_bytes: 128 << 20,
            feed_batch_bytes: 256 << 10,
            log_budget_bytes: 512 << 20,
            engine_retry: Duration::from_secs(5),
            log_idle: Duration::from_secs(1),
            first_segment_bytes: 1 << 20,
            segment_bytes: 64 << 20,
            checkpoint_bytes: 64 << 20,
            engine_file_bytes: 32 << 20,
            quota_bytes: Some(2 << 30),
            history_bytes: None,
            disk_free_bytes: 256 << 20,
            reserve_bytes: 64 << 20,
            scrub_interval: Duration::from_secs(60),
            scrub_bytes: 1 << 20,
            scrub_pass: Duration::from_secs(24 * 60 * 60),
            pack_rest: Duration::from_secs(60),
            leases: 1_000_000,
            lease_ttl_min: Duration::from_secs(2),
        }
    }
}

/// The largest [`Limits::request_bytes`] and [`Limits::commit_bytes`]. A group of the log has at most a few times as
/// many bytes, and the log counts them with 32 bits.
const COMMIT_BYTES_MAX: usize = 1 << 30;

/// The largest [`Limits::engine_file_bytes`]. Offsets in such a file have 32 bits, and its last record may extend past
/// its size.
const ENGINE_FILE_BYTES_MAX: u64 = 1 << 31;

/// The smallest [`Limits::first_segment_bytes`]: a block of the file system. A smaller segment would hold a few
/// records, and every few writes would create a file.
const SEGMENT_BYTES_MIN: u64 = 4 << 10;

/// A violated rule of the limits: the field, and why its value cannot be used.
type Violation = (&'static str, String);

impl Limits {
    /// Refuses limits that contradict each other, or with which the store could not work.
    ///
    /// # Errors
    ///
    /// [`OpenError::Limit`] with the first such field and the reason.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let broken = self.zero().or_else(|| self.out_of_range()).or_else(|| self.contradiction());
        match broken {
            Some((name, detail)) => Err(OpenError::Limit { name, detail }),
            None => Ok(()),
        }
    }

    /// The first limit that is zero and must not be.
    fn zero(&self) -> Option<Violation> {
        let bounds = [
            ("txn_ops", self.txn_ops == 0),
            ("request_bytes", self.request_bytes == 0),
            ("queue_jobs", self.queue_jobs == 0),
            ("queue_bytes", self.queue_bytes == 0),
            ("group_jobs", self.group_jobs == 0),
            ("group_bytes", self.group_bytes == 0),
            ("commit_bytes", self.commit_bytes == 0),
            ("read_bytes", self.read_bytes == 0),
            ("window_age", self.window_age.is_zero()),
            ("history_revisions", self.history_revisions == 0),
            ("feed_bytes", self.feed_bytes == 0),
            ("engine_retry", self.engine_retry.is_zero()),
            ("log_idle", self.log_idle.is_zero()),
            ("checkpoint_bytes", self.checkpoint_bytes == 0),
            ("engine_file_bytes", self.engine_file_bytes == 0),
            ("scrub_interval", self.scrub_interval.is_zero()),
        ];
        let zero = bounds.into_iter().find(|(_, is_zero)| *is_zero);
        let zero = zero.map(|(name, _)| (name, "it is zero, and the store could do nothing".to_owned()));
        let quota = "it is zero, and every write would be refused; None is no bound".to_owned();
        let history = "it is zero, and no state but the newest would be kept; None is no bound".to_owned();
        let zero = zero.or_else(|| (self.quota_bytes == Some(0)).then_some(("quota_bytes", quota)));
        zero.or_else(|| (self.history_bytes == Some(0)).then_some(("history_bytes", history)))
    }

    /// The first limit that exceeds what the files or the protocol can express.
    fn out_of_range(&self) -> Option<Violation> {
        let above = |name, value: u64, most: u64, why| {
            (value > most).then(|| (name, format!("it is {value}, more than {most}: {why}")))
        };
        let log = "the log counts the bytes of a group with 32 bits";
        let ttl_max = LEASE_TTL_MAX_SECONDS.unsigned_abs();
        let segment = (self.first_segment_bytes < SEGMENT_BYTES_MIN).then(|| {
            let detail = format!(
                "it is {}, less than {SEGMENT_BYTES_MIN}: every few writes would make a file",
                self.first_segment_bytes
            );
            ("first_segment_bytes", detail)
        });
        above("request_bytes", self.request_bytes as u64, COMMIT_BYTES_MAX as u64, log)
            .or_else(|| above("commit_bytes", self.commit_bytes as u64, COMMIT_BYTES_MAX as u64, log))
            .or_else(|| {
                let why = "offsets in a file of the engine are 32 bits";
                above("engine_file_bytes", self.engine_file_bytes, ENGINE_FILE_BYTES_MAX, why)
            })
            .or_else(|| {
                let why = "no lease may live longer";
                above("lease_ttl_min", self.lease_ttl_min.as_secs(), ttl_max, why)
            })
            .or(segment)
    }

    /// The first limit that contradicts another one.
    fn contradiction(&self) -> Option<Violation> {
        let bytes = |value: usize| value as u64;
        let millis = |value: Duration| u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
        let queued = bytes(self.request_bytes).saturating_add(JOB_BYTES as u64);
        let table: [(&'static str, u64, &'static str, u64, &'static str); 6] = [
            (
                "queue_bytes",
                bytes(self.queue_bytes),
                "request_bytes with what a request takes in the queue",
                queued,
                "the largest requests would be refused as busy for ever",
            ),
            (
                "feed_bytes",
                bytes(self.feed_bytes),
                "feed_batch_bytes",
                bytes(self.feed_batch_bytes),
                "the log would wait for an engine that is not woken before there is more",
            ),
            (
                "window_bytes",
                bytes(self.window_bytes),
                "window_calm_bytes",
                bytes(self.window_calm_bytes),
                "a calm store would keep more than a busy one may",
            ),
            (
                "segment_bytes",
                self.segment_bytes,
                "first_segment_bytes",
                self.first_segment_bytes,
                "later segments would be smaller than the first, which is small so that a start is quick",
            ),
            (
                "log_budget_bytes",
                self.log_budget_bytes,
                "checkpoint_bytes",
                self.checkpoint_bytes,
                "the store would stop for want of log before its first checkpoint is due",
            ),
            (
                "scrub_pass",
                millis(self.scrub_pass),
                "scrub_interval",
                millis(self.scrub_interval),
                "a pass takes at least one interval (both in milliseconds)",
            ),
        ];
        let broken = table.into_iter().find(|(_, value, _, least, _)| value < least);
        broken.map(|(name, value, other, least, why)| {
            (name, format!("it is {value}, less than {least}, the value of {other}: {why}"))
        })
    }
}
