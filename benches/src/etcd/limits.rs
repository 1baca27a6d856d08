//! How long and how often is measured, by name, with the reason.

use std::time::Duration;

/// Runs of each server per row, alternating; the median is told.
pub(super) const ROUNDS: usize = 3;

/// Calls that end before this are not counted: connections are being made, and caches filled.
pub(super) const WARM: Duration = Duration::from_millis(400);

/// How long calls are counted.
pub(super) const COUNTED: Duration = Duration::from_millis(1_600);

/// Between two questions whether a server is there.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(2);

/// A server that does not answer by then has failed. etcd waits a while before it elects itself.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that does not end in order by then has failed.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of most values.
pub(super) const VALUE_BYTES: usize = 256;

/// Keys that puts are spread over.
pub(super) const KEYS: usize = 10_000;

/// Keys that are read and written under guards; few enough that guards fail sometimes, as they do in a cluster.
pub(super) const GUARDED_KEYS: usize = 1_000;

/// Keys of the long list.
pub(super) const LIST_KEYS: usize = 1_000;

/// The page of a paged list, and the numbers of keys it is taken from.
pub(super) const PAGE: i64 = 500;
pub(super) const FEW_KEYS: usize = 1_000;
pub(super) const MANY_KEYS: usize = 100_000;

/// Watches of one prefix, and puts that they see.
pub(super) const WATCHES: usize = 1_000;
pub(super) const WATCHED_PUTS: usize = 500;

/// Watches that see nothing.
pub(super) const IDLE_WATCHES: usize = 10_000;

/// Connections, and streams on each, that watches are spread over.
pub(super) const WATCH_CONNECTIONS: usize = 10;
pub(super) const WATCH_STREAMS: usize = 10;

/// Keys of a store that is started again, and the bytes of each value.
pub(super) const RESTART_KEYS: usize = 1_000_000;
pub(super) const RESTART_VALUE_BYTES: usize = 300;

/// Keys that are all written anew, the bytes of each value, and how often.
pub(super) const REWRITE_KEYS: usize = 50_000;
pub(super) const REWRITE_VALUE_BYTES: usize = 1_024;
pub(super) const REWRITES: usize = 10;

/// How long a server may tidy up after the last compaction.
pub(super) const TIDY: Duration = Duration::from_secs(3);

/// Puts in one transaction when a store is filled: less than the smallest window that a server grants for a request.
pub(super) const FILL_BYTES: usize = 48 << 10;

/// Clients that fill a store.
pub(super) const FILL_CLIENTS: usize = 8;

/// How long writers in this process are counted.
pub(super) const IN_PROCESS: Duration = Duration::from_millis(1_500);
