//! Webhooks that cannot be reached: the client of a cluster's API server for webhooks, and the endpoints to which it makes no call for now.

use axum::body::Body;
use futures::future::{BoxFuture, FutureExt as _, ready};
use http::{Request, Response};
use kstore_api::admission::client::{ClientConfig, Endpoint};
use kstore_api::kind;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{Answer, ApiBackend, Call, NoAnswer, Outbound, Unreachable};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// How calls to a webhook fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookFailure {
    /// Nothing listens at its address.
    #[default]
    Refused,
    /// The timeout of the call passes. The lab does not wait for it.
    Timeout,
}

/// Endpoints of webhooks that cannot be reached, each with what keeps it so. Shared by a cluster's API server and its plans.
#[derive(Debug, Default)]
pub struct UnreachableWebhooks {
    endpoints: Mutex<Vec<UnreachableEndpoint>>,
}

#[derive(Debug)]
struct UnreachableEndpoint {
    /// What keeps it unreachable: plan and action.
    by: (String, usize),
    endpoint: Endpoint,
    how: WebhookFailure,
}

impl UnreachableWebhooks {
    /// Calls to these endpoints fail until [`UnreachableWebhooks::restore`].
    pub fn fail(&self, by: (&str, usize), how: WebhookFailure, endpoints: Vec<Endpoint>) {
        let new = endpoints.into_iter().map(|endpoint| UnreachableEndpoint {
            by: (by.0.to_owned(), by.1),
            endpoint,
            how,
        });
        self.endpoints.lock().extend(new);
    }

    /// What `by` kept from being reached can be reached again.
    pub fn restore(&self, by: (&str, usize)) {
        self.endpoints.lock().retain(|failing| (failing.by.0.as_str(), failing.by.1) != by);
    }

    /// How a call fails.
    fn failure(&self, endpoint: &Endpoint) -> Option<WebhookFailure> {
        let endpoints = self.endpoints.lock();
        endpoints.iter().find(|failing| failing.endpoint == *endpoint).map(|failing| failing.how)
    }
}

/// The endpoints of the admission webhooks with a name. `configurations` are the objects that configure webhooks.
pub fn endpoints_of<'a>(configurations: impl Iterator<Item = &'a Value>, name: &str) -> Vec<Endpoint> {
    let hooks = configurations.flat_map(|configuration| configuration["webhooks"].as_array()).flatten();
    let named = hooks.filter(|hook| hook["name"] == name);
    named.filter_map(|hook| ClientConfig::read(&hook["clientConfig"])).map(|client| client.endpoint).collect()
}

/// The client of an API server for webhooks, whose calls fail while their endpoint cannot be reached.
#[derive(Debug)]
pub struct FailingOutbound {
    /// Makes the calls.
    pub inner: Arc<dyn Outbound>,
    /// What cannot be reached.
    pub unreachable: Arc<UnreachableWebhooks>,
}

impl Outbound for FailingOutbound {
    fn post(&self, cluster: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        let text = match self.unreachable.failure(&call.client.endpoint) {
            None => return self.inner.post(cluster, call),
            Some(WebhookFailure::Timeout) => "context deadline exceeded".to_owned(),
            Some(WebhookFailure::Refused) => {
                let address = address(&*cluster, &call.client.endpoint);
                format!("dial tcp {address}: connect: connection refused")
            }
        };
        ready(Err(NoAnswer(text))).boxed()
    }

    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable> {
        self.inner.check(cluster, backend)
    }

    fn forward(
        &self,
        cluster: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        self.inner.forward(cluster, backend, request)
    }
}

/// The address of an endpoint, as errors of connections have it.
fn address(cluster: &dyn Lookup, endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Url(url) => {
            let uri = url.parse::<http::Uri>().unwrap_or_default();
            format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443))
        }
        Endpoint::Service { namespace, name, port, .. } => {
            let services = kind::lookup("", "v1", "services").expect("Services are in the table of kinds");
            let service = cluster.get(services, namespace, name);
            let address = service.as_ref().and_then(|service| service["spec"]["clusterIP"].as_str());
            format!("{}:{port}", address.unwrap_or(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_webhook_is_found_by_its_name_in_all_configurations() {
        let configuration =
            |name: &str, url: &str| json!({"webhooks": [{"name": name, "clientConfig": {"url": url}}]});
        let all = [
            configuration("a.example.com", "https://one/"),
            configuration("b.example.com", "https://two/"),
            configuration("a.example.com", "https://three/"),
            json!({}),
        ];
        let urls = ["https://one/", "https://three/"].map(|url| Endpoint::Url(url.into()));
        assert_eq!(endpoints_of(all.iter(), "a.example.com"), urls);
        assert_eq!(endpoints_of(all.iter(), "c.example.com"), []);
    }

    #[test]
    fn endpoints_fail_until_all_that_keeps_them_so_has_ended() {
        let (unreachable, endpoint) = (UnreachableWebhooks::default(), Endpoint::Url("https://one/".into()));
        unreachable.fail(("p", 0), WebhookFailure::Timeout, vec![endpoint.clone()]);
        unreachable.fail(("p", 1), WebhookFailure::Refused, vec![endpoint.clone()]);
        assert_eq!(unreachable.failure(&Endpoint::Url("https://two/".into())), None);
        assert_eq!(unreachable.failure(&endpoint), Some(WebhookFailure::Timeout));
        unreachable.restore(("p", 0));
        assert_eq!(unreachable.failure(&endpoint), Some(WebhookFailure::Refused));
        unreachable.restore(("p", 1));
        assert_eq!(unreachable.failure(&endpoint), None);
    }
}
