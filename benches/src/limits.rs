//! Durations and sizes of the measurements, with their reasons.

use std::time::Duration;

/// Starts per storage; the results are the median and the worst.
pub(crate) const STARTS: usize = 11;

/// Time for a new cluster to register nodes and fill caches before it counts as idle.
pub(crate) const SETTLE: Duration = Duration::from_secs(5);

/// Duration of an idle measurement: it includes one lease renewal of each node (every 10 s).
pub(crate) const IDLE: Duration = Duration::from_secs(20);

/// Rollouts per storage, each on a fresh cluster.
pub(crate) const ROLLOUTS: usize = 3;

/// Replicas of the Deployment that is rolled out.
pub(crate) const REPLICAS: usize = 500;

/// How often a server is filled and emptied before its memory is measured.
pub(crate) const CHURNS: usize = 4;

/// Time after which a server should have returned the memory of a busy time.
pub(crate) const CALM: Duration = Duration::from_secs(60);

/// Turns of two compared rates.
pub(crate) const TURNS: usize = 2;

/// Duration of requests for a rate or a latency.
pub(crate) const REPEAT: Duration = Duration::from_secs(3);

/// Connections for the rate under load.
pub(crate) const CONNECTIONS: usize = 64;

/// Bytes of data in each ConfigMap.
pub(crate) const VALUE_BYTES: usize = 1024;

/// Bytes that the store's log writes for the creation of one such ConfigMap.
pub(crate) const SYNCED_BYTES: usize = 1560;

/// Pods in the list.
pub(crate) const LIST_PODS: usize = 10_000;

/// Number of reads of the list.
pub(crate) const LISTS: usize = 11;

/// Number of watchers, each on its own connection.
pub(crate) const WATCHERS: usize = 1000;

/// Number of watched pods that are updated.
pub(crate) const WATCHED_PODS: usize = 5000;

/// Updates per second while each watcher watches the pods of its node.
pub(crate) const UPDATES: usize = 1000;

/// Updates per second while all watchers watch all objects: each update causes an event for every watcher, a
/// thousand times as many events as updates.
pub(crate) const UPDATES_SHARED: usize = 50;

/// Updates to all watchers without a rate limit: a million events, few enough that no watcher is disconnected
/// for lagging.
pub(crate) const FLOOD_UPDATES: usize = 1000;

/// Connections that send updates.
pub(crate) const UPDATERS: usize = 32;

/// Pods stored for the measurements of memory and start.
pub(crate) const MANY_PODS: usize = 100_000;

/// Polling interval of a growing or shrinking cluster. Each poll costs the server about 100 µs.
pub(crate) const COSTS_POLL: Duration = Duration::from_millis(50);

/// Time limit of all stages of a large cluster.
pub(crate) const COSTS_TIMEOUT: Duration = Duration::from_secs(600);

/// Time limit of a server's start.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a server's exit after SIGTERM.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of a rollout.
pub(crate) const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(120);

/// Properties in the schema of a large definition, for about 36 KB, as those of large operators.
pub(crate) const DEFINITION_FIELDS: usize = 128;

/// Definitions that are created and used one after the other, enough for a 99th percentile.
pub(crate) const VISIBLE_DEFINITIONS: usize = 100;

/// Rules in each of these definitions.
pub(crate) const VISIBLE_RULES: usize = 20;

/// Number of definitions on a server with very many.
pub(crate) const MANY_DEFINITIONS: usize = 1000;

/// Number of these definitions per group.
pub(crate) const DEFINITIONS_PER_GROUP: usize = 10;

/// Definitions on a server whose OpenAPI documents are read.
pub(crate) const DOCUMENT_DEFINITIONS: usize = 100;

/// Number of servers whose documents are read: each document has one first read per server.
pub(crate) const DOCUMENT_SERVERS: usize = 3;

/// Turns of creates of custom objects and ConfigMaps; even, since every second turn runs backwards.
pub(crate) const CUSTOM_TURNS: usize = 4;

/// Duration of a turn.
pub(crate) const CUSTOM_REPEAT: Duration = Duration::from_secs(1);

/// Custom objects, and ConfigMaps, that are listed and watched.
pub(crate) const CUSTOM_OBJECTS: usize = 5000;

/// Watchers of all of these objects.
pub(crate) const CUSTOM_WATCHERS: usize = 200;

/// Updates that each watcher receives.
pub(crate) const CUSTOM_UPDATES: usize = 2000;

/// Creates with a webhook, and as many without.
pub(crate) const WEBHOOK_CREATES: usize = 500;

/// Duration of a batch of evaluations.
pub(crate) const CEL_BATCH: Duration = Duration::from_millis(50);

/// Batches of evaluations per measurement; the fastest batch is the result.
pub(crate) const CEL_BATCHES: usize = 10;

/// Connections of a client that floods the server: more than the seats of its priority level.
pub(crate) const FLOOD_CONNECTIONS: usize = 256;

/// Objects in each list of a flood.
pub(crate) const FLOOD_OBJECTS: usize = 1000;

/// The pause between two requests of a modest client beside a flood.
pub(crate) const MODEST_PAUSE: Duration = Duration::from_millis(2);

/// Duration of a modest client's requests: enough of them for a 99th percentile.
pub(crate) const MODEST_REPEAT: Duration = Duration::from_secs(8);

/// Running pods in a namespace that is deleted.
pub(crate) const NAMESPACE_PODS: usize = 10_000;

/// Objects that a deleted object owns.
pub(crate) const CASCADE_OBJECTS: usize = 10_000;

/// Deployments of one replica each, at rest.
pub(crate) const SETTLED_DEPLOYMENTS: usize = 1000;

/// Pods beside a Deployment that is scaled.
pub(crate) const UNRELATED_PODS: [usize; 3] = [1000, 10_000, 100_000];

/// How often that Deployment is scaled; even, so that it ends as it began.
pub(crate) const SCALINGS: usize = 200;

/// Numbers of nodes that are lost at once.
pub(crate) const LOST_NODES: [usize; 2] = [250, 1000];

/// Pods on each of these nodes, on average.
pub(crate) const LOST_PODS_PER_NODE: usize = 5;

/// Pods that one turn with, or without, admission plugins creates.
pub(crate) const ADMITTED_PODS: usize = 20_000;

/// Definitions of a view whose first request is measured.
pub(crate) const VIEW_DEFINITIONS: usize = 100;

/// Versions of the object whose history is printed.
pub(crate) const HISTORY_VERSIONS: usize = 1_000;

/// Replicas of the Deployment whose history is packed.
pub(crate) const HISTORY_PODS: usize = 500;

/// Longest wait until superseded versions are packed: they rest for a minute, and are packed a file after another.
pub(crate) const PACK_TIMEOUT: Duration = Duration::from_secs(240);

/// Pods that changed between two compared states of [`MANY_PODS`] pods.
pub(crate) const COMPARED_CHANGES: usize = 10_000;

/// Objects whose changes one undo takes back.
pub(crate) const UNDONE: usize = 1_000;

/// Times of commands on a large cluster of which the median is taken.
pub(crate) const LARGE_RUNS: usize = 3;

/// Nodes of an imported cluster.
pub(crate) const FOREIGN_NODES: usize = 5_000;

/// How often a command is looked at: its memory, and whether it has ended.
pub(crate) const FOREIGN_POLL: Duration = Duration::from_millis(20);

/// Changes of a recording, which is then replayed.
pub(crate) const RECORDED_CHANGES: usize = 10_000;

/// Time after the last change in which a recorder receives it.
pub(crate) const RECORD_TIME: Duration = Duration::from_secs(2);

/// Time limit of a replay.
pub(crate) const REPLAY_TIMEOUT: Duration = Duration::from_secs(60);

/// Nodes and pods of a cluster of which `what-if` is asked.
pub(crate) const ASKED_NODES: usize = 5_000;
pub(crate) const ASKED_PODS: usize = 25_000;

/// Pods that `what-if` adds to it.
pub(crate) const NEW_PODS: usize = 1_000;

/// Pods whose places are explained one after another.
pub(crate) const EXPLAINED_PODS: usize = 6;

/// Connections between pods that one request asks for, beside the one that is subtracted: what `agnhost` makes at most.
pub(crate) const POD_CONNECTIONS: usize = 99;
