//! Every bound of the apiserver, by name, with its reason. What happens at the bound is said where it is enforced.

use std::time::Duration;

/// The largest request body. Kubernetes' own limit; beyond it 413.
pub const BODY_BYTES: usize = 3 * 1024 * 1024;

/// Bytes of a request body that are read and discarded after an answer that came before they were read: as much as a body may have,
/// so that no body that would be accepted elsewhere costs a client its connection. A longer rest resets its stream.
pub const UNREAD_BODY_BYTES: usize = BODY_BYTES + 64 * 1024;

/// How long the rest of such a body is waited for; then its stream is reset. Long enough for [`UNREAD_BODY_BYTES`] over a slow link.
pub const UNREAD_BODY_TIME: Duration = Duration::from_secs(10);

/// The largest stored object: etcd's default request limit, which clients of a real cluster already live with.
pub const OBJECT_BYTES: usize = 1_572_864;

/// Changes of all kinds that stay in memory for watches that resume: at most this many…
pub const RECENT_CHANGES: usize = 16_384;

/// …and at most this many bytes of objects and of their events. Older ones are read from the storage's history.
pub const RECENT_BYTES: usize = 16 * 1024 * 1024;

/// How long a change stays in memory at least, if the bounds above allow it. What is older, up to twice this, goes when there are
/// more bytes than [`RECENT_CALM_BYTES`]: a busy time must not cost memory for ever.
pub const RECENT_AGE: Duration = Duration::from_secs(20);

/// Bytes of changes that stay in memory however old they are.
pub const RECENT_CALM_BYTES: usize = 1024 * 1024;

/// Objects that are kept in a second form, as protobuf messages, by bytes. Beyond it they are made anew for each answer.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Undelivered changes of one watch, by bytes of shared objects it keeps alive. Beyond it the watch ends and the client
/// resumes from the last revision it saw: memory must not grow with slow clients.
pub const WATCH_BACKLOG_BYTES: usize = 32 * 1024 * 1024;

/// Undelivered changes of one watch, by count; bounds the work of one wake-up.
pub const WATCH_BACKLOG_CHANGES: usize = 65_536;

/// Watches that are woken before other tasks have their turn: enough for one change in a cluster of some controllers and a few
/// dozen clients, few enough that a thousand watchers of one object do not hold up those who write.
pub const WAKE_UPS: usize = 64;

/// How often a watch that asked for bookmarks hears how far it has come while nothing happens. Kubernetes: about a minute.
pub const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The last bookmark of a watch comes so long before its timeout. Kubernetes: 2 s.
pub const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// A watch that names no timeout ends after this long plus up to as much again, so that clients spread out.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A read waits this long for a revision that is about to come before it gives up with 504. Kubernetes: 3 s.
pub const FRESH_WAIT: Duration = Duration::from_secs(3);

/// The longest that one unary request may take. Kubernetes: 60 s.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest that a write may take, with all lost races in it; then 504. Kubernetes: 34 s.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// Operations of one transaction; more are refused. An etcd takes 128 of its own, and most of ours become one of those.
pub const TRANSACTION_OPERATIONS: usize = 128;

/// Keys that one transaction may guard or write, with what belongs to its objects (addresses, ports), the namespaces in which it
/// creates some, and its fence. An etcd takes 128 in its default configuration.
pub const TRANSACTION_KEYS: usize = 128;

/// Tries to find a free generated name. Kubernetes: 8.
pub const GENERATE_NAME_ATTEMPTS: usize = 8;

/// Causes that one write may name; more are cut. See the informer's cause sets.
pub const CAUSES: usize = 16;

/// The longest `User-Agent` that is kept with a write; the rest is cut. Those of Kubernetes' clients have about 100 bytes, and every
/// write stores it.
pub const USER_AGENT_BYTES: usize = 256;

/// The longest name of a field manager. Kubernetes' own limit.
pub const FIELD_MANAGER_BYTES: usize = 128;

/// The longest watch that a client may ask for; a longer one ends after this time. A client resumes a watch that ended, and no
/// deadline is further away than the clock can count.
pub const WATCH_TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Steps that comparing the rules of one role with those that its writer holds may take: about a tenth of a second. Roles of
/// hundreds of rules take some thousands. Beyond it the write is refused with 403, which says what helps.
pub const ESCALATION_STEPS: usize = 4_000_000;

/// Rules that a refused escalation names: a screen for people. The comparison ends with the last of them.
pub const ESCALATION_RULES_SHOWN: usize = 100;

/// Bytes of provenance that `explain` keeps at hand: 150,000 writes of pods, 60,000 of objects that are created and deleted. Older
/// writes are still in the store but not in the tree. In bytes, since it is what an idle server still holds of a busy day.
pub const TRACE_BYTES: usize = 4 * 1024 * 1024;

/// Revisions of history that are read at a time, newest first, until there are more than are kept. Large enough that what a stretch
/// costs to begin does not count.
pub const RECALL_STRETCH: i64 = 16_384;

/// How deep the tree of a trace goes: JSON readers commonly stop at 128 levels, and a write takes two.
pub const TRACE_DEPTH: usize = 48;

/// Bearer tokens whose signature is not verified again: one for each pod that talks to the API in a large cluster. Each takes
/// about two KiB.
pub const VERIFIED_TOKENS: usize = 4096;

/// Answers of a webhook of authentication or authorization that are kept. When there are more, the oldest ones are asked again.
pub const WEBHOOK_ANSWERS: usize = 8192;

/// Calls to one webhook of authentication or authorization at a time. Further requests wait for one to end.
pub const WEBHOOK_CALLS: usize = 64;

/// The longest token of an issuer of OpenID Connect: a longer one is refused unread. Those of real issuers have a few KiB.
pub const OIDC_TOKEN_BYTES: usize = 64 * 1024;

/// Keys of one issuer of OpenID Connect; further ones are left out. Real issuers have a handful.
pub const OIDC_KEYS: usize = 100;

/// A longer bearer token is verified for each request. What a token claims is kept, and a review may name one of megabytes.
pub const VERIFIED_TOKEN_BYTES: usize = 8 * 1024;

/// Kinds that one gRPC watch may select.
pub const WATCH_SELECTORS: usize = 128;

/// Items in one chunk of a streamed gRPC list: large enough to amortise framing, small enough to start early.
pub const LIST_CHUNK_ITEMS: usize = 500;

/// Reads that are being answered at a time; more wait their turn. Kubernetes' default.
pub const READS_IN_FLIGHT: usize = 400;

/// Writes that are being answered at a time; more wait their turn. Kubernetes' default is 200; one process with a group commit
/// serves more of them at once, and its own components write in parallel.
pub const WRITES_IN_FLIGHT: usize = 400;

/// A request whose body and stored object have this length or more is served aside from the threads that serve others: decoding and
/// checking takes milliseconds in one piece. Objects of clusters are rarely as large.
pub const HEAVY_BYTES: usize = 128 * 1024;

/// Such requests that are served at a time. More would share the processors with all others without being done sooner.
pub const HEAVY_AT_A_TIME: usize = 8;

/// Requests that wait for a place in flight, for reads and for writes each; further ones are refused with 429 at once.
pub const REQUESTS_WAITING: usize = 4000;

/// A request waits this long for a place in flight before it is refused with 429. Kubernetes: a quarter of the request timeout.
pub const PLACE_WAIT: Duration = Duration::from_secs(15);

/// Connections that are open at a time, if the limit of open files allows so many; then an idle one ends for a new one. Far above
/// what clients of a large cluster open.
pub const CONNECTIONS: usize = 8192;

/// A client has this long to finish its TLS handshake. Kubernetes: none of its own, about 10 s in Go's server.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection ends if its first request has not come within this time after it was opened; over HTTP/1.1 also if a later one has not
/// come whole. Kubernetes: 32 s.
pub const FIRST_REQUEST: Duration = Duration::from_secs(32);

/// A connection ends after it had nothing to do for this long. Kubernetes: 90 s.
pub const IDLE_CONNECTION: Duration = Duration::from_secs(90);

/// How long a client may take to close a connection that the server ends, counted from its last answer.
pub const CONNECTION_FAREWELL: Duration = Duration::from_secs(5);

/// An HTTP/2 client is pinged when it was silent for this long, so that peers which are no more do not keep their watches.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long an HTTP/2 client may take to answer a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Streams that one HTTP/2 connection may have open. Clients with more watches open more connections. Kubernetes: 250.
pub const STREAMS: u32 = 250;

/// Streams that a client reset before they were looked at; more end the connection (rapid reset).
pub const PENDING_RESETS: usize = 1024;

/// Requests without credentials that one connection may have in flight; further ones are refused with 429.
pub const ANONYMOUS_IN_FLIGHT: usize = 16;

/// The longest gRPC message without credentials: enough to ask, too little to fill memory with.
pub const ANONYMOUS_MESSAGE_BYTES: usize = 16 * 1024;

/// What a gRPC message may have beside an object.
pub const GRPC_OVERHEAD_BYTES: usize = 64 * 1024;

/// Bytes of request bodies that are in memory at a time, being read or worked on: some forty of the largest. Further ones wait.
pub const BODIES_BYTES: usize = 128 * 1024 * 1024;

/// How long a request body may take to arrive, with the time that it waits for room; then 504.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// How long a task of the server that panicked rests before it runs again: this at first, and twice as long each time.
pub const RESTART_BACKOFF_BASE: Duration = Duration::from_millis(500);
/// The longest such rest.
pub const RESTART_BACKOFF_CAP: Duration = Duration::from_secs(30);
/// A task that ran for so long before it panicked begins with the shortest rest again.
pub const RESTART_BACKOFF_RESET: Duration = Duration::from_secs(60);
/// Panics in a row after which the watch cache is closed, so that the process ends in order: what is stored, or what follows from
/// it, cannot be taken in, and a new process would say more than a cache that shows nothing new.
pub const CACHE_PANICS: u32 = 5;

/// A warning that a client can provoke is logged at most this often.
pub const REPEATED_WARNING: Duration = Duration::from_secs(10);

/// One call to an external etcd takes at most this long; without a leader it would answer after about seven seconds.
pub const ETCD_CALL: Duration = Duration::from_secs(5);

/// Longest wait for a connection to a member of an external etcd.
pub const ETCD_CONNECT: Duration = Duration::from_secs(2);

/// Calls are repeated this long, on all members in turn: above the time in which etcd elects a leader, or restarts, and one call
/// more. What a member had passed on to a leader that died then is never answered, and takes that long to be given up.
pub const ETCD_PATIENCE: Duration = Duration::from_secs(8);

/// An etcd that has not answered for so long makes `/readyz` fail. Until then it may be a fail-over.
pub const ETCD_DOWN: Duration = Duration::from_secs(1);

/// After each round of members that did not answer the pause doubles, from here…
pub const ETCD_PAUSE: Duration = Duration::from_millis(50);

/// …to here. While etcd is away it is asked this often whether it is back.
pub const ETCD_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A connection to a member is pinged when it was quiet for this long, and given up if the answer takes longer than this. etcd
/// cuts clients that ping more often than every five seconds.
pub const ETCD_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Bytes that a member may send ahead on one stream: a slow reader of history holds up itself only.
pub const ETCD_WINDOW: u32 = 2 * 1024 * 1024;

/// Keys of one read: large lists come in pages of this many, all of one revision.
pub const ETCD_PAGE: i64 = 1000;

/// Readers that wait for the newest revision together; more wait their turn.
pub const ETCD_READERS: usize = 1024;

/// A member that was asked how far a watch is, and is still catching up, does not answer; so often it is asked again, while a
/// reader waits. Kubernetes' own interval.
pub const ETCD_PROGRESS: Duration = Duration::from_millis(100);

/// Keys that are written within this time share a lease, and live up to this much longer than asked. As in Kubernetes.
pub const ETCD_LEASE_SHARE: Duration = Duration::from_secs(60);

/// Keys of one lease: etcd removes them in one go. Kubernetes' default.
pub const ETCD_LEASE_KEYS: usize = 1000;

/// Streams that one tunnel carries at a time; more are refused with 503. Each is a log that is followed, a shell, a forwarded
/// connection; people open them, not controllers.
pub const TUNNEL_STREAMS: usize = 1024;

/// How far the sender of a stream may be ahead of its reader, by cost: what a slow reader makes us hold. Fixed by kstore.v1.
pub const STREAM_WINDOW: usize = 64 * 1024;

/// What a message of a stream costs beside its bytes, so that empty ones are bounded too. Fixed by kstore.v1.
pub const STREAM_FRAME_COST: usize = 64;

/// Data in one message of a stream. Fixed by kstore.v1.
pub const STREAM_FRAME_BYTES: usize = 16 * 1024;

/// How long a node may take to say that it serves a stream. A kubelet's answer is bounded by the same order.
pub const STREAM_BEGIN: Duration = Duration::from_secs(30);

/// Refused nodes that one message to a tunnel tells of: with their reasons they must fit into a gRPC message. Who asks again for the
/// others hears of those that are still refused.
pub const TUNNEL_REFUSALS: usize = 1_000;

/// Whoever opens a tunnel says within this time which nodes it reaches.
pub const TUNNEL_HELLO: Duration = Duration::from_secs(10);

/// The largest message that a WebSocket client may send. kubectl sends 32 KiB at a time, other clients what they are given.
pub const WEBSOCKET_MESSAGE: usize = 1024 * 1024;

/// How long a WebSocket client may take to answer a goodbye.
pub const WEBSOCKET_FAREWELL: Duration = Duration::from_secs(2);

/// The largest SPDY frame that a client may send. Kubernetes' clients send 32 KiB at a time.
pub const SPDY_FRAME: usize = 1024 * 1024;

/// The largest header block of a SPDY stream, unpacked. Clients send three short pairs.
pub const SPDY_HEADERS: usize = 16 * 1024;

/// SPDY frames that wait for the connection to take them; their senders wait when it is full.
pub const SPDY_OUTBOX: usize = 16;

/// Connections that one port-forward may have open or half open; more are ended at once.
pub const FORWARDED: usize = 256;

/// How long a backend behind `proxy` may take to begin its answer. Kubernetes waits as long as the client does; here a backend
/// that never answers does not hold a place in its node's tunnel for ever.
pub const PROXY_HEAD: Duration = Duration::from_secs(600);

/// How long a backend may go on once its client says no more.
pub const PROXY_LINGER: Duration = Duration::from_secs(30);

/// The longest page whose links are rewritten; it is held in memory for that. A longer one passes unchanged.
pub const PROXY_PAGE: usize = 4 * 1024 * 1024;

/// Pieces of one forwarded connection that wait for their stream. When it is full the whole client waits.
pub const FORWARD_PIECES: usize = 16;

/// The largest answer of a webhook: a patch or converted objects cannot be larger than a request body could.
pub const OUTBOUND_ANSWER_BYTES: usize = BODY_BYTES;

/// Servers outside the process to which connections stay open. Kubernetes keeps as many clients of webhooks.
pub const OUTBOUND_SERVERS: usize = 200;

/// How long an API server behind an APIService may take to answer a question of this server itself, as in Kubernetes.
pub const AGGREGATED_PROBE: Duration = Duration::from_secs(5);

/// How often an API server that answers is asked whether it still does, as in Kubernetes.
pub const AGGREGATED_PROBE_EVERY: Duration = Duration::from_secs(30);

/// The pause before this server restores an `Available` condition that another writer changed: two apiservers on one storage may see
/// different addresses of the same API server.
pub const AGGREGATED_REWRITE_AFTER: Duration = Duration::from_secs(30);

/// How often an API server is asked for its discovery and OpenAPI documents, as in Kubernetes.
pub const AGGREGATED_DOCUMENTS_EVERY: Duration = Duration::from_secs(60);

/// Half of the first wait before an API server that does not answer is asked again; it doubles with every failure, as in Kubernetes.
pub const AGGREGATED_BACKOFF_BASE: Duration = Duration::from_millis(5);

/// The longest such wait.
pub const AGGREGATED_BACKOFF_CAP: Duration = Duration::from_secs(30);

/// The largest document that an API server may say of itself: Kubernetes' own OpenAPI document has 4 MB.
pub const AGGREGATED_DOCUMENT_BYTES: usize = 16 << 20;

/// How long an API server may take to begin its answer to a request that is handed on, unless the request is a watch or an upgrade:
/// the time that requests have in Kubernetes.
pub const AGGREGATED_HEAD: Duration = Duration::from_secs(60);

/// Values of one label of a metric that are names of clients' objects: webhooks, definitions, versions. Further ones count as `other`, so
/// that a client that goes on inventing names does not make the page, and what keeps it, grow without end.
pub const METRIC_LABEL_VALUES: usize = 1000;

/// The most checks of admission policies that one request adds to the metrics. More of them are many policies with many parameters each, of which
/// these are a fair sample.
pub const POLICY_CHECKS: usize = 1000;

/// Different codes of answers of webhooks in metrics. Further ones count as 600, as Kubernetes counts codes above it.
pub const METRIC_WEBHOOK_CODES: usize = 64;

/// Audit events that wait to be written, as many as kube-apiserver buffers. Beyond it requests wait or events are dropped, as the mode says.
pub const AUDIT_QUEUE: usize = 10_000;

/// The most audit events that may be told to wait for a webhook (`--audit-webhook-batch-buffer-size`); a larger number is cut.
pub const AUDIT_QUEUE_MAX: usize = 1_000_000;

/// Lists of audit events that are on their way to a webhook at a time. When it is reached, further ones wait in the queue.
pub const AUDIT_LISTS: usize = 16;

/// Bytes of audit events that wait to be written: events with large objects fill memory sooner than their number says.
pub const AUDIT_QUEUE_BYTES: usize = 64 << 20;

/// The longest audit event: a request body and the object that it made fit in. A longer one is written without its objects.
pub const AUDIT_EVENT_BYTES: usize = 10 << 20;

/// Bytes of audit events that are written in one go; a single event may be larger.
pub const AUDIT_WRITE_BYTES: usize = 1 << 20;

/// Bytes of a user agent in audit events: Kubernetes' bound.
pub const AUDIT_AGENT_BYTES: usize = 1024;

/// The longest refusal that is read for its audit event. Refusals are short.
pub const AUDIT_REFUSAL_BYTES: u64 = 256 * 1024;

/// Groups of namespaces in which writes that charge quotas take turns. More of them let more namespaces be written at the same time; two
/// namespaces that share one only wait for one another.
pub const QUOTA_LEDGERS: usize = 64;

/// Initial objects that one task creates: few enough that all threads have work, enough that a task is worth its start.
pub const INITIAL_OBJECTS_PER_TASK: usize = 32;

/// How many pods of a namespace are judged when the level that it enforces becomes stricter; of further ones its warnings say nothing.
/// Kubernetes' bound.
pub(crate) const POD_SECURITY_PODS: usize = 3000;

/// How long a client of `exec` and `attach` on a WebSocket has to make its streams before the first message for them: a container of a real
/// node takes longer to begin.
pub(crate) const CLIENT_STREAMS: Duration = Duration::from_millis(20);
