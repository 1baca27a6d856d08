//! The heaviest valid requests, many at a time, against the program: health checks are answered in time, so
//! that no supervisor restarts a working server.

use super::sockets::https;
use crate::SERVER;
use kstore_tests::{Https, Launch, wait};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt as _;

const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";

/// Number of concurrent attackers, equal to the server's limit for such requests.
const ATTACKERS: usize = 12;

/// Duration of the attack.
const ATTACK: Duration = Duration::from_secs(8);

/// Latest acceptable answer to a health check. Kubernetes' probes time out after a second; the goal is a
/// tenth of that.
const LATE: Duration = Duration::from_secs(1);

/// A pod with one container and this many environment variables, 40 bytes each.
fn pod(name: &str, variables: usize) -> Value {
    let variable = |number: usize| json!({"name": format!("V{number:07}"), "value": "x"});
    let env: Vec<Value> = (0..variables).map(variable).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "nginx", "env": env}]}})
}

/// Sends a request and returns the code.
async fn send(https: &Https, (method, path, content_type): (&str, &str, &str), body: &str) -> u16 {
    let Ok(mut tls) = https.try_connect().await else { return 0 };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = tls.write_all(head.as_bytes()).await;
    let _ = tls.write_all(body.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer).await;
    let line = String::from_utf8_lossy(&answer[..answer.len().min(12)]).into_owned();
    line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn liveness_is_answered_in_time_under_the_heaviest_valid_requests() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let https = Arc::new(https(&server));
    let large = pod("large", 12_000).to_string();
    assert_eq!(send(&https, ("POST", PODS, JSON), &large).await, 201);
    let one = format!("{PODS}/large");
    let mut operations = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {}})];
    let annotate = |number: usize| json!({"op": "add", "path": format!("/metadata/annotations/a{number}"), "value": "x"});
    operations.extend((0..9_000).map(annotate));
    let mut applied = pod("large", 12_000);
    applied["metadata"]["labels"] = json!({"a": "b"});
    let attacks = [
        ("POST", PODS.into(), JSON, pod("huge", 65_000).to_string()),
        ("PATCH", one.clone(), "application/json-patch+json", Value::from(operations).to_string()),
        ("PATCH", one.clone(), "application/strategic-merge-patch+json", pod("large", 65_000).to_string()),
        (
            "PATCH",
            one.clone(),
            "application/strategic-merge-patch+json",
            r#"{"metadata":{"labels":{"a":"b"}}}"#.into(),
        ),
        ("PATCH", one.clone(), "application/merge-patch+json", r#"{"metadata":{"labels":{"c":"d"}}}"#.into()),
        (
            "PATCH",
            format!("{one}?fieldManager=m&force=true"),
            "application/apply-patch+yaml",
            applied.to_string(),
        ),
    ];
    liveness_holds_under(&https, &attacks).await;
}

/// A kind whose objects may have a list of 1,000 numbers; nine rules compare every pair of them.
fn definition() -> Value {
    let rule = |sum: i32| json!({"rule": format!("self.all(a, self.all(b, a + b >= {sum}))")});
    let numbers = json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"},
        "x-kubernetes-validations": (-6..=2).map(rule).collect::<Vec<_>>()});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "sums.load.test"},
        "spec": {"group": "load.test", "scope": "Namespaced", "names": {"plural": "sums", "kind": "Sum"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"numbers": numbers}}}}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn liveness_is_answered_in_time_under_costly_cel_rules() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let https = Arc::new(https(&server));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&https, ("POST", definitions, JSON), &definition().to_string()).await, 201);
    let sum = json!({"apiVersion": "load.test/v1", "kind": "Sum", "metadata": {"generateName": "s-"},
        "numbers": vec![1; 330]});
    let sums = "/apis/load.test/v1/namespaces/default/sums?dryRun=All";
    // The first object teaches the server that the rules are costly.
    assert_eq!(send(&https, ("POST", sums, JSON), &sum.to_string()).await, 201);
    let attacks = [("POST", sums.to_owned(), JSON, sum.to_string())];
    liveness_holds_under(&https, &attacks).await;
}

/// Sends requests of all attackers for a while and checks that health checks are answered in time. A busy machine
/// delays a check now and then; a server that does not yield delays one in every attack.
async fn liveness_holds_under(https: &Arc<Https>, attacks: &[(&'static str, String, &'static str, String)]) {
    let codes: Arc<Mutex<Vec<u16>>> = Arc::default();
    let mut attackers = JoinSet::new();
    for number in 0..ATTACKERS {
        let (method, path, content_type, body) = attacks[number % attacks.len()].clone();
        let (https, codes) = (https.clone(), codes.clone());
        attackers.spawn(async move {
            loop {
                let code = send(&https, (method, &path, content_type), &body).await;
                codes.lock().unwrap().push(code);
            }
        });
    }
    let channel = https.http2().await;
    wait::within("the slowest health check of an attack", LATE, async || {
        let (begun, mut slowest, mut checks) = (Instant::now(), Duration::ZERO, 0);
        while begun.elapsed() < ATTACK || codes.lock().unwrap().is_empty() {
            let request =
                http::Request::get("https://kstore/livez").body(tonic::body::Body::empty()).unwrap();
            let asked = Instant::now();
            let response = channel.clone().oneshot(request).await.unwrap();
            let took = asked.elapsed();
            assert_eq!(response.status(), 200);
            slowest = slowest.max(took);
            checks += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("{checks} checks, the slowest took {slowest:?}");
        slowest
    })
    .await;
    // Requests in flight would take a debug build too long to finish.
    attackers.shutdown().await;
    let codes = codes.lock().unwrap().clone();
    println!("heavy requests were answered {codes:?}");
    assert!(!codes.is_empty(), "the server served heavy requests meanwhile");
    assert!(codes.iter().all(|code| [200, 201, 413, 422, 429].contains(code)), "{codes:?}");
}
