//! What `wget` and `curl` share: addresses of pages, and requests.

use crate::http::HttpRequest;
use crate::limits::RECEIVED_BYTES;
use crate::shell::env::Env;
use crate::shell::network::{NetworkCall, NetworkEnd, TlsClient, TlsTrust, host};
use std::time::Duration;

/// The address of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// Whether the scheme is one of those that need encryption.
    pub(super) is_encrypted: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The path with its query.
    pub(super) path: String,
    /// User and password, if it has them.
    pub(super) user: Option<String>,
}

/// The scheme that an address begins with, and what follows it. A `://` behind other characters than those of a scheme belongs to the path
/// or the query.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.split_once("://").filter(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(is_of_scheme))
}

impl Url {
    /// Parses an address; without a scheme it is `http`. `None` for other schemes and what is no address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = scheme_of(text).unwrap_or(("http", text));
        let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, authority),
        };
        let bracket = place.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match place[bracket..].rfind(':') {
            Some(at) => (&place[..bracket + at], place[bracket + at + 1..].parse().ok()?),
            None => (place, if is_encrypted { 443 } else { 80 }),
        };
        let has_control = |text: &str| text.chars().any(|c| c <= ' ' || c == '\x7f');
        if host.is_empty() || has_control(host) || has_control(&path) {
            return None;
        }
        Some(Self { is_encrypted, host: host.to_owned(), port, path, user })
    }

    /// The scheme.
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// The host, with its port if it is not the usual one.
    pub(super) fn authority(&self) -> String {
        match self.port == if self.is_encrypted { 443 } else { 80 } {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The address to which a redirect from this one leads.
    pub(super) fn redirected(&self, location: &str) -> Option<Self> {
        match location {
            _ if scheme_of(location).is_some() => Self::parse(location),
            _ if location.starts_with("//") => Self::parse(&format!("{}:{location}", self.scheme())),
            _ if location.starts_with('/') => Some(Self { path: location.to_owned(), ..self.clone() }),
            _ => {
                let path = self.path.split('?').next().unwrap_or_default();
                let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
                Some(Self { path: format!("{folder}{location}"), ..self.clone() })
            }
        }
    }

    /// The name of the file that a download of it makes.
    pub(super) fn file_name(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.is_empty() { "index.html".to_owned() } else { name.to_owned() }
    }
}

/// The longest times of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    pub(super) connect_within: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) within: Option<Duration>,
}

/// The bytes of a request.
pub(super) fn encoded(request: &HttpRequest) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes
}

/// The call that sends a request.
pub(super) fn call(
    env: &Env,
    url: &Url,
    request: &HttpRequest,
    patience: Patience,
    trust: &TlsTrust,
) -> Box<NetworkCall> {
    let Patience { connect_within, idle, within } = patience;
    let name = || url.host.trim_matches(['[', ']']).to_owned();
    Box::new(NetworkCall {
        end: NetworkEnd::Connect(host(env, &url.host), url.port),
        send: encoded(request),
        connect_within,
        idle,
        within,
        most: RECEIVED_BYTES,
        tls: url.is_encrypted.then(|| TlsClient { name: name(), trust: trust.clone() }),
    })
}

/// The headers `name: value` in place of those that are there; without a value a header is left out.
pub(super) fn replace_headers<'a>(
    headers: &mut Vec<(String, String)>,
    wanted: impl Iterator<Item = &'a str>,
) {
    for line in wanted {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        if name.contains(['\r', '\n']) || value.contains(['\r', '\n']) {
            continue;
        }
        let was = headers.iter().position(|(own, _)| own.eq_ignore_ascii_case(name));
        match (was, value.is_empty()) {
            (Some(at), true) => drop(headers.remove(at)),
            (Some(at), false) => headers[at] = (name.to_owned(), value.to_owned()),
            (None, true) => {}
            (None, false) => headers.push((name.to_owned(), value.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_pages_are_taken_apart() {
        let of = |text: &str| {
            let url = Url::parse(text)?;
            Some((url.host, url.port, url.path))
        };
        let expected = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(of("web"), expected("web", 80, "/"));
        assert_eq!(of("http://10.0.0.1:8080/a?b=c#d"), expected("10.0.0.1", 8080, "/a?b=c"));
        assert_eq!(of("web:81?x=1"), expected("web", 81, "/?x=1"));
        assert_eq!(of("https://u:p@h/"), expected("h", 443, "/"));
        let query = of("web:8080/redirect?loc=http://x/");
        assert_eq!(
            query,
            expected("web", 8080, "/redirect?loc=http://x/"),
            "a scheme in a query is none of the address"
        );
        assert_eq!(of("web?to=https://x"), expected("web", 80, "/?to=https://x"));
        assert_eq!(of("http://[::1]:80/x"), expected("[::1]", 80, "/x"));
        for bad in
            ["ftp://x/", "http://", "http://a:b/", "http://a:99999/", "http://a b/", "http://a/\r\nX: y"]
        {
            assert_eq!(of(bad), None, "{bad:?}");
        }
        let url = Url::parse("http://a/b/c?d").unwrap();
        let paths = ["/x", "x", "http://z/", "//y/x", "/x?u=http://y/"].map(|to| url.redirected(to).unwrap());
        assert_eq!(
            paths.map(|url| format!("{}{}", url.host, url.path)),
            ["a/x", "a/b/x", "z/", "y/x", "a/x?u=http://y/"]
        );
        assert_eq!(
            (url.file_name().as_str(), Url::parse("a").unwrap().file_name().as_str()),
            ("c", "index.html")
        );
    }
}
