//! [`judge`]: which requests of a browser the local proxy serves. Pure.
//!
//! Any site that the user visits can make the browser send requests to this port, and can give its own host name this address. So the host
//! must be one of the proxy's names, and a request that names its origin must come from the page.

use super::placement;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use kstore_access::percent_encoding::decode;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted<'r> {
    /// A file of the page, by its path below the page's folder.
    File(&'r str),
    /// The page, from an address without its folder.
    Front,
    /// A session for a link token.
    OpenSession,
    /// The end of the session.
    CloseSession,
    /// Data of the server: the path with its query.
    Read(&'r str),
    /// Why a pod is on its node, or on none: the query.
    Placement(&'r str),
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Code of the response.
    pub code: StatusCode,
    /// Its body.
    pub text: &'static str,
}

const fn refused(code: StatusCode, text: &'static str) -> Refused {
    Refused { code, text }
}

/// The folder of the page.
const FOLDER: &str = "/ui/";

/// Beginnings of the paths that the page reads.
const READ: [&str; 8] =
    ["/kstore/v1/", "/api/", "/apis/", "/openapi/", "/api?", "/apis?", "/openapi?", "/version?"];
/// Such paths without anything behind them.
const READ_WHOLE: [&str; 5] = ["/api", "/apis", "/metrics", "/openapi", "/version"];

/// Subresources whose GET does something, or reaches something else than the API server.
const NOT_READ: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// What a request is for, or why it is refused. `port` is the proxy's.
///
/// # Errors
/// 421: a foreign host. 403: a foreign origin, or a path that the page does not read. 405: a method that could change something. 404: no
/// such file.
pub(super) fn judge(parts: &Parts, port: u16) -> Result<Wanted<'_>, Refused> {
    let path = parts.uri.path();
    if !is_own_host(&parts.headers, port) {
        return Err(refused(StatusCode::MISDIRECTED_REQUEST, "this host name is not the page's"));
    }
    let is_page = path == FOLDER || path == "/" || path == "/ui";
    if !is_own_origin(&parts.headers, port)
        || !(is_from_page(&parts.headers) || is_page && is_opened(&parts.headers))
    {
        return Err(refused(StatusCode::FORBIDDEN, "requests of other sites are not served"));
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    if path == "/ui/session" {
        return match parts.method {
            Method::POST => Ok(Wanted::OpenSession),
            Method::DELETE => Ok(Wanted::CloseSession),
            _ => Err(refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "a session is opened by POST and closed by DELETE",
            )),
        };
    }
    if !reads {
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED, "the page changes nothing"));
    }
    if path == placement::PATH {
        return Ok(Wanted::Placement(parts.uri.query().unwrap_or_default()));
    }
    if let Some(file) = path.strip_prefix(FOLDER) {
        return Ok(Wanted::File(file));
    }
    if is_page {
        return Ok(Wanted::Front);
    }
    let whole = parts.uri.path_and_query().map_or(path, |whole| whole.as_str());
    if !READ.iter().any(|prefix| whole.starts_with(prefix)) && !READ_WHOLE.contains(&whole) {
        return Err(refused(StatusCode::NOT_FOUND, "the page is at /ui/"));
    }
    if reaches_further(path) {
        return Err(refused(StatusCode::FORBIDDEN, "the page does not read this subresource"));
    }
    Ok(Wanted::Read(whole))
}

/// Whether the host of a request is one of the proxy's three names.
fn is_own_host(headers: &HeaderMap, port: u16) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| hosts(port).iter().any(|own| own == host))
}

/// Whether the origin, if a request names one, is the page's.
fn is_own_origin(headers: &HeaderMap, port: u16) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    origins
        .all(|origin| hosts(port).iter().any(|own| origin.as_bytes() == format!("http://{own}").as_bytes()))
}

/// Whether the browser says that the page or the user sent the request; browsers before 2023 say nothing.
fn is_from_page(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none")
}

/// Whether a tab is opened with it: the file with the link is at another origin than the page, which has nothing of the cluster in it.
fn is_opened(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document")
}

fn hosts(port: u16) -> [String; 3] {
    ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"))
}

/// Whether a path is that of a subresource of [`NOT_READ`].
fn reaches_further(path: &str) -> bool {
    let decoded = decode(path);
    let parts: Vec<&str> = decoded.split('/').filter(|part| !part.is_empty()).collect();
    // In a view of a past revision the same paths are below another one.
    let parts = match parts.as_slice() {
        ["kstore", "v1", "at", _, inside @ ..] => inside,
        all => all,
    };
    let below = match parts {
        ["api", _, below @ ..] | ["apis", _, _, below @ ..] => below,
        _ => return false,
    };
    let subresource = match below {
        ["namespaces", _, _, _, subresource, ..] => subresource,
        ["namespaces", ..] => return false,
        [_, _, subresource, ..] => subresource,
        _ => return false,
    };
    NOT_READ.contains(subresource)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 4011;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:4011");
        }
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn code(method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        judge(&request(method, path, headers), PORT).map_or_else(|refused| refused.code.as_u16(), |_| 200)
    }

    const PATHS: [&str; 7] = [
        "/ui/app.js",
        "/ui/session",
        "/ui/placement?pod=a/b",
        "/kstore/v1/rows",
        "/api/v1/pods",
        "/metrics",
        "/version",
    ];

    #[test]
    fn foreign_hosts_origins_and_sites_are_refused_on_each_path() {
        for path in PATHS {
            let method = if path == "/ui/session" { "POST" } else { "GET" };
            for (name, own, foreign) in [
                ("host", "localhost:4011", "evil.example:4011"),
                ("host", "[::1]:4011", "127.0.0.1:4012"),
                ("host", "127.0.0.1:4011", "127.0.0.1"),
                ("origin", "http://localhost:4011", "http://evil.example"),
                ("origin", "http://127.0.0.1:4011", "http://127.0.0.1:80"),
                ("origin", "http://[::1]:4011", "null"),
                ("origin", "http://[::1]:4011", "https://127.0.0.1:4011"),
                ("sec-fetch-site", "same-origin", "cross-site"),
                ("sec-fetch-site", "none", "same-site"),
            ] {
                assert_eq!(code(method, path, &[(name, own)]), 200, "{path} {name}: {own}");
                let refused = if name == "host" { 421 } else { 403 };
                assert_eq!(code(method, path, &[(name, foreign)]), refused, "{path} {name}: {foreign}");
            }
        }
        let opened = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(code("GET", "/ui/", &opened), 200, "a link of another page opens the page");
        assert_eq!(code("GET", "/api/v1/pods", &opened), 403);
        let framed =
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert_eq!(code("GET", "/ui/", &framed), 403);
    }

    #[test]
    fn only_reads_are_served_and_sessions() {
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"] {
            for path in ["/ui/app.js", "/ui/placement", "/kstore/v1/rows", "/api/v1/namespaces/default/pods"]
            {
                assert_eq!(code(method, path, &[]), 405, "{method} {path}");
            }
        }
        assert_eq!([code("GET", "/ui/session", &[]), code("PUT", "/ui/session", &[])], [405, 405]);
        assert_eq!(judge(&request("POST", "/ui/session", &[]), PORT), Ok(Wanted::OpenSession));
        assert_eq!(judge(&request("DELETE", "/ui/session", &[]), PORT), Ok(Wanted::CloseSession));
    }

    #[test]
    fn only_the_api_is_read_and_no_subresource_that_reaches_further() {
        for (path, expected) in [
            ("/version", 200),
            ("/api?x=1", 200),
            ("/apis/apps/v1/namespaces/a/deployments/proxy", 200),
            ("/api/v1/namespaces/a/pods/proxy", 200),
            ("/api/v1/namespaces/a/pods/p/log", 200),
            ("/api/v1/namespaces/a/pods/p/exec?command=x", 403),
            ("/api/v1/namespaces/a/pods/p/%65xec", 403),
            ("/api/v1/namespaces/a/services/s/proxy/x", 403),
            ("/api/v1/nodes/n/proxy/logs", 403),
            ("/kstore/v1/at/9/api/v1/namespaces/a/pods/p", 200),
            ("/kstore/v1/at/9/api/v1/namespaces/a/pods/p/exec", 403),
            ("/metrics", 200),
            ("/metrics/slis", 404),
            ("/apiserver", 404),
            ("/kstore.v1.Kstore/Get", 404),
        ] {
            assert_eq!(code("GET", path, &[]), expected, "{path}");
        }
    }
}
