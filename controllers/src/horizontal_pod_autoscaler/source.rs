//! Reads metrics through the API server: from the resource, custom and external metrics APIs. Without
//! decisions.

use super::metric::selector_text;
use super::sample::{Reading, of_custom_pods, of_external, of_object, of_pods};
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier, MetricSpec};
use kstore_api::kind::lookup_api_version;
use kstore_client::{ApiError, Client};
use serde_json::Value;

const RESOURCES: &str = "/apis/metrics.k8s.io/v1beta1";
const CUSTOM: &str = "/apis/custom.metrics.k8s.io";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// Reads one entry of `spec.metrics` for the pods that `selector` selects.
pub(super) async fn read(client: &Client, spec: &MetricSpec, namespace: &str, selector: &str) -> Reading {
    let from = Source { client, namespace, selector };
    match (&spec.resource, &spec.container_resource, &spec.pods, &spec.object, &spec.external) {
        (Some(source), ..) if spec.type_ == "Resource" => {
            Reading::Pods(from.resource().await.and_then(|list| of_pods(&list, &source.name, None)))
        }
        (_, Some(source), ..) if spec.type_ == "ContainerResource" => {
            let container = Some(&*source.container);
            Reading::Pods(from.resource().await.and_then(|list| of_pods(&list, &source.name, container)))
        }
        (_, _, Some(source), ..) if spec.type_ == "Pods" => {
            Reading::Pods(from.pods(&source.metric).await.and_then(|list| of_custom_pods(&list)))
        }
        (_, _, _, Some(source), _) if spec.type_ == "Object" => {
            let read = from.object(&source.described_object, &source.metric).await;
            Reading::Total(read.and_then(|list| of_object(&list)))
        }
        (.., Some(source)) if spec.type_ == "External" => {
            Reading::Total(from.external(&source.metric).await.and_then(|list| of_external(&list)))
        }
        _ => Reading::Total(Err(String::new())),
    }
}

struct Source<'a> {
    client: &'a Client,
    namespace: &'a str,
    selector: &'a str,
}

impl Source<'_> {
    async fn resource(&self) -> Result<Value, String> {
        let selector = escape(self.selector);
        let path = format!("{RESOURCES}/namespaces/{}/pods?labelSelector={selector}", self.namespace);
        let fetched = self.get(&path, "get pods.metrics.k8s.io").await;
        fetched.map_err(|error| format!("unable to fetch metrics from resource metrics API: {error}"))
    }

    async fn pods(&self, metric: &MetricIdentifier) -> Result<Value, String> {
        let (name, own) = (escape(&metric.name), metric_selector(metric));
        let pods = escape(self.selector);
        let path = format!("namespaces/{}/pods/*/{name}?labelSelector={pods}{own}", self.namespace);
        self.custom(&path).await
    }

    async fn object(
        &self,
        object: &CrossVersionObjectReference,
        metric: &MetricIdentifier,
    ) -> Result<Value, String> {
        let name = escape(&metric.name);
        let own = metric_selector(metric);
        let query = own.strip_prefix('&').map(|own| format!("?{own}")).unwrap_or_default();
        if object.kind == "Namespace" {
            return self.custom(&format!("namespaces/{}/metrics/{name}{query}", object.name)).await;
        }
        let api_version = object.api_version.as_deref().unwrap_or_default();
        let resource = match lookup_api_version(api_version, &object.kind) {
            Some(row) => row.qualified(),
            None => {
                let found = crate::scale_target::resource(self.client, object).await?;
                format!("{}.{}", found.plural, found.group)
            }
        };
        let path = format!("namespaces/{}/{resource}/{}/{name}{query}", self.namespace, object.name);
        self.custom(&path).await
    }

    /// Reads from the custom metrics API in its preferred version.
    async fn custom(&self, path: &str) -> Result<Value, String> {
        let failed = |error: String| format!("unable to fetch metrics from custom metrics API: {error}");
        let group = match self.client.get_path(CUSTOM).await {
            Ok(bytes) => {
                serde_json::from_slice::<Value>(&bytes).map_err(|error| failed(error.to_string()))?
            }
            Err(error) if error.is_not_found() => {
                return Err(failed("no custom metrics API (custom.metrics.k8s.io) registered".to_owned()));
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let version = group["preferredVersion"]["version"].as_str().unwrap_or("v1beta1");
        let what = "get custom metrics";
        self.get(&format!("{CUSTOM}/{version}/{path}"), what).await.map_err(failed)
    }

    async fn external(&self, metric: &MetricIdentifier) -> Result<Value, String> {
        let name = escape(&metric.name);
        let selector = escape(&selector_text(metric.selector.as_ref()));
        let path = format!("{EXTERNAL}/namespaces/{}/{name}?labelSelector={selector}", self.namespace);
        let fetched = self.get(&path, &format!("get {}.external.metrics.k8s.io", metric.name)).await;
        fetched.map_err(|error| format!("unable to fetch metrics from external metrics API: {error}"))
    }

    /// Reads JSON. An unserved path is reported in the words of Kubernetes' clients.
    async fn get(&self, path: &str, what: &str) -> Result<Value, String> {
        let bytes = self.client.get_path(path).await.map_err(|error| error_message(&error, what))?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    }
}

fn error_message(error: &ApiError, what: &str) -> String {
    let is_plain = |text: &str| text == "404 page not found";
    match error.status() {
        Some(status) if is_plain(&status.message) => {
            format!("the server could not find the requested resource ({what})")
        }
        _ => error.to_string(),
    }
}

/// The selector of a metric as the end of a query string.
fn metric_selector(metric: &MetricIdentifier) -> String {
    match selector_text(metric.selector.as_ref()) {
        text if text.is_empty() => String::new(),
        text => format!("&metricLabelSelector={}", escape(&text)),
    }
}

/// Percent-encodes a part of a path or query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_escaped_in_queries() {
        assert_eq!(escape("app=web,tier in (a,b)"), "app%3Dweb%2Ctier%20in%20%28a%2Cb%29");
    }
}
