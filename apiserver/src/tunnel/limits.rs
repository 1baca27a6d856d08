//! Bounds on the streams of one tunnel that the API server opens for its own calls: of webhooks, conversion, and API servers behind it.

use kstore_storage::limits::TUNNEL_STREAMS;

/// Streams of all own calls: half of [`TUNNEL_STREAMS`], so that slow webhooks leave the other half to users. A call beyond them fails
/// with [`super::OpenError::BusyWithCalls`].
pub(super) const CALL_STREAMS: usize = TUNNEL_STREAMS / 2;

/// Streams of the calls to pods of one namespace: a quarter of [`CALL_STREAMS`], so that the slow webhooks of one tenant leave most of them
/// to the webhooks of others. A call beyond them fails with [`super::OpenError::BusyWithCallsOfNamespace`].
pub(super) const CALL_STREAMS_OF_NAMESPACE: usize = CALL_STREAMS / 4;
