//! The client of a cluster's API server for webhooks and aggregated APIs: the endpoints of webhooks to which it makes no call for now, and
//! the Services that programs beside the cluster provide.

use crate::authority::FrontProxyKeys;
use axum::body::Body;
use futures::future::{BoxFuture, FutureExt as _, ready};
use http::{Request, Response};
use kstore_api::admission::client::{ClientConfig, Endpoint};
use kstore_api::kind;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{
    Answer, ApiBackend, Call, Network, NoAnswer, Outbound, ServiceBackends, Unreachable,
};
use parking_lot::{Mutex, RwLock};
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

/// Services of webhooks and APIs that programs beside one cluster provide, such as an operator under test. Shared by the cluster's API
/// server and its users; a fork begins without any.
#[derive(Debug, Default)]
pub struct WebhookServices {
    provided: RwLock<Option<(ServiceBackends, Arc<Network>)>>,
}

impl WebhookServices {
    /// Reads addresses of Services: `HOST:PORT` by `NAMESPACE/NAME` or `NAMESPACE/NAME:PORT`.
    ///
    /// # Errors
    /// What is wrong with the first wrong one.
    pub fn read<'t>(
        services: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<ServiceBackends, String> {
        let backend = |(service, address): (&str, &str)| {
            format!("{service}={address}").parse().map_err(|_| {
                format!("the Service {service:?} at {address:?} must have the form NAMESPACE/NAME[:PORT] and HOST:PORT")
            })
        };
        services.into_iter().map(backend).collect::<Result<_, _>>().map(ServiceBackends::new)
    }

    /// Calls of webhooks of these Services, and requests for APIs whose APIServices name them, go to these addresses from now on, whose
    /// certificates must be for `NAME.NAMESPACE.svc`. Requests have the certificate of the front proxy, if there is one. Services that were
    /// set before are forgotten.
    ///
    /// # Errors
    /// The keys of the front proxy are malformed.
    pub fn set(&self, backends: ServiceBackends, front_proxy: Option<&FrontProxyKeys>) -> Result<(), String> {
        let network = match front_proxy {
            None => Network::new(backends.clone()),
            Some(keys) => Network::with_front_proxy(backends.clone(), keys.front_proxy()?),
        };
        *self.provided.write() = Some((backends, Arc::new(network)));
        Ok(())
    }

    /// What calls an endpoint that is provided.
    fn network(&self, endpoint: &Endpoint) -> Option<Arc<Network>> {
        let Endpoint::Service { namespace, name, port, .. } = endpoint else { return None };
        self.network_of(namespace, name, *port)
    }

    /// What reaches the API server behind a Service that is provided.
    fn of_api(&self, backend: &ApiBackend) -> Option<Arc<Network>> {
        self.network_of(&backend.namespace, &backend.name, backend.port)
    }

    fn network_of(&self, namespace: &str, name: &str, port: u16) -> Option<Arc<Network>> {
        let provided = self.provided.read();
        let (backends, network) = provided.as_ref()?;
        backends.serves(namespace, name, port).then(|| network.clone())
    }
}

/// The endpoints of the admission webhooks with a name. `configurations` are the objects that configure webhooks.
pub fn endpoints_of<'a>(configurations: impl Iterator<Item = &'a Value>, name: &str) -> Vec<Endpoint> {
    let hooks = configurations.flat_map(|configuration| configuration["webhooks"].as_array()).flatten();
    let named = hooks.filter(|hook| hook["name"] == name);
    named.filter_map(|hook| ClientConfig::read(&hook["clientConfig"])).map(|client| client.endpoint).collect()
}

/// What the lab decides about calls of a cluster's webhooks.
#[derive(Debug, Default)]
pub struct LabWebhooks {
    /// What cannot be reached.
    pub unreachable: UnreachableWebhooks,
    /// What programs beside the cluster provide.
    pub services: WebhookServices,
}

/// The client of an API server for webhooks, whose calls fail while their endpoint cannot be reached.
#[derive(Debug)]
pub struct LabOutbound {
    /// Makes the calls to endpoints that nothing is decided about.
    pub inner: Arc<dyn Outbound>,
    /// What is decided.
    pub webhooks: Arc<LabWebhooks>,
}

impl Outbound for LabOutbound {
    fn post(&self, cluster: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        let endpoint = &call.client.endpoint;
        let text = match self.webhooks.unreachable.failure(endpoint) {
            None => match self.webhooks.services.network(endpoint) {
                Some(network) => return network.post(cluster, call),
                None => return self.inner.post(cluster, call),
            },
            Some(WebhookFailure::Timeout) => "context deadline exceeded".to_owned(),
            Some(WebhookFailure::Refused) => {
                let address = address(&*cluster, endpoint);
                format!("dial tcp {address}: connect: connection refused")
            }
        };
        ready(Err(NoAnswer(text))).boxed()
    }

    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable> {
        match self.webhooks.services.of_api(backend) {
            Some(network) => network.check(cluster, backend),
            None => self.inner.check(cluster, backend),
        }
    }

    fn forward(
        &self,
        cluster: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        match self.webhooks.services.of_api(&backend) {
            Some(network) => network.forward(cluster, backend, request),
            None => self.inner.forward(cluster, backend, request),
        }
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
    use kstore_registry::outbound::Trust;
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
    fn services_that_a_program_provides_are_told_by_name_and_port() {
        let services = WebhookServices::default();
        let endpoint = |name: &str, port| Endpoint::Service {
            namespace: "ns".into(),
            name: name.into(),
            port,
            path: "/".into(),
        };
        assert!(services.network(&endpoint("a", 443)).is_none());
        let read = WebhookServices::read([("ns/a", "127.0.0.1:1"), ("ns/b:8443", "127.0.0.1:2")]).unwrap();
        services.set(read, Some(&FrontProxyKeys::new().unwrap())).unwrap();
        let api = |name: &str| {
            let (namespace, name) = ("ns".into(), name.into());
            services.of_api(&ApiBackend { namespace, name, port: 443, trust: Trust::Insecure }).is_some()
        };
        assert!(api("a") && !api("b"), "an API by the port of its APIService");
        let is_provided = |name, port| services.network(&endpoint(name, port)).is_some();
        assert!(
            is_provided("a", 443)
                && is_provided("b", 8443)
                && !is_provided("b", 443)
                && !is_provided("c", 443)
        );
        assert!(services.network(&Endpoint::Url("https://a.ns.svc/".into())).is_none());
        for (service, address) in [("a", "127.0.0.1:1"), ("ns/a", "127.0.0.1"), ("ns/", "127.0.0.1:1")] {
            let problem = WebhookServices::read([(service, address)]).unwrap_err();
            assert!(problem.contains(service) && problem.contains("NAMESPACE/NAME"), "{problem}");
        }
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
