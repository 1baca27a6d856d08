//! [`MetricsServer`]: answers clients' requests by reading kubelets' summaries. The I/O edge: `request`
//! parses requests, `metrics` interprets summaries.

use crate::discovery;
use crate::limits::{KUBELET_TIMEOUT, KUBELETS_AT_ONCE, KUBELETS_TIMEOUT};
use crate::metrics::{Summaries, list, of_nodes, of_pods};
use crate::request::{Encoding, ParsedRequest, TableForm};
use crate::resource::{GROUP, Resource, versions};
use crate::summary::Summary;
use crate::table::table;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use kstore_api::object::text;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_api::{meta, yaml};
use kstore_client::{ApiError, Client, Gvr, ListParams};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use tokio::time::{Instant, timeout_at};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// A server of `metrics.k8s.io/v1beta1`, and of `v1` since Kubernetes 1.37. Its caller must have authorized the request, as an apiserver
/// does before it proxies one. Cheap to clone.
#[derive(Clone)]
pub struct MetricsServer {
    client: Client,
    /// The versions of the API, the preferred one first.
    versions: &'static [&'static str],
}

impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsServer").finish_non_exhaustive()
    }
}

impl MetricsServer {
    /// A server of a Kubernetes version that reads nodes, pods and kubelets through `client`. The client's user needs permission to
    /// get and list nodes and pods, and to get `nodes/proxy`.
    pub fn new(client: Client, minor: Minor) -> Self {
        Self { client, versions: versions(minor) }
    }

    /// Answers a request. Failures are responses too, with a `Status`.
    /// Boxed here, so that no crate above generates the code again.
    pub fn answer<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            let (code, media, body) = match self.document(request).await {
                Ok((media, document)) => (StatusCode::OK, media, document),
                Err(status) => {
                    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    (code, JSON, status.to_json())
                }
            };
            let body = if request.method == Method::HEAD { Bytes::new() } else { body.into() };
            let mut response = Response::new(body);
            *response.status_mut() = code;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
            response
        })
    }

    /// The media type and the body of an answer.
    async fn document(&self, request: &Parts) -> Result<(&'static str, Vec<u8>), Status> {
        let versions = self.versions;
        Ok(match ParsedRequest::of(request, versions)? {
            ParsedRequest::AggregatedGroups => {
                (discovery::AGGREGATED, discovery::aggregated(versions).to_string().into_bytes())
            }
            ParsedRequest::Groups(encoding) => encoded(&discovery::groups(versions), encoding),
            ParsedRequest::Group(encoding) => encoded(&discovery::group(versions), encoding),
            ParsedRequest::Resources(version, encoding) => encoded(&discovery::resources(version), encoding),
            ParsedRequest::OpenApi { document, is_protobuf } => {
                match document.protobuf().filter(|_| is_protobuf) {
                    Some(media) => (media, document.encoded()),
                    None => encoded(document.value(), Encoding::Json),
                }
            }
            ParsedRequest::Object { version: own, resource, namespace, name, form } => {
                let objects = self.dynamic(resource).get(&namespace, &name).await;
                let object = objects.map_err(|error| match error.is_not_found() {
                    true => resource.not_found(&namespace, &name),
                    false => failed(&error),
                })?;
                let metrics = self.metrics(resource, &[object]).await.pop();
                let mut metrics = metrics.ok_or_else(|| resource.not_found(&namespace, &name))?;
                metrics["apiVersion"] = format!("{GROUP}/{own}").into();
                let shown = match form.table {
                    None => metrics,
                    Some(TableForm { version, rows }) => table(vec![metrics], version, rows),
                };
                encoded(&shown, form.encoding)
            }
            ParsedRequest::List { version: own, resource, namespace, labels, fields, form } => {
                let params = ListParams::default().labels(&labels).fields(&fields);
                let listed = self.dynamic(resource).list(&namespace, &params).await;
                let (objects, _) = listed.map_err(|error| failed(&error))?;
                let metrics = self.metrics(resource, &objects).await;
                let shown = match form.table {
                    None => list(own, resource, metrics),
                    Some(TableForm { version, rows }) => table(metrics, version, rows),
                };
                encoded(&shown, form.encoding)
            }
        })
    }

    fn dynamic(&self, resource: Resource) -> kstore_client::DynamicApi {
        self.client.dynamic(Gvr::new("", "v1", resource.plural()))
    }

    /// The metrics of nodes or pods. Reads only the kubelets of these nodes, or of these pods' nodes.
    async fn metrics(&self, resource: Resource, objects: &[Value]) -> Vec<Value> {
        let node = |object| match resource {
            Resource::Nodes => meta::name(object),
            Resource::Pods => text(&object["spec"]["nodeName"]),
        };
        let nodes = objects.iter().map(node).filter(|node| !node.is_empty()).map(str::to_owned).collect();
        let summaries = self.summaries(nodes).await;
        match resource {
            Resource::Nodes => of_nodes(objects, &summaries),
            Resource::Pods => of_pods(objects, &summaries),
        }
    }

    /// The summaries of nodes. Nodes that do not answer in time are missing.
    async fn summaries(&self, nodes: BTreeSet<String>) -> Summaries {
        let end = Instant::now() + KUBELETS_TIMEOUT;
        let requests = nodes.into_iter().map(|node| self.summary_by(node, end));
        let answered = futures::stream::iter(requests).buffer_unordered(KUBELETS_AT_ONCE);
        answered.filter_map(std::future::ready).collect().await
    }

    /// The name and summary of a node; `None` if it does not answer until `end` or within its own timeout.
    async fn summary_by(&self, node: String, end: Instant) -> Option<(String, Summary)> {
        let now = Instant::now();
        // A call with an expired deadline would still reach the node.
        if now >= end {
            return None;
        }
        let end = end.min(now + KUBELET_TIMEOUT);
        match timeout_at(end, self.summary(&node)).await {
            Ok(Ok(summary)) => Some((node, summary)),
            Ok(Err(error)) => {
                tracing::debug!(node, %error, "a kubelet has no summary");
                None
            }
            Err(_) => {
                tracing::debug!(node, "a kubelet does not answer in time");
                None
            }
        }
    }

    async fn summary(&self, node: &str) -> Result<Summary, ApiError> {
        let path = format!("/api/v1/nodes/{node}/proxy/stats/summary");
        let body = self.client.get_path(&path).await?;
        serde_json::from_slice(&body).map_err(|error| ApiError::Json(error.to_string()))
    }
}

/// The media type and text of a document.
fn encoded(document: &Value, encoding: Encoding) -> (&'static str, Vec<u8>) {
    match encoding {
        Encoding::Json => (JSON, document.to_string().into_bytes()),
        Encoding::Yaml => (YAML, yaml::encode(document).into_bytes()),
    }
}

/// The error response if nodes or pods could not be read: the apiserver's, if it answered.
fn failed(error: &ApiError) -> Status {
    match error.status() {
        Some(status) => status.clone(),
        None => Status::service_unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use std::convert::Infallible;
    use std::future::Future;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// A server over an apiserver that answers each path with the result of `answer`.
    fn server<F>(answer: impl Fn(String) -> F + Clone + Send + Sync + 'static) -> MetricsServer
    where
        F: Future<Output = (u16, String)> + Send + 'static,
    {
        let service = tower::service_fn(move |request: Request<_>| {
            let answered = answer(request.uri().path().to_owned());
            async move {
                let (code, body) = answered.await;
                let body = http_body_util::Full::new(Bytes::from(body));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        MetricsServer::new(Client::over(service, "metrics-server"), Minor::V37)
    }

    const SUMMARY: &str = r#"{"node": {"cpu": {"time": "2026-01-01T00:00:00Z", "usageNanoCores": 5}, "memory": {"workingSetBytes": 6}}}"#;

    #[tokio::test(start_paused = true)]
    async fn failing_and_silent_nodes_are_left_out_and_delay_others_only_briefly() {
        let server = server(async |path: String| match path.as_str() {
            "/api/v1/nodes/good/proxy/stats/summary" => (200, SUMMARY.to_owned()),
            "/api/v1/nodes/odd/proxy/stats/summary" => (200, "no JSON".to_owned()),
            "/api/v1/nodes/silent/proxy/stats/summary" => std::future::pending().await,
            _ => (503, "{}".to_owned()),
        });
        let began = Instant::now();
        let nodes = BTreeSet::from(["bad", "good", "odd", "silent"].map(str::to_owned));
        let summaries = server.summaries(nodes).await;
        assert_eq!(summaries.keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!(summaries["good"].node.sample().unwrap().memory, 6);
        assert_eq!(began.elapsed(), KUBELET_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_encoded_as_the_client_accepts() {
        let server = server(async |path: String| match path.as_str() {
            "/api/v1/nodes/good/proxy/stats/summary" => (200, SUMMARY.to_owned()),
            _ => (503, "{}".to_owned()),
        });
        let ask = async |path: &str, accept: &str| {
            let request = Request::get(path).header("accept", accept).body(()).unwrap().into_parts().0;
            let answer = server.answer(&request).await;
            let media = answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
            (media, String::from_utf8_lossy(answer.body()).into_owned())
        };
        let (media, text) = ask("/apis/metrics.k8s.io", "application/yaml").await;
        assert_eq!(media, "application/yaml");
        assert!(text.starts_with("apiVersion: v1\nkind: APIGroup\nname: metrics.k8s.io\n"), "{text}");
        assert!(text.contains("preferredVersion:\n  groupVersion: metrics.k8s.io/v1\n"), "{text}");
        let (media, text) = ask("/openapi/v2", "*/*").await;
        assert_eq!(media, "application/json");
        assert!(text.starts_with('{'), "{text}");
        let proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
        for version in ["v1", "v1beta1"] {
            let (media, _) = ask(&format!("/openapi/v3/apis/metrics.k8s.io/{version}"), proto).await;
            assert_eq!(media, proto);
            let (_, text) = ask(&format!("/apis/metrics.k8s.io/{version}"), "application/json").await;
            assert!(text.contains(&format!(r#""groupVersion":"metrics.k8s.io/{version}""#)), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_silent_nodes_time_out_together_and_concurrent_reads_are_bounded() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (of_server, most_of_server) = (now.clone(), most.clone());
        let server = server(move |_| {
            let (now, most) = (of_server.clone(), most_of_server.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(2)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                (200, SUMMARY.to_owned())
            }
        });
        let names = (0..1000).map(|n| format!("node-{n}")).collect();
        let began = Instant::now();
        let summaries = server.summaries(names).await;
        assert_eq!(began.elapsed(), KUBELETS_TIMEOUT);
        assert_eq!(most.load(Ordering::Relaxed), KUBELETS_AT_ONCE);
        // Fifteen rounds of two seconds; the last one ends at the deadline.
        assert!((14 * 32..=15 * 32).contains(&summaries.len()), "{}", summaries.len());
    }
}
