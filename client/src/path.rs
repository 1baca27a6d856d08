//! Plain HTTP over the client's transport, without gRPC: GET of a path outside the resource API, such as
//! `/version` or `/kstore/v1/trace`, and the requests of `rest`.

use crate::limits::{CALL_TIMEOUT, MAX_MESSAGE};
use crate::{ApiError, Client};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Builder;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use tower::ServiceExt as _;

/// A call that every server of kstore answers, whoever asks.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
const GRPC: &str = "application/grpc";
/// A gRPC message without fields: no compression, length zero.
const EMPTY_MESSAGE: [u8; 5] = [0; 5];

impl Client {
    /// The body of a GET of `path` (with its query).
    ///
    /// # Errors
    ///
    /// The server refuses the request, the response takes too long, or it exceeds the maximum message size.
    pub fn get_path<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        Box::pin(async move { self.send_path(http::Request::get(path), Bytes::new()).await })
    }

    /// The response to a GET of `path` (with its query), whatever its status. Its body arrives as the server sends it: for long answers
    /// that are passed on.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or its response does not begin in time.
    pub fn open_path<'a>(
        &'a self,
        path: &'a str,
    ) -> BoxFuture<'a, Result<http::Response<tonic::body::Body>, ApiError>> {
        Box::pin(async move {
            let request = self.http_request(http::Request::get(path), Bytes::new())?;
            match tokio::time::timeout(CALL_TIMEOUT, self.transport.clone().oneshot(request)).await {
                Ok(response) => response.map_err(|e| ApiError::Transport(e.to_string())),
                Err(_) => Err(ApiError::timeout()),
            }
        })
    }

    /// The body of the response to a request, which accepts JSON if it says nothing else.
    pub(crate) fn send_path<'a>(
        &'a self,
        request: Builder,
        body: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        Box::pin(async move {
            let request = self.http_request(request, body)?;
            match tokio::time::timeout(CALL_TIMEOUT, read_response(self.transport.clone(), request)).await {
                Ok(read_response) => read_response,
                Err(_) => Err(ApiError::timeout()),
            }
        })
    }

    /// Which API the server has: kstore's, or, with the HTTP status of its answer, another one, as a kube-apiserver. An error if it cannot
    /// answer now, with the status if it answered.
    pub(crate) fn server_api<'a>(
        &'a self,
    ) -> BoxFuture<'a, Result<Result<(), StatusCode>, Option<StatusCode>>> {
        Box::pin(async move {
            let request = http::Request::post(HEALTH_CHECK)
                .header(header::CONTENT_TYPE, GRPC)
                .header(header::TE, "trailers");
            let request = self.http_request(request, Bytes::from_static(&EMPTY_MESSAGE)).map_err(|_| None)?;
            let answer = tokio::time::timeout(CALL_TIMEOUT, self.transport.clone().oneshot(request));
            let answer = answer.await.map_err(|_| None)?.map_err(|_| None)?;
            let (status, content_type) = (answer.status(), answer.headers().get(header::CONTENT_TYPE));
            let is_grpc = content_type.is_some_and(|value| value.as_bytes().starts_with(GRPC.as_bytes()));
            let may_change = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            match (is_grpc, may_change) {
                (true, _) => Ok(Ok(())),
                (false, false) => Ok(Err(status)),
                (false, true) => Err(Some(status)),
            }
        })
    }

    /// A request with the client's agent.
    pub(crate) fn http_request(
        &self,
        request: Builder,
        body: Bytes,
    ) -> Result<http::Request<tonic::body::Body>, ApiError> {
        let request = request.body(tonic::body::Body::new(Full::new(body)));
        let mut request = request.map_err(|e| ApiError::Transport(e.to_string()))?;
        let headers = request.headers_mut();
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        if let Some(agent) = self.agent_header() {
            headers.insert(header::USER_AGENT, agent);
        }
        Ok(request)
    }
}

async fn read_response(
    transport: crate::client::Transport,
    request: http::Request<tonic::body::Body>,
) -> Result<Bytes, ApiError> {
    let response = transport.oneshot(request).await.map_err(|e| ApiError::Transport(e.to_string()))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_MESSAGE).collect().await;
    let body = body.map_err(|e| ApiError::Transport(e.to_string()))?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    match serde_json::from_slice(&body) {
        Ok(refusal) => Err(ApiError::Status(Box::new(refusal))),
        // The server answers unknown paths, such as the discovery of an unknown group, in plain text.
        Err(_) if status == StatusCode::NOT_FOUND => {
            let text = String::from_utf8_lossy(&body);
            Err(ApiError::from(tonic::Status::not_found(text.trim())))
        }
        Err(_) => Err(ApiError::Transport(format!(
            "the server answered {status}: {}",
            String::from_utf8_lossy(&body)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_api_of_a_server_is_recognised() {
        let table = [
            (200, "application/grpc", Ok(Ok(()))),
            (200, "application/grpc+proto", Ok(Ok(()))),
            (404, "application/json", Ok(Err(404))),
            (403, "application/json", Ok(Err(403))),
            (401, "text/plain", Ok(Err(401))),
            (415, "", Ok(Err(415))),
            (503, "text/plain", Err(Some(503))),
            (429, "application/json", Err(Some(429))),
        ];
        for (status, content_type, expected) in table {
            let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| async move {
                assert_eq!((request.method(), request.uri().path()), (&http::Method::POST, HEALTH_CHECK));
                let answer = http::Response::builder().status(status);
                let answer = answer.header(header::CONTENT_TYPE, content_type);
                Ok::<_, std::convert::Infallible>(answer.body(Full::new(Bytes::new())).unwrap())
            });
            let found = Client::over(service, "test").server_api().await;
            let number = |status: StatusCode| status.as_u16();
            let found = found.map(|api| api.map_err(number)).map_err(|status| status.map(number));
            assert_eq!(found, expected, "{status} {content_type}");
        }
    }

    fn client(status: u16, body: &'static str) -> Client {
        let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| async move {
            assert_eq!(request.uri(), "/a?b=c");
            let body = http_body_util::Full::new(Bytes::from_static(body.as_bytes()));
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(status).body(body).unwrap())
        });
        Client::over(service, "test")
    }

    #[tokio::test]
    async fn open_path_returns_the_response_of_any_status() {
        let response = client(410, "gone").open_path("/a?b=c").await.unwrap();
        assert_eq!(response.status(), StatusCode::GONE);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "gone");
    }

    #[tokio::test]
    async fn get_path_returns_the_body_or_the_status() {
        assert_eq!(client(200, "{}").get_path("/a?b=c").await.unwrap(), "{}");
        let refusal =
            r#"{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound","message":"gone"}"#;
        assert!(client(404, refusal).get_path("/a?b=c").await.unwrap_err().is_not_found());
        assert!(client(404, "404 page not found\n").get_path("/a?b=c").await.unwrap_err().is_not_found());
        let text = client(502, "bad gateway").get_path("/a?b=c").await.unwrap_err().to_string();
        assert!(text.contains("bad gateway"), "{text}");
    }
}
