//! Every bound of SPDY connections, with its reason.

/// The largest frame that the other side may send. Kubernetes' programs send 32 KiB at a time. A larger one ends the connection.
pub const FRAME_BYTES: usize = 1024 * 1024;

/// Bytes of the largest header block, decompressed. Clients send three short pairs. A larger one ends the connection.
pub const HEADER_BYTES: usize = 16 * 1024;

/// Bytes of data in a frame of a server. Longer data is several frames.
pub const DATA_BYTES: usize = 16 * 1024;

/// Frames that wait for the connection; when the queue is full, their senders wait.
pub const OUTBOX_FRAMES: usize = 16;
