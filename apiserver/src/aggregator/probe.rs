//! Requests of this server itself to aggregated API servers: the availability probe, discovery and OpenAPI documents. Only I/O:
//! `availability` and `discovery` interpret the responses.

use super::discovery::{self, ACCEPT};
use super::{Aggregator, ApiDocuments, ApiService, headers, itself};
use axum::body::Body;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::header::{ACCEPT as ACCEPT_HEADER, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kstore_api::openapi::GroupVersionExtract;
use kstore_storage::limits::{AGGREGATED_DOCUMENT_BYTES, AGGREGATED_PROBE};
use serde_json::Value;

/// Parallel attempts of one probe, as in kube-aggregator: one replica behind the Service that answers is enough.
const TRIES: usize = 5;

/// A complete response.
struct ProbeResponse {
    status: StatusCode,
    content_type: String,
    body: Vec<u8>,
}

impl Aggregator {
    /// Probes the discovery document of the group and version; any 2xx status is a success.
    ///
    /// # Errors
    /// The failure of the last attempt, in kube-aggregator's words.
    pub(super) async fn probe(&self, service: &ApiService) -> Result<(), String> {
        let path = service.path();
        let mut tries: FuturesUnordered<_> = (0..TRIES).map(|_| self.ask(service, &path, "*/*")).collect();
        let mut why = String::new();
        while let Some(answered) = tries.next().await {
            match answered {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) => {
                    why = format!("bad status from {}: {}", url(service, &path), answer.status.as_u16());
                }
                Err(failure) => why = failure,
            }
        }
        Err(why)
    }

    /// Fetches discovery and OpenAPI documents. A document that cannot be fetched keeps its value from `known`.
    pub(super) async fn documents(&self, service: &ApiService, known: Option<&ApiDocuments>) -> ApiDocuments {
        let (resources, index, swagger) = tokio::join!(
            self.resources(service),
            self.json(service, "/openapi/v3", "application/json"),
            self.json(service, "/openapi/v2", "application/json"),
        );
        let hash = |index: &Value| discovery::openapi_hash(index, &service.group, &service.version);
        ApiDocuments {
            resources: resources
                .or_else(|| known.map(|known| known.resources.clone()))
                .unwrap_or(Value::Array(Vec::new())),
            openapi_hash: match index {
                Some(index) => hash(&index),
                None => known.and_then(|known| known.openapi_hash.clone()),
            },
            swagger: match swagger {
                Some(document) => Some(GroupVersionExtract::of(document, &service.path())),
                None => known.and_then(|known| known.swagger.clone()),
            },
        }
    }

    async fn resources(&self, service: &ApiService) -> Option<Value> {
        let (group, version) = (&*service.group, &*service.version);
        let all = self.ask(service, "/apis", ACCEPT).await;
        let all = all.ok().filter(|answer| answer.status.is_success());
        let all = all.filter(|answer| discovery::is_aggregated(&answer.content_type));
        let found = all.and_then(|answer| serde_json::from_slice(&answer.body).ok());
        let found = found.and_then(|all: Value| discovery::of_aggregated(&all, group, version));
        if found.is_some() {
            return found;
        }
        let legacy = self.json(service, &service.path(), "application/json").await?;
        Some(discovery::of_legacy(&legacy, group, version))
    }

    async fn json(&self, service: &ApiService, path: &str, accept: &'static str) -> Option<Value> {
        match self.ask(service, path, accept).await {
            Ok(answer) if answer.status.is_success() => serde_json::from_slice(&answer.body).ok(),
            Ok(_) => None,
            Err(why) => {
                tracing::debug!(
                    api_service = &*service.name,
                    path,
                    why,
                    "a document of an API server is missing"
                );
                None
            }
        }
    }

    /// A GET by this server itself.
    async fn ask(
        &self,
        service: &ApiService,
        path: &str,
        accept: &'static str,
    ) -> Result<ProbeResponse, String> {
        let request = async {
            let mut request = Request::builder()
                .method(Method::GET)
                .uri(path)
                .header(ACCEPT_HEADER, accept)
                .body(Body::empty())
                .map_err(|error| error.to_string())?;
            headers::identify(request.headers_mut(), &itself()).map_err(|error| error.to_string())?;
            let answered = self.forward(service, request).await.map_err(|error| error.to_string())?;
            let (parts, body) = answered.into_parts();
            let body = Limited::new(body, AGGREGATED_DOCUMENT_BYTES).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes().to_vec();
            let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let content_type = content_type.unwrap_or_default().to_owned();
            Ok(ProbeResponse { status: parts.status, content_type, body })
        };
        let answered = tokio::time::timeout(AGGREGATED_PROBE, request).await;
        let answered = answered.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        answered.map_err(|why: String| format!("Get \"{}\": {why}", url(service, path)))
    }
}

fn url(service: &ApiService, path: &str) -> String {
    format!("https://{}:{}{path}", service.backend.host(), service.backend.port)
}
