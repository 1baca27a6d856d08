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

/// What a request takes in the queue beside the bytes that it carries.
pub(crate) const JOB_BYTES: usize = 64;

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

/// The most that [`Limits::request_bytes`] and [`Limits::commit_bytes`] may be: a group of the log is at most a few of them, and
/// the log counts its bytes with 32 bits.
const COMMIT_BYTES_MAX: usize = 1 << 30;

/// The most that [`Limits::engine_file_bytes`] may be: offsets in such a file are 32 bits, and its last record may pass its size.
const ENGINE_FILE_BYTES_MAX: u64 = 1 << 31;

/// The least that [`Limits::first_segment_bytes`] may be: a block of the file system. A smaller segment would hold a handful of
/// records, and every few writes would make a file.
const SEGMENT_BYTES_MIN: u64 = 4 << 10;

/// A rule that the bounds break: the field, and why its value cannot be used.
type Violation = (&'static str, String);

impl Limits {
    /// Refuses bounds with which the store could do nothing, would stop or wait for ever, or that contradict each other.
    ///
    /// # Errors
    ///
    /// [`OpenError::Limit`] with the first such field, and the reason.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let broken = self.zero().or_else(|| self.out_of_range()).or_else(|| self.contradiction());
        match broken {
            Some((name, detail)) => Err(OpenError::Limit { name, detail }),
            None => Ok(()),
        }
    }

    /// The first bound that is zero and must not be.
    fn zero(&self) -> Option<Violation> {
        let bounds = [
            ("txn_ops", self.txn_ops == 0),
            ("request_bytes", self.request_bytes == 0),
            ("queue_jobs", self.queue_jobs == 0),
            ("queue_bytes", self.queue_bytes == 0),
            ("group_jobs", self.group_jobs == 0),
            ("group_bytes", self.group_bytes == 0),
            ("commit_bytes", self.commit_bytes == 0),
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
        zero.or_else(|| (self.quota_bytes == Some(0)).then_some(("quota_bytes", quota)))
    }

    /// The first bound that is beyond what the files or the protocol can express.
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

    /// The first bound that cannot be used beside another one.
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
