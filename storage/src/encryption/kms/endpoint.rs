//! The address of a key management service: `unix:///PATH`, or `unix:///@NAME` for a name without a file.

use std::path::PathBuf;
use std::str::FromStr;

/// The socket of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Path of the socket; begins with a zero byte for a name in Linux' abstract namespace.
    pub(super) socket: PathBuf,
}

/// Why an address cannot be used, in kube-apiserver's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    /// The text is not a URL.
    #[error("invalid endpoint for kms provider, error: parse {0:?}: missing protocol scheme")]
    NotUrl(String),
    /// The scheme is not `unix`.
    #[error("unsupported scheme {0:?} for KMS provider, only unix is supported")]
    Scheme(String),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let scheme = text.split_once(':').filter(|(scheme, _)| !scheme.contains('/'));
        let (scheme, rest) = scheme.unwrap_or(("", text));
        if scheme.is_empty() && text.starts_with(':') {
            return Err(EndpointError::NotUrl(text.to_owned()));
        }
        if scheme != "unix" {
            return Err(EndpointError::Scheme(scheme.to_owned()));
        }
        // Behind `//` stands a host, which has no meaning.
        let path = match rest.strip_prefix("//") {
            Some(rest) => rest.find('/').map_or("", |at| &rest[at..]),
            None => rest,
        };
        let socket = match path.strip_prefix("/@") {
            Some(name) => format!("\0{name}").into(),
            None => path.into(),
        };
        Ok(Self { socket })
    }
}
