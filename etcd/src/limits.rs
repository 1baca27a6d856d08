//! Limits of the etcd API server, each with its reason. The store's own limits are in its crate.

use std::time::Duration;

/// Largest accepted message: etcd's 1.5 MiB for a request plus 512 KiB of overhead. A larger message is refused before
/// it is decoded.
pub(crate) const MESSAGE_BYTES: usize = (3 << 19) + (512 << 10);

/// Largest writing request, as it is logged; etcd's value. Between this and [`MESSAGE_BYTES`] the client gets
/// etcd's error for the request; above, gRPC's error for the message.
pub(crate) const REQUEST_BYTES: usize = 3 << 19;

/// Operations of a transaction; each level counts with its longest list. The store's value and etcd's.
pub(crate) const TXN_OPS: usize = 128;

/// Comparisons and operations of a transaction with all nested ones, counted before it is decoded. etcd bounds each level only; no client
/// is known that nests more than a few. Enough for [`TXN_OPS`] of them in each of the operations of the first level.
pub(crate) const TXN_ITEMS: usize = TXN_OPS * TXN_OPS;

/// Receive window of a stream: larger than a message, so that no message waits for a window update. A client that sends
/// more unread bytes loses the stream.
pub(crate) const STREAM_WINDOW: usize = 4 << 20;

/// Receive window of a connection. As in etcd, it is refilled at once.
pub(crate) const RECEIVE_WINDOW: u32 = 16 << 20;

/// Bytes of one request's headers, as HTTP/2 counts them; more ends the connection.
pub(crate) const HEADER_BYTES: usize = 64 << 10;

/// Frames of one header block. The largest block fits into a few; a client that sends more only causes load.
pub(crate) const HEADER_FRAMES: usize = 64;

/// Concurrent streams of one connection; each costs some memory, and a task if it is not a plain call. Clients know the
/// limit and wait.
pub(crate) const STREAMS: usize = 16_384;

/// Tokens for client behaviour that costs the server more than the client: cancelled calls, refused streams, changed
/// settings. A client may cancel all its calls at once, so a burst is permitted; beyond it the connection ends.
pub(crate) const ABUSE_TOKENS: u32 = 10_000;

/// Tokens that are refilled each second.
pub(crate) const ABUSE_TOKENS_PER_SECOND: u32 = 1_000;

/// Pending writes of one connection; at the limit the server does not process its frames. etcd has this limit for all
/// writes, and refuses more.
pub(crate) const WRITES: usize = 5_000;

/// Bytes of one connection's incomplete requests; calls beyond it are refused, and streams reset.
pub(crate) const BODY_BYTES: usize = 128 << 20;

/// Bytes of the incomplete requests of all connections, since they share one server's memory.
pub(crate) const BODY_BYTES_OF_ALL: usize = 4 * BODY_BYTES;

/// Keys that a connection reads before other tasks run: about a millisecond. A range of more keys is read on a thread of its own.
pub(crate) const KEYS_AT_ONCE: usize = 10_000;

/// Bytes of responses that the client of one connection has not taken. Further reads without budget are refused, and
/// results of writes wait in the store. A single response may be larger.
pub(crate) const UNTAKEN_BYTES_PER_CONNECTION: usize = 256 << 20;

/// Bytes of responses that the clients of all connections have not taken, since they share one server's memory.
/// Responses that fit into a connection's outbox do not count. Parts of streamed responses do.
pub(crate) const UNTAKEN_BYTES: usize = 1 << 30;

/// Bytes up to which a part of a streamed response does not wait because of what other connections have not taken.
pub(crate) const SMALL_PART_BYTES: usize = 16 << 10;

/// Bytes of the results of unbounded range reads in the transactions of one connection that are in progress or whose results wait to be
/// written. The results are estimated by the number of keys, and refer to the store's versions. Transactions beyond it are refused
/// before they are executed; one read may be larger.
pub(crate) const SCAN_BYTES_PER_CONNECTION: usize = 64 << 20;

/// Bytes of the results of unbounded range reads in the transactions of all connections.
pub(crate) const SCAN_BYTES: usize = 2 * SCAN_BYTES_PER_CONNECTION;

/// Bytes that an unbounded range read counts at least: a transaction may have one as each of its operations.
pub(crate) const SCAN_BYTES_LEAST: usize = SCAN_BYTES_PER_CONNECTION / TXN_OPS;

/// Bytes that a key of a result takes: a reference to the stored version, before and after it is resolved.
pub(crate) const KEY_BYTES: usize = 32;

/// The same without its value, which is a version of its own.
pub(crate) const BARE_KEY_BYTES: usize = 128;

/// Ranges of many keys, of all connections, that are evaluated and encoded concurrently; further ones wait. Beside the encoded result,
/// for which budget is reserved, each holds references to all its keys.
pub(crate) const LARGE_READS: usize = 2;

/// Bytes that are reserved for the list of all leases, or of the keys of a lease, before it is made: a million leases fit.
pub(crate) const LEASE_LIST_BYTES: usize = 64 << 20;

/// A range read with at most this limit counts as bounded.
pub(crate) const SCAN_KEYS: i64 = 64;

/// Bytes of one response: the largest message that gRPC clients accept. A larger one is refused, as in etcd.
pub(crate) const ANSWER_MAX: usize = i32::MAX as usize;

/// Time for the complete request of a call to arrive; then the call is refused. It is checked every [`PING_AFTER`], so
/// it may take twice as long.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(60);

/// Time for which a client may take nothing of its waiting responses; then the connection ends. If only single streams wait
/// for the client, they are reset. It is checked every [`PING_AFTER`].
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Bytes that a queued piece of a request's body costs in addition to its length. Pieces below this size are copied, so
/// that they do not keep their read buffer.
pub(crate) const PIECE_BYTES: usize = 256;

/// Bytes per read; the largest frame that clients may send fits.
pub(crate) const READ_BYTES: usize = 32 << 10;

/// Bytes in a connection's outbox; at the limit the server processes neither requests nor responses.
pub(crate) const OUTBOX_BYTES: usize = 1 << 20;

/// Bytes of one streamed response that wait for the connection; at the limit its task waits.
pub(crate) const ANSWER_BYTES: usize = 256 << 10;

/// Parts of streamed responses that wait for one connection; at the limit their tasks wait.
pub(crate) const PARTS: usize = 64;

/// Silence after which the server pings the client. etcd waits two hours, during which the calls and watches of a
/// vanished client hold their resources.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(60);

/// Time for the client to answer the ping; etcd's value.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Concurrent connections; each costs buffers. For further ones, idle connections are closed, or they wait to be accepted.
pub(crate) const CONNECTIONS: usize = 16_384;

/// How long a connection has no call before it may be closed for another one.
pub(crate) const IDLE_FOR: Duration = Duration::from_secs(2);

/// The pause before a new connection looks again for an idle one.
pub(crate) const SLOT_RETRY: Duration = Duration::from_millis(250);

/// Time for a client to finish its TLS handshake. Slower connections are closed, since they count as open.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// Pause of the listener after a failed accept (too many open files).
pub(crate) const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Time for open calls to finish after a stop; then their connections are closed.
pub(crate) const DRAIN: Duration = Duration::from_millis(800);

/// Watches on one stream; each costs a queue. Further ones are refused.
pub(crate) const WATCHES_PER_STREAM: usize = 65_536;

/// Watches on all streams, since they share one server's memory: several times as many as an API server of a large cluster has.
/// Further ones are refused.
pub(crate) const WATCHES: usize = 4 * WATCHES_PER_STREAM;

/// Hashes of the history that are computed concurrently; each reads all of it. Further ones wait.
pub(crate) const HASHES: usize = 2;

/// Revisions of history in one watch response; etcd's value.
pub(crate) const HISTORY_REVISIONS: usize = 1_000;

/// Bytes of history after which a watch response takes no further revision.
pub(crate) const HISTORY_BYTES: usize = MESSAGE_BYTES;

/// Keys in the first part of a streamed range: few, so that the first response is fast. The size of later parts adapts.
pub(crate) const CHUNK_KEYS: i64 = 10;

/// Bytes of a part of a streamed range, and of old versions that are read on the connection's task. A single version may be larger.
pub(crate) const CHUNK_BYTES: usize = 3 << 19;

/// Bytes of a snapshot per message; etcd's value.
pub(crate) const SNAPSHOT_PIECE: usize = 32 << 10;

/// Concurrent snapshots, each with a file as large as the store. Further ones are refused.
pub(crate) const SNAPSHOTS: usize = 4;

/// Bytes of watch responses per chunk; a single larger response makes a larger chunk.
pub(crate) const WATCH_CHUNK_BYTES: usize = 64 << 10;

/// Interval of progress notifications for idle watches that request them. etcd's default is ten minutes, but
/// Kubernetes, the main user, configures this value.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(5);
