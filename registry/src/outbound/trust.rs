//! [`Trust`]: how the certificate of a webhook or an aggregated API server is verified.

/// How a server's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The certificate must be signed by one of these authorities (PEM; empty: the system's) and match the
    /// name of the Service.
    Authorities(Box<[u8]>),
    /// No verification (`insecureSkipTLSVerify`): the connection is encrypted but not authenticated.
    Insecure,
}
