//! HTTP/1.1 of a simulated server, on a stream of the tunnel instead of a socket. The caller makes the responses; request bodies are
//! read and dropped.

use super::pipe::pipe;
use crate::limits::{HTTP_BODY, HTTP_PIPE};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kstore_client::{StreamReader, StreamWriter};
use std::convert::Infallible;

/// The response of a simulated server.
pub(super) type Answer = Response<Full<Bytes>>;

/// A response with a text body.
pub(super) fn answer(code: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}

/// Serves the requests of one connection until its client leaves.
pub(super) async fn serve<F: Future<Output = Answer>>(
    reader: StreamReader,
    writer: &StreamWriter,
    respond: impl Fn(Request<()>) -> F,
) {
    let (near, far) = tokio::io::duplex(HTTP_PIPE);
    let service = service_fn(|request: Request<Incoming>| {
        let (parts, body) = request.into_parts();
        let answer = respond(Request::from_parts(parts, ()));
        async move {
            // A longer body ends the connection after the response.
            let _ = Limited::new(body, HTTP_BODY).collect().await;
            Ok::<_, Infallible>(answer.await)
        }
    });
    let mut http = http1::Builder::new();
    // Without a Date header: it would show the host's clock, not the simulated one.
    http.auto_date_header(false).half_close(true).title_case_headers(true);
    let serving = async {
        // A client that breaks the rules of HTTP has ended its connection.
        let _ = http.serve_connection(TokioIo::new(near), service).await;
    };
    pipe(reader, writer, far, Some(serving)).await;
}
