//! Calls from the apiserver to HTTPS servers that operators run: admission webhooks, conversion webhooks, and API servers behind
//! APIServices; and, as [`Remote`], servers that files name. Resolves a destination, keeps connections open, bounds the time and size of a webhook's answer, and words failures as
//! Go clients do, since clients of Kubernetes match on those texts. Not what is sent or what an answer means: see `admission` and
//! `aggregator`.

mod backoff;
mod connect;
mod exchange;
mod failure;
mod front_proxy;
mod network;
mod remote;
mod service;
#[cfg(test)]
pub(crate) mod test_server;
mod tls;
mod trust;

pub(crate) use backoff::Backoff;
pub use failure::NoAnswer;
pub(crate) use failure::is_worth_another_call;
pub use front_proxy::{FrontProxy, FrontProxyError};
pub use network::Network;
pub use remote::{Remote, RemoteConfig, RemoteError};
pub use service::{ServiceBackend, ServiceBackendError, ServiceBackends, Unreachable};
pub use trust::Trust;

use crate::lookup::Lookup;
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use kstore_api::admission::client::ClientConfig;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One POST of a JSON document.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where it goes, and which authorities may have signed the server's certificate. A Service must prove to be
    /// `<name>.<namespace>.svc`.
    pub client: ClientConfig,
    /// How long connecting, sending and the whole answer may take together.
    pub timeout: Duration,
    /// The JSON document.
    pub body: Bytes,
}

impl Call {
    /// The URL that is posted to: it tells the server, in whole seconds rounded up, how long the answer may take.
    pub fn url(&self) -> String {
        self.client.url(Some(self.seconds()))
    }

    /// The time limit in whole seconds, rounded up.
    pub fn seconds(&self) -> u64 {
        u64::try_from(self.timeout.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
    }
}

/// What a server answered, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// `Content-Type`; empty if there is none.
    pub content_type: String,
    /// The whole body; at most [`crate::limits::OUTBOUND_ANSWER_BYTES`].
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
    /// What its certificate must prove.
    pub trust: Trust,
}

impl ApiBackend {
    /// The name that its certificate must be for.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// The way to servers outside the process. Shared; tests and simulations bring their own.
pub trait Outbound: fmt::Debug + Send + Sync {
    /// Sends a call and returns its answer, whatever its status. `cluster` resolves Services at the time of the call.
    ///
    /// # Errors
    /// [`NoAnswer`], whose text is part of what the client of the apiserver reads.
    fn post(&self, cluster: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>>;

    /// Whether there is an address to dial for an API server, as far as the cluster tells. Nothing is dialled.
    ///
    /// # Errors
    /// What is missing.
    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable>;

    /// Hands a request on to an API server, as this server's front proxy, and returns the head of the answer; the body follows as it
    /// comes. Of the request's URI only path and query count. After 101 the connection is in the answer, for
    /// [`hyper::upgrade::on`]. There is no time limit: the caller knows which requests are long.
    ///
    /// # Errors
    /// [`NoAnswer`], whose text is what the client of the apiserver reads.
    fn forward(
        &self,
        cluster: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, NoAnswer>>;
}
