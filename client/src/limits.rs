//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Longest wait for the answer to one call that is not a stream. Longer than the server's own limit for a request, so that
/// the server's answer is what a caller sees.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest message that is accepted: a chunk of a list. Above every chunk that the server makes.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Longest wait for a TCP connection and its TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection is pinged when it was quiet for this long, and closed if the answer takes longer than this.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The server says at least this often how far a quiet watch has come. After some such intervals of silence the informer
/// opens another stream.
pub const WATCH_PROGRESS: Duration = Duration::from_secs(10);

/// Longest kubeconfig or credential file that is read.
pub const MAX_KUBECONFIG: u64 = 1 << 20;

/// Resources that one watch stream can carry; the server refuses more.
pub const MAX_SELECTORS: usize = 64;

/// Events that wait for one part of a common stream. At the bound the stream is not read until that part has caught up, which
/// holds up the other parts; one batch more may be under way.
pub const MULTI_BUFFER: usize = 4_096;

/// Events in one transaction. Half of what a server takes, so that little is repeated when it refuses one of them.
pub const EVENT_BATCH: usize = 64;

/// After this long a common stream that waits for informers which were not started says for which.
pub const MULTI_WARNING: Duration = Duration::from_secs(120);

/// Objects that one call of a collection's deletion deletes. Each costs the server a commit, and a call must end within the
/// server's limit for a request, on a slow disk too.
pub const DELETE_PAGE: u32 = 500;

/// Streams that one tunnel carries at a time; the server opens no more.
pub const TUNNEL_STREAMS: usize = 1024;

/// How far the sender of a stream may be ahead of its reader, by cost. Fixed by kstore.v1.
pub const STREAM_WINDOW: usize = 64 * 1024;

/// What a message of a stream costs beside its bytes. Fixed by kstore.v1.
pub const STREAM_FRAME_COST: usize = 64;

/// Data in one message of a stream. Fixed by kstore.v1.
pub const STREAM_FRAME_BYTES: usize = 16 * 1024;

/// Bytes of the keys and scalars of one document of a manifest, aliases followed. Lists of many objects fit; a server takes 3 MiB for
/// each of them.
pub const MANIFEST_DOCUMENT_BYTES: usize = 64 << 20;

/// Life of a service account's token that a client asks for. Short, since it is renewed; a server refuses less than ten minutes.
pub const ACCOUNT_TOKEN_LIFETIME: Duration = Duration::from_secs(3600);
