//! Names of the headers in which a front proxy names the authenticated user. `front_proxy` reads them; `aggregator::headers` writes
//! them for other API servers.

/// The name of the user. These are the names that `extension-apiserver-authentication` announces.
pub const USER: &str = "x-remote-user";
/// The uid of the user.
pub const UID: &str = "x-remote-uid";
/// One group of the user; there may be several such headers.
pub const GROUP: &str = "x-remote-group";
/// Prefix of the headers with further attributes; the rest of the name is the attribute.
pub const EXTRA_PREFIX: &str = "x-remote-extra-";
