//! [`ApiServerListener`]: the API server as simulated pods reach it.

use kstore_fabric::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The server's end of one connection, served until it ends.
type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves the connections that simulated pods make to the API server, at the cluster address of the Service `default/kubernetes`: with TLS
/// and by the credentials of their requests, like those of any client. Cheap to clone.
#[derive(Clone)]
pub struct ApiServerListener(Arc<dyn Fn(Stream) -> Serving + Send + Sync>);

impl ApiServerListener {
    /// Serves with this function. It gets the server's end of a connection, whose peer is the pod; the future that it returns serves the
    /// connection until that ends, and is polled by the task of the client.
    pub fn new<F>(serve: impl Fn(Stream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |stream| Box::pin(serve(stream))))
    }

    /// Serves a connection until it ends.
    pub(crate) fn serve(&self, stream: Stream) -> Serving {
        (self.0)(stream)
    }
}

impl fmt::Debug for ApiServerListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServerListener").finish_non_exhaustive()
    }
}
