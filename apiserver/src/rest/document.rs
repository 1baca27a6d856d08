//! [`Document`]: a static document that is encoded once and read often: discovery, OpenAPI, `/version`. Large
//! ones are kept compressed, since they are read rarely. Each has an entity tag of its content.

use super::chunk::{Chunk, Joined, SharedBytes};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, Response, StatusCode};
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha512};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::sync::Arc;

/// The size from which documents are compressed, as in Kubernetes; below it compression saves too little.
const COMPRESS_FROM: usize = 128 * 1024;

const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The bytes of a document, their type and their entity tag.
#[derive(Debug)]
pub(super) struct Document {
    content_type: &'static str,
    tag: String,
    content: StoredContent,
}

#[derive(Debug)]
enum StoredContent {
    Plain(Bytes),
    /// Compressed bytes, and the plain ones while somebody uses them.
    Gzip(Bytes, SharedBytes),
    Joined(Joined),
}

impl Document {
    /// Whether both have the same content, by their tags.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (self.content_type, &self.tag) == (other.content_type, &other.tag)
    }

    /// A document of this type and content.
    pub(super) fn new(content_type: &'static str, content: Vec<u8>) -> Self {
        let tag = hex(&Sha512::digest(&content));
        let content = if content.len() < COMPRESS_FROM {
            StoredContent::Plain(content.into())
        } else {
            StoredContent::Gzip(compress(&content).into(), SharedBytes::default())
        };
        Self { content_type, tag, content }
    }

    /// A document of chunks. Its tag is the hash of their hashes, so that unchanged chunks are neither hashed
    /// nor compressed again.
    pub(super) fn joined(content_type: &'static str, chunks: Vec<Arc<Chunk>>) -> Self {
        let mut digest = Sha512::new();
        chunks.iter().for_each(|chunk| digest.update(chunk.digest()));
        Self {
            content_type,
            tag: hex(&digest.finalize()),
            content: StoredContent::Joined(Joined::new(chunks)),
        }
    }

    /// Answers a GET: with 304 if the caller has the present version.
    pub(super) fn respond(&self, headers: &HeaderMap) -> Response<Bytes> {
        let quoted = format!("\"{}\"", self.tag);
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
        let mut known = known.flat_map(|list| list.split(',')).map(str::trim);
        let mut response = if known.any(|tag| tag == quoted || tag == "*") {
            reply(StatusCode::NOT_MODIFIED, self.content_type, Bytes::new())
        } else {
            self.full(headers)
        };
        let fields = response.headers_mut();
        fields.insert(ETAG, HeaderValue::from_str(&quoted).expect("a tag is hexadecimal"));
        fields.append(VARY, HeaderValue::from_static("Accept"));
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        response
    }

    /// Answers like [`Document::respond`], for a URL that contains the tag: caches may keep the answer for a
    /// year.
    pub(super) fn respond_immutable(&self, headers: &HeaderMap, now: Timestamp) -> Response<Bytes> {
        let mut response = self.respond(headers);
        let fields = response.headers_mut();
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let end = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&(now + YEAR));
        if let Some(end) = end.ok().and_then(|end| HeaderValue::from_str(&end).ok()) {
            fields.insert(EXPIRES, end);
        }
        response
    }

    /// The content, uncompressed.
    pub(super) fn content(&self) -> Bytes {
        match &self.content {
            StoredContent::Plain(bytes) => bytes.clone(),
            StoredContent::Gzip(bytes, whole) => whole.get(|| {
                let mut plain = Vec::new();
                GzDecoder::new(bytes.as_ref()).read_to_end(&mut plain).expect("we compressed it ourselves");
                plain
            }),
            StoredContent::Joined(joined) => joined.plain(),
        }
    }

    fn full(&self, headers: &HeaderMap) -> Response<Bytes> {
        let mut response = match &self.content {
            StoredContent::Plain(bytes) => return reply(StatusCode::OK, self.content_type, bytes.clone()),
            StoredContent::Gzip(bytes, _) if takes_gzip(headers) => {
                let mut response = reply(StatusCode::OK, self.content_type, bytes.clone());
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            StoredContent::Joined(joined) if takes_gzip(headers) => {
                let mut response = reply(StatusCode::OK, self.content_type, joined.gzip());
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            StoredContent::Gzip(..) | StoredContent::Joined(_) => {
                reply(StatusCode::OK, self.content_type, self.content())
            }
        };
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(128), |mut hex, byte| {
        let _ = write!(hex, "{byte:02X}");
        hex
    })
}

/// A response with a content type and a body.
pub(super) fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Compresses with gzip.
pub(super) fn compress(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(content.len() / 8), Compression::fast());
    encoder.write_all(content).expect("compressing into memory does not fail");
    encoder.finish().expect("compressing into memory does not fail")
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    let mut codings = values.flat_map(|list| list.split(',')).map(str::trim);
    codings.any(|coding| coding.split(';').next() == Some("gzip") && !coding.ends_with("q=0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_matching_etag_is_answered_with_304() {
        let document = Document::new("application/json", b"{}".to_vec());
        let first = document.respond(&HeaderMap::new());
        assert_eq!((first.status(), first.body().as_ref()), (StatusCode::OK, &b"{}"[..]));
        let tag = first.headers()[ETAG].to_str().unwrap();
        assert_eq!(document.respond(&headers(IF_NONE_MATCH, tag)).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(document.respond(&headers(IF_NONE_MATCH, "\"other\"")).status(), StatusCode::OK);
    }

    #[test]
    fn large_documents_are_compressed_for_clients_that_accept_gzip() {
        let content = vec![b'x'; COMPRESS_FROM];
        let document = Document::new("application/json", content.clone());
        assert_eq!(document.respond(&HeaderMap::new()).body(), &content);
        let compressed = document.respond(&headers(ACCEPT_ENCODING, "br, gzip"));
        assert_eq!(compressed.headers()[CONTENT_ENCODING], "gzip");
        assert!(compressed.body().len() < COMPRESS_FROM / 50, "{}", compressed.body().len());
    }

    #[test]
    fn answers_that_are_sent_at_the_same_time_share_the_bytes_of_a_large_document() {
        let content = vec![b'x'; 2 * COMPRESS_FROM];
        let chunks = content.chunks(COMPRESS_FROM).map(|chunk| Chunk::new(chunk.to_vec())).collect();
        let documents = [
            Document::new("application/json", content.clone()),
            Document::joined("application/json", chunks),
        ];
        for document in documents {
            let answers: Vec<_> = (0..10).map(|_| document.respond(&HeaderMap::new()).into_body()).collect();
            assert_eq!(answers[0], content);
            let first = answers[0].as_ptr();
            assert!(answers.iter().all(|answer| answer.as_ptr() == first), "one copy for all");
        }
    }
}
