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

/// Properties in the schema of a large definition: it then has about 36 KB, as those of large operators.
pub(crate) const DEFINITION_FIELDS: usize = 128;

/// Definitions that are created and used one after the other, for a 99th percentile.
pub(crate) const VISIBLE_DEFINITIONS: usize = 100;

/// Rules in each of them.
pub(crate) const VISIBLE_RULES: usize = 20;

/// Definitions of a server that has very many.
pub(crate) const MANY_DEFINITIONS: usize = 1000;

/// How many of them share a group.
pub(crate) const DEFINITIONS_PER_GROUP: usize = 10;

/// Definitions on a server whose OpenAPI documents are read.
pub(crate) const DOCUMENT_DEFINITIONS: usize = 100;

/// Servers whose documents are read: a document is read for the first time only once on each.
pub(crate) const DOCUMENT_SERVERS: usize = 3;

/// Turns of creates of custom objects and of ConfigMaps; even, since every second turn is backwards.
pub(crate) const CUSTOM_TURNS: usize = 4;

/// How long a turn lasts.
pub(crate) const CUSTOM_REPEAT: Duration = Duration::from_secs(1);

/// Custom objects, and ConfigMaps, that are listed and watched.
pub(crate) const CUSTOM_OBJECTS: usize = 5000;

/// Watchers of all of them.
pub(crate) const CUSTOM_WATCHERS: usize = 200;

/// Updates that go to each watcher.
pub(crate) const CUSTOM_UPDATES: usize = 2000;

/// Creates with a webhook, and as many without.
pub(crate) const WEBHOOK_CREATES: usize = 500;

/// Length of a batch of evaluations.
pub(crate) const CEL_BATCH: Duration = Duration::from_millis(50);

/// Batches of evaluations that one measurement runs; the fastest batch is the result.
pub(crate) const CEL_BATCHES: usize = 10;
