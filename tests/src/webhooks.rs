//! [`Webhooks`]: webhook servers and aggregated API servers inside the process of a simulated cluster, which
//! has no network. Each path of a URL or Service has a function that answers; calls of webhooks are recorded.

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{
    Answer, ApiBackend, Call, Network, NoAnswer, Outbound, ServiceBackends, Unreachable,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type Handler = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// The servers; clones share them.
#[derive(Clone, Default)]
pub struct Webhooks(Arc<Mutex<WebhookState>>);

/// A function that answers requests proxied to an API server.
type ApiServer = Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

#[derive(Default)]
struct WebhookState {
    /// API servers by the name of their certificate, such as `wardle.default.svc`.
    api_servers: BTreeMap<String, ApiServer>,
    handlers: BTreeMap<String, (Duration, Handler)>,
    calls: Vec<(String, Value)>,
}

impl Webhooks {
    /// Answers reviews at `https://hook.test<path>` with `handler`.
    pub fn serve(&self, path: &str, handler: impl Fn(&Value) -> Value + Send + Sync + 'static) {
        self.serve_slowly(path, Duration::ZERO, handler);
    }

    /// Answers reviews like [`Webhooks::serve`], after `delay`.
    pub fn serve_slowly(
        &self,
        path: &str,
        delay: Duration,
        handler: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) {
        self.0.lock().handlers.insert(path.to_owned(), (delay, Arc::new(handler)));
    }

    /// Answers requests that are proxied to a Service, such as `default/wardle`.
    pub fn serve_api<F>(&self, service: &str, answer: impl Fn(Request<Body>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let (namespace, name) = service.split_once('/').expect("a Service has a namespace and a name");
        let answer: ApiServer = Arc::new(move |request| answer(request).boxed());
        self.0.lock().api_servers.insert(format!("{name}.{namespace}.svc"), answer);
    }

    /// Stops the answers that [`Webhooks::serve_api`] started for a Service.
    pub fn end_api(&self, service: &str) {
        let (namespace, name) = service.split_once('/').expect("a Service has a namespace and a name");
        self.0.lock().api_servers.remove(&format!("{name}.{namespace}.svc"));
    }

    /// Takes the recorded calls: path with query, and review, in order.
    pub fn take_calls(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.lock().calls)
    }

    /// A `clientConfig` for a path.
    pub fn client_config(path: &str) -> Value {
        json!({"url": format!("https://hook.test{path}")})
    }
}

/// An AdmissionReview that answers `review`, with these members in its response.
pub fn reviewed(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Outbound for Webhooks {
    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable> {
        Network::new(ServiceBackends::default()).check(cluster, backend)
    }

    fn forward(
        &self,
        _: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        let server = self.0.lock().api_servers.get(&backend.host()).cloned();
        async move {
            let refused = || NoAnswer("dial tcp 192.0.2.1:443: connect: connection refused".to_owned());
            Ok(server.ok_or_else(refused)?(request).await)
        }
        .boxed()
    }

    fn post(&self, _: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        let url = call.url();
        let rest = url.strip_prefix("https://").unwrap_or(&url);
        let path = rest.find('/').map_or("", |slash| &rest[slash..]).to_owned();
        let review: Value = serde_json::from_slice(&call.body).expect("a review is JSON");
        let mut state = self.0.lock();
        let handler = state.handlers.get(path.split('?').next().unwrap_or_default()).cloned();
        state.calls.push((path, review.clone()));
        drop(state);
        async move {
            let Some((delay, handler)) = handler else {
                return Err(NoAnswer("dial tcp 192.0.2.1:443: connect: connection refused".to_owned()));
            };
            if delay >= call.timeout {
                tokio::time::sleep(call.timeout).await;
                return Err(NoAnswer("context deadline exceeded".to_owned()));
            }
            tokio::time::sleep(delay).await;
            let body = Bytes::from(handler(&review).to_string());
            Ok(Answer { status: 200, content_type: "application/json".to_owned(), body })
        }
        .boxed()
    }
}
