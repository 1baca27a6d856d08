//! [`Rest`]: the REST front end of an apiserver in this process: bytes in, bytes out.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kstore_apiserver::InProcess;
use tower::ServiceExt as _;

/// A REST client of an apiserver in this process.
pub(super) struct Rest(InProcess);

impl Rest {
    /// A client with the user of the service.
    pub(super) fn new(service: InProcess) -> Self {
        Self(service)
    }

    /// Sends a request with a JSON body and reads the whole answer, which must have a code below 300.
    pub(super) async fn call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Bytes> {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).header("user-agent", "ratchet/1.0");
        let response = self.0.clone().oneshot(request.body(Full::new(body.into()))?).await?;
        let status = response.status();
        let body = response.into_body().collect().await.ok().context("the body is read")?.to_bytes();
        ensure!(status.is_success(), "{method} {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Creates an object in a collection.
    pub(super) async fn create(&self, collection: &str, object: impl Into<Bytes>) -> anyhow::Result<Bytes> {
        self.call("POST", collection, "application/json", object).await
    }

    /// Reads a path.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        self.call("GET", path, "application/json", Bytes::new()).await
    }

    /// Opens a watch; its lines are read with [`Watch::line`].
    pub(super) async fn watch(&self, path: &str) -> anyhow::Result<Watch> {
        let request = http::Request::builder().uri(path).header("user-agent", "ratchet/1.0");
        let response = self.0.clone().oneshot(request.body(Full::new(Bytes::new()))?).await?;
        ensure!(response.status().is_success(), "watch {path}: {}", response.status());
        let body = response.into_body().map_err(anyhow::Error::from).boxed_unsync();
        Ok(Watch(body))
    }
}

/// An open watch.
pub(super) struct Watch(http_body_util::combinators::UnsyncBoxBody<Bytes, anyhow::Error>);

impl Watch {
    /// Reads bytes up to the end of a line, that is, of an event, and returns their number.
    pub(super) async fn line(&mut self) -> anyhow::Result<usize> {
        let mut bytes = 0;
        loop {
            let frame = self.0.frame().await.context("the watch ended")??;
            let data = frame.into_data().ok().context("a watch has no trailers")?;
            bytes += data.len();
            if data.ends_with(b"\n") {
                return Ok(bytes);
            }
        }
    }
}
