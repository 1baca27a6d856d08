//! [`ClientConfig`]: where a webhook is. Which address that means, and the call, are the caller's.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::{int, text};

/// The port of a service that names none.
const DEFAULT_PORT: u16 = 443;

/// A URL or a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A `https` URL, as written.
    Url(Box<str>),
    /// A service of this cluster.
    Service {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
        /// The path, empty or with a leading slash.
        path: Box<str>,
        /// The port of the service, 443 unless given.
        port: u16,
    },
}

/// Where a webhook is, and whose certificates it may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// URL or service.
    pub endpoint: Endpoint,
    /// PEM certificates of the authorities to trust; empty for those of the system.
    pub ca_bundle: Box<[u8]>,
}

impl ClientConfig {
    /// Reads a `clientConfig`; `None` if it has neither URL nor service.
    #[must_use]
    pub fn read(config: &Value) -> Option<Self> {
        let service = &config["service"];
        let endpoint = match config["url"].as_str() {
            Some(url) => Endpoint::Url(url.into()),
            None if service.is_object() => {
                let path = text(&service["path"]);
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                Endpoint::Service {
                    namespace: text(&service["namespace"]).into(),
                    name: text(&service["name"]).into(),
                    path: format!("{slash}{path}").into(),
                    port: u16::try_from(int(&service["port"]))
                        .ok()
                        .filter(|port| *port > 0)
                        .unwrap_or(DEFAULT_PORT),
                }
            }
            None => return None,
        };
        let ca_bundle = STANDARD.decode(text(&config["caBundle"])).unwrap_or_default().into();
        Some(Self { endpoint, ca_bundle })
    }

    /// The URL that is posted to and that failures name. `seconds` is the time the webhook has, whole and rounded up; `None`
    /// leaves the query out.
    #[must_use]
    pub fn url(&self, seconds: Option<u64>) -> String {
        match seconds {
            Some(seconds) => format!("{}?timeout={seconds}s", self.endpoint),
            None => self.endpoint.to_string(),
        }
    }

    /// The text of a call that got no answer, such as a refused connection: what HTTP clients of Go print.
    #[must_use]
    pub fn post_error(&self, seconds: Option<u64>, cause: impl fmt::Display) -> String {
        format!("Post \"{}\": {cause}", self.url(seconds))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Service { namespace, name, path, port } => {
                write!(f, "https://{name}.{namespace}.svc:{port}{path}")
            }
        }
    }
}
