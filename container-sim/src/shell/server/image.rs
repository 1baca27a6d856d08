//! The servers of `nginx`, `httpd` and `http-echo`: their first page, the files of their container, and their logs.

use super::files::type_of;
use super::{Kind, Server, ServerAction, ServerPeer};
use crate::http::{HttpRequest, HttpResponse};
use crate::shell::env::Env;
use crate::shell::files::FileError;
use std::sync::Arc;

const NGINX_ROOT: &str = "/usr/share/nginx/html";
const HTTPD_ROOT: &str = "/usr/local/apache2/htdocs";
const HTTPD_PAGE: &str = "<html><body><h1>It works!</h1></body></html>\n";
const NGINX_PAGE: &str = "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome to nginx!</title>\n</head>\n<body>\n\
     <h1>Welcome to nginx!</h1>\n<p>This page comes from a simulated container: no nginx runs here.</p>\n</body>\n</html>\n";

/// The server of a program of an image.
pub(super) fn server(program: &str, arguments: &[String], version: Option<&str>) -> Option<Server> {
    let version = |usual: &str| version.unwrap_or(usual).to_owned();
    let (ports, kind) = match program {
        "nginx" => (vec![80], Kind::Nginx(version("1.29.3"))),
        "httpd" => (vec![80], Kind::Httpd(version("2.4.66"))),
        "http-echo" => {
            let value = |name: &str| {
                let of = |(at, word): (usize, &String)| {
                    let word = word.trim_start_matches('-');
                    match word.split_once('=') {
                        Some((own, value)) => (own == name).then(|| value.to_owned()),
                        None => (word == name).then(|| arguments.get(at + 1).cloned().unwrap_or_default()),
                    }
                };
                arguments.iter().enumerate().filter_map(of).next_back()
            };
            let listens = value("listen").unwrap_or_else(|| ":5678".to_owned());
            let port = listens.rsplit(':').next()?.parse().ok()?;
            (vec![port], Kind::HttpEcho(value("text").unwrap_or_else(|| "hello-world".to_owned())))
        }
        _ => return None,
    };
    Some(Server { ports, datagrams: Vec::new(), kind, tls: None })
}

/// Whether a path is that of the first page, which the image has.
pub(super) fn is_welcome(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    matches!(path, "" | "/" | "/index.html")
}

/// The file that a path names below a root: its path and bytes, or the code of the refusal.
fn file(env: &Env, root: &str, path: &str, welcome: &str) -> Result<(String, Arc<[u8]>), u16> {
    // `path` of the environment takes `..` away before the root is put in front.
    let full = format!("{root}{}", env.path_in("/", path));
    let full = full.trim_end_matches('/').to_owned();
    let is_folder = env.is_folder(&full) || path == "/";
    let full = if is_folder { format!("{full}/index.html") } else { full };
    if is_folder && !path.ends_with('/') {
        return Err(301);
    }
    match env.read(&full) {
        Ok(bytes) => Ok((full, bytes)),
        // The image's own page, unless a volume is mounted over its folder.
        Err(_) if is_welcome(path) && !env.volumes.keys().any(|mount| root.starts_with(mount.as_str())) => {
            Ok((full, Arc::from(welcome.as_bytes())))
        }
        Err(FileError::Denied) => Err(403),
        Err(_) => Err(if is_folder { 403 } else { 404 }),
    }
}

/// A line of an access log in the form of both servers; `tail` are the fields of the combined form.
fn access(
    env: &Env,
    request: &HttpRequest,
    peer: &ServerPeer,
    response: &HttpResponse,
    tail: bool,
) -> String {
    let time = jiff::Timestamp::from_second(env.now).unwrap_or_default().strftime("%d/%b/%Y:%H:%M:%S +0000");
    let version = if request.is_old { "1.0" } else { "1.1" };
    let quoted = |name: &str| request.header(name).unwrap_or("-").replace(['"', '\\'], "_");
    let more = match tail {
        true => format!(
            " \"{}\" \"{}\" \"{}\"",
            quoted("referer"),
            quoted("user-agent"),
            quoted("x-forwarded-for")
        ),
        false => String::new(),
    };
    let (method, target) = (&request.method, request.target.replace('"', "_"));
    format!(
        "{} - - [{time}] \"{method} {target} HTTP/{version}\" {} {}{more}\n",
        peer.remote.ip(),
        response.code,
        response.body.len()
    )
}

/// What `nginx` answers.
pub(super) fn nginx(
    env: &Env,
    version: &str,
    request: &HttpRequest,
    peer: &ServerPeer,
) -> (ServerAction, Option<String>) {
    let (path, _) = request.path();
    let refusal = |code: u16, text: &str| {
        let page = format!(
            "<html>\r\n<head><title>{code} {text}</title></head>\r\n<body>\r\n<center><h1>{code} {text}</h1></center>\r\n\
             <hr><center>nginx/{version}</center>\r\n</body>\r\n</html>\r\n"
        );
        HttpResponse::new(code, "text/html", page.into_bytes())
    };
    let found = match request.method.as_str() {
        "GET" | "HEAD" => file(env, NGINX_ROOT, &path, NGINX_PAGE),
        _ => Err(405),
    };
    let response = match found {
        Ok((file, bytes)) => {
            let media = type_of(&file, &bytes).trim_end_matches("; charset=utf-8");
            HttpResponse::new(200, media, Arc::clone(&bytes)).with("Accept-Ranges", "bytes")
        }
        Err(301) => refusal(301, "Moved Permanently").with("Location", &format!("{path}/")),
        Err(403) => refusal(403, "Forbidden"),
        Err(405) => refusal(405, "Not Allowed"),
        Err(_) => refusal(404, "Not Found"),
    };
    let mut response = response;
    response.headers.insert(0, ("Server".to_owned(), format!("nginx/{version}")));
    let line = access(env, request, peer, &response, true);
    (ServerAction::Answer(response), Some(line))
}

/// What `httpd` answers.
pub(super) fn httpd(
    env: &Env,
    version: &str,
    request: &HttpRequest,
    peer: &ServerPeer,
) -> (ServerAction, Option<String>) {
    let (path, _) = request.path();
    let refusal = |code: u16, title: &str, text: &str| {
        let page = format!(
            "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>{code} {title}</title>\n</head><body>\n\
             <h1>{title}</h1>\n<p>{text}</p>\n</body></html>\n"
        );
        HttpResponse::new(code, "text/html; charset=iso-8859-1", page.into_bytes())
    };
    let found = match request.method.as_str() {
        "GET" | "HEAD" | "POST" => file(env, HTTPD_ROOT, &path, HTTPD_PAGE),
        _ => Err(405),
    };
    let mut response = match found {
        Ok((file, bytes)) => {
            let media = type_of(&file, &bytes).trim_end_matches("; charset=utf-8");
            HttpResponse::new(200, media, Arc::clone(&bytes)).with("Accept-Ranges", "bytes")
        }
        Err(301) => {
            refusal(301, "Moved Permanently", "The document has moved.").with("Location", &format!("{path}/"))
        }
        Err(403) => refusal(403, "Forbidden", "You don't have permission to access this resource."),
        Err(405) => refusal(405, "Method Not Allowed", "The requested method is not allowed for this URL."),
        Err(_) => refusal(404, "Not Found", "The requested URL was not found on this server."),
    };
    response.headers.insert(0, ("Server".to_owned(), format!("Apache/{version} (Unix)")));
    let line = access(env, request, peer, &response, false);
    (ServerAction::Answer(response), Some(line))
}

/// What `http-echo` answers.
pub(super) fn http_echo(
    text: &str,
    request: &HttpRequest,
    peer: &ServerPeer,
) -> (ServerAction, Option<String>) {
    let (path, _) = request.path();
    let response = match path.as_str() {
        "/health" => HttpResponse::new(200, "application/json", &b"{\"status\":\"ok\"}\n"[..]),
        _ => HttpResponse::new(200, "text/plain; charset=utf-8", format!("{text}\n").into_bytes()),
    };
    let response = response.with("X-App-Name", "http-echo").with("X-App-Version", "1.0.0");
    let line = format!(
        "{} {} {} \"{} {path}\"\n",
        peer.remote,
        request.header("host").unwrap_or("-"),
        response.code,
        request.method
    );
    (ServerAction::Answer(response), Some(line))
}
