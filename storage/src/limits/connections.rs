//! Bounds on connections, and on answers that their clients do not take.

use std::time::Duration;

/// Open connections, if the limit of open files allows as many. At the bound, an idle connection is closed
/// for a new one. Far above the number that clients of a large cluster open.
pub const CONNECTIONS: usize = 8192;

/// The timeout of a TLS handshake. Kubernetes: none of its own, about 10 s in Go's server.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// The timeout for the first request on a new connection; over HTTP/1.1 also for the complete head of each
/// later request. Kubernetes: 32 s.
pub const FIRST_REQUEST: Duration = Duration::from_secs(32);

/// How long a connection may be idle. Kubernetes: 90 s.
pub const IDLE_CONNECTION: Duration = Duration::from_secs(90);

/// How long a client may take to close a connection that the server ends, counted from its last answer.
pub const CONNECTION_FAREWELL: Duration = Duration::from_secs(5);

/// How long a client may take no byte of an answer before the server resets the stream, or closes the connection if it is
/// HTTP/1.1. Until then the answer occupies memory.
pub const STALLED_ANSWER: Duration = Duration::from_secs(30);

/// How long the clients of all answers on a connection must have taken nothing before it may be closed for another
/// connection, and how long a connection without credentials may be busy before that.
pub const STALLED_CONNECTION: Duration = Duration::from_secs(2);

/// The part of all connections, as a divisor, that one user may have on a full server: further ones are closed for new ones.
pub const USER_CONNECTIONS: usize = 8;

/// Connections that are kept for health checks and administrators, if there are as many times sixteen.
pub const KEPT_CONNECTIONS: usize = 32;

/// How long such a connection may be idle or open before it may be closed for the next one: a handshake and a request.
pub const KEPT_CONNECTION: Duration = Duration::from_secs(2);

/// The pause before a new connection looks again for one to close.
pub const SLOT_RETRY: Duration = Duration::from_millis(250);

/// Bytes from which on an answer, or a part of it, counts against the budgets of unsent bytes. Smaller ones are bounded by
/// the number of streams.
pub const UNSENT_FROM: usize = 16 * 1024;

/// Bytes of an answer that are passed to its connection before earlier ones are sent: a few round trips of a fast network.
pub const UNSENT_AHEAD: usize = 256 * 1024;

/// Bytes of answers in memory that clients have not taken, all together. Further large answers wait, or are refused
/// with 429 if they exist as a whole.
pub const UNSENT_BYTES: usize = 256 * 1024 * 1024;

/// The same of one user: twenty of the largest objects.
pub const UNSENT_BYTES_OF_USER: usize = 32 * 1024 * 1024;
