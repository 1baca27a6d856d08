//! The program and a webhook server on the same machine, over TLS: a service reference resolves through
//! `--webhook-service-resolve`, the server's certificate is verified, and a hostile server affects only the
//! requests sent to it.

use crate::SERVER;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use kstore_client::Kubeconfig;
use kstore_tests::wait::PATIENCE;
use kstore_tests::webhooks::reviewed;
use kstore_tests::{Https, Launch, TlsServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The webhook server's answers.
fn router() -> Router {
    Router::new()
        .route("/allow", post(|body: Bytes| async move { answer(&body, json!({"allowed": true})) }))
        .route("/deny", post(|body: Bytes| async move { answer(&body, json!({"allowed": false})) }))
        .route("/huge", post(|| async { "x".repeat(16 * 1024 * 1024) }))
        .route("/garbage", post(|| async { "}{" }))
        .route("/silent", post(std::future::pending::<String>))
}

fn answer(body: &[u8], response: Value) -> String {
    reviewed(&serde_json::from_slice(body).unwrap(), response).to_string()
}

fn hook(name: &str, path: &str, ca: &str) -> Value {
    // Only the silent server is meant to be late.
    let seconds = if name == "silent" { 1 } else { 30 };
    json!({"name": format!("{name}.hooks.test"), "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": seconds,
        "clientConfig": {"caBundle": ca, "service": {"namespace": "default", "name": "hook", "path": path}},
        "objectSelector": {"matchLabels": {"hook": name}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]})
}

fn map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"hook": name}}})
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_reference_reaches_a_webhook_server_on_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let webhooks = TlsServer::bind("hook.default.svc").await;
    let (address, ca) = (webhooks.address(), webhooks.ca_bundle());
    let _serving = webhooks.serve(router());
    let resolve = format!("default/hook={address}");
    let launch = Launch::in_memory(SERVER, dir.path()).args(&["--webhook-service-resolve", &resolve]);
    let server = launch.start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    let names = ["allow", "deny", "huge", "garbage", "silent"];
    let hooks: Vec<Value> = names.iter().map(|name| hook(name, &format!("/{name}"), &ca)).collect();
    let mut untrusted = hook("untrusted", "/allow", "");
    untrusted["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    let hooks: Vec<Value> = hooks.into_iter().chain([untrusted]).collect();
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "all"}, "webhooks": hooks});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let made = https.call("POST", path, &configuration.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
    // A request waits for a silent server while others are served.
    let slow = tokio::spawn({
        let https = https.clone();
        async move { https.call("POST", MAPS, &map("silent")).await }
    });
    let cases = [
        ("none", 201, ""),
        ("allow", 201, ""),
        ("deny", 400, "admission webhook \"deny.hooks.test\" denied the request without explanation"),
        ("huge", 500, "the answer is larger than 3145728 bytes"),
        ("garbage", 500, "failed calling webhook \"garbage.hooks.test\""),
        ("untrusted", 500, "x509: certificate signed by unknown authority"),
    ];
    for (name, code, text) in cases {
        let object = map(name);
        let asked = tokio::time::timeout(PATIENCE, https.call("POST", MAPS, &object));
        let reply = asked.await.unwrap();
        assert_eq!(reply.code, code, "{name}: {}", reply.json());
        let message = reply.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(text), "{name}: {message}");
    }
    let late = slow.await.unwrap();
    assert!(
        late.json()["message"].as_str().unwrap().ends_with("context deadline exceeded"),
        "{}",
        late.json()
    );
    server.terminate();
}
