//! Attacks by single requests on the program, over TLS, by users that the administrator impersonates:
//! permissions with side effects, one small request that costs too much, and numbers that crash a component.

use super::sockets::https;
use crate::SERVER;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_tests::wait::{PATIENCE, until};
use kstore_tests::{Https, Launch, Reply};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";

/// Upper bound of the processor time of one request. Before the limits existed, each took minutes or all memory.
const REQUEST: Duration = Duration::from_secs(30);

/// Sends a request as `user`, or as the administrator if `user` is empty, with additional headers.
async fn send(https: &Https, user: &str, (method, path): (&str, &str), more: &str, body: &str) -> Reply {
    let impersonate = if user.is_empty() { String::new() } else { format!("Impersonate-User: {user}\r\n") };
    let content_type = if more.contains("Content-Type") { "" } else { "Content-Type: application/json\r\n" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\n{impersonate}{content_type}{more}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = timeout(PATIENCE, async {
        let mut tls = https.try_connect().await.unwrap();
        tls.write_all(head.as_bytes()).await.unwrap();
        let _ = tls.write_all(body.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tls.read_to_end(&mut answer).await;
        answer
    });
    let answer = answer.await.unwrap_or_else(|_| panic!("{method} {path} takes too long"));
    kstore_tests::parse_reply(&answer)
}

async fn make(https: &Https, path: &str, object: Value) {
    let made = send(https, "", ("POST", path), "", &object.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
}

/// Grants a user these rules, in all namespaces.
async fn allow(https: &Https, user: &str, rules: Value) {
    let api = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    make(https, &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}});
    make(https, &format!("{RBAC}/clusterrolebindings"), binding).await;
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_grant_no_more_than_they_state() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let https = https(&server);
    let certificates = "certificates.k8s.io";
    let roles = "rbac.authorization.k8s.io";
    allow(&https, "patcher", json!([rule(roles, "clusterroles", &["get", "patch"])])).await;
    let approval = json!([
        rule(certificates, "certificatesigningrequests/approval", &["update", "patch"]),
        rule(certificates, "certificatesigningrequests", &["get", "create"]),
    ]);
    allow(&https, "approver", approval).await;
    let label = json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    let merge = format!("Content-Type: {MERGE}\r\n");
    let (path, label) = (format!("{RBAC}/clusterroles/cluster-admin"), label.to_string());
    let escalated = send(&https, "patcher", ("PATCH", &path), &merge, &label).await;
    assert_eq!(escalated.code, 403, "a label escalates: {}", escalated.json());
    let mut masters = CertificateParams::default();
    masters.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let request = masters.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let wanted = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "masters"}, "spec": {"signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"], "request": STANDARD.encode(request)}});
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let refused = send(&https, "approver", ("POST", path), "", &wanted.to_string()).await;
    assert_eq!(refused.code, 403, "a certificate of system:masters: {}", refused.json());
    server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_request_blocks_or_crashes_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let https = https(&server);
    let pod = |member: &str, value: Value| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let (parent, name) = member.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[name] = value;
        pod.to_string()
    };
    let many = |count: usize, item: Value| Value::Array(vec![item; count]);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"});
    let mut controller = owner.clone();
    controller["controller"] = json!(true);
    let words = many(250, json!("x"));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"apiGroups": words, "resources": words, "verbs": words}]});
    let bodies = [
        (PODS.to_owned(), pod("/spec/containers/0/ports", many(8_000, json!({"containerPort": 80})))),
        (PODS.to_owned(), pod("/metadata/ownerReferences", many(30_000, owner))),
        (PODS.to_owned(), pod("/metadata/ownerReferences", many(4_000, controller))),
        (PODS.to_owned(), pod("/spec/schedulingGates", many(30_000, json!({"name": "g"})))),
        (format!("{RBAC}/clusterroles"), role.to_string()),
    ];
    for (path, body) in bodies {
        let path = format!("{path}?dryRun=All");
        let before = server.processor_time();
        let reply = send(&https, "", ("POST", &path), "", &body).await;
        assert!((200..500).contains(&reply.code), "{path}: {}", reply.code);
        let took = server.processor_time() - before;
        assert!(took < REQUEST, "{path}: {took:?}");
    }
    let endless = "/api/v1/pods?watch=true&timeoutSeconds=9223372036854775807";
    let mut watch = https.try_connect().await.unwrap();
    watch.write_all(format!("GET {endless} HTTP/1.1\r\nHost: kstore\r\n\r\n").as_bytes()).await.unwrap();
    let mut status = [0; 12];
    timeout(PATIENCE, watch.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    let ended = timeout(Duration::from_millis(500), watch.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_err(), "the watch ended");
    assert_eq!(send(&https, "", ("GET", "/livez"), "", "").await.code, 200);
    server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extreme_numbers_crash_no_component_even_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::on_disk(SERVER, dir.path()).args(&["--nodes", "1"]);
    let server = launch.start().unwrap();
    let huge = |name: &str, annotations: Value, cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
    };
    let endless = json!({"kubelet-sim.kstore.io/create-seconds": "1e19"});
    let first = https(&server);
    make(&first, PODS, huge("a", json!({}), "9223372036854775807")).await;
    make(&first, PODS, huge("b", json!({}), "9223372036854775807")).await;
    make(&first, PODS, huge("c", endless, "1m")).await;
    make(&first, PODS, huge("d", json!({}), "1m")).await;
    runs(&first, "d").await;
    server.kill();
    let server = launch.start().unwrap();
    let second = https(&server);
    make(&second, PODS, huge("e", json!({}), "1m")).await;
    runs(&second, "e").await;
    server.terminate();
}

/// Waits until a pod runs.
async fn runs(https: &Https, name: &str) {
    let path = format!("{PODS}/{name}");
    until(&format!("{name} runs"), async || {
        let pod = send(https, "", ("GET", &path), "", "").await.json();
        (pod["status"]["phase"] == "Running").then_some(())
    })
    .await;
}
