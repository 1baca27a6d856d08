//! [`HttpResponse`], which servers write, and [`ReceivedResponse`], which clients read.

use super::{HttpRequest, header, headers};
use crate::limits::HTTP_HEAD_BYTES;
use std::sync::Arc;

/// The response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub code: u16,
    /// The headers in their order, without those of the connection and of the length.
    pub headers: Vec<(String, String)>,
    /// The body, which may be a file of the container: its bytes are shared.
    pub body: Arc<[u8]>,
}

impl HttpResponse {
    /// A response without headers and body.
    pub fn empty(code: u16) -> Self {
        Self { code, headers: Vec::new(), body: Arc::default() }
    }

    /// A response with a body of this type.
    pub fn new(code: u16, media: &str, body: impl Into<Arc<[u8]>>) -> Self {
        Self { code, headers: vec![("Content-Type".to_owned(), media.to_owned())], body: body.into() }
    }

    /// A response of Go's server whose handler names no type: the type is that of the first bytes.
    pub fn sniffed(code: u16, body: &str) -> Self {
        if body.is_empty() {
            return Self::empty(code);
        }
        Self::new(code, sniffed_type(body.as_bytes()), body.as_bytes())
    }

    /// The response with a further header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The answer to bytes that are no request, as Go's server writes it.
    pub fn refusal(code: u16, text: &str) -> Vec<u8> {
        let reason = reason(code);
        format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{code} {text}"
        )
        .into_bytes()
    }

    /// The head of the response to `request`, behind which [`Self::sent_body`] follows; `date` is the value of the header, and `is_last`
    /// says that the connection ends.
    pub fn head(&self, request: &HttpRequest, date: &str, is_last: bool) -> Vec<u8> {
        let version = if request.is_old { "HTTP/1.0" } else { "HTTP/1.1" };
        let mut text = format!("{version} {} {}\r\n", self.code, reason(self.code));
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Date: {date}\r\n"));
        if self.has_body() {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        match (is_last, request.is_old) {
            (true, false) => text.push_str("Connection: close\r\n"),
            (false, true) => text.push_str("Connection: keep-alive\r\n"),
            (true, true) | (false, false) => {}
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// The body as far as it is sent to `request`.
    pub fn sent_body(&self, request: &HttpRequest) -> &[u8] {
        if self.has_body() && request.method != "HEAD" { &self.body } else { b"" }
    }

    fn has_body(&self) -> bool {
        !matches!(self.code, 100..=199 | 204 | 304)
    }
}

/// The reason phrase of a status code.
fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "status code",
    }
}

/// The media type that Go's server finds in the first bytes of a body.
pub fn sniffed_type(body: &[u8]) -> &'static str {
    const MARKUP: [&str; 17] = [
        "<!doctype html",
        "<html",
        "<head",
        "<script",
        "<iframe",
        "<h1",
        "<div",
        "<font",
        "<table",
        "<a",
        "<style",
        "<title",
        "<b",
        "<body",
        "<br",
        "<p",
        "<!--",
    ];
    const SIGNATURES: [(&[u8], &str); 7] = [
        (b"%PDF-", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b\x08", "application/x-gzip"),
    ];
    let head = &body[..body.len().min(512)];
    let start = head.iter().position(|byte| !b"\t\n\x0c\r ".contains(byte)).unwrap_or(head.len());
    let text = String::from_utf8_lossy(&head[start..]).to_ascii_lowercase();
    let is_tag = |tag: &&str| {
        text.strip_prefix(*tag).is_some_and(|rest| *tag == "<!--" || rest.starts_with([' ', '>']))
    };
    if MARKUP.iter().any(is_tag) {
        return "text/html; charset=utf-8";
    }
    if text.starts_with("<?xml") {
        return "text/xml; charset=utf-8";
    }
    if let Some((_, media)) = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature)) {
        return media;
    }
    let is_binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if head.iter().any(is_binary) { "application/octet-stream" } else { "text/plain; charset=utf-8" }
}

/// A response that a client has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedResponse {
    /// The first line, such as `HTTP/1.1 200 OK`.
    pub status: String,
    /// The status code.
    pub code: u16,
    /// The headers in their order.
    pub headers: Vec<(String, String)>,
    /// The head as it came, with the empty line behind it.
    pub head: Vec<u8>,
    /// The body, without its chunks.
    pub body: Vec<u8>,
    /// Whether the body is shorter than the server has announced.
    pub is_cut: bool,
}

impl ReceivedResponse {
    /// The response to a request of `method` in all bytes of a connection; `None` if they are none.
    pub fn parse(mut bytes: &[u8], method: &str) -> Option<Self> {
        loop {
            let end = bytes.windows(4).take(HTTP_HEAD_BYTES).position(|window| window == b"\r\n\r\n")?;
            let (head, body) = bytes.split_at(end + 4);
            let text = String::from_utf8_lossy(&head[..end]).into_owned();
            let mut lines = text.split("\r\n");
            let status = lines.next().unwrap_or_default().to_owned();
            let code = status.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
            let headers = headers(lines).ok()?;
            if code == 100 {
                bytes = body;
                continue;
            }
            let is_empty = method == "HEAD" || matches!(code, 204 | 304);
            let (body, is_cut) = match header(&headers, "content-length").and_then(|text| text.parse().ok()) {
                _ if is_empty => (Vec::new(), false),
                Some(length) if body.len() < length => (body.to_vec(), true),
                Some(length) => (body[..length].to_vec(), false),
                None if header(&headers, "transfer-encoding").is_some() => unchunked(body),
                None => (body.to_vec(), false),
            };
            return Some(Self { status, code, headers, head: head.to_vec(), body, is_cut });
        }
    }

    /// The value of the first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// The bytes of chunks, and whether the last one is missing.
fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return (body, true) };
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let Ok(size) = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16) else {
            return (body, true);
        };
        bytes = &bytes[end + 2..];
        if size == 0 {
            return (body, false);
        }
        let part = &bytes[..size.min(bytes.len())];
        body.extend_from_slice(part);
        let Some(rest) = bytes.get(size.saturating_add(2)..) else { return (body, true) };
        bytes = rest;
    }
}
