//! [`ClientConfig`]: URL or service of a webhook. Callers resolve the address and make the call.

use crate::object::{int, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt;

/// Port of a service that names none.
const DEFAULT_PORT: u16 = 443;

/// URL or service of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An `https` URL with a clean path.
    Url(Box<str>),
    /// A service of this cluster.
    Service {
        /// Namespace of the service.
        namespace: Box<str>,
        /// Name of the service.
        name: Box<str>,
        /// Path, empty or with a leading slash.
        path: Box<str>,
        /// Port of the service, 443 by default.
        port: u16,
    },
}

/// URL or service of a webhook, with the CA certificates to verify it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// URL or service.
    pub endpoint: Endpoint,
    /// PEM certificates of the trusted CAs; empty for the system's.
    pub ca_bundle: Box<[u8]>,
}

impl ClientConfig {
    /// Parses a `clientConfig`; `None` if it has neither URL nor service.
    #[must_use]
    pub fn read(config: &Value) -> Option<Self> {
        let service = &config["service"];
        let endpoint = match config["url"].as_str() {
            Some(url) => Endpoint::Url(clean_url(url).into()),
            None if service.is_object() => {
                let path = text(&service["path"]);
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                Endpoint::Service {
                    namespace: text(&service["namespace"]).into(),
                    name: text(&service["name"]).into(),
                    path: clean_path(&format!("{slash}{path}")).into(),
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

    /// The URL for the POST, also named in errors. `seconds` is the timeout in whole seconds, rounded up;
    /// `None` omits the query.
    #[must_use]
    pub fn url(&self, seconds: Option<u64>) -> String {
        match seconds {
            Some(seconds) => format!("{}?timeout={seconds}s", self.endpoint),
            None => self.endpoint.to_string(),
        }
    }

    /// Message of a call without a response, such as a refused connection, in the form of Go's HTTP client.
    #[must_use]
    pub fn post_error(&self, seconds: Option<u64>, cause: impl fmt::Display) -> String {
        format!("Post \"{}\": {cause}", self.url(seconds))
    }
}

/// The URL with a clean path.
fn clean_url(url: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + "://".len());
    match url[authority..].find('/') {
        None => format!("{url}/"),
        Some(at) => format!("{}{}", &url[..authority + at], clean_path(&url[authority + at..])),
    }
}

/// The path in client-go's form: without empty and dot segments and without a trailing slash. Go's servers
/// answer other paths with a redirect, which turns the POST into a GET.
fn clean_path(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_cleaned_like_client_go() {
        for (url, expected) in [
            ("https://127.0.0.1:9443//mutate-v1-pod", "https://127.0.0.1:9443/mutate-v1-pod"),
            ("https://a/b/../c/./d/", "https://a/c/d"),
            ("https://a/", "https://a/"),
            ("https://a", "https://a/"),
        ] {
            let read = ClientConfig::read(&json!({ "url": url })).unwrap();
            assert_eq!(read.endpoint, Endpoint::Url(expected.into()), "{url}");
        }
        let service = json!({"service": {"namespace": "n", "name": "s", "path": "//x/"}});
        assert_eq!(ClientConfig::read(&service).unwrap().url(None), "https://s.n.svc:443/x");
        let bare = json!({"service": {"namespace": "n", "name": "s"}});
        assert_eq!(ClientConfig::read(&bare).unwrap().url(Some(10)), "https://s.n.svc:443/?timeout=10s");
    }
}
