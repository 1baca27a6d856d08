//! Every bound of the network in memory, with its reason and what happens when it is reached.

/// Bytes that one direction of a stream holds before its writer waits. Small, because each stream may hold two of them: with
/// [`STREAMS`] the queues of a fabric hold 256 MiB at most.
pub(crate) const QUEUE_BYTES: usize = 16 * 1024;
/// Streams of a fabric at a time. A connection beyond them fails with [`crate::NetError::Exhausted`].
pub(crate) const STREAMS: usize = 8192;
/// Streams that the hosts of one tenant have opened: half of all, so that other tenants always have some. As above.
pub(crate) const TENANT_STREAMS: usize = STREAMS / 2;
/// Streams that one host has opened, so that one pod does not take all of its tenant's. As above.
pub(crate) const HOST_STREAMS: usize = 1024;
/// Streams that wait at a listener until it accepts them; a further connection is refused, as by a full backlog.
pub(crate) const BACKLOG: usize = 128;
/// Listeners of one host. A further one fails with [`crate::NetError::Exhausted`].
pub(crate) const HOST_LISTENERS: usize = 256;
/// The first port of a connection's own end: Linux' `ip_local_port_range`.
pub(crate) const FIRST_EPHEMERAL: u16 = 32_768;
/// The last one.
pub(crate) const LAST_EPHEMERAL: u16 = 60_999;
