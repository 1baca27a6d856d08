//! What clients see of the API, row by row as `Kubernetes` has it: tables of requests and answers, through the REST door of a
//! cluster in memory.

/// Addresses of services and the networks they are from.
mod addresses;
/// API servers behind this one.
mod aggregated;
/// Server-side apply and the books on field ownership.
mod apply;
/// Optimistic concurrency under any interleaving.
mod concurrency;
/// In which form an answer comes: encodings, rows, metadata alone.
mod content;
/// Custom resources: definitions, and objects of the kinds that they define.
mod custom;
/// Documents of custom kinds: what changes with a definition, and what stays.
mod custom_documents;
/// What writers and watchers of a custom kind see while its definition changes.
mod custom_swaps;
/// The time that callers of the gRPC door give, and what is counted there.
mod deadlines;
/// The deletion state machine, and collections.
mod deletion;
/// Which resources there are, in every form in which clients ask.
mod discovery;
/// What documents about the API say, member by member.
mod documents;
/// Codes, reasons, texts and headers of refusals.
mod errors;
/// Requests as clients send them.
mod habits;
/// Health and the version.
mod health;
/// Who somebody is, acts as, and may do.
mod identity;
/// Defaults and refusals of the kinds of core, apps and batch.
mod kinds_core;
/// Kinds of all groups but the core, `apps` and `batch`, and what is there from the start.
mod kinds_other;
/// Which revision a list is of, and how it goes on in pages.
mod lists;
/// What the server keeps in metadata, generation above all.
mod metadata;
/// What is counted, held to the formats it is written in.
mod metrics;
/// What may stand in any object's metadata.
mod object_meta;
/// Documents of the API for people, kubectl and generators of clients.
mod openapi;
/// Query options.
mod options;
/// What may be written below objects, and what stays as it was.
mod parts;
/// Patches of the other kinds.
mod patch;
/// Admission policies: what they refuse, warn of and change.
mod policies;
/// Requests that are handed on to pods, services and nodes.
mod proxies;
/// Requests at random: none panics, and what is refused changes nothing.
mod random;
/// The words, reasons and causes of refusals, and the warnings that go along.
mod refusals;
/// Recorded answers of a Kubernetes apiserver.
mod replay;
/// Selectors of lists and watches.
mod selectors;
/// Which servers there are.
mod servers;
/// Logs, commands, terminals, files and ports of simulated containers, and watches over WebSockets.
mod streams;
/// Custom kinds in the style of well-known projects.
mod styles;
/// What is below an object.
mod subresources;
/// URLs, methods, the order in which requests are judged, bodies.
mod surface;
/// Rows and columns.
mod tables;
/// Several operations at one revision.
mod transactions;
/// Create, get, update, patch.
mod verbs;
/// Field selectors of custom kinds with several versions.
mod version_selectors;
/// Several versions of one custom kind, converted by a webhook.
mod versions;
/// What a watch begins with, tells, and ends with.
mod watches;
/// Metrics of webhooks and of API servers behind this one.
mod webhook_metrics;
/// Admission webhooks: what they see, and what becomes of their answers.
mod webhooks;

use http_body_util::Full;
use kstore_tests::{Cluster, Reply};
use serde_json::{Value, json};

pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A request, the code of its answer, and a part of its body: members that must be there with these values. A text that
/// begins with `~` must only be contained; `null` must be absent or null.
pub(super) struct Case {
    what: &'static str,
    method: &'static str,
    path: String,
    body: Value,
    code: u16,
    part: Value,
}

/// A case of a table.
pub(super) fn case(
    what: &'static str,
    (method, path): (&'static str, &str),
    body: Value,
    code: u16,
    part: Value,
) -> Case {
    Case { what, method, path: path.to_owned(), body, code, part }
}

/// Runs cases one after the other and says which answers differ.
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

/// Sends JSON; a PATCH with an array is a JSON patch, else a merge patch.
pub(super) async fn send(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let content_type = match (method, body) {
        ("PATCH", Value::Array(_)) => "application/json-patch+json",
        ("PATCH", _) => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call_as(method, path, content_type, body).await
}

/// Sends a request with headers of its own.
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

/// The texts of the answer's warnings.
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
