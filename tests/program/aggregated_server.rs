//! The kstore-server program and an aggregated API server on the same machine, over TLS. Requests, watches
//! and upgrades are proxied; the API server accepts them only from the front proxy; kubectl lists its
//! resources like any others. The form of proxied requests is tested in `api::aggregated` of the
//! binary `sim`.

use crate::SERVER;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use futures::StreamExt as _;
use hyper_util::rt::TokioIo;
use kstore_client::Kubeconfig;
use kstore_tests::wait::{PATIENCE, until};
use kstore_tests::{Https, Launch, TlsServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const GROUP: &str = "/apis/wardle.example.com/v1alpha1";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn flunder(name: &str) -> Value {
    json!({ "apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder",
        "metadata": { "name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z" } })
}

/// The aggregated API server: a list, a watch that sends one event and stays open, an echo after an upgrade,
/// and the requesting user.
fn wardle() -> Router {
    let resources = json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1alpha1", "resources": [
        { "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get", "list", "watch"] }] });
    let below = format!("{GROUP}/namespaces/default/flunders");
    Router::new()
        .route(GROUP, get(move || async move { json(&resources) }))
        .route(&below, get(flunders))
        .route(&format!("{below}/{{name}}/echo"), any(echo))
        .route(&format!("{below}/{{name}}/requesting_user"), get(requesting_user))
}

fn json(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

async fn flunders(request: Request) -> Response {
    if !request.uri().query().unwrap_or_default().contains("watch=true") {
        return json(&json!({ "apiVersion": "wardle.example.com/v1alpha1", "kind": "FlunderList",
            "metadata": { "resourceVersion": "7" }, "items": [flunder("one"), flunder("two")] }));
    }
    let event = format!("{}\n", json!({ "type": "ADDED", "object": flunder("one") }));
    let first = futures::stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(event)) });
    let body = Body::from_stream(first.chain(futures::stream::pending()));
    ([("content-type", "application/json")], body).into_response()
}

async fn echo(request: Request) -> Response {
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            stream.write_all(&buffer[..length].to_ascii_uppercase()).await.unwrap();
        }
    });
    (StatusCode::SWITCHING_PROTOCOLS, [("connection", "Upgrade"), ("upgrade", "echo")]).into_response()
}

async fn requesting_user(headers: HeaderMap) -> Response {
    let said = headers.get_all("x-remote-group").iter().map(|value| value.to_str().unwrap().to_owned());
    json(&json!({ "user": headers["x-remote-user"].to_str().unwrap(), "groups": said.collect::<Vec<_>>() }))
}

async fn until_available(https: &Https, wanted: &str) {
    until(&format!("Available is {wanted}"), async || {
        let path = format!("{SERVICES}/v1alpha1.wardle.example.com");
        let service = https.call("GET", &path, "").await.json();
        (service["status"]["conditions"][0]["status"] == wanted).then_some(())
    })
    .await;
}

/// Reads until the text has arrived.
async fn read_until(stream: &mut (impl tokio::io::AsyncRead + Unpin), wanted: &str) -> String {
    let mut seen = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(wanted) {
            let length = stream.read(&mut buffer).await.unwrap();
            assert!(length > 0, "the connection ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..length]);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("it comes soon");
    String::from_utf8(seen).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregated_api_server_on_this_machine_is_served_through_the_apiserver() {
    let dir = tempfile::tempdir().unwrap();
    let wardle_server = TlsServer::bind("wardle.default.svc").await;
    let (address, ca_bundle) = (wardle_server.address(), wardle_server.ca_bundle());
    let resolve = format!("default/wardle={address}");
    let launch = Launch::in_memory(SERVER, dir.path()).args(&["--webhook-service-resolve", &resolve]);
    let server = launch.start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    // Like every aggregated API server, it reads the front proxy's authority from this ConfigMap.
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = https.call("GET", map, "").await.json()["data"].clone();
    assert_eq!(data["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    assert_ne!(data["requestheader-client-ca-file"], data["client-ca-file"], "a client is no front proxy");
    let authority = data["requestheader-client-ca-file"].as_str().unwrap();
    let serving = wardle_server.serve_clients_of(authority, wardle());
    let service = json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": "v1alpha1.wardle.example.com" },
        "spec": { "group": "wardle.example.com", "version": "v1alpha1", "groupPriorityMinimum": 100, "versionPriority": 1,
            "caBundle": ca_bundle, "service": { "namespace": "default", "name": "wardle" } } });
    let made = https.call("POST", SERVICES, &service.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
    until_available(&https, "True").await;

    let flunders = format!("{GROUP}/namespaces/default/flunders");
    assert_eq!(https.call("GET", &flunders, "").await.json()["items"].as_array().unwrap().len(), 2);
    let requesting_user = https.call("GET", &format!("{flunders}/one/requesting_user"), "").await.json();
    assert_eq!(
        requesting_user,
        json!({ "user": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"] })
    );
    let anonymous = https.without_certificate().call("GET", &flunders, "").await;
    assert_eq!(anonymous.code, 403, "{}", anonymous.json());

    // A watch delivers events while it is open.
    let mut watch = https.try_connect().await.unwrap();
    let request = format!("GET {flunders}?watch=true HTTP/1.1\r\nHost: here\r\n\r\n");
    watch.write_all(request.as_bytes()).await.unwrap();
    let seen = read_until(&mut watch, "\"ADDED\"").await;
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");

    let mut upgraded = https.try_connect().await.unwrap();
    let request = format!(
        "POST {flunders}/one/echo HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    );
    upgraded.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut upgraded, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    upgraded.write_all(b"hello").await.unwrap();
    assert_eq!(read_until(&mut upgraded, "HELLO").await, "HELLO");

    if let Some(mut kubectl) = server.kubectl(&["get", "flunders"]) {
        let output = kubectl.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let names: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["NAME", "one", "two"], "{said}{}", String::from_utf8_lossy(&output.stderr));
    }

    // When the API server is down, only its requests fail, at once.
    drop(serving);
    drop((watch, upgraded));
    let is_down = async || (https.call("GET", &flunders, "").await.code == 503).then_some(());
    until("requests to the ended server fail", is_down).await;
    assert_eq!(https.call("GET", "/api/v1/namespaces/default", "").await.code, 200);
    server.terminate();
}
