//! The limits of this crate, each with its reason.

use std::time::Duration;

/// The timeout of a call that is not a stream. Longer than the server's own limit for a request, so that the
/// caller sees the server's response.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum size of a received message in bytes. Larger than every list chunk of the server.
pub const MAX_MESSAGE: usize = 64 << 20;

/// The timeout of a TCP connection with its TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client pings an idle connection after this time, and closes it if the response takes longer than this.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The maximum interval of the server's progress messages on an idle watch. After several such intervals
/// without a message the informer opens another stream.
pub const WATCH_PROGRESS: Duration = Duration::from_secs(10);

/// The maximum interval of progress messages on an idle watch within the server's process, which has no
/// connection that could break. A reader that waits for a revision demands earlier progress.
pub const IN_PROCESS_PROGRESS: Duration = Duration::from_secs(1200);

/// The maximum size of a kubeconfig or credential file in bytes.
pub const MAX_KUBECONFIG: u64 = 1 << 20;

/// The maximum number of buffered events for one part of a shared stream. At the limit the client stops
/// reading the stream until that part has caught up, which delays the other parts. One more batch may be in
/// flight.
pub const MULTI_BUFFER: usize = 4_096;

/// The number of events in one transaction. Half of the server's maximum, so that a refused event causes few
/// repetitions.
pub const EVENT_BATCH: usize = 64;

/// The time after which a shared stream logs the informers that have not started and that it waits for.
pub const MULTI_WARNING: Duration = Duration::from_secs(120);

/// The number of objects that one call of a collection deletion deletes. Each may cost the server a commit, and
/// a call must end within the server's time limit, also on a slow disk.
pub const DELETE_PAGE: u32 = 500;

/// The maximum number of concurrent streams of one tunnel; the server opens no more.
pub const TUNNEL_STREAMS: usize = 1024;

/// The flow-control window of a stream: how far the sender may be ahead of the reader, in cost units. Fixed
/// by kstore.v1.
pub const STREAM_WINDOW: usize = 64 * 1024;

/// The cost of a stream message in addition to its bytes. Fixed by kstore.v1.
pub const STREAM_FRAME_COST: usize = 64;

/// The maximum data of one stream message in bytes. Fixed by kstore.v1.
pub const STREAM_FRAME_BYTES: usize = 16 * 1024;

/// The maximum number of bytes of keys and scalars in one manifest document, with aliases expanded. Lists of
/// many objects fit; a server accepts 3 MiB for each object.
pub const MANIFEST_DOCUMENT_BYTES: usize = 64 << 20;

/// The lifetime of a service account token that a client requests. Short, since the client renews it; a
/// server refuses less than ten minutes.
pub const ACCOUNT_TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// The requests, without watches, that are sent at the same time to an API server without kstore's gRPC API. Servers bound the
/// streams of a connection, some at 100, and kube-apiserver runs 200 writes at a time for all its clients.
pub const KUBE_CALLS: usize = 64;

/// The operations of one call of `Each` to an API server without kstore's gRPC API: as many as kstore takes.
pub const KUBE_EACH: usize = 128;

/// The objects of a page of a list from an API server without kstore's gRPC API, as kubectl asks for them.
pub const KUBE_PAGE: i64 = 500;

/// The maximum interval of progress on an idle watch of an API server without kstore's gRPC API: Kubernetes sends a bookmark a minute.
pub const KUBE_PROGRESS: Duration = Duration::from_secs(60);

/// The watches on one connection to an API server without kstore's gRPC API.
pub const KUBE_STREAMS: usize = 100;

/// The connections for watches to an API server without kstore's gRPC API. A process that needs more watches gets an error.
pub const KUBE_CONNECTIONS: usize = 20;
