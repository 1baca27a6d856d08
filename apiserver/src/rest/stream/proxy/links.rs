//! Paths and links of proxied requests: the path at the backend, and rewriting of the backend's links. Pure.

/// The prefix and hosts by which links of a backend are rewritten.
pub(super) struct Links {
    /// The path of the proxy itself, without the backend's part.
    prefix: String,
    /// The host that the client connected to.
    host: String,
    /// The backend's host.
    backend: String,
}

impl Links {
    /// For a request to `path` on `host`, whose part `backend_path` is forwarded to `backend`.
    pub(super) fn new(path: &str, backend_path: &str, host: &str, backend: &str) -> Self {
        let path = kstore_access::percent_encoding::decode(path);
        // The slash of the backend's root is also the end of the prefix.
        let rest = if backend_path == "/" { backend_path } else { backend_path.trim_start_matches('/') };
        let prefix = path.strip_suffix(rest).unwrap_or(&path).to_owned();
        Self { prefix, host: host.to_owned(), backend: backend.to_owned() }
    }

    /// The client's path, as the backend receives it in a header.
    pub(super) fn forwarded(&self, backend_path: &str) -> String {
        join(&self.prefix, &escape(backend_path))
    }

    /// Rewrites a link of the backend so that it leads through the proxy. Relative links and links to other
    /// hosts are kept.
    pub(super) fn rewrite(&self, link: &str) -> String {
        let (host, rest) = split(link);
        let elsewhere =
            host.is_some_and(|host| !host.is_empty() && host != self.backend && host != self.host);
        if elsewhere || !rest.starts_with('/') {
            return link.to_owned();
        }
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, tail) = rest.split_at(end);
        let base = if host == Some(self.host.as_str()) { &link[..link.len() - rest.len()] } else { "" };
        if path.starts_with(&self.prefix) {
            return format!("{base}{path}{tail}");
        }
        format!("{base}{}{tail}", join(&self.prefix, path))
    }
}

/// Splits a link into its host, if it has one, and the rest.
fn split(link: &str) -> (Option<&str>, &str) {
    let scheme = link
        .find(':')
        .filter(|at| link[..*at].chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)));
    let rest = scheme.map_or(link, |at| &link[at + 1..]);
    match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            (Some(host), rest)
        }
        // `mailto:` and similar links have no path to rewrite.
        None if scheme.is_some() => (Some(link), rest),
        None => (None, rest),
    }
}

/// Joins two paths without empty segments and `..`; a slash at the end is kept.
fn join(base: &str, path: &str) -> String {
    let mut joined = clean(&format!("{base}/{path}"));
    if path.ends_with('/') && !joined.ends_with('/') {
        joined.push('/');
    }
    joined
}

fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The path at the backend; "" if the request's path ends with `proxy`.
pub(super) fn backend_path(path: &str, below: &str) -> String {
    let slash = path.ends_with('/');
    match clean(below) {
        root if root == "/" => {
            if slash {
                root
            } else {
                String::new()
            }
        }
        backend_path if slash => format!("{backend_path}/"),
        backend_path => backend_path,
    }
}

/// Percent-encodes characters that a path cannot contain.
pub(in crate::rest) fn escape(path: &str) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
