//! HTTPS client of servers that operators run: admission webhooks, conversion webhooks and API servers behind
//! APIServices, and, as [`Remote`], servers that configuration files name. Resolves destinations, keeps
//! connections open, and bounds the time and size of a webhook's answer. Failures are worded as in Go
//! clients, since clients of Kubernetes match on those texts. `admission` and `aggregator` encode requests
//! and interpret answers.

mod backoff;
mod call_runtime;
mod connect;
mod exchange;
mod failure;
mod front_proxy;
mod network;
mod remote;
mod service;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests use it")]
pub mod test_server;
mod tls;
mod trust;

use crate::lookup::Lookup;
use axum::body::Body;
pub use backoff::WebhookBackoff;
use bytes::Bytes;
pub use call_runtime::{CallRuntime, make_calls_of_this_thread_on, while_clock_stands};
pub use failure::{NoAnswer, is_worth_another_call};
pub use front_proxy::{FrontProxy, FrontProxyError};
use futures::future::BoxFuture;
use kstore_api::admission::client::ClientConfig;
pub use network::Network;
pub use remote::{Remote, RemoteConfig, RemoteError};
pub use service::{ServiceBackend, ServiceBackendError, ServiceBackends, Unreachable};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub use trust::Trust;

/// One POST of a JSON document.
#[derive(Clone, Debug)]
pub struct Call {
    /// The destination, and the authorities that may have signed its certificate. The certificate of a
    /// Service must be for `<name>.<namespace>.svc`.
    pub client: ClientConfig,
    /// The timeout of connecting, sending and reading the whole answer together.
    pub timeout: Duration,
    /// The JSON document.
    pub body: Bytes,
}

impl Call {
    /// The URL of the request. Its query states the timeout in whole seconds, rounded up.
    pub fn url(&self) -> String {
        self.client.url(Some(self.seconds()))
    }

    /// The timeout in whole seconds, rounded up.
    pub fn seconds(&self) -> u64 {
        u64::try_from(self.timeout.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
    }
}

/// The answer of a server, with any status code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The `Content-Type` header; empty if there is none.
    pub content_type: String,
    /// The whole body; at most [`kstore_storage::limits::OUTBOUND_ANSWER_BYTES`].
    pub body: Bytes,
}

/// An API server behind a Service, which serves some of this server's groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiBackend {
    /// The namespace of the Service.
    pub namespace: Box<str>,
    /// The name of the Service.
    pub name: Box<str>,
    /// The port of the Service.
    pub port: u16,
    /// The authorities that may have signed the server's certificate.
    pub trust: Trust,
}

impl ApiBackend {
    /// The name that the server's certificate must have.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// HTTPS client of servers outside the process. Shared; tests and simulations have their own implementations.
pub trait Outbound: fmt::Debug + Send + Sync {
    /// Sends a call and returns its answer, with any status code. `cluster` resolves Services at the time of
    /// the call.
    ///
    /// # Errors
    /// [`NoAnswer`]; its text becomes part of the error that the apiserver's client receives.
    fn post(&self, cluster: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>>;

    /// Checks, by the cluster's objects, whether an API server has an address. Does not connect to it.
    ///
    /// # Errors
    /// The missing object or endpoint.
    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable>;

    /// Forwards a request to an API server, as this server's front proxy, and returns the head of the answer;
    /// its body is streamed. Only path and query of the request's URI are used. After status 101 the answer
    /// has the connection, for [`hyper::upgrade::on`]. There is no timeout: the caller knows which requests
    /// take long.
    ///
    /// # Errors
    /// [`NoAnswer`]; its text is part of the error that the apiserver's client receives.
    fn forward(
        &self,
        cluster: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, NoAnswer>>;
}
