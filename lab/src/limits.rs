//! The bounds of the lab, with their reasons. `limit` in an answer with code 429 names one of them.

use std::time::Duration;

/// Most clusters of a process unless the start says otherwise. Each has two threads.
pub const CLUSTERS: usize = 1024;
/// Most clusters that a start may allow: twice as many threads are still few enough for a machine.
pub const CLUSTERS_MOST: usize = 4096;
/// Most images of a process. Each may keep a history in memory that no cluster has any more.
pub const IMAGES: usize = 256;
/// Most bytes of the body of a call.
pub const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the largest snapshot file that a call may send.
pub const FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Snapshot files that are written and read at a time: each is a temporary file, and a read one is in memory, too.
pub const FILES: usize = 4;
/// Pieces of a snapshot file that wait for the disk.
pub const FILE_PIECES: usize = 16;
/// Bytes of a piece of a snapshot file on its way to the client.
pub const FILE_PIECE: usize = 256 * 1024;
/// Most clusters of one start.
pub const COUNT: usize = 256;
/// Most clients that a cluster tells apart; requests of further ones belong to [`crate::client::OTHER`], which counts.
pub const CLIENTS: usize = 256;
/// Most kinds in the view of a client; a client that reads more has a partial view.
pub const VIEW_KINDS: usize = 512;
/// Bytes of the request log of a cluster unless the start says otherwise: some 25,000 reads, or 9,000 writes of clients that read ten
/// kinds, since a write has what its client had been shown of each.
pub const LOG_BYTES: usize = 8 * 1024 * 1024;
/// Most entries of the request log in one answer, and the number without `limit`.
pub const LOG_ANSWER: usize = 10_000;
/// Bytes of answers and bodies of writes that the record for the checker of legality reads of a cluster: hundreds of runs' worth of a busy
/// operator. What comes later is not judged.
pub const SHOWN_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of the longest answer that the record reads.
pub const SHOWN_ANSWER: usize = 4 * 1024 * 1024;
/// Most followers of the request log of a cluster.
pub const FOLLOWERS: usize = 64;
/// Most requests in one piece of a followed log, so that a reader that lags holds little in memory.
pub const FOLLOW_PIECE: usize = 256;
/// Real time between two messages of an advance over gRPC that show the clock: short for a person.
pub const PROGRESS: Duration = Duration::from_secs(1);
/// Real time for which a request without an answer holds back those after it in a followed log.
pub const FOLLOW_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of the longest expression that a wait evaluates.
pub const EXPRESSION_BYTES: usize = 16 * 1024;
/// Cost of one evaluation of an expression, as the API server bounds rules of custom resources.
pub const EXPRESSION_COST: u64 = 10_000_000;
/// Longest advance of one call.
pub const ADVANCE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Most stops of one advance: hours of computation, so that a cluster whose timers repeat without pause ends.
pub const STOPS: u64 = 10_000_000;
/// Longest jump of the clock forward.
pub const LEAP: Duration = ADVANCE;
/// Longest jump of the clock backward, as that of a clock that is set from local time by mistake.
pub const LEAP_BACK: Duration = Duration::from_secs(3600);
/// Most clients that wait for a time of one cluster.
pub const TIME_WAITS: usize = 1024;
/// How long an idempotency key is known.
pub const KEY_LIFE: Duration = Duration::from_secs(600);
/// Characters of the longest idempotency key.
pub const KEY_CHARS: usize = 64;
/// Most idempotency keys of a process; the oldest is forgotten for a new one.
pub const KEYS: usize = 4096;
/// Bytes of answers that idempotency keys keep.
pub const KEY_ANSWER_BYTES: usize = 256 * 1024;
/// Real time for which an image waits until the components have read what was written: of thousands of objects they read the changes in a
/// few milliseconds, and a component that is held up must not hold up a fork.
pub const CACHES_REACHED: Duration = Duration::from_millis(100);
/// Real time for which a call waits for clients to become quiet, unless it says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Longest real time that a call may wait for clients, so that a forgotten call ends.
pub const PATIENCE_MOST: Duration = Duration::from_secs(3600);
/// Time of the cluster that `settled` lets pass at most, unless the call says otherwise.
pub const SETTLE: Duration = Duration::from_secs(30 * 60);
/// Frames of a body that wait between two runtimes: few, so that a slow reader holds back what it reads.
pub const BODY_FRAMES: usize = 16;
/// Most simulated nodes of a cluster that the lab starts.
pub const NODES: usize = 5000;
/// Longest name of a cluster, an image or a client, as that of a Kubernetes object.
pub const NAME_CHARS: usize = 63;
/// Real time after its first watch of a kind for which a client may look whether its caches are filled, without doing anything: client-go
/// looks every 100 ms, and reconciles only then.
pub const FILLING: Duration = Duration::from_millis(150);
/// Kinds of which a client's first watch is told apart.
pub const FILLED_KINDS: usize = 256;
/// Real time without traffic after which a client whose process is unknown is quiet.
pub const WINDOW: Duration = Duration::from_millis(50);
/// Real time within which a client with a retryable error asks again; client-go begins after 5 ms.
pub const RETRY: Duration = Duration::from_millis(50);
/// Real time since its last request for which a client without an open watch still counts.
pub const RECENT: Duration = Duration::from_secs(5);
/// Shortest and longest pause between two looks at a process.
pub const LOOKS: [Duration; 2] = [Duration::from_micros(300), Duration::from_millis(5)];
/// One in so many looks at clients that are not quiet is a whole one, which finds new processes and connections.
pub const WHOLE_LOOKS: u32 = 8;
/// Most reasons that an answer lists of a cluster that is busy.
pub const REASONS: usize = 64;
/// Factor of `scaled`.
pub const FACTORS: [f64; 2] = [0.01, 10_000.0];
/// Real time between two moves of a scaled clock: short for a person, and 100 wake-ups a second.
pub const SCALED_TICK: Duration = Duration::from_millis(10);
/// Bytes of a watch event's beginning in which its revision must be, and of a body whose revision the log notes.
pub const EVENT_BYTES: usize = 2 * 1024 * 1024;
/// Longest lifetime of a token that `/kubeconfigs` makes.
pub const TOKEN: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Most seeded rules of a cluster: each costs a draw for each request that it selects.
pub const RULES: usize = 256;
/// Most routes of a cluster: each is compared with each request.
pub const ROUTES: usize = 64;
/// Most lagging caches of a cluster.
pub const CACHES: usize = 8;
/// Most kinds that a lagging cache knows by name: as many as in the view of a client.
pub const CACHE_KINDS: usize = 512;
/// Newest requests of the log among which the client of a write is looked for: more than are under way at a time.
pub const WRITER_ENTRIES: usize = 4096;
/// Most plans of a cluster at a time: each observes every request.
pub const PLANS: usize = 8;
/// Most actions of a plan.
pub const PLAN_ACTIONS: usize = 64;
/// Most operations of plans that wait for the executor: twice those of as many plans as there may be, so that plans that were deleted at
/// once leave room for others.
pub const PLAN_JOBS: usize = 2 * OPERATIONS * PLANS * PLAN_ACTIONS;
/// Most operations of an action: its begin and its end.
pub const OPERATIONS: usize = 2;
/// Most triggers within one, with those of `any` and `all`.
pub const TRIGGERS: usize = 64;
/// Deepest nesting of `any` and `all`.
pub const TRIGGER_DEPTH: usize = 4;
/// Most requests that plans hold; for one more, the oldest goes on and its plan fails.
pub const HELD: usize = 64;
/// Real time after which a held request goes on and its plan fails.
pub const HELD_TIME: Duration = Duration::from_secs(3600);
/// Longest real time by which a fault delays an answer: beyond the timeouts of all clients.
pub const FAULT_DELAY: Duration = Duration::from_secs(600);
/// Most seconds of `Retry-After` that a fault sends.
pub const RETRY_AFTER: u32 = 3600;
/// Most different clients, verbs and paths whose requests are counted for seeded rules; beyond it, counts start anew.
pub const COUNTED_PATHS: usize = 100_000;
/// Bytes of these clients, verbs and paths, which clients choose; beyond it, counts start anew.
pub const COUNTED_PATH_BYTES: usize = 16 * 1024 * 1024;
/// Real time for which a read waits for a lagging cache, as kube-apiserver's watch cache does.
pub const CACHE_WAIT: Duration = Duration::from_secs(3);
/// Bytes of the longest condition of a trigger.
pub const CONDITION_BYTES: usize = 10_000;
/// Cost of evaluating a condition once, in units of CEL: as Kubernetes bounds an expression of an admission policy.
pub const CONDITION_COST: u64 = 10_000_000;
/// Most events of a plan that are kept: several for each action.
pub const PLAN_EVENTS: usize = 1024;
/// Bytes of the body of a request that a plan reads: as the API server bounds bodies.
pub const PLAN_BODY_BYTES: usize = 3 * 1024 * 1024;
/// Most requests in a row that an action of a plan gives a fault.
pub const FAULT_TIMES: u64 = 1000;
/// Most blocked kinds of clients: each is a `skip` of a plan that has not ended.
pub const BLOCKED: usize = PLANS * PLAN_ACTIONS;
/// Most positions of a serial order at which another item is taken: as many as a plan has actions.
pub const ORDER_SWAPS: usize = PLAN_ACTIONS;
/// Turns of others after which what waits in a serial order comes first, so that a client that asks without end delays nothing for ever.
pub const ORDER_PASSED_OVER: u64 = 64;
/// Most kinds of items that a seeded serial order remembers to take last; further ones keep their priority.
pub const ORDER_LANES: usize = 256;
/// Real time for which a turn waits for clients that did not become quiet at the turn before.
pub const ORDER_RESTLESS: Duration = Duration::from_millis(100);
/// Real time without any other activity after which a request that waits for a webhook, or for another server, keeps no turn from being
/// given: the server may ask for something before it answers.
pub const ORDER_CALLS: Duration = Duration::from_millis(20);
/// Most programs of a cluster: each has a process group, a pipe and a task.
pub const PROGRAMS: usize = 64;
/// Bytes of a program's output that its file keeps: a program in a hot loop must not fill the disk.
pub const PROGRAM_OUTPUT: u64 = 64 * 1024 * 1024;
/// Bytes at the end of a program's output that answers show.
pub const PROGRAM_TAIL: usize = 16 * 1024;
/// Real time between SIGTERM and SIGKILL when a program is ended, unless the call says otherwise.
pub const PROGRAM_GRACE: Duration = Duration::from_secs(5);
/// Longest real time between SIGTERM and SIGKILL.
pub const PROGRAM_GRACE_MOST: Duration = Duration::from_secs(600);
/// Real time for which the owner of a connection stays known: shorter than a port takes to belong to another process.
pub const PEER_LIFE: Duration = Duration::from_secs(1);
/// Most connections whose owner is known; they are all forgotten for a further one.
pub const PEERS: usize = 4096;
/// Real time for the report file of a cluster, whose own limit on the reading of states passes by the cluster's clock, which may stand.
pub const REPORT_TIME: Duration = Duration::from_secs(30);
