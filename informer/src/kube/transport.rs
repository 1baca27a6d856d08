//! [`Transport`]: sends the requests of a source.

use crate::SourceError;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

/// The body of a response.
pub type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// Connection to a Kubernetes API, with its credentials.
pub trait Transport: Send + Sync + 'static {
    /// Sends a GET without a body. The URI of `request` has a path and a query only.
    ///
    /// # Errors
    /// No response arrived. A response with an error code is a response.
    fn send(&self, request: Request<()>) -> BoxFuture<'static, Result<Response<ResponseBody>, SourceError>>;
}
