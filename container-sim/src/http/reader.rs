//! [`RequestReader`]: takes the bytes of a connection as they come. Each byte is looked at once, however small the pieces are.

use super::{HttpRequest, header, headers};
use crate::limits::{HTTP_BODY_BYTES, HTTP_CHUNK_LINE, HTTP_HEAD_BYTES};

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpRead {
    /// More bytes are needed.
    More,
    /// The head is there, and the client waits until it hears that it may send the body.
    Continue,
    /// A whole request. Bytes behind it are kept for the next one.
    Request(Box<HttpRequest>),
    /// No request: the code and the text of the answer, after which the connection ends.
    Bad(u16, &'static str),
}

/// Where the reader is.
#[derive(Debug, Default)]
enum Place {
    /// In the head; the bytes before this place have no end of it.
    #[default]
    Head,
    /// In a body of this many further bytes.
    Body(HttpRequest, usize),
    /// At the line before a chunk.
    ChunkSize(HttpRequest),
    /// In a chunk of this many further bytes, and its end of line.
    Chunk(HttpRequest, usize),
    /// In the lines behind the last chunk.
    Trailer(HttpRequest),
    /// After something that was no request.
    Broken,
}

/// Reads the requests of one connection.
#[derive(Debug, Default)]
pub struct RequestReader {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that were searched for the end of a head or line.
    searched: usize,
    /// Whether the first line of the head was looked at.
    has_line: bool,
    place: Place,
}

impl RequestReader {
    /// Adds bytes of the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that the reader holds.
    pub fn held(&self) -> usize {
        let body = match &self.place {
            Place::Body(request, _) | Place::ChunkSize(request) | Place::Chunk(request, _) => {
                request.body.len()
            }
            Place::Head | Place::Trailer(_) | Place::Broken => 0,
        };
        self.bytes.len() + body
    }

    /// What the bytes so far are. Call it again after each request.
    pub fn read(&mut self) -> HttpRead {
        loop {
            let place = std::mem::take(&mut self.place);
            let next = match place {
                Place::Head => self.head(),
                Place::Body(request, rest) => self.body(request, rest),
                Place::ChunkSize(request) => self.chunk_size(request),
                Place::Chunk(request, rest) => self.chunk(request, rest),
                Place::Trailer(request) => self.trailer(request),
                Place::Broken => Err(HttpRead::More),
            };
            match next {
                Ok(place) => self.place = place,
                Err(read) => {
                    if matches!(read, HttpRead::Bad(..)) {
                        (self.place, self.bytes) = (Place::Broken, Vec::new());
                    }
                    return read;
                }
            }
        }
    }

    /// Takes bytes up to a mark and the mark; `None` if it is not there yet.
    fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        let from = self.searched.saturating_sub(mark.len() - 1);
        let found = self.bytes[from..].windows(mark.len()).position(|window| window == mark);
        let Some(at) = found else {
            self.searched = self.bytes.len();
            return None;
        };
        self.searched = 0;
        let rest = self.bytes.split_off(from + at + mark.len());
        let mut taken = std::mem::replace(&mut self.bytes, rest);
        taken.truncate(from + at);
        Some(taken)
    }

    fn head(&mut self) -> Result<Place, HttpRead> {
        if !self.has_line {
            // An empty line between requests is skipped.
            let empty = [&b"\r\n"[..], b"\n"].into_iter().find(|line| self.bytes.starts_with(line));
            let skipped = empty.map_or(0, <[u8]>::len);
            self.bytes.drain(..skipped);
            self.searched = self.searched.saturating_sub(skipped);
        }
        // A first line that is none is refused before the rest of the head comes.
        let fresh = self.searched.min(self.bytes.len());
        if !self.has_line
            && let Some(end) = self.bytes[fresh..].iter().position(|byte| *byte == b'\n')
        {
            let line = String::from_utf8_lossy(&self.bytes[..fresh + end]).into_owned();
            self.has_line = true;
            if request_line(line.trim_end_matches('\r')).is_none() {
                return Err(BAD);
            }
        }
        let Some(head) = self.until(b"\r\n\r\n") else {
            let is_long = self.bytes.len() > HTTP_HEAD_BYTES;
            return Err(if is_long { TOO_LARGE_HEAD } else { HttpRead::More });
        };
        self.has_line = false;
        let request = parsed(&head)?;
        let coding = header(&request.headers, "transfer-encoding");
        let lengths: Vec<&str> = request
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map(|(_, value)| value.as_str())
            .collect();
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let place = match (coding, lengths.first()) {
            // Both together are how requests are smuggled past a proxy.
            (Some(_), Some(_)) => return Err(BAD),
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => Place::ChunkSize(request),
            (Some(_), None) => {
                return Err(HttpRead::Bad(501, "Not Implemented: unsupported transfer encoding"));
            }
            (None, Some(first)) if lengths.iter().any(|other| other != first) || !is_digits(first) => {
                return Err(BAD);
            }
            (None, Some(first)) => {
                match first.parse::<usize>().ok().filter(|size| *size <= HTTP_BODY_BYTES) {
                    Some(size) => Place::Body(request, size),
                    None => return Err(TOO_LARGE_BODY),
                }
            }
            (None, None) => return Err(HttpRead::Request(Box::new(request))),
        };
        let (Place::Body(request, _) | Place::ChunkSize(request)) = &place else { return Ok(place) };
        let waits =
            header(&request.headers, "expect").is_some_and(|text| text.eq_ignore_ascii_case("100-continue"));
        if waits && self.bytes.is_empty() {
            self.place = place;
            return Err(HttpRead::Continue);
        }
        Ok(place)
    }

    /// Moves bytes into the body.
    fn take(&mut self, request: &mut HttpRequest, rest: usize) -> usize {
        let count = rest.min(self.bytes.len());
        request.body.extend(self.bytes.drain(..count));
        rest - count
    }

    fn body(&mut self, mut request: HttpRequest, rest: usize) -> Result<Place, HttpRead> {
        match self.take(&mut request, rest) {
            0 => Err(HttpRead::Request(Box::new(request))),
            rest => {
                self.place = Place::Body(request, rest);
                Err(HttpRead::More)
            }
        }
    }

    fn chunk_size(&mut self, request: HttpRequest) -> Result<Place, HttpRead> {
        let Some(line) = self.until(b"\r\n") else {
            if self.bytes.len() > HTTP_CHUNK_LINE {
                return Err(BAD);
            }
            self.place = Place::ChunkSize(request);
            return Err(HttpRead::More);
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        let digits = line.split(';').next().unwrap_or_default().trim_end();
        let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match usize::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal) {
            None => Err(BAD),
            Some(0) => Ok(Place::Trailer(request)),
            Some(size) if size > HTTP_BODY_BYTES - request.body.len() => Err(TOO_LARGE_BODY),
            Some(size) => Ok(Place::Chunk(request, size)),
        }
    }

    fn chunk(&mut self, mut request: HttpRequest, rest: usize) -> Result<Place, HttpRead> {
        let rest = self.take(&mut request, rest);
        if rest > 0 || self.bytes.len() < 2 {
            self.place = Place::Chunk(request, rest);
            return Err(HttpRead::More);
        }
        if !self.bytes.starts_with(b"\r\n") {
            return Err(BAD);
        }
        self.bytes.drain(..2);
        Ok(Place::ChunkSize(request))
    }

    fn trailer(&mut self, request: HttpRequest) -> Result<Place, HttpRead> {
        match self.until(b"\r\n") {
            Some(line) if line.is_empty() => Err(HttpRead::Request(Box::new(request))),
            Some(line) if line.len() <= HTTP_CHUNK_LINE => Ok(Place::Trailer(request)),
            Some(_) => Err(BAD),
            None if self.bytes.len() > HTTP_CHUNK_LINE => Err(BAD),
            None => {
                self.place = Place::Trailer(request);
                Err(HttpRead::More)
            }
        }
    }
}

const BAD: HttpRead = HttpRead::Bad(400, "Bad Request");
const TOO_LARGE_HEAD: HttpRead = HttpRead::Bad(431, "Request Header Fields Too Large");
const TOO_LARGE_BODY: HttpRead = HttpRead::Bad(413, "Request Entity Too Large");

/// Method, target, and whether the version is HTTP/1.0, of a request's first line.
fn request_line(line: &str) -> Option<(&str, &str, bool)> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    let is_method =
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let is_target = target.starts_with('/') || target.contains("://") || target == "*";
    let is_old = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return None,
    };
    (is_method && is_target).then_some((method, target, is_old))
}

/// A request of its head, without a body.
fn parsed(head: &[u8]) -> Result<HttpRequest, HttpRead> {
    let text = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = text.split("\r\n");
    let (method, target, is_old) = request_line(lines.next().unwrap_or_default()).ok_or(BAD)?;
    let (method, target) = (method.to_owned(), target.to_owned());
    let headers = headers(lines).map_err(|()| BAD)?;
    let hosts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count();
    match (hosts, is_old) {
        (1, _) | (0, true) => Ok(HttpRequest { method, target, is_old, headers, body: Vec::new() }),
        (0, false) => Err(HttpRead::Bad(400, "Bad Request: missing required Host header")),
        _ => Err(HttpRead::Bad(400, "Bad Request: too many Host headers")),
    }
}
