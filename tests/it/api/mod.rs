//! The API as its clients see it, over REST: a module per area. What all of them need is here.

/// Server-side apply and the books on field ownership.
mod apply;
/// In which form an answer comes: encodings, rows, metadata alone.
mod content;
/// Which revision a list is of, and how it goes on in pages.
mod lists;
/// Patches of the other kinds.
mod patch;
/// What a watch begins with, tells, and ends with.
mod watches;

use http_body_util::Full;
use kstore_tests::{Cluster, Reply};
use serde_json::{Value, json};

/// A ConfigMap with these labels.
fn config_map(name: &str, labels: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"n": name}})
        .to_string()
}

/// GET of a path with a query.
async fn query(cluster: &Cluster, path: &str, query: &str) -> Reply {
    cluster.rest().call("GET", &format!("{path}?{query}"), "").await
}

/// The list of ConfigMaps that a query asks for.
async fn configs(cluster: &Cluster, text: &str) -> Value {
    let list = query(cluster, "/api/v1/namespaces/default/configmaps", text).await;
    assert_eq!(list.code, 200, "{text}: {}", list.json());
    list.json()
}

/// The names of a list's items.
fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A request with headers and without a body.
async fn ask(cluster: &Cluster, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request = http::Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    cluster.rest().send(request.body(Full::default()).unwrap()).await
}
