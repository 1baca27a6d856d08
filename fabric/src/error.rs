//! [`NetError`]: why a connection or a listener cannot be made.

/// Why a connection or a listener cannot be made. The texts are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The host has no listener at this port, or its backlog is full.
    #[error("Connection refused")]
    Refused,
    /// No host with this address is attached: the caller knows whether packets to it vanish or have no route.
    #[error("No route to host")]
    NotAttached,
    /// Another listener has the port.
    #[error("Address in use")]
    AddressInUse,
    /// The address is not one of the host.
    #[error("Address not available")]
    AddressNotAvailable,
    /// The bound on streams, ports or listeners is reached.
    #[error("Cannot assign requested address")]
    Exhausted,
}
