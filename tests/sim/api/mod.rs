//! The API as clients observe it, compared with Kubernetes: tables of requests and answers over REST, against
//! a cluster in memory.

/// Service addresses, and the networks that they are allocated from.
mod addresses;
/// Aggregated API servers.
mod aggregated;
/// Answers to writes: members that are null, warnings, both views of an event.
mod answers;
/// Server-side apply and managed fields.
mod apply;
/// Permissions for parts of the statuses of claims.
mod claim_statuses;
/// Optimistic concurrency under any interleaving of writers.
mod concurrency;
/// Caches that wait for the client's own writes.
mod consistency;
/// Representations of answers: encodings, tables, metadata only.
mod content;
/// Objects that cannot be read, and their deletion.
mod corrupt;
/// Custom resources: definitions, and objects of the defined kinds.
mod custom;
/// Server-side apply to custom objects, and their Scale.
mod custom_apply;
/// Discovery and OpenAPI documents of custom kinds.
mod custom_documents;
/// Writers and watchers of a custom kind while its definition changes.
mod custom_swaps;
/// Deadlines of gRPC calls, and their metrics.
mod deadlines;
/// Deletion of objects and collections.
mod deletion;
/// Discovery in every form.
mod discovery;
/// Documents about the API, field by field.
mod documents;
/// Independent operations in one call.
mod each;
/// Services of the network, by their EndpointSlices.
mod endpoint_slices;
/// Codes, reasons, messages and headers of error answers.
mod errors;
/// Requests exactly as clients send them.
mod habits;
/// Health checks and the version.
mod health;
/// Authentication, impersonation and permissions.
mod identity;
/// Initializers: objects that are hidden until programs have changed them.
mod initializers;
/// Defaults and validation of kinds in core, apps and batch.
mod kinds_core;
/// Kinds of other groups, and objects that exist from the start.
mod kinds_other;
/// Lists: revisions and pagination.
mod lists;
/// Server-managed metadata, mainly the generation.
mod metadata;
/// The metrics page and its formats.
mod metrics;
/// Servers of older versions of Kubernetes.
mod minors;
/// The network between simulated pods.
mod network;
/// What simulated pods reach beside each other: the API server, and what NetworkPolicies let through.
mod network_access;
mod network_nodes;
/// TLS between simulated pods, and webhooks and API servers that are pods.
mod network_tls;
/// The changes of one object.
mod object_history;
/// Validation of every object's metadata.
mod object_meta;
/// OpenAPI documents.
mod openapi;
/// Query options.
mod options;
/// Revisions in the answers of writes, for clients that wait until they see their own.
mod own_writes;
/// Subresources that write parts of an object.
mod parts;
/// Views of the cluster as of a revision.
mod past;
/// JSON, merge and strategic merge patches.
mod patch;
/// Pod certificate requests.
mod pod_certificates;
/// Admission policies.
mod policies;
/// Requests proxied to pods, services and nodes.
mod proxies;
/// Random requests: none causes a panic, and a refused one changes nothing.
mod random;
mod recorded;
/// Messages, reasons and causes of refusals, and warnings.
mod refusals;
/// Replay of recorded answers of a kube-apiserver.
mod replay;
/// Selectors of lists and watches.
mod selectors;
/// Leases of apiserver identities.
mod servers;
/// Logs, exec, attach, files and ports of simulated containers, and watches over WebSockets.
mod streams;
/// Custom kinds in the style of well-known projects.
mod styles;
/// Status, scale, binding and eviction.
mod subresources;
/// URLs, methods, the order of checks, and request bodies.
mod surface;
/// Tables.
mod tables;
/// Transactions over several objects.
mod transactions;
/// Create, get, update and patch.
mod verbs;
/// Every row by which versions of Kubernetes differ.
mod version_rows;
/// Field selectors of custom kinds with several versions.
mod version_selectors;
/// Custom kinds with several versions, converted by a webhook.
mod versions;
/// Watches: initial events, event order, and termination.
mod watches;
/// Metrics of webhooks and aggregated API servers.
mod webhook_metrics;
/// Admission webhooks.
mod webhooks;

use http_body_util::Full;
use kstore_tests::{Cluster, Reply};
use serde_json::{Value, json};

pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A request, the expected code, and expected members of the answer's body. A string that begins with `~`
/// must be contained; `null` must be absent or null.
pub(super) struct Case {
    what: &'static str,
    method: &'static str,
    path: String,
    body: Value,
    code: u16,
    part: Value,
}

/// One case of a table.
pub(super) fn case(
    what: &'static str,
    (method, path): (&'static str, &str),
    body: Value,
    code: u16,
    part: Value,
) -> Case {
    Case { what, method, path: path.to_owned(), body, code, part }
}

/// Runs cases one after the other and panics with all answers that differ.
pub(super) async fn run(cluster: &Cluster, cases: impl IntoIterator<Item = Case>) {
    let mut wrong = Vec::new();
    for case in cases {
        let reply = send(cluster, case.method, &case.path, &case.body).await;
        let mut differences = Vec::new();
        if reply.code != case.code {
            differences.push(format!("code {} instead of {}", reply.code, case.code));
        }
        compare("", &reply.json(), &case.part, &mut differences);
        if !differences.is_empty() {
            let shown: String = String::from_utf8_lossy(&reply.body).chars().take(600).collect();
            let (what, method, path) = (case.what, case.method, &case.path);
            wrong.push(format!("{what}: {method} {path}\n  {}\n  {shown}", differences.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Sends JSON. A PATCH with an array is a JSON patch, otherwise a merge patch.
pub(super) async fn send(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let content_type = match (method, body) {
        ("PATCH", Value::Array(_)) => "application/json-patch+json",
        ("PATCH", _) => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call_as(method, path, content_type, body).await
}

/// Sends a request with additional headers.
pub(super) async fn send_with(
    cluster: &Cluster,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Reply {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    cluster.rest().send(request.body(Full::default()).unwrap()).await
}

/// The texts of the answer's Warning headers.
pub(super) fn warnings(reply: &Reply) -> Vec<String> {
    reply.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn compare(at: &str, got: &Value, wanted: &Value, differences: &mut Vec<String>) {
    match wanted {
        Value::Object(members) => {
            for (name, wanted) in members {
                compare(&format!("{at}/{name}"), &got[name], wanted, differences);
            }
        }
        Value::String(text) if text.starts_with('~') => {
            let lacks = !got.as_str().unwrap_or_default().contains(&text[1..]);
            differences
                .extend(lacks.then(|| format!("{at} is {got}, which does not contain {:?}", &text[1..])));
        }
        _ if got != wanted => differences.push(format!("{at} is {got} instead of {wanted}")),
        _ => {}
    }
}

/// A ConfigMap with these labels.
fn config_map(name: &str, labels: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"n": name}})
        .to_string()
}

/// GET of a path with a query string.
async fn query(cluster: &Cluster, path: &str, query: &str) -> Reply {
    cluster.rest().call("GET", &format!("{path}?{query}"), "").await
}

/// The list of ConfigMaps for a query string.
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
