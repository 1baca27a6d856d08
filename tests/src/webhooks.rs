//! [`Webhooks`]: webhook servers inside the process of a simulated cluster, which has no network. A path of a URL or Service has a
//! function that answers; what was asked is recorded.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kstore_apiserver::lookup::Lookup;
use kstore_apiserver::outbound::{Answer, Call, NoAnswer, Outbound};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type Handler = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// The servers. Clones share them.
#[derive(Clone, Default)]
pub struct Webhooks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    handlers: BTreeMap<String, (Duration, Handler)>,
    calls: Vec<(String, Value)>,
}

impl Webhooks {
    /// Answers reviews at `https://hook.test<path>` with what `handler` makes of them.
    pub fn serve(&self, path: &str, handler: impl Fn(&Value) -> Value + Send + Sync + 'static) {
        self.serve_slowly(path, Duration::ZERO, handler);
    }

    /// As [`Webhooks::serve`], after `delay`.
    pub fn serve_slowly(
        &self,
        path: &str,
        delay: Duration,
        handler: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) {
        self.0.lock().handlers.insert(path.to_owned(), (delay, Arc::new(handler)));
    }

    /// What was asked since the last time, as path with query and review, in order.
    pub fn take_calls(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.lock().calls)
    }

    /// A `clientConfig` for a path.
    pub fn client_config(path: &str) -> Value {
        json!({"url": format!("https://hook.test{path}")})
    }
}

/// An AdmissionReview that answers `review` with these members of its response.
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
