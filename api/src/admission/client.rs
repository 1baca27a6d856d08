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
    /// A `https` URL with a clean path.
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

/// The URL with a clean path.
fn clean_url(url: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + "://".len());
    match url[authority..].find('/') {
        None => url.to_owned(),
        Some(at) => format!("{}{}", &url[..authority + at], clean_path(&url[authority + at..])),
    }
}

/// The path as client-go joins it: without empty and dot segments and without a slash at the end. Go's servers answer other paths with
/// a redirect, which makes a GET of the POST.
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
    if path.is_empty() { String::new() } else { format!("/{}", segments.join("/")) }
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
    fn paths_are_cleaned_as_client_go_joins_them() {
        for (url, expected) in [
            ("https://127.0.0.1:9443//mutate-v1-pod", "https://127.0.0.1:9443/mutate-v1-pod"),
            ("https://a/b/../c/./d/", "https://a/c/d"),
            ("https://a/", "https://a/"),
            ("https://a", "https://a"),
        ] {
            let read = ClientConfig::read(&json!({ "url": url })).unwrap();
            assert_eq!(read.endpoint, Endpoint::Url(expected.into()), "{url}");
        }
        let service = json!({"service": {"namespace": "n", "name": "s", "path": "//x/"}});
        assert_eq!(ClientConfig::read(&service).unwrap().url(None), "https://s.n.svc:443/x");
    }
}
