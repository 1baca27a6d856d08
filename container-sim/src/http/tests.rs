//! Requests in pieces against the same bytes at once, hostile requests, and media types.

use super::{HttpRead, HttpRequest, HttpResponse, ReceivedResponse, RequestReader, sniffed_type};
use crate::limits::{HTTP_BODY_BYTES, HTTP_HEAD_BYTES};
use proptest::prelude::{any, proptest};

/// Everything that a reader says about these pieces.
fn reads(pieces: &[&[u8]]) -> Vec<HttpRead> {
    let mut reader = RequestReader::default();
    let mut all = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.read() {
                HttpRead::More => break,
                HttpRead::Continue => {}
                bad @ HttpRead::Bad(..) => {
                    all.push(bad);
                    return all;
                }
                request @ HttpRead::Request(_) => all.push(request),
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn requests_are_read_alike_in_pieces_and_at_once(
        cuts in proptest::collection::vec(0usize..400, 0..20),
        noise in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\
            PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n\
            \r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_vec();
        bytes.extend(noise);
        bytes.extend(b"\r\n\r\n");
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        pieces.push(&bytes[from..]);
        let whole = reads(&[&bytes]);
        assert_eq!(reads(&pieces), whole);
        let bodies: Vec<&[u8]> = whole.iter().filter_map(|read| match read {
            HttpRead::Request(request) => Some(request.body.as_slice()),
            _ => None,
        }).collect();
        assert_eq!(bodies[..3], [&b"hello"[..], b"abc", b""]);
    }

    #[test]
    fn bytes_that_are_no_request_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        reads(&[&bytes]);
        ReceivedResponse::parse(&bytes, "GET");
        sniffed_type(&bytes);
    }
}

#[test]
fn requests_that_proxies_read_differently_are_refused() {
    let head = |lines: &str| format!("POST / HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n0\r\n\r\n");
    for (lines, code) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
        ("Content-Length: 5\r\nContent-Length: 6", 400),
        ("Content-Length: +5", 400),
        ("Content-Length: ", 400),
        ("Content-Length : 5", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Host: y", 400),
        (" folded: x", 400),
    ] {
        let got = reads(&[head(lines).as_bytes()]);
        assert!(matches!(got[..], [HttpRead::Bad(got, _)] if got == code), "{lines}: {got:?}");
    }
    let large = format!("Content-Length: {}", HTTP_BODY_BYTES + 1);
    assert!(matches!(reads(&[head(&large).as_bytes()])[..], [HttpRead::Bad(413, _)]));
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}", "y".repeat(HTTP_HEAD_BYTES));
    assert!(matches!(reads(&[long.as_bytes()])[..], [HttpRead::Bad(431, _)]));
    for text in ["hostName\n", "GET /\n", "GET / HTTP/3\r\n", "\u{16}\u{3}\u{1}\n"] {
        assert!(matches!(reads(&[text.as_bytes()])[..], [HttpRead::Bad(400, "Bad Request")]), "{text:?}");
    }
    let chunk =
        format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}\r\n", "f".repeat(15));
    assert!(matches!(reads(&[chunk.as_bytes()])[..], [HttpRead::Bad(413, _)]));
}

#[test]
fn a_response_is_received_as_it_was_sent() {
    let request = HttpRequest { method: "GET".to_owned(), target: "/".to_owned(), ..HttpRequest::default() };
    let sent = HttpResponse::sniffed(200, "body");
    let text =
        String::from_utf8([&sent.head(&request, "D", true), sent.sent_body(&request)].concat()).unwrap();
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nDate: D\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
    );
    let received = ReceivedResponse::parse(text.as_bytes(), "GET").unwrap();
    assert_eq!((received.code, received.body.as_slice(), received.is_cut), (200, &b"body"[..], false));
    assert!(ReceivedResponse::parse(&text.as_bytes()[..text.len() - 1], "GET").unwrap().is_cut);
    let chunked = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    let received = ReceivedResponse::parse(chunked, "GET").unwrap();
    assert_eq!((received.code, received.body.as_slice(), received.is_cut), (200, &b"abc"[..], false));
    assert!(ReceivedResponse::parse(&chunked[..chunked.len() - 6], "GET").unwrap().is_cut);
}

#[test]
fn media_types_are_found_in_the_first_bytes() {
    for (bytes, media) in [
        (&b"  <a href=x>"[..], "text/html; charset=utf-8"),
        (b"<!DOCTYPE html>", "text/html; charset=utf-8"),
        (b"<!-- x", "text/html; charset=utf-8"),
        (b"<abc>", "text/plain; charset=utf-8"),
        (b"<?xml v", "text/xml; charset=utf-8"),
        (b"\x89PNG\r\n\x1a\n..", "image/png"),
        (b"a\0b", "application/octet-stream"),
        (b"", "text/plain; charset=utf-8"),
    ] {
        assert_eq!(sniffed_type(bytes), media);
    }
}
