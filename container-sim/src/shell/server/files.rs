//! Go's file server: files with their types, listings of folders, and the redirects between the two.

use crate::http::{HttpResponse, sniffed_type};
use crate::shell::disk::Content;
use crate::shell::env::Env;
use crate::shell::files::FileError;
use std::sync::Arc;

const TEXT: &str = "text/plain; charset=utf-8";

/// A refusal as Go's `http.Error` writes it.
pub(super) fn error(code: u16, text: &str) -> HttpResponse {
    HttpResponse::new(code, TEXT, format!("{text}\n").into_bytes()).with("X-Content-Type-Options", "nosniff")
}

/// The media type of a file, by its name or else by its first bytes.
pub(super) fn type_of(path: &str, bytes: &[u8]) -> &'static str {
    let extension = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, end)| end);
    match extension {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("xml") => "text/xml; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("pdf") => "application/pdf",
        Some("wasm") => "application/wasm",
        _ => sniffed_type(bytes),
    }
}

/// The answer of a file server of `/` to a path.
pub(super) fn serve(env: &Env, path: &str) -> HttpResponse {
    let moved = |to: String| HttpResponse::empty(301).with("Location", &to);
    if path.ends_with("/index.html") {
        return moved("./".to_owned());
    }
    let full = env.path(path.trim_end_matches('/'));
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_folder = env.is_folder(&full);
    match (is_folder, path.ends_with('/')) {
        (true, false) => return moved(format!("{last}/")),
        (false, true) => return moved(format!("../{last}")),
        (true, true) | (false, false) => {}
    }
    if is_folder {
        return match env.read(&format!("{}/index.html", full.trim_end_matches('/'))) {
            Ok(bytes) => HttpResponse::new(200, "text/html; charset=utf-8", bytes),
            Err(_) => listing(env, &full),
        };
    }
    match env.read(&full) {
        Ok(bytes) => {
            HttpResponse::new(200, type_of(&full, &bytes), Arc::clone(&bytes)).with("Accept-Ranges", "bytes")
        }
        Err(FileError::Denied) => error(403, "403 Forbidden"),
        Err(_) => error(404, "404 page not found"),
    }
}

fn listing(env: &Env, folder: &str) -> HttpResponse {
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in env.children(folder) {
        let path = env.path_in(folder, &name);
        let slash = match env.entry(&path).map(|entry| entry.content) {
            Some(Content::Folder) => "/",
            _ => "",
        };
        let (link, text) = (escaped_link(&name), escaped(&name));
        page.push_str(&format!("<a href=\"{link}{slash}\">{text}{slash}</a>\n"));
    }
    page.push_str("</pre>\n");
    HttpResponse::new(200, "text/html; charset=utf-8", page.into_bytes())
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&#34;").replace('\'', "&#39;")
}

fn escaped_link(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~$&+,/:=@".contains(&byte);
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
