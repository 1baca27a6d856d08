//! [`Peer`]: the other side of a connection, as its transport knows it. Plain data; `authn` makes a user from it.

use jiff::Timestamp;
use kstore_registry::user::UserInfo;
use std::sync::Arc;

/// The peer of a connection, which is an extension of each of its requests. A component in this process has
/// no connection: its embedder states the identity, and it is then treated like a network client.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A TLS client.
    Tls {
        /// The user of its client certificate, if it presented one; parsed once per connection, not per
        /// request.
        certificate: Option<ClientCertificate>,
        /// The front proxy of the client certificate; `None` if the certificate is not a front proxy's, or if no
        /// front proxies are configured.
        proxy: Option<Proxy>,
        /// The address it connected from.
        address: std::net::SocketAddr,
    },
    /// A component in this process.
    InProcess(Arc<UserInfo>),
}

/// The identity in a client certificate. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The user that the certificate authenticates.
    pub user: Arc<UserInfo>,
    /// The end of its validity (notAfter). TLS checks it when a connection begins, but not when a session is
    /// resumed.
    pub expires: Timestamp,
}

impl Peer {
    /// Whether the connection itself authenticates its requests: it is of this process, or has a client certificate
    /// that is valid at this time.
    pub fn has_valid_certificate(&self, now: Timestamp) -> bool {
        match self {
            Self::InProcess(_) => true,
            Self::Tls { certificate, .. } => certificate.as_ref().is_some_and(|shown| now < shown.expires),
        }
    }
}

/// The proxy that a client certificate identifies. Cheap to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Whether the proxy is trusted: its common name is an allowed one.
    pub is_allowed: bool,
    /// The end of its certificate's validity.
    pub expires: Timestamp,
}
