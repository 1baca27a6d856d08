//! The simulated node's own server: its health and its pods. Figures that a simulated node does not have are not made up.

use super::Streams;
use super::http::{Answer, answer, serve};
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kstore_api::status::Status;
use kstore_client::{ListParams, NodeStream};
use serde_json::{Value, json};

const TEXT: &str = "text/plain; charset=utf-8";

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
        let known = match request.uri().path() {
            "/healthz" | "/healthz/ping" | "/healthz/syncloop" => Some(None),
            "/pods" | "/pods/" => Some(Some(format!("spec.nodeName={node}"))),
            "/runningpods" | "/runningpods/" => {
                Some(Some(format!("spec.nodeName={node},status.phase=Running")))
            }
            _ => None,
        };
        match (known, request.method()) {
            (None, _) => answer(StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
            (Some(_), method) if !matches!(*method, Method::GET | Method::HEAD) => {
                answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "405: Method Not Allowed")
            }
            (Some(None), _) => answer(StatusCode::OK, TEXT, "ok"),
            (Some(Some(fields)), _) => match self.pods(&fields).await {
                Ok(pods) => answer(StatusCode::OK, "application/json", pods.to_string()),
                Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
            },
        }
    }

    /// A `PodList`, as a kubelet writes it: items do not repeat what they are.
    async fn pods(&self, fields: &str) -> Result<Value, kstore_client::ApiError> {
        let params = ListParams::default().fields(fields);
        let (pods, _) = self.client.api::<Pod>().list("", &params).await?;
        let items = pods.iter().map(|pod| {
            let mut pod = serde_json::to_value(pod).unwrap_or_default();
            if let Some(fields) = pod.as_object_mut() {
                fields.retain(|name, _| name != "kind" && name != "apiVersion");
            }
            pod
        });
        Ok(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items.collect::<Vec<_>>()}))
    }
}
