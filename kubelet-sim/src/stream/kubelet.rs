//! The simulated kubelet's HTTP endpoints: health, pods, and resource usage. Metrics that a simulated node does not have are left out.

use super::Streams;
use super::http::{Answer, answer, serve};
use crate::usage::{CpuCounters, NodeUsage, resource_metrics, summary};
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kstore_api::json::value_of;
use kstore_api::status::Status;
use kstore_client::{ApiError, ListParams, NodeStream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// Processor time by node. Counters of nodes that are no longer served are dropped: at most one more than the served nodes is kept.
pub(super) type NodeCounters = Arc<Mutex<BTreeMap<String, CpuCounters>>>;

/// The content of a kubelet's path.
enum Page {
    Health,
    /// A `PodList` of the pods with these fields.
    Pods(String),
    Summary,
    ResourceMetrics,
}

impl Page {
    fn of(path: &str, node: &str) -> Option<Self> {
        Some(match path {
            "/healthz" | "/healthz/ping" | "/healthz/syncloop" => Self::Health,
            "/pods" | "/pods/" => Self::Pods(of_node(node)),
            "/runningpods" | "/runningpods/" => Self::Pods(format!("{},status.phase=Running", of_node(node))),
            "/stats/summary" | "/stats/summary/" => Self::Summary,
            "/metrics/resource" => Self::ResourceMetrics,
            _ => return None,
        })
    }
}

fn of_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

impl Streams {
    pub(super) async fn kubelet(&self, stream: NodeStream) {
        let node = stream.request.node.clone();
        let (reader, writer) = stream.begin();
        let page = |request| {
            let (streams, node) = (self.clone(), node.clone());
            async move { streams.page(&node, &request).await }
        };
        serve(reader, &writer, page).await;
        writer.close(&Status::success(200));
    }

    async fn page(&self, node: &str, request: &Request<()>) -> Answer {
        let Some(page) = Page::of(request.uri().path(), node) else {
            return answer(StatusCode::NOT_FOUND, TEXT, "404 page not found\n");
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "405: Method Not Allowed");
        }
        let shown = match page {
            Page::Health => Ok((TEXT, "ok".to_owned())),
            Page::Pods(fields) => self.pods(&fields).await.map(|pods| (JSON, pods.to_string())),
            Page::Summary => self.usage(node).await.map(|usage| (JSON, summary(&usage).to_string())),
            Page::ResourceMetrics => {
                self.usage(node).await.map(|usage| (kstore_metrics_text::TEXT, resource_metrics(&usage)))
            }
        };
        match shown {
            Ok((media, text)) => answer(StatusCode::OK, media, text),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
        }
    }

    /// A `PodList` as a kubelet encodes it: items have no `kind` and no `apiVersion`.
    async fn pods(&self, fields: &str) -> Result<Value, ApiError> {
        let params = ListParams::default().fields(fields);
        let (pods, _) = self.client.api::<Pod>().list("", &params).await?;
        let items = pods.iter().map(|pod| {
            let mut pod = value_of(pod).unwrap_or_default();
            if let Some(fields) = pod.as_object_mut() {
                fields.retain(|name, _| name != "kind" && name != "apiVersion");
            }
            pod
        });
        Ok(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items.collect::<Vec<_>>()}))
    }

    /// The current resource usage of the pods of a node.
    async fn usage(&self, node: &str) -> Result<NodeUsage, ApiError> {
        let params = ListParams::default().fields(&of_node(node));
        let (pods, _) = self.client.api::<Pod>().list("", &params).await?;
        let mut external = self.external_usage(&pods).await?;
        match (&self.real, &self.programs) {
            (Some(real), _) if real.has_node(node) => external.measured = Arc::new(real.usage().await),
            (_, Some(programs)) => external.measured = programs.usage().await,
            (_, None) => {}
        }
        let (_, served) = self.serving.get();
        let mut counters = self.cpu_counters.lock().unwrap_or_else(PoisonError::into_inner);
        if counters.len() > served.len() {
            counters.retain(|name, _| served.contains(name));
        }
        let counters = counters.entry(node.to_owned()).or_default();
        Ok(NodeUsage::sample(node, &pods, &external, self.clock.now(), counters))
    }
}
