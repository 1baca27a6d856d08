//! [`Rest`]: the REST API without a socket: one HTTP request, one decoded answer.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kstore_apiserver::InProcess;
use serde_json::Value;
use tower::ServiceExt as _;

/// An HTTP client of an apiserver in this process.
#[derive(Clone)]
pub struct Rest(InProcess);

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status code.
    pub code: u16,
    /// Headers of the answer.
    pub headers: http::HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

impl Reply {
    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A string of the JSON body by its pointer; empty if missing.
    pub fn text(&self, pointer: &str) -> String {
        self.json().pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

impl Rest {
    /// A client of an in-process apiserver.
    pub fn new(in_process: InProcess) -> Self {
        Self(in_process)
    }

    /// Sends a request with a JSON body.
    pub async fn call(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        self.call_as(method, path, "application/json", body).await
    }

    /// Sends a request with a body of this content type.
    pub async fn call_as(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Reply {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).header("user-agent", "rest-test/1.0");
        self.send(request.body(Full::new(body.into())).expect("the request is well formed")).await
    }

    /// Sends any request.
    pub async fn send(&self, request: http::Request<Full<Bytes>>) -> Reply {
        let response = self.0.clone().oneshot(request).await.expect("a service in process does not fail");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("the body is read").to_bytes();
        Reply { code: parts.status.as_u16(), headers: parts.headers, body }
    }
}
