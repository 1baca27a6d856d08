//! Every bound of this crate, with its reason. What happens at a bound is said beside it.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use crate::Priority;

/// Causes that one queue entry carries exactly; the server accepts as many in one `kstore-cause` header. At the bound
/// the oldest are forgotten: the newest revision is the one whose state the run acts on.
pub const MAX_CAUSES: usize = 16;

/// Undecodable objects that an informer remembers by name. At the bound further ones are only logged.
pub const MAX_UNDECODABLE: usize = 1_000;

/// First wait after a source failed. Short, because the usual failure in process is a server that is still starting.
pub const SOURCE_BACKOFF_BASE: Duration = Duration::from_millis(200);

/// Longest wait between two attempts on a source (doubled at most by jitter).
pub const SOURCE_BACKOFF_CAP: Duration = Duration::from_secs(30);

/// A source without trouble for this long starts again at [`SOURCE_BACKOFF_BASE`].
pub const SOURCE_BACKOFF_RESET: Duration = Duration::from_secs(120);

/// Longest wait that a source can ask for. At the bound it is asked again: nobody means an informer to sleep for hours.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Objects in one page of a list, as client-go asks for. What a relist needs in memory beside what changed is one page.
pub const LIST_PAGE: NonZeroU32 = NonZeroU32::new(500).expect("a page holds something");

/// Longest wait for the answer to a list or for a stream to open. Longer than any server's own limit for a request, so
/// that its answer is what counts; at the bound the source is unreachable.
pub const SOURCE_ANSWER: Duration = Duration::from_secs(120);

/// An initial state that streams in for longer than this is warned of, and again after each such time.
pub const INITIAL_WARNING: Duration = Duration::from_secs(10);

/// A stream that ends sooner than this is taken for a failure and waited for, so that a server which accepts and drops
/// us is not asked in a tight loop. An older one is reopened at once.
pub const SHORT_STREAM: Duration = Duration::from_secs(1);

/// How long internal errors of a source are answered by resuming the watch before a full list is tried.
pub const INTERNAL_ERRORS_BEFORE_RELIST: Duration = Duration::from_secs(30);

/// A stream of a source that promises progress and is silent for this many of its intervals is taken for dead: one
/// message may be late, two are not coming.
pub const SILENT_INTERVALS: u32 = 2;

/// Whole states older than what the cache has seen that are refused before the source is taken for a new world (a store
/// restored from a backup, or restarted empty) and the cache follows it back, if they came for [`REGRESSION_PATIENCE`].
pub const REGRESSIONS_BEFORE_RESET: u32 = 4;

/// How long whole states must have been too old before the cache follows them: longer than a replica lags that will catch
/// up. With the back-off, the cache follows a new world after about half a minute.
pub const REGRESSION_PATIENCE: Duration = Duration::from_secs(10);

/// First wait of a component that panicked, before it starts again: short, because most panics come from one odd moment and do
/// not come back.
pub const RESTART_BACKOFF_BASE: Duration = Duration::from_millis(500);

/// Longest wait before a component that panics again and again is restarted. Each start costs the server a list of all that it
/// watches; once a minute, nobody else notices.
pub const RESTART_BACKOFF_CAP: Duration = Duration::from_secs(60);

/// A component that ran for this long before it panicked waits for [`RESTART_BACKOFF_BASE`] again, as a container does after
/// ten minutes.
pub const RESTART_BACKOFF_RESET: Duration = Duration::from_secs(600);

/// How long the other tasks of a component that panicked may take to end by themselves. Then they are dropped: longer than
/// [`STOP_GRACE`] and [`RECORDER_FLUSH`] together.
pub const GENERATION_GRACE: Duration = Duration::from_secs(5);

/// First wait of a failed key; doubles with each further failure.
pub const RETRY_BASE: Duration = Duration::from_millis(5);

/// Longest wait of a failed key.
pub const RETRY_CAP: Duration = Duration::from_secs(1_000);

/// Part of a failed key's wait by which it is longer or shorter, so that keys that failed together do not come back together.
pub const RETRY_JITTER: f64 = 0.2;

/// Rate-limited adds and, where a rate is asked for, retries of a queue in the long run, as client-go has it.
pub const QUEUE_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

/// Rate-limited adds and, where a rate is asked for, retries of a queue at once, as client-go has it.
pub const QUEUE_BURST: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

/// Runs that each higher priority of a queue may have while a key of a lower one is ready. Low work then has a ninth of the
/// workers at worst: little enough for the rest, and enough to come to an end.
pub const QUEUE_AGEING: NonZeroU32 = NonZeroU32::new(8).expect("not zero");

/// Longest delay in a queue; longer ones are cut. Thirty years are for ever, and do not overflow a clock.
pub const QUEUE_FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How long a key waits for the caches to show its own writes before it runs anyway.
pub const OWN_WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// Keys of which a controller remembers the newest own write, twice: more than run within the moments that caches lag behind one
/// another, at some 100 bytes for each.
pub const WRITTEN_KEYS: usize = 4_096;

/// After this long without synced caches a controller says which informer it waits for.
pub const SYNC_WARNING: Duration = Duration::from_secs(120);

/// Attempts of an update that others may overtake.
pub const CONFLICT_TRIES: u32 = 5;

/// Attempts of an update of an object that many write. Fewer, because each waits longer.
pub const BUSY_TRIES: u32 = 4;

/// Wait after an attempt that was overtaken: longer than most writes take, shorter than anybody notices.
pub const CONFLICT_WAIT: Duration = Duration::from_millis(10);

/// How long a controller without comparable revisions waits to see its own writes before it acts again: longer than any
/// watch should lag, since acting on a stale cache is what it prevents.
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a controller waits for the first state of what it watches before it gives up, if it is not told to wait for ever:
/// as long as controller-runtime does. Longer than a healthy source takes for the largest cluster.
pub const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Workers of a controller that names no number: enough that a few slow keys do not hold up the others, few enough that a
/// burst of changes does not become a burst of calls.
pub const DEFAULT_WORKERS: usize = 8;

/// Priority of what the caches show when a controller starts, as in controller-runtime: changes go first, since somebody
/// may be waiting for them.
pub const INITIAL_PRIORITY: Priority = Priority(-100);

/// Changes that may wait for a controller to make keys of them before the informer stops reading its source. A controller
/// makes keys without waiting for anything, so only a machine that is out of breath gets there. The changes share their
/// objects with the cache; what waits is a few megabytes of states that the cache has left behind.
pub const FEED_CHANGES: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");

/// How long runs under way may take to end when their controller stops. Below [`LEASE_GRACE`], so that also those of a
/// deposed leader end within its lease.
pub const STOP_GRACE: Duration = Duration::from_secs(1);

/// Failed attempts of one key that are told only to those who debug.
pub const LOUD_ATTEMPTS: u32 = 5;

/// Events that wait in a recorder to be looked at, and events of which a state waits to be written: some eight thousand pods, each
/// with the four events of its start, may come at once. At either bound, about 32 MiB, new ones are dropped, counted and logged.
pub const RECORDER_QUEUE: usize = 32_768;

/// Drops of events within this time are one line of the log.
pub const RECORDER_REPORT: Duration = Duration::from_secs(5);

/// Objects and reasons whose recent events a recorder remembers, to count repetitions instead of writing new events.
/// At the bound the one that was quiet for longest is forgotten.
pub const RECORDER_SERIES: usize = 4_096;

/// Repetitions with no longer pause than this become one event with a count.
pub const RECORDER_WINDOW: Duration = Duration::from_secs(600);

/// Distinct messages of one object and reason within the window before they are written as one combined event.
pub const RECORDER_DISTINCT_MESSAGES: u32 = 10;

/// New events of one object, machine and type that may be written in a burst; one more every [`RECORDER_REFILL`].
pub const RECORDER_BURST: u32 = 25;

/// Time in which an object earns one more event after its burst.
pub const RECORDER_REFILL: Duration = Duration::from_secs(300);

/// How long the count of a repeated event rests after its second write; doubles with each further write. Long enough to
/// take a burst together, short enough for whoever looks.
pub const RECORDER_REFRESH: Duration = Duration::from_secs(1);

/// Longest rest of a count: how far the written one is behind at most.
pub const RECORDER_REFRESH_CAP: Duration = Duration::from_secs(300);

/// Writes of different events that are under way at a time. Several, so that one which hangs holds nobody up, and as many as a
/// sink may store in one transaction.
pub const RECORDER_IN_FLIGHT: usize = 64;

/// Longest wait for the answer to one write of an event; then it counts as failed.
pub const RECORDER_WRITE: Duration = Duration::from_secs(10);

/// Attempts to write one event before it is dropped and counted.
pub const RECORDER_TRIES: u32 = 12;

/// Wait between two attempts to write one event; the first wait is a random part of it.
pub const RECORDER_RETRY: Duration = Duration::from_secs(10);

/// The same when everything is to be written soon.
pub const RECORDER_FLUSH_RETRY: Duration = Duration::from_millis(200);

/// How long a recorder that is stopped goes on to write what it has. Below the time that a process gives its parts to end.
pub const RECORDER_FLUSH: Duration = Duration::from_secs(1);

/// How long a lease holds after its last renewal, as other candidates see it.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// A leader that could not renew for this long stops leading. Below [`LEASE_DURATION`] by more than any stop may take.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Time between two attempts to take or renew a lease.
pub const LEASE_RETRY: Duration = Duration::from_secs(2);

/// How much of the retry period is added at most, by chance, between two attempts to take a lease: candidates that all
/// waited for the same one must not all come at once.
pub const LEASE_JITTER: f64 = 1.2;

/// Attempts to give a lease up that others keep writing to. Each lost one means that somebody else's write got through.
pub const RELEASE_TRIES: u32 = 5;

/// Changes that wait for slow subscribers as they came, before they are merged per key (or as many as there are merged
/// keys, if that is more): merging costs ten times what keeping costs, and most subscribers come in time.
pub const UNMERGED_CHANGES: usize = 1_024;

/// Changes that a cache can take back, to show an earlier revision. Cuts over several caches need the distance between
/// the fastest and the slowest of them, which is a few batches. At the bound the oldest batch is forgotten.
pub const UNDO_CHANGES: usize = 4_096;

/// How long a change can be taken back. Its old state is in memory as long; a cache that is quiet forgets at its next batch.
pub const UNDO_AGE: Duration = Duration::from_secs(10);

/// Shortest period of a resync. Shorter ones are raised to it: a resync walks the whole cache.
pub const MIN_RESYNC: Duration = Duration::from_secs(1);

/// Attempts to cut several caches at one revision while some of them lose the way back to it.
pub const CUT_TRIES: u32 = 8;

/// How long the work of a deposed leader may take to end by itself. Then it is dropped, still within the lease.
pub const LEASE_GRACE: Duration = Duration::from_secs(2);

/// How long a Kubernetes API may take to answer a request, or to send a whole list. The server's own limit is as long.
#[cfg(feature = "kube")]
pub const KUBE_ANSWER: Duration = Duration::from_secs(60);

/// A watch that begins with the state and is silent for this long before the state is complete comes from a server that does
/// not know it should say so. A server that can is silent only until its cache is fresh, which takes it three seconds at most.
#[cfg(feature = "kube")]
pub const KUBE_INITIAL_SILENCE: Duration = Duration::from_secs(30);

/// Longest event: etcd takes objects of 1.5 MB, other stores of some more. A longer one ends the watch with an error.
#[cfg(feature = "kube")]
pub const KUBE_LINE: usize = 64 << 20;

/// Longest body of a list: above the largest cluster's pods in one piece. A longer one is an error.
#[cfg(feature = "kube")]
pub const KUBE_LIST: usize = 1 << 30;

/// How much of a refusal is read for what it says.
#[cfg(feature = "kube")]
pub const KUBE_REFUSAL: usize = 1 << 20;

/// Positions that a source remembers on a server whose versions are no numbers. Forgotten ones can not be resumed from, and
/// objects whose versions are forgotten count as changed when they are listed again.
#[cfg(feature = "kube")]
pub const KUBE_VERSIONS: usize = 65_536;

/// How long a server is asked to keep a watch. Below the five minutes after which proxies and load balancers cut.
#[cfg(feature = "kube")]
pub const KUBE_WATCH: Duration = Duration::from_secs(290);

/// How much longer than asked a watch may last before its connection is taken for dead.
#[cfg(feature = "kube")]
pub const KUBE_WATCH_GRACE: Duration = Duration::from_secs(15);
