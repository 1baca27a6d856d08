//! Every bound of this crate, with its reason and the behaviour at the bound.

use crate::Priority;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// Causes that one queue entry stores exactly; the server accepts as many in one `kstore-cause` header.
/// Beyond the bound the oldest are dropped: the run acts on the state of the newest revision.
pub const MAX_CAUSES: usize = 16;

/// Objects that were added and deleted before a merging reader took them, and wait for it. Every one has a name
/// of its own, so without a bound a reader that stands still would hold all objects that ever were. At the
/// bound, the later ones are not delivered to this reader.
pub const MAX_PASSED: usize = 4_096;

/// Undecodable objects that an informer remembers by name. Further ones are only logged.
pub const MAX_UNDECODABLE: usize = 1_000;

/// First wait after a failed source. Short, because the usual in-process failure is a server that is still
/// starting.
pub const SOURCE_BACKOFF_BASE: Duration = Duration::from_millis(200);

/// Longest wait between two attempts on a source, before jitter, which at most doubles it.
pub const SOURCE_BACKOFF_CAP: Duration = Duration::from_secs(30);

/// After this long without a failure of the source, its back-off starts again at [`SOURCE_BACKOFF_BASE`].
pub const SOURCE_BACKOFF_RESET: Duration = Duration::from_secs(120);

/// Longest `Retry-After` of a source that is respected. A longer one would stop an informer for hours.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Objects in one page of a list, the same as in client-go. A relist needs memory for one page and for the
/// changed objects.
pub const LIST_PAGE: NonZeroU32 = NonZeroU32::new(500).expect("a page holds something");

/// Time limit for the response to a list or for opening a watch. Longer than any server's own request limit,
/// so that the server's error arrives first. At the bound the source counts as unreachable.
pub const SOURCE_ANSWER: Duration = Duration::from_secs(120);

/// Interval of warnings about an initial state that is still arriving.
pub const INITIAL_WARNING: Duration = Duration::from_secs(10);

/// A watch that ends sooner than this counts as a failure with back-off, so that a server which accepts and
/// drops connections is not retried in a tight loop. An older watch is reopened at once.
pub const SHORT_STREAM: Duration = Duration::from_secs(1);

/// How long the reflector answers internal errors of a source by resuming the watch before it tries a full
/// list.
pub const INTERNAL_ERRORS_BEFORE_RELIST: Duration = Duration::from_secs(30);

/// Silent progress intervals after which a watch counts as broken: one message may be late, two are lost.
pub const SILENT_INTERVALS: u32 = 2;

/// Number of complete states older than the cache that are refused before the cache follows the source back.
/// This happens after a restore from a backup or a restart with an empty store. Also requires
/// [`REGRESSION_PATIENCE`].
pub const REGRESSIONS_BEFORE_RESET: u32 = 4;

/// How long complete states must have been too old before the cache follows them: longer than the lag of a
/// replica that will catch up. With the back-off, the cache follows a replaced source after about half a
/// minute.
pub const REGRESSION_PATIENCE: Duration = Duration::from_secs(10);

/// First wait before restarting a component that panicked. Short, because most panics do not repeat.
pub const RESTART_BACKOFF_BASE: Duration = Duration::from_millis(500);

/// Longest wait before restarting a component that keeps panicking. Each start costs the server a list of
/// everything the component watches; once a minute is negligible.
pub const RESTART_BACKOFF_CAP: Duration = Duration::from_secs(60);

/// A component that ran for this long before it panicked waits for [`RESTART_BACKOFF_BASE`] again, as a
/// container does after ten minutes.
pub const RESTART_BACKOFF_RESET: Duration = Duration::from_secs(600);

/// How long the other tasks of a panicked component may take to end before they are dropped: longer than
/// [`STOP_GRACE`] and [`RECORDER_FLUSH`] together.
pub const GENERATION_GRACE: Duration = Duration::from_secs(5);

/// First back-off of a failed key; doubles with each further failure.
pub const RETRY_BASE: Duration = Duration::from_millis(5);

/// Longest back-off of a failed key.
pub const RETRY_CAP: Duration = Duration::from_secs(1_000);

/// Fraction by which a back-off is randomly longer or shorter, so that keys that failed together do not retry
/// together.
pub const RETRY_JITTER: f64 = 0.2;

/// Sustained rate of rate-limited adds, and of retries in queues with a rate; the same as in client-go.
pub const QUEUE_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

/// Burst of rate-limited adds, and of retries in queues with a rate; the same as in client-go.
pub const QUEUE_BURST: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

/// Runs that each higher priority may have while a key of a lower priority is ready. Low-priority keys get at
/// least a ninth of the runs beside one higher priority, so that they finish eventually.
pub const QUEUE_AGEING: NonZeroU32 = NonZeroU32::new(8).expect("not zero");

/// Longest delay in a queue; longer ones are cut. Thirty years cannot overflow a clock.
pub const QUEUE_FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How long a key waits for the caches to show its own writes before it runs anyway.
pub const OWN_WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// Keys in each of the two generations of newest own writes that a controller remembers. More keys than run
/// while one cache lags behind another, at about 100 bytes each.
pub const WRITTEN_KEYS: usize = 4_096;

/// Interval at which a controller logs which informer it waits for.
pub const SYNC_WARNING: Duration = Duration::from_secs(120);

/// Attempts of an update that may conflict.
pub const CONFLICT_TRIES: u32 = 5;

/// Attempts of an update to an object with many writers. Fewer, because the waits are longer.
pub const BUSY_TRIES: u32 = 4;

/// Wait after a conflict: longer than most writes take, too short to be noticed.
pub const CONFLICT_WAIT: Duration = Duration::from_millis(10);

/// How long a controller without comparable revisions waits to see its own writes before it acts again:
/// longer than any watch should lag, because acting on a stale cache duplicates writes.
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a controller waits for the initial sync of its caches before it fails; the default of
/// controller-runtime. Longer than a healthy source takes for the largest cluster.
pub const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Default number of workers of a controller: enough that a few slow keys do not block others, few enough
/// that a burst of changes does not become a burst of requests.
pub const DEFAULT_WORKERS: usize = 8;

/// Priority of keys from the initial list, as in controller-runtime: later changes run first, because a user
/// may be waiting for them.
pub const INITIAL_PRIORITY: Priority = Priority(-100);

/// Changes that may wait for a controller's feed before the informer stops reading its source. Mapping
/// changes to keys never waits, so only an overloaded machine reaches the bound. The changes share their
/// objects with the cache; the bound costs a few megabytes of outdated states.
pub const FEED_CHANGES: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");

/// How long active runs may take to end when their controller stops. Below the grace of
/// [`ElectorOptions`](crate::ElectorOptions::grace) with its default durations, so that the runs of a deposed leader end
/// within its lease.
pub const STOP_GRACE: Duration = Duration::from_secs(1);

/// Failed attempts of one key that are logged at debug level; later ones are warnings.
pub const LOUD_ATTEMPTS: u32 = 5;

/// Events that may wait in a recorder, before merging and again before writing. Sized for eight thousand pods
/// that start at once with four events each. At either bound, about 32 MiB, new events are dropped, counted
/// and logged.
pub const RECORDER_QUEUE: usize = 32_768;

/// Dropped events within this time are logged as one line.
pub const RECORDER_REPORT: Duration = Duration::from_secs(5);

/// Objects and reasons for which a recorder remembers recent events, to count repetitions instead of writing
/// new events. At the bound the least recently used is forgotten.
pub const RECORDER_SERIES: usize = 4_096;

/// Largest gap between repetitions that are merged into one event with a count.
pub const RECORDER_WINDOW: Duration = Duration::from_secs(600);

/// Distinct messages of one object and reason within the window, from which on they are merged into one
/// combined event.
pub const RECORDER_DISTINCT_MESSAGES: u32 = 10;

/// New events of one object, host and type that may be written in a burst; then one more every
/// [`RECORDER_REFILL`].
pub const RECORDER_BURST: u32 = 25;

/// Time in which an object regains one event after its burst.
pub const RECORDER_REFILL: Duration = Duration::from_secs(300);

/// Wait before the third write of a repeated event's count; doubles with each further write. Long enough to
/// combine a burst, short enough for a reader.
pub const RECORDER_REFRESH: Duration = Duration::from_secs(1);

/// Longest wait before a count is written again: the largest delay of a written count.
pub const RECORDER_REFRESH_CAP: Duration = Duration::from_secs(300);

/// Concurrent writes of different events. More than one, so that a hanging write does not block others; as
/// many as a sink may store in one transaction.
pub const RECORDER_IN_FLIGHT: usize = 64;

/// Time limit of one event write; then it counts as failed.
pub const RECORDER_WRITE: Duration = Duration::from_secs(10);

/// Attempts to write one event before it is dropped and counted.
pub const RECORDER_TRIES: u32 = 12;

/// Wait between two attempts to write one event; the first wait is a random fraction of it.
pub const RECORDER_RETRY: Duration = Duration::from_secs(10);

/// Wait between two attempts to write one event during a flush.
pub const RECORDER_FLUSH_RETRY: Duration = Duration::from_millis(200);

/// How long a stopped recorder continues to write pending events. Below the time that a process gives its
/// components to stop.
pub const RECORDER_FLUSH: Duration = Duration::from_secs(1);

/// Validity of a lease after its last renewal, as other candidates see it.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// A leader that could not renew for this long stops leading. Below [`LEASE_DURATION`] by more than any stop
/// may take.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Time between two attempts to acquire or renew a lease.
pub const LEASE_RETRY: Duration = Duration::from_secs(2);

/// Random addition to the retry period between two attempts to acquire a lease, as its multiple: candidates
/// that wait for the same lease must not all try at once.
pub const LEASE_JITTER: f64 = 1.2;

/// Attempts to release a lease that other clients keep writing. A lost attempt means that another client's
/// write succeeded.
pub const RELEASE_TRIES: u32 = 5;

/// Unmerged changes that a backlog stores for slow subscribers before it merges them per key (or as many as
/// there are merged keys, if that is more). Merging costs ten times as much as storing, and most subscribers
/// read in time.
pub const UNMERGED_CHANGES: usize = 1_024;

/// Changes in a cache's undo log. Snapshots over several caches need the distance between the fastest and the
/// slowest, which is a few batches. At the bound the oldest batch is dropped.
pub const UNDO_CHANGES: usize = 4_096;

/// How long a change stays in the undo log, and its old state in memory; an idle cache drops it with its next
/// batch.
pub const UNDO_AGE: Duration = Duration::from_secs(10);

/// Shortest period of a resync; shorter ones are raised to it, because a resync iterates the whole cache.
pub const MIN_RESYNC: Duration = Duration::from_secs(1);

/// Attempts of a snapshot over several caches while some of them drop the revision from their undo log.
pub const CUT_TRIES: u32 = 8;

/// Time limit for a response of a Kubernetes API, and for the body of a list. The server's own limit is the
/// same.
#[cfg(feature = "rest")]
pub const KUBE_ANSWER: Duration = Duration::from_secs(60);

/// Silence of an incomplete initial state after which a server counts as unable to stream lists. A capable
/// server is silent only until its cache is fresh, at most three seconds.
#[cfg(feature = "rest")]
pub const KUBE_INITIAL_SILENCE: Duration = Duration::from_secs(30);

/// Largest watch event: etcd accepts objects of 1.5 MB, other stores somewhat more. A larger one ends the
/// watch with an error.
#[cfg(feature = "rest")]
pub const KUBE_LINE: usize = 64 << 20;

/// Largest body of a list: more than all pods of the largest cluster. A larger one is an error.
#[cfg(feature = "rest")]
pub const KUBE_LIST: usize = 1 << 30;

/// How much of an error body is read for its message.
#[cfg(feature = "rest")]
pub const KUBE_REFUSAL: usize = 1 << 20;

/// Opaque versions that a source remembers. A watch cannot resume from a forgotten version, and objects with
/// forgotten versions count as changed when listed again.
#[cfg(feature = "rest")]
pub const KUBE_VERSIONS: usize = 65_536;

/// Requested `timeoutSeconds` of a watch. Below the five minutes after which proxies and load balancers close
/// connections.
#[cfg(feature = "rest")]
pub const KUBE_WATCH: Duration = Duration::from_secs(290);

/// Time after the requested timeout of a watch until its connection counts as broken.
#[cfg(feature = "rest")]
pub const KUBE_WATCH_GRACE: Duration = Duration::from_secs(15);
