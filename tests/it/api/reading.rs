//! Helpers of the tests of lists, watches and content: what they make, ask for and read. No test is here.

use http_body_util::Full;
use kstore_tests::{Cluster, Reply};
use serde_json::{Value, json};

/// A ConfigMap with these labels.
pub(super) fn config_map(name: &str, labels: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"n": name}})
        .to_string()
}

/// GET of a path with a query.
pub(super) async fn query(cluster: &Cluster, path: &str, query: &str) -> Reply {
    cluster.rest().call("GET", &format!("{path}?{query}"), "").await
}

/// The list of ConfigMaps that a query asks for.
pub(super) async fn configs(cluster: &Cluster, text: &str) -> Value {
    let list = query(cluster, "/api/v1/namespaces/default/configmaps", text).await;
    assert_eq!(list.code, 200, "{text}: {}", list.json());
    list.json()
}

/// The names of a list's items.
pub(super) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A request with headers and without a body.
pub(super) async fn ask(cluster: &Cluster, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request = http::Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    cluster.rest().send(request.body(Full::default()).unwrap()).await
}
