//! How long and how often is measured, by name, with the reason.

use std::time::Duration;

/// Starts per storage; the median is told, and the worst.
pub(crate) const STARTS: usize = 11;

/// A cluster that was just started still registers nodes and fills caches; idle is what comes after.
pub(crate) const SETTLE: Duration = Duration::from_secs(5);

/// How long idling is watched: one lease renewal of each node (10 s) falls into it.
pub(crate) const IDLE: Duration = Duration::from_secs(20);

/// Rollouts per storage, each on a fresh cluster.
pub(crate) const ROLLOUTS: usize = 3;

/// Replicas of the Deployment that is rolled out.
pub(crate) const REPLICAS: u64 = 500;

/// How often a server is filled and emptied before its memory is looked at.
pub(crate) const CHURNS: usize = 4;

/// The time after which a server should have given back what a busy time took.
pub(crate) const CALM: Duration = Duration::from_secs(60);

/// Turns of two rates that are compared with each other.
pub(crate) const TURNS: usize = 2;

/// How long requests are repeated for a rate or a latency.
pub(crate) const REPEAT: Duration = Duration::from_secs(3);

/// Connections for the rate under load.
pub(crate) const CONNECTIONS: usize = 64;

/// Bytes of data in each ConfigMap.
pub(crate) const VALUE_BYTES: usize = 1024;

/// What the store's log writes for the creation of one of them.
pub(crate) const SYNCED_BYTES: usize = 1560;

/// Pods in the list.
pub(crate) const LIST_PODS: usize = 10_000;

/// How many times the list is read.
pub(crate) const LISTS: usize = 11;

/// Watchers, each on a connection of its own.
pub(crate) const WATCHERS: usize = 1000;

/// Pods that are updated while they are watched.
pub(crate) const WATCHED_PODS: usize = 5000;

/// Updates per second while each watcher watches the pods of its node.
pub(crate) const UPDATES: usize = 1000;

/// The same while all watch everything: each update then goes to all of them, so that this is a thousand times as many events.
pub(crate) const UPDATES_SHARED: usize = 50;

/// Updates that go to all watchers as fast as that goes: a million events, and still no watcher falls so far behind that it is cut.
pub(crate) const FLOOD_UPDATES: usize = 1000;

/// Connections that update.
pub(crate) const UPDATERS: usize = 32;

/// Pods that are stored for the figures of memory and start.
pub(crate) const MANY_PODS: usize = 100_000;

/// How often a cluster that grows or shrinks is asked how far it has come. Each question costs the server some 100 µs.
pub(crate) const COSTS_POLL: Duration = Duration::from_millis(50);

/// The stages of a large cluster together are given up after this long.
pub(crate) const COSTS_TIMEOUT: Duration = Duration::from_secs(600);

/// A server that is not ready by then has failed.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that does not end by then after SIGTERM has failed.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A rollout that is not complete by then has failed.
pub(crate) const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(120);
