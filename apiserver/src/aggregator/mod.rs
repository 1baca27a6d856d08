//! API aggregation (kube-aggregator): the API server behind an APIService's Service serves that group and
//! version. This module holds the registry of aggregated APIs, their availability, and their discovery and
//! OpenAPI documents, which the task in `controller` maintains. `rest::aggregated` proxies requests;
//! `rest::discovery` and `rest::openapi` merge the documents.

mod automanaged;
mod availability;
mod controller;
mod discovery;
pub(crate) mod headers;
mod probe;
mod services;

use axum::body::Body;
pub(crate) use controller::{TASK, run};
use http::{Request, Response};
use kstore_api::kind;
use kstore_api::openapi::GroupVersionExtract;
use kstore_api::resource::Resource;
use kstore_metrics_text::Page;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{NoAnswer, Outbound};
use kstore_registry::user::{MASTERS, UserInfo};
use kstore_storage::limits::METRIC_LABEL_VALUES;
use parking_lot::RwLock;
use serde_json::Value;
pub(crate) use services::{ApiService, ApiServices};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A group and version that another API server serves.
#[derive(Clone, Debug)]
pub(crate) struct AggregatedApi {
    /// The APIService.
    pub(crate) service: Arc<ApiService>,
    /// Whether requests are proxied; otherwise they get 503.
    pub(crate) is_available: bool,
    /// The last documents that the API server returned; kept while it is unavailable.
    pub(crate) documents: Option<Arc<ApiDocuments>>,
}

/// Discovery and OpenAPI of one aggregated group and version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiDocuments {
    /// The resources of the API, in the form of aggregated discovery.
    pub(crate) resources: Value,
    /// The hash of the API's OpenAPI v3 document; `None` if it has none.
    pub(crate) openapi_hash: Option<String>,
    /// The API's part of the OpenAPI v2 document; `None` if it has none.
    pub(crate) swagger: Option<GroupVersionExtract>,
}

/// A snapshot of all aggregated APIs and of the priorities of all groups.
#[derive(Debug, Default)]
pub(crate) struct AggregatedApis {
    /// The stored APIServices, which also order the groups that this server serves itself.
    pub(crate) services: ApiServices,
    /// The aggregated APIs, sorted by the name of their APIService.
    pub(crate) apis: Vec<AggregatedApi>,
}

impl AggregatedApis {
    /// The aggregated API of a group and version; `None` if this server serves it itself.
    pub(crate) fn remote(&self, group: &str, version: &str) -> Option<&AggregatedApi> {
        let serves =
            |remote: &&AggregatedApi| *remote.service.group == *group && *remote.service.version == *version;
        self.apis.iter().find(serves)
    }

    /// Whether both snapshots are equal. Documents are compared by pointer.
    fn is_as(&self, other: &Self) -> bool {
        let shared = |a: &Option<Arc<ApiDocuments>>, b: &Option<Arc<ApiDocuments>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        self.services == other.services
            && self.apis.len() == other.apis.len()
            && self.apis.iter().zip(&other.apis).all(|(a, b)| {
                a.service == b.service
                    && a.is_available == b.is_available
                    && shared(&a.documents, &b.documents)
            })
    }
}

/// The registry of aggregated APIs. One per apiserver.
pub(crate) struct Aggregator {
    cluster: Arc<dyn Lookup>,
    outbound: Arc<dyn Outbound>,
    apis: RwLock<Arc<AggregatedApis>>,
    /// Whether there is any aggregated API. Without one, the lookup for a request is one atomic load.
    any: AtomicBool,
}

impl Aggregator {
    /// Loads the stored APIServices; their stored conditions count as availability until the first probe. `outbound` reaches the
    /// API servers.
    pub(crate) fn new(cluster: Arc<dyn Lookup>, outbound: Arc<dyn Outbound>) -> Self {
        let stored = cluster.list(api_services(), "");
        let services = ApiServices::of(stored.iter().map(|object| &**object));
        let remote = |service: &Arc<ApiService>| AggregatedApi {
            service: service.clone(),
            is_available: service.was_available,
            documents: None,
        };
        let apis: Vec<AggregatedApi> = services.remote().map(remote).collect();
        let any = AtomicBool::new(!apis.is_empty());
        Self { cluster, outbound, apis: RwLock::new(Arc::new(AggregatedApis { services, apis })), any }
    }

    /// The current snapshot.
    pub(crate) fn apis(&self) -> Arc<AggregatedApis> {
        self.apis.read().clone()
    }

    /// Writes which APIServices are unavailable, in the Prometheus text format.
    pub(crate) fn render_metrics(&self, page: &mut Page<'_>) {
        let name = "aggregator_unavailable_apiservice";
        page.head(name, "gauge", "Whether an APIService is unavailable, by name.");
        let apis = self.apis();
        for api in apis.apis.iter().take(METRIC_LABEL_VALUES) {
            page.line(name, &[("name", &*api.service.name)], u8::from(!api.is_available));
        }
    }

    /// The aggregated API that serves a path: `/apis/<group>/<version>`, paths below it, and its OpenAPI v3 document. `None` for paths
    /// that this server serves itself.
    pub(crate) fn remote(&self, path: &str) -> Option<AggregatedApi> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let (group, version) = group_version(path)?;
        self.apis.read().remote(group, version).cloned()
    }

    /// Proxies a request to an API server. Returns when the response's head has arrived; the body streams.
    ///
    /// # Errors
    /// The transport failure, in the words of Go's HTTP client.
    pub(crate) async fn forward(
        &self,
        service: &ApiService,
        request: Request<Body>,
    ) -> Result<Response<Body>, NoAnswer> {
        self.outbound.forward(self.cluster.clone(), service.backend.clone(), request).await
    }

    fn publish(&self, apis: AggregatedApis) {
        self.any.store(!apis.apis.is_empty(), Ordering::Relaxed);
        *self.apis.write() = Arc::new(apis);
    }
}

/// The group and version in a path.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
    let mut segments = path.strip_prefix("/apis/")?.splitn(3, '/');
    let group = segments.next()?;
    Some((group, segments.next().filter(|version| !version.is_empty())?))
}

/// The identity of this server's own requests to API servers.
fn itself() -> UserInfo {
    UserInfo::new("system:kube-aggregator", [MASTERS])
}

fn api_services() -> &'static Resource {
    kind::lookup("apiregistration.k8s.io", "v1", "apiservices").expect("APIService is in the apis of kinds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_version_are_parsed_from_paths() {
        let cases = [
            ("/apis/metrics.k8s.io/v1beta1", Some(("metrics.k8s.io", "v1beta1"))),
            ("/apis/metrics.k8s.io/v1beta1/nodes/a", Some(("metrics.k8s.io", "v1beta1"))),
            ("/openapi/v3/apis/metrics.k8s.io/v1beta1", Some(("metrics.k8s.io", "v1beta1"))),
            ("/apis/metrics.k8s.io", None),
            ("/apis/metrics.k8s.io/", None),
            ("/api/v1/pods", None),
            ("/openapi/v2", None),
        ];
        for (path, wanted) in cases {
            assert_eq!(group_version(path), wanted, "{path}");
        }
    }
}
