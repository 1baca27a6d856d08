//! Responses of the local proxy that are no answers of the server.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

/// A response with a line of text for people.
pub(super) fn plain(code: StatusCode, text: &str) -> Response<Body> {
    typed(code, "text/plain; charset=utf-8", Body::from(format!("{text}\n")))
}

/// A response with a body of a media type.
pub(super) fn typed(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
