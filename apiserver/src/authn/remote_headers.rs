//! Names of the headers in which a front proxy names the authenticated user. `front_proxy` reads them; `aggregator::headers` writes
//! them for other API servers.

/// The names that `extension-apiserver-authentication` announces.
pub(crate) const USER: &str = "x-remote-user";
pub(crate) const UID: &str = "x-remote-uid";
pub(crate) const GROUP: &str = "x-remote-group";
pub(crate) const EXTRA_PREFIX: &str = "x-remote-extra-";
