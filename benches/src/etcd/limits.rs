//! Durations and sizes of the measurements beside etcd, with their reasons.

use std::time::Duration;

/// Runs of each server per row, alternating; the median is the result.
pub(super) const ROUNDS: usize = 3;

/// Warm-up whose calls are not counted: connections are made and caches filled.
pub(super) const WARM: Duration = Duration::from_millis(400);

/// Time during which calls are counted.
pub(super) const COUNTED: Duration = Duration::from_millis(1_600);

/// Interval of checks whether a server is up.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Time limit of a start. etcd waits a while before it elects itself.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of an orderly exit.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Size of most values in bytes.
pub(super) const VALUE_BYTES: usize = 256;

/// Number of keys that puts are spread over.
pub(super) const KEYS: usize = 10_000;

/// Number of keys of compare-and-swap; few enough that guards sometimes fail, as in a cluster.
pub(super) const GUARDED_KEYS: usize = 1_000;

/// Number of keys of the long list.
pub(super) const LIST_KEYS: usize = 1_000;

/// Page size of a paged list, and the numbers of keys that pages are read from.
pub(super) const PAGE: i64 = 500;
pub(super) const FEW_KEYS: usize = 1_000;
pub(super) const MANY_KEYS: usize = 100_000;

/// Number of watches of one prefix, and of puts that they receive.
pub(super) const WATCHES: usize = 1_000;
pub(super) const WATCHED_PUTS: usize = 500;

/// Number of watches without events.
pub(super) const IDLE_WATCHES: usize = 10_000;

/// Numbers of connections, and of streams on each, that watches are spread over.
pub(super) const WATCH_CONNECTIONS: usize = 10;
pub(super) const WATCH_STREAMS: usize = 10;

/// Number of keys of a restarted store, and the size of each value in bytes.
pub(super) const RESTART_KEYS: usize = 1_000_000;
pub(super) const RESTART_VALUE_BYTES: usize = 300;

/// Number of keys that are rewritten, size of each value in bytes, and number of rewrites.
pub(super) const REWRITE_KEYS: usize = 50_000;
pub(super) const REWRITE_VALUE_BYTES: usize = 1_024;
pub(super) const REWRITES: usize = 10;

/// Time for background work after the last compaction.
pub(super) const TIDY: Duration = Duration::from_secs(3);

/// Bytes of one transaction when a store is filled: less than the smallest request window of the servers.
pub(super) const FILL_BYTES: usize = 48 << 10;

/// Number of clients that fill a store.
pub(super) const FILL_CLIENTS: usize = 8;

/// Time during which in-process writes are counted.
pub(super) const IN_PROCESS: Duration = Duration::from_millis(1_500);
