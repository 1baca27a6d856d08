//! Every bound of the façade, by name, with the reason. What a store bounds itself is not here.

use std::time::Duration;

/// The largest message taken in: etcd's 1.5 MiB for a request and 512 KiB for what is around it. A larger one is refused
/// before it is decoded.
pub(crate) const MESSAGE_BYTES: usize = (3 << 19) + (512 << 10);

/// The largest request that changes something, as it is logged; etcd's value. Between this and [`MESSAGE_BYTES`] clients are
/// told which of their requests it was.
pub(crate) const REQUEST_BYTES: usize = 3 << 19;

/// Operations of a transaction, where each level counts with its longest list; the store's value and etcd's.
pub(crate) const TXN_OPS: usize = 128;

/// What a client may send on one stream before it hears that it was taken: more than a message, so that no message waits
/// for that. What piles up unread beyond it costs the client the stream.
pub(crate) const STREAM_WINDOW: usize = 4 << 20;

/// What a client may send on one connection before it hears that it was taken; granted anew at once, as etcd does it.
pub(crate) const RECEIVE_WINDOW: u32 = 16 << 20;

/// Bytes of one request's headers, as HTTP/2 counts them; more ends the connection.
pub(crate) const HEADER_BYTES: usize = 64 << 10;

/// Frames that one block of headers may come in. The largest block fits in a few; more are sent only to keep us busy.
pub(crate) const HEADER_FRAMES: usize = 64;

/// Streams of one connection at one time; each costs a little, and a task if it is no plain call. Clients are told, and wait.
pub(crate) const STREAMS: usize = 16_384;

/// Things on one connection that cost us more than the client: calls given up, streams refused, settings changed. A burst
/// of so many is borne, for a client may give up all its calls at once; beyond it the connection ends.
pub(crate) const BOTHERS: u32 = 10_000;

/// How many of these are forgotten each second.
pub(crate) const BOTHERS_PER_SECOND: u32 = 1_000;

/// Writes of one connection that the store has not done yet; at the bound its frames are not looked at. etcd's value for
/// all writes, beyond which it refuses them.
pub(crate) const WRITES: usize = 5_000;

/// Bytes of one connection's requests that came in pieces and are not done; calls beyond it are refused.
pub(crate) const BODY_BYTES: usize = 128 << 20;

/// Bytes of answers to calls that the client of one connection does not take. Further reads that have no room are refused, and
/// results of writes wait in the store, until it does; one answer alone may be larger.
pub(crate) const UNTAKEN_BYTES_PER_CONNECTION: usize = 256 << 20;

/// Bytes of answers that the clients of all connections together do not take, as above: memory is one server's. Answers that fit
/// into what a connection sends next do not count.
pub(crate) const UNTAKEN_BYTES: usize = 1 << 30;

/// Reads of many keys inside the transactions of one connection that are under way or whose results wait to be written: one
/// transaction may have as many. Each result may refer to every key of the store. More are refused before they are done.
pub(crate) const SCANS_PER_CONNECTION: usize = TXN_OPS;

/// The same of all connections together.
pub(crate) const SCANS: usize = 2 * SCANS_PER_CONNECTION;

/// A read inside a transaction that is limited to so many keys is none of many keys.
pub(crate) const SCAN_KEYS: i64 = 64;

/// Bytes of one answer: the largest message that gRPC clients take. A larger one is refused, as etcd refuses it.
pub(crate) const ANSWER_MAX: usize = i32::MAX as usize;

/// How long the request of a call may take to come once it has begun; then the call is refused. Looked at once in
/// [`PING_AFTER`], so that it may be twice as long.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(60);

/// How long a client may take nothing of answers that wait for it; then the connection ends. Looked at as above.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(60);

/// What a queued piece of a request's body costs beside its bytes, and below which size it is not worth keeping what it was
/// read into.
pub(crate) const PIECE_BYTES: usize = 256;

/// Bytes read at once. Holds the largest frame that we let clients send.
pub(crate) const READ_BYTES: usize = 32 << 10;

/// Bytes made and not yet taken by the client; at the bound neither requests nor answers are looked at.
pub(crate) const OUTBOX_BYTES: usize = 1 << 20;

/// Bytes of one streamed answer on their way to the connection; at the bound whoever makes them waits.
pub(crate) const ANSWER_BYTES: usize = 256 << 10;

/// Parts of streamed answers on their way to one connection, as above.
pub(crate) const PARTS: usize = 64;

/// How long a connection may be silent before it is asked whether the client is there. etcd waits two hours, in which the calls and
/// watches of a client that vanished hold what they have.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(60);

/// How long the answer to that may take; etcd's value.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Connections at one time; each costs buffers. More wait to be accepted.
pub(crate) const CONNECTIONS: usize = 16_384;

/// A client has this long to finish its TLS handshake; slower ones are cut, since they take up a connection.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// After a failed accept (too many open files) the listener rests this long.
pub(crate) const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Open calls end by themselves within this time after a stop; then their connections are cut.
pub(crate) const DRAIN: Duration = Duration::from_millis(800);

/// Watches on one stream; each costs a queue. More are refused.
pub(crate) const WATCHES_PER_STREAM: usize = 65_536;

/// Revisions of history in one watch response; etcd's value.
pub(crate) const HISTORY_REVISIONS: usize = 1_000;

/// Bytes of history after which a watch response takes no further revision.
pub(crate) const HISTORY_BYTES: usize = MESSAGE_BYTES;

/// Keys of the first part of a streamed read: little, so that the first answer comes soon. Later ones follow their size.
pub(crate) const CHUNK_KEYS: i64 = 10;

/// About how many bytes a part of a streamed read has.
pub(crate) const CHUNK_BYTES: usize = 3 << 19;

/// Bytes of a snapshot in one message; etcd's value.
pub(crate) const SNAPSHOT_PIECE: usize = 32 << 10;

/// Snapshots sent at one time, each with a file as large as the store. More are refused.
pub(crate) const SNAPSHOTS: usize = 4;

/// Bytes of watch responses made at once; larger ones only if a single response is.
pub(crate) const WATCH_CHUNK_BYTES: usize = 64 << 10;

/// How often a watch that asked for it hears that nothing happened. etcd's default is ten minutes, but Kubernetes, the
/// main user, runs it with this.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(5);
