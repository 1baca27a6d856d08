//! All bounds of the apiserver, by name, each with its reason. The code that enforces a bound documents what
//! happens at it.

mod basic_auth;
mod collection;
mod connections;
mod uncommitted;

pub use basic_auth::*;
pub use collection::*;
pub use connections::*;
use std::time::Duration;
pub use uncommitted::*;

/// Bytes of the largest request body: Kubernetes' own limit. A larger body is refused with 413.
pub const BODY_BYTES: usize = 3 * 1024 * 1024;

/// Bytes of a request body that are read and discarded after an early answer. A body of any accepted size
/// fits, so that an early answer does not cost the client its connection. So does one that is some times too large: its client sends
/// all of it before it reads the 413. The stream of a longer body is reset. Discarded bytes occupy no memory.
pub const UNREAD_BODY_BYTES: usize = 16 * 1024 * 1024;

/// How long the server waits for the rest of an unread body before it resets the stream. Long enough for
/// [`UNREAD_BODY_BYTES`] over a slow link.
pub const UNREAD_BODY_TIME: Duration = Duration::from_secs(10);

/// Bytes of the largest stored object: etcd's default request limit, which clients of a real cluster are used
/// to.
pub const OBJECT_BYTES: usize = 1_572_864;

/// Recent changes of all kinds that stay in memory for watches that resume.
pub const RECENT_CHANGES: usize = 16_384;

/// Bytes of these recent changes, with their objects and events. Older changes are read from the storage's
/// history.
pub const RECENT_BYTES: usize = 16 * 1024 * 1024;

/// How long a recent change stays in memory at least, if the bounds above allow it. Older changes are
/// dropped, at up to twice this age, while there are more than [`RECENT_CALM_BYTES`]: a busy time must not
/// occupy memory forever.
pub const RECENT_AGE: Duration = Duration::from_secs(20);

/// Bytes of recent changes that stay in memory regardless of their age.
pub const RECENT_CALM_BYTES: usize = 1024 * 1024;

/// Deliveries that a watch with a bound, which only the lab sets, reads ahead of it. Then its queue fills, as that of a slow client.
pub const HELD_DELIVERIES: usize = 100_000;

/// Bytes of objects that are kept in a second form, as protobuf messages. Further objects are encoded for
/// each answer.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Undelivered changes of one watch, by bytes of the shared objects that they keep alive. Beyond it the watch
/// ends and its client resumes from the last revision that it received: memory must not grow with slow
/// clients.
pub const WATCH_BACKLOG_BYTES: usize = 32 * 1024 * 1024;

/// Undelivered changes of one watch, by number; bounds the work of one wake-up.
pub const WATCH_BACKLOG_CHANGES: usize = 65_536;

/// Watches that are woken before other tasks run. Enough for one change in a cluster with some controllers
/// and a few dozen clients; few enough that a thousand watchers of one object do not delay writers.
pub const WAKE_UPS: usize = 64;

/// Interval of bookmarks on a quiet watch that asked for them. Kubernetes: about a minute.
pub const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The time between the last bookmark of a watch and its timeout. Kubernetes: 2 s.
pub const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The timeout of a watch that states none. A random time of up to the same length is added, so that clients
/// do not reconnect together.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long a read waits for a revision that the cache does not have yet, before it fails with 504.
/// Kubernetes: 3 s.
pub const FRESH_WAIT: Duration = Duration::from_secs(3);

/// The timeout of a unary request. Kubernetes: 60 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The timeout of a write, including all retries after lost races; then 504. Kubernetes: 34 s.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// Operations of one transaction; more are refused. etcd accepts 128 of its own, and most of ours become one
/// of those.
pub const TRANSACTION_OPERATIONS: usize = 128;

/// Keys that one transaction may guard or write: its objects with their addresses and ports, the namespaces
/// in which it creates objects, and its fence. etcd accepts 128 in its default configuration.
pub const TRANSACTION_KEYS: usize = 128;

/// Operations of one call of independent operations; more are refused. As many as a transaction has.
pub const EACH_OPERATIONS: usize = TRANSACTION_OPERATIONS;

/// Commits of independent operations that the storage executes as one group. Half of those that the embedded store takes at once: other
/// writers wait for a group as a whole.
pub const GROUP_COMMITS: usize = 64;

/// Bytes of the commits of such a group; further ones are in the next. A third of what the embedded store takes at once.
pub const GROUP_BYTES: usize = 512 * 1024;

/// Bytes of the largest commit that is executed in such a group; a larger one is executed alone. Pods and their events are far smaller.
pub const GROUP_COMMIT_BYTES: usize = 64 * 1024;

/// Keys of the largest commit that is executed in such a group; one of more, as of a Service of many ports, is executed alone.
pub const GROUP_COMMIT_KEYS: usize = 16;

/// Shapes of new objects whose managed fields a server remembers; of more it forgets all. The sets and components of a busy cluster create
/// some dozens at a time.
pub const CREATED_SHAPES: usize = 128;

/// Bytes of the largest shape that is remembered: pods of several containers have two KiB.
pub const CREATED_SHAPE_BYTES: usize = 4096;

/// Attempts to find a free generated name. Kubernetes: 8.
pub const GENERATE_NAME_ATTEMPTS: usize = 8;

/// Causes that one write may name; further ones are ignored. See the informer's cause sets.
pub const CAUSES: usize = 16;

/// Bytes of the `User-Agent` that is stored with a write; the rest is cut. User agents of Kubernetes' clients
/// have about 100 bytes, and every write stores one.
pub const USER_AGENT_BYTES: usize = 256;

/// Bytes of the longest name of a field manager: Kubernetes' own limit.
pub const FIELD_MANAGER_BYTES: usize = 128;

/// The longest timeout of a watch; a watch that asks for more ends after this time. Clients resume a watch
/// that ended, and the clock can represent every deadline.
pub const WATCH_TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Steps of comparing the rules of one role with those that its writer holds: about a tenth of a second.
/// Roles with hundreds of rules take some thousands. Beyond it the write is refused with 403 and a hint.
pub const ESCALATION_STEPS: usize = 4_000_000;

/// Rules that the refusal of an escalation lists: about a screen. The comparison ends with the last of them.
pub const ESCALATION_RULES_SHOWN: usize = 100;

/// Bytes of provenance in memory for `explain`, unless the settings say otherwise: 150,000 writes of pods, or 60,000 of objects that are
/// created and deleted. Older writes are still in the store, but not in the tree. The bound is in bytes because an
/// idle server keeps this memory after a busy day.
pub const TRACE_BYTES: usize = 4 * 1024 * 1024;

/// Revisions of history that are read at a time, newest first, until the provenance in memory is full. Large
/// enough that the cost of starting a read does not matter.
pub const RECALL_REVISIONS: i64 = 16_384;

/// Writes that a trace names as those that led to an object: some screens. The earliest ones are left out.
pub const TRACE_ANCESTORS: usize = 200;

/// Writes of a trace for which the server says what changed: more lines than anybody reads. Each needs two reads.
pub const TRACE_CHANGES: usize = 500;

/// Bytes of objects that are read to say what changed; the writes after that have no changes.
pub const TRACE_CHANGE_BYTES: usize = 16 << 20;

/// The depth of a provenance tree: JSON parsers commonly stop at 128 levels, and a write takes two.
pub const TRACE_DEPTH: usize = 48;

/// Bearer tokens with a verified signature that are cached: one for each pod that uses the API in a large
/// cluster. Each takes about two KiB.
pub const VERIFIED_TOKENS: usize = 4096;

/// Cached answers of a webhook of authentication or authorization. The oldest answers are dropped first.
pub const WEBHOOK_ANSWERS: usize = 8192;

/// Objects that the error of a list names, of those that cannot be read, as in Kubernetes.
pub const READ_ERROR_CAUSES: usize = 100;

/// Callers whose last mode of impersonation is remembered, as in Kubernetes. The oldest are dropped first; they cost more checks again.
pub const IMPERSONATING_CALLERS: usize = 10_000;

/// Cached answers of the image policy webhook, as in Kubernetes. The oldest answers are dropped first.
pub const IMAGE_REVIEWS: usize = 1024;

/// Keys of one limit of EventRateLimit whose token buckets are kept, if the configuration states no number, as
/// in Kubernetes. The least recently used ones are dropped first.
pub const EVENT_LIMIT_KEYS: usize = 4096;

/// Concurrent calls to one webhook of authentication or authorization, or for image policy. Further requests wait for a call to
/// end.
pub const WEBHOOK_CALLS: usize = 64;

/// Bytes of the longest OpenID Connect token: a longer one is refused without parsing. Tokens of real issuers
/// have a few KiB.
pub const OIDC_TOKEN_BYTES: usize = 64 * 1024;

/// Keys of one OpenID Connect issuer; further ones are ignored. Real issuers have a handful.
pub const OIDC_KEYS: usize = 100;

/// Bytes of the longest bearer token that is cached after verification. A review may present a token of
/// megabytes, and its claims would be kept; a longer token is verified for each request.
pub const VERIFIED_TOKEN_BYTES: usize = 8 * 1024;

/// Selectors of one gRPC watch.
pub const WATCH_SELECTORS: usize = 128;

/// Bytes of all label and field selectors of a request, over REST and over gRPC: the length of a URL that is accepted.
pub const SELECTOR_BYTES: usize = 64 * 1024;

/// Values with which the selectors of a request compare an object, over REST and over gRPC. Selectors of programs have a
/// handful; a thousand values are still compared within a tenth of a millisecond.
pub const SELECTOR_REQUIREMENTS: usize = 1000;

/// Values that a list compares before other tasks run: less than a millisecond.
pub const SELECTION_CHECKS: usize = 16_384;

/// Values whose comparison takes as long as reading a change.
pub const CHANGE_CHECKS: usize = 64;

/// Values of a watch's selectors that the task which feeds all watches compares. A watch with more does it in its own task.
pub const FED_REQUIREMENTS: usize = 8;

/// Items in one chunk of a streamed gRPC list: large enough to amortise framing, small enough to start early.
pub const LIST_CHUNK_ITEMS: usize = 500;

/// Bytes of values in one page of a list that is read from the storage; a page has one value at least, and says whether more follow.
/// Values of old revisions are copied, and many lists may be read at once.
pub const LIST_BYTES: usize = 32 << 20;

/// Reads in flight; further ones wait in a queue. Kubernetes' default.
pub const READS_IN_FLIGHT: usize = 400;

/// Writes in flight; further ones wait in a queue. Kubernetes' default is 200. One process with a group
/// commit serves more at once, and its own components write in parallel.
pub const WRITES_IN_FLIGHT: usize = 400;

/// Writes in flight by which priority levels are dimensioned: Kubernetes' default. Levels divide the sum of
/// this and [`READS_IN_FLIGHT`] among clients on the network; components in this process have the bounds above.
pub const FAIR_WRITES_IN_FLIGHT: usize = 200;

/// The period after which priority levels lend and borrow seats by their demand, as in Kubernetes.
pub const SEAT_PERIOD: Duration = Duration::from_secs(10);

/// A request waits for seats for at most its timeout divided by this, as in Kubernetes.
pub const WAIT_PARTS: u32 = 4;

/// The least time between two restorations of built-in flow schemas and priority levels.
pub const RESTORE_PAUSE: Duration = Duration::from_secs(5);

/// Bytes of body and stored object from which on a request is served on a separate thread: decoding and
/// checking then take milliseconds without a yield. Objects of clusters are rarely as large.
pub const HEAVY_BYTES: usize = 128 * 1024;

/// Requests of at least [`HEAVY_BYTES`] that are served concurrently. More would share the processors with all others without
/// finishing sooner.
pub const HEAVY_AT_A_TIME: usize = 8;

/// Values of a heavy request for each of the [`HEAVY_AT_A_TIME`]: decoded, they take some ten MiB, several times over.
pub const HEAVY_VALUES: usize = 50_000;

/// Bytes of a body from which on its maps are counted, to find out whether it is heavy although it is short: shorter ones cannot become
/// more than two MiB.
pub const HEAVY_SCAN_BYTES: usize = 16 * 1024;

/// Maps from which on a request is heavy: decoded, they take three to eight MiB. Objects of clusters rarely have as many.
pub const HEAVY_MAPS: usize = 4_000;

/// Maps in the bodies of a request; more are refused with 413. Decoded, each takes 700 bytes to two KiB, however short it is. An object
/// that the store takes, 1.5 MiB, has no room for more of the shortest that clients write: `{"a":1},` has eight bytes.
pub const BODY_MAPS: usize = (3 << 19) / 8;

/// Bytes of DeleteOptions; longer ones are refused with 413. They have a few members, and are decoded with all other requests.
pub const DELETE_OPTIONS_BYTES: usize = 64 * 1024;

/// Requests that wait to be served, for reads and for writes each; further ones are refused with 429 at once.
pub const REQUESTS_WAITING: usize = 4000;

/// How long a request waits to be served before it is refused with 429. Kubernetes: a quarter of the request
/// timeout.
pub const IN_FLIGHT_WAIT: Duration = Duration::from_secs(15);

/// How long an HTTP/2 client may be silent before it is pinged, so that the watches of vanished clients end.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long an HTTP/2 client may take to answer a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Concurrent streams of one HTTP/2 connection. Clients with more watches open more connections. Kubernetes:
/// 250.
pub const STREAMS: u32 = 250;

/// Streams that a client reset before the server processed them; more end the connection (rapid reset).
pub const PENDING_RESETS: usize = 1024;

/// Requests without credentials in flight on one connection; further ones are refused with 429.
pub const ANONYMOUS_IN_FLIGHT: usize = 16;

/// How long the answer of a request without credentials may go on: they have answers at once, except a watch of the
/// server's health.
pub const ANONYMOUS_ANSWER: Duration = Duration::from_secs(60);

/// How long a request keeps its seat of a priority level while its body arrives. Clients send it with the head, or directly after it.
pub const SEAT_WAITS_FOR_BODY: Duration = Duration::from_millis(50);

/// Bytes that a request counts which has given back its seat and waits for its body.
pub const SLOW_BODY_BYTES: usize = 32 * 1024;

/// Bytes of one user's requests that wait for their bodies without a seat: 512. Further ones are refused with 429. Clients with slow
/// uplinks have a few.
pub const SLOW_BODIES_BYTES_OF_USER: usize = 512 * SLOW_BODY_BYTES;

/// Bytes of all requests that wait for their bodies without a seat.
pub const SLOW_BODIES_BYTES: usize = 8 * SLOW_BODIES_BYTES_OF_USER;

/// Bytes of the longest gRPC message without credentials: enough for a question, too little to fill memory.
pub const ANONYMOUS_MESSAGE_BYTES: usize = 16 * 1024;

/// Bytes of a gRPC message beyond its object.
pub const GRPC_OVERHEAD_BYTES: usize = 64 * 1024;

/// Bytes of all request bodies in memory, while they are read or processed: some forty of the largest.
/// Further bodies wait.
pub const BODIES_BYTES: usize = 128 * 1024 * 1024;

/// Bytes of one user's request bodies in memory: ten of the largest. Further bodies of the user wait.
pub const BODIES_BYTES_OF_USER: usize = 32 * 1024 * 1024;

/// Bytes beyond [`BODIES_BYTES`] for one body of each user at a time: bodies of other users are read, and bodies that hold
/// parts of the budget do not wait for each other, when it is used up. Eight of the largest.
pub const BODIES_SPARE_BYTES: usize = 8 * BODY_BYTES;

/// The timeout of reading a request body, including the wait for the memory budget; then 504.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// The first pause before a task of the server that panicked runs again; it doubles with each panic.
pub const RESTART_BACKOFF_BASE: Duration = Duration::from_millis(500);
/// The longest such pause.
pub const RESTART_BACKOFF_CAP: Duration = Duration::from_secs(30);
/// A task that ran for this long before it panicked begins with the shortest pause again.
pub const RESTART_BACKOFF_RESET: Duration = Duration::from_secs(60);
/// Consecutive panics after which the watch cache is closed and the process ends in order. The cache cannot
/// process what is stored; a new process is better than a cache that shows nothing new.
pub const CACHE_PANICS: u32 = 5;

/// The interval of a warning that a client can provoke.
pub const REPEATED_WARNING: Duration = Duration::from_secs(10);

/// How long a request waits until the use of its Secret's token is recorded: a storage that does not answer must
/// not keep reads from being served.
pub const TOKEN_USE_WRITE: Duration = Duration::from_secs(1);

/// The timeout of one call to an external etcd; without a leader it would answer after about seven seconds.
pub const ETCD_CALL: Duration = Duration::from_secs(5);

/// The timeout of connecting to a member of an external etcd.
pub const ETCD_CONNECT: Duration = Duration::from_secs(2);

/// How long calls are repeated, on all members in turn: above the time in which etcd elects a leader or
/// restarts, plus one call. A request that a member forwarded to a leader that then died is never answered,
/// and takes that long to fail.
pub const ETCD_PATIENCE: Duration = Duration::from_secs(8);

/// How long an etcd may fail to answer before `/readyz` fails. A shorter outage may be a failover.
pub const ETCD_DOWN: Duration = Duration::from_secs(1);

/// The first pause after no member of etcd answered; it doubles with each round.
pub const ETCD_PAUSE: Duration = Duration::from_millis(50);

/// The longest such pause: the interval at which an unavailable etcd is tried.
pub const ETCD_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A connection to a member that was idle for this long is pinged, and closed if the reply takes longer than
/// this. etcd disconnects clients that ping more often than every five seconds.
pub const ETCD_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The flow-control window of one stream from a member: a slow reader of history delays only itself.
pub const ETCD_WINDOW: u32 = 2 * 1024 * 1024;

/// Keys of one read: large lists are read in pages of this size, all at one revision.
pub const ETCD_PAGE: i64 = 1000;

/// Readers that wait for the newest revision together; further ones wait for the next round.
pub const ETCD_READERS: usize = 1024;

/// Interval of progress requests to a member while a reader waits: a member whose watch is still catching up
/// does not answer. Kubernetes' own interval.
pub const ETCD_PROGRESS: Duration = Duration::from_millis(100);

/// How long Events live, if the settings do not say otherwise: kube-apiserver's default.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Longest time for which expiring keys share a lease, so that thousands of events do not need thousands of leases. Kubernetes'
/// default.
pub const LEASE_SHARE: Duration = Duration::from_secs(60);

/// Keys of one lease: an expired lease deletes all its keys in one revision, which watchers receive as a whole. Kubernetes' default.
pub const LEASE_KEYS: usize = 1000;

/// Concurrent streams of one tunnel; more are refused with 503. A stream is a followed log, a shell, or a
/// forwarded connection: people open them, not controllers.
pub const TUNNEL_STREAMS: usize = 1024;

/// How far the sender of a stream may be ahead of its reader, in cost units: the memory that a slow reader
/// occupies. Fixed by kstore.v1.
pub const STREAM_WINDOW: usize = 64 * 1024;

/// The cost of a stream message beyond its bytes, so that empty messages are bounded too. Fixed by kstore.v1.
pub const STREAM_FRAME_COST: usize = 64;

/// Bytes of data in one message of a stream. Fixed by kstore.v1.
pub const STREAM_FRAME_BYTES: usize = 16 * 1024;

/// How long a node may take to accept a stream. A kubelet's answer is bounded by the same order.
pub const STREAM_BEGIN: Duration = Duration::from_secs(30);

/// Nodes of one tunnel that may be refused: with their reasons they must fit into a gRPC message. A tunnel with more
/// of them ends, and its further names are not judged.
pub const TUNNEL_REFUSALS: usize = 1_000;

/// Nodes that one message of a tunnel may name: ten times the nodes of the largest simulations.
pub const TUNNEL_NODES: usize = 100_000;

/// Nodes of a tunnel that are judged before other tasks run: less than a millisecond.
pub const TUNNEL_NODES_AT_ONCE: usize = 128;

/// Streams of one user on a tunnel: a quarter of [`TUNNEL_STREAMS`]. All simulated nodes of a process share a tunnel, and
/// one user must not use up the streams of all others.
pub const TUNNEL_STREAMS_OF_USER: usize = TUNNEL_STREAMS / 4;

/// The timeout for the first message on a tunnel, which names the nodes that it reaches.
pub const TUNNEL_HELLO: Duration = Duration::from_secs(10);

/// Bytes of the largest message from a WebSocket client. kubectl sends 32 KiB at a time; other clients send
/// larger writes in one message.
pub const WEBSOCKET_MESSAGE: usize = 1024 * 1024;

/// How long a WebSocket client may take to answer a close message.
pub const WEBSOCKET_FAREWELL: Duration = Duration::from_secs(2);

/// Open and half-open connections of one port-forward; further ones are closed at once.
pub const FORWARDED: usize = 256;

/// How long a backend behind `proxy` may take to begin its answer. Kubernetes waits as long as the client
/// does; here a silent backend must not occupy a stream of its node's tunnel forever.
pub const PROXY_HEAD: Duration = Duration::from_secs(600);

/// How long a backend behind `proxy` may take for the handshake of TLS, as in Kubernetes.
pub const PROXY_TLS: Duration = Duration::from_secs(10);

/// How long a proxied connection continues after the client stopped sending.
pub const PROXY_LINGER: Duration = Duration::from_secs(30);

/// Bytes of the longest page whose links are rewritten, since it is held in memory. A longer page is
/// forwarded unchanged.
pub const PROXY_PAGE: usize = 4 * 1024 * 1024;

/// Chunks of one forwarded connection that wait for their stream. When the queue is full, the whole client
/// waits.
pub const FORWARD_PIECES: usize = 16;

/// Bytes of the largest answer of a webhook: a patch or converted objects cannot be larger than a request
/// body.
pub const OUTBOUND_ANSWER_BYTES: usize = BODY_BYTES;

/// Servers outside the process to which connections are kept open. Kubernetes keeps as many clients of
/// webhooks.
pub const OUTBOUND_SERVERS: usize = 200;

/// The timeout of this server's own requests to an aggregated API server, as in Kubernetes.
pub const AGGREGATED_PROBE: Duration = Duration::from_secs(5);

/// Interval of availability checks of an aggregated API server that answers, as in Kubernetes.
pub const AGGREGATED_PROBE_EVERY: Duration = Duration::from_secs(30);

/// The pause before this server restores an `Available` condition that another writer changed: two apiservers on one storage may see
/// different addresses of the same API server.
pub const AGGREGATED_REWRITE_AFTER: Duration = Duration::from_secs(30);

/// Interval at which discovery and OpenAPI documents of an aggregated API server are fetched, as in
/// Kubernetes.
pub const AGGREGATED_DOCUMENTS_EVERY: Duration = Duration::from_secs(60);

/// Half of the first pause before an aggregated API server that did not answer is tried again; it doubles
/// with every failure, as in Kubernetes.
pub const AGGREGATED_BACKOFF_BASE: Duration = Duration::from_millis(5);

/// The longest such pause.
pub const AGGREGATED_BACKOFF_CAP: Duration = Duration::from_secs(30);

/// Bytes of the largest discovery or OpenAPI document of an aggregated API server: Kubernetes' own OpenAPI
/// document has 4 MB.
pub const AGGREGATED_DOCUMENT_BYTES: usize = 16 << 20;

/// How long an aggregated API server may take to begin its answer to a forwarded request, unless that is a
/// watch or an upgrade. The same as the timeout of requests in Kubernetes.
pub const AGGREGATED_HEAD: Duration = Duration::from_secs(60);

/// Values of one metric label that are names of clients' objects: webhooks, definitions, versions. Further
/// values count as `other`, so that a client with ever new names does not let the metrics page and its memory
/// grow without end.
pub const METRIC_LABEL_VALUES: usize = 1000;

/// Time between two looks at the files of static manifests. Each look lists a folder; kube-apiserver is told of changes by the system, or
/// looks once a minute.
pub const MANIFEST_LOOK: Duration = Duration::from_secs(1);

/// Checks of admission policies that one request adds to the metrics. More checks come from many policies
/// with many parameters each; these are a fair sample.
pub const POLICY_CHECKS: usize = 1000;

/// Distinct status codes of webhooks in metrics. Further codes count as 600, as Kubernetes counts codes above
/// 600.
pub const METRIC_WEBHOOK_CODES: usize = 64;

/// Audit events in the queue, as many as kube-apiserver buffers. When it is full, requests wait or events are
/// dropped, as the mode says.
pub const AUDIT_QUEUE: usize = 10_000;

/// The largest queue of audit events that may be configured for a webhook
/// (`--audit-webhook-batch-buffer-size`); a larger number is cut.
pub const AUDIT_QUEUE_MAX: usize = 1_000_000;

/// Lists of audit events that are posted to a webhook concurrently. Further ones wait in the queue.
pub const AUDIT_LISTS: usize = 16;

/// Bytes of audit events in the queue: events with large objects fill memory sooner than their number
/// suggests.
pub const AUDIT_QUEUE_BYTES: usize = 64 << 20;

/// Bytes of the longest audit event: a request body and the resulting object fit. A longer event is written
/// without its objects.
pub const AUDIT_EVENT_BYTES: usize = 10 << 20;

/// Bytes of audit events that are written with one call; a single event may be larger.
pub const AUDIT_WRITE_BYTES: usize = 1 << 20;

/// Bytes of a user agent in audit events: Kubernetes' bound.
pub const AUDIT_AGENT_BYTES: usize = 1024;

/// Bytes of the longest refusal that is read for its audit event. Refusals are short.
pub const AUDIT_REFUSAL_BYTES: u64 = 256 * 1024;

/// Locks that serialize writes which charge quotas, by namespace. More of them let more namespaces be written
/// concurrently; two namespaces with the same lock wait for each other.
pub const QUOTA_LEDGERS: usize = 64;

/// Initial objects that one task creates: few enough that all threads have work, enough to be worth a task.
pub const INITIAL_OBJECTS_PER_TASK: usize = 32;

/// Times that a starting server tries to create the initial objects. Each try can wait for the watch cache for
/// [`FRESH_WAIT`], so that a start on an overloaded machine fails only after about half a minute.
pub const BOOTSTRAP_TRIES: usize = 10;

/// Pause between two such tries.
pub const BOOTSTRAP_PAUSE: Duration = Duration::from_millis(100);

/// Pods of a namespace that are checked when its enforced level becomes stricter; the warnings do not mention
/// further pods. Kubernetes' bound.
pub const POD_SECURITY_PODS: usize = 3000;

/// How long a WebSocket client of `exec` and `attach` has to create its streams before the first message for
/// them. A container on a real node takes longer to begin.
pub const CLIENT_STREAMS: Duration = Duration::from_millis(20);

/// Interval at which the encryption configuration is looked at for changes: kube-apiserver's. A change of
/// the file takes effect after at most this time.
pub const ENCRYPTION_RELOAD: Duration = Duration::from_secs(60);

/// The shortest time between two looks at a file that configures authentication or authorization. The files are
/// looked at when requests need them; a look costs a system call, which a busy server need not make for each
/// request. kube-apiserver notices a change within a minute.
pub const ACCESS_FILE_LOOK: Duration = Duration::from_secs(1);

/// Interval at which a healthy key management service is asked for its status; kube-apiserver's.
pub const KMS_CHECK: Duration = Duration::from_secs(60);

/// Interval of these checks after one that failed; kube-apiserver's.
pub const KMS_CHECK_FAILED: Duration = Duration::from_secs(10);

/// Age from which a health request has a key management service checked again; kube-apiserver's.
pub const KMS_HEALTH: Duration = Duration::from_secs(20);

/// The same after a check that failed; kube-apiserver's.
pub const KMS_HEALTH_FAILED: Duration = Duration::from_secs(3);

/// How long further values are not tried after a key management service did not answer.
pub const KMS_RETRY: Duration = Duration::from_secs(1);

/// Decrypted seeds that stay in memory for each key management service. A server makes one for each key of
/// the service and each start, so that a cluster has far fewer. Beyond it, seeds are decrypted again.
pub const KMS_SEEDS: usize = 4096;

/// Most answers of webhooks and conversions that one decision about a write waits for. Each webhook is one, so no real cluster comes near;
/// a decision that needs ever another one would go on until the request's time is over.
pub const DECISION_ANSWERS: usize = 1000;
