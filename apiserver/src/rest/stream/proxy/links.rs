//! Paths on their way through the proxy: what the backend is asked for, and what its links become. Pure.

/// Where links of a backend lead.
pub(super) struct Links {
    /// The path of the proxy itself, without what is handed on.
    prefix: String,
    /// The host that the client speaks to.
    host: String,
    /// The backend's own.
    backend: String,
}

impl Links {
    /// For a request to `path` of `host`, of which `way` was handed on to `backend`.
    pub(super) fn new(path: &str, way: &str, host: &str, backend: &str) -> Self {
        let path = crate::rest::router::decode(path);
        // The backend's root is asked for by a slash that also ends the prefix.
        let rest = if way == "/" { way } else { way.trim_start_matches('/') };
        let prefix = path.strip_suffix(rest).unwrap_or(&path).to_owned();
        Self { prefix, host: host.to_owned(), backend: backend.to_owned() }
    }

    /// The path that the client asked for, as the backend is told.
    pub(super) fn forwarded(&self, way: &str) -> String {
        join(&self.prefix, &escape(way))
    }

    /// A link of the backend's as it leads through here. Links to others and relative ones stay as they are.
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

/// The host of a link, if it names one, and what follows it.
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
        // `mailto:` and the like have no path to rewrite.
        None if scheme.is_some() => (Some(link), rest),
        None => (None, rest),
    }
}

/// One path below another: without empty parts and `..`; a slash at the end stays.
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

/// What the backend is asked for; "" if the request's path ends with `proxy`.
pub(super) fn way(path: &str, below: &str) -> String {
    let slash = path.ends_with('/');
    match clean(below) {
        root if root == "/" => {
            if slash {
                root
            } else {
                String::new()
            }
        }
        way if slash => format!("{way}/"),
        way => way,
    }
}

/// Percent-encodes what cannot stand in a path.
pub(super) fn escape(path: &str) -> String {
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
