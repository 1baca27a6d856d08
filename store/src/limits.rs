//! Every bound of the store, by name, with the reason and what happens at it.

use std::time::Duration;

use crate::OpenError;

/// The bounds. [`Limits::default`] suits a server; tests make them tiny to meet the rare branches.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Operations in one transaction, nesting included. More is refused; 128 is etcd's default, which clients expect.
    pub txn_ops: usize,
    /// Bytes of keys, values and notes in one transaction; etcd's 1.5 MiB. More is refused.
    pub request_bytes: usize,
    /// Bytes of the changes that the deletions of one transaction make, and of a group of requests: what is logged, published and
    /// delivered in one piece, and held in memory several times on the way. A transaction that would delete more (at 64 MiB, about
    /// half a million keys) is refused as too large, as etcd refuses requests that are: delete smaller ranges. The keys of a lease that
    /// ends are deleted in several revisions then.
    pub commit_bytes: usize,
    /// Requests that wait for the writer. At the bound a request is refused as busy, so that memory stays bounded when
    /// the disk stalls.
    pub queue_jobs: usize,
    /// Bytes that wait for the writer; as above.
    pub queue_bytes: usize,
    /// Requests that share one write and one sync. Bounds the latency a group adds to its first member.
    pub group_jobs: usize,
    /// Bytes of requests that share one write.
    pub group_bytes: usize,
    /// Revisions kept in memory for watchers that lag a little. Older ones are read from the engine.
    pub window_revisions: usize,
    /// Bytes of events kept in memory, as above.
    pub window_bytes: usize,
    /// How long a commit stays in memory at least, if the bounds above allow it. What is older, up to twice this, goes when there
    /// are more than [`Limits::window_calm_bytes`]: a busy time must not cost memory for ever.
    pub window_age: Duration,
    /// Bytes of events that stay in memory however old they are.
    pub window_calm_bytes: usize,
    /// Events queued for one watcher. Past it the watcher drops its queue and reads history at its own pace.
    pub watcher_events: usize,
    /// Bytes queued for one watcher, as above.
    pub watcher_bytes: usize,
    /// Revisions a lagging watcher reads from history at once.
    pub history_revisions: usize,
    /// Bytes between the log and the engine. At the bound the log waits for the engine.
    pub feed_bytes: usize,
    /// So many bytes are given to the engine together, unless the log is idle before: waking it for every write would cost
    /// a lone client as much as the sync.
    pub feed_batch_bytes: usize,
    /// Bytes of log that may pile up when the engine takes nothing in or cannot be made durable: memory holds them too, and the
    /// next start reads them. Past it the store stops.
    pub log_budget_bytes: u64,
    /// How long the engine is left alone after it refused something.
    pub engine_retry: Duration,
    /// When nothing was logged for so long, the log notes what is synced, and the engine is given what is left.
    pub log_idle: Duration,
    /// Size of the log's first segment: small, because opening a store waits for it.
    pub first_segment_bytes: u64,
    /// Size of later log segments, prepared in the background.
    pub segment_bytes: u64,
    /// Log bytes after which the engine is synced and old log segments are dropped.
    pub checkpoint_bytes: u64,
    /// Size of the files of the `segments` engine; the unit in which space is won back.
    pub engine_file_bytes: u64,
    /// Bytes of data that may be kept (what counts is said in `quota`); a write that would reach it raises
    /// [`crate::Alarm::NoSpace`] and is refused. None is no bound. 2 GiB is etcd's default, and what its clients plan for.
    pub quota_bytes: Option<u64>,
    /// Free bytes of the file system below which [`crate::Alarm::NoSpace`] is raised: two log segments, what a checkpoint
    /// writes, and as much again for others. Zero never looks.
    pub disk_free_bytes: u64,
    /// Size of a file that keeps space in reserve, to be let go of when the file system is full, so that deletions,
    /// compaction and a checkpoint can finish. Zero keeps none.
    pub reserve_bytes: u64,
    /// How often the engine's files are read on in search of damage, while a copy may still be there.
    pub scrub_interval: Duration,
    /// Bytes that are read then at least; more if a pass would take longer than [`Limits::scrub_pass`].
    pub scrub_bytes: u64,
    /// How long a pass through all files takes at most, and how long after its beginning the next one begins at the earliest.
    pub scrub_pass: Duration,
    /// Leases that may exist. They live in memory and in every checkpoint.
    pub leases: usize,
    /// The smallest time a lease may ask for; less is raised to it. etcd's floor with its default election timeout.
    pub lease_ttl_min: Duration,
}

/// The largest time to live of a lease in seconds; etcd refuses more.
pub const LEASE_TTL_MAX_SECONDS: i64 = 9_000_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            txn_ops: 128,
            request_bytes: 3 << 19,
            commit_bytes: 64 << 20,
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
            disk_free_bytes: 256 << 20,
            reserve_bytes: 64 << 20,
            scrub_interval: Duration::from_secs(60),
            scrub_bytes: 1 << 20,
            scrub_pass: Duration::from_secs(24 * 60 * 60),
            leases: 1_000_000,
            lease_ttl_min: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// Refuses bounds of zero with which the store could do nothing, or would try for ever.
    ///
    /// # Errors
    ///
    /// [`OpenError::Limit`] with the name of the first such bound.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bounds = [
            ("queue_jobs", self.queue_jobs == 0),
            ("queue_bytes", self.queue_bytes == 0),
            ("group_jobs", self.group_jobs == 0),
            ("group_bytes", self.group_bytes == 0),
            ("commit_bytes", self.commit_bytes == 0),
            ("history_revisions", self.history_revisions == 0),
            ("feed_bytes", self.feed_bytes == 0),
            ("engine_retry", self.engine_retry.is_zero()),
            ("log_idle", self.log_idle.is_zero()),
            ("scrub_interval", self.scrub_interval.is_zero()),
        ];
        match bounds.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => Err(OpenError::Limit { name }),
            None => Ok(()),
        }
    }
}
