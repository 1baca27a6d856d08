//! Tests of whole clusters, which clients drive over TLS on the loopback interface from another runtime than the clusters'.

mod apart;
mod client;
mod clocks;
mod converging;
mod files;
mod forks;
mod grpc;
mod legal;
mod node_faults;
mod order;
mod perturbing;
mod programs;
mod random;
mod settling;
mod shown;
mod views;
mod webhooks;

use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::limits;
use crate::registry::{Lab, LabConfig};
use client::TestClient;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// A lab with a first cluster, and an administrator's client of it.
async fn lab(mode: Mode, components: ComponentChoice) -> (Arc<Lab>, TestClient) {
    let start = Some("2026-03-01T00:00:00Z".parse().unwrap());
    lab_with(LabConfig { components, mode, start, seed: Some(7), ..LabConfig::default() }).await
}

/// A lab of this configuration, and an administrator's client of its first cluster.
async fn lab_with(config: LabConfig) -> (Arc<Lab>, TestClient) {
    let lab = Lab::start(config).await.unwrap();
    let kubeconfig = lab.cluster("main").unwrap().report().unwrap().kubeconfig;
    (lab, TestClient::of(&kubeconfig, "test"))
}

/// A CronJob that runs at each full hour, and whose Jobs stay.
fn hourly(name: &str) -> Value {
    let container = json!({"name": "a", "image": "a", "command": ["true"]});
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": {
        "schedule": "0 * * * *", "successfulJobsHistoryLimit": 100,
        "jobTemplate": {"spec": {"template": pod}}}})
}

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_administrators_may_call_the_lab() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let info = admin.lab(Method::GET, "", None).await;
    assert_eq!(
        (info.code, &info.body["version"], &info.body["cluster"]),
        (200, &json!("v1"), &json!("main"))
    );
    assert_eq!(admin.anonymous().lab(Method::GET, "", None).await.code, 403);
    let user = admin.lab(Method::POST, "/kubeconfigs", Some(json!({"user": "ann"}))).await;
    let ann = TestClient::of(user.body["kubeconfig"].as_str().unwrap(), "ann");
    assert_eq!(ann.lab(Method::GET, "", None).await.code, 403);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    admin.api(Method::POST, "/api/v1/namespaces/default/serviceaccounts", Some(account)).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "robot"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": "cluster-admin"}, "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.api(Method::POST, bindings, Some(binding)).await.code, 201);
    let token =
        admin.lab(Method::POST, "/kubeconfigs", Some(json!({"serviceAccount": "default/robot"}))).await;
    let robot = TestClient::of(token.body["kubeconfig"].as_str().unwrap(), "robot");
    assert_eq!(robot.api(Method::GET, CONFIG_MAPS, None).await.code, 200, "RBAC grants the API");
    assert_eq!(robot.lab(Method::GET, "/clock", None).await.code, 403, "and not the lab");
    let log = admin.lab(Method::GET, "/requests?user=system:serviceaccount:default:robot", None).await;
    let logged: Vec<&Value> =
        log.body["requests"].as_array().unwrap().iter().map(|row| &row["resource"]).collect();
    assert_eq!(logged, [&json!("configmaps")], "calls of the lab are in no log");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_calls_are_refused_by_name() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let refused = async |method: Method, path: &str, body: Value| {
        let answer = admin.lab(method, path, Some(body)).await;
        (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned())
    };
    let (code, message) = refused(Method::POST, "/clock/advance", json!({"buy": "1h"})).await;
    assert_eq!((code, message.as_str()), (400, "/buy: is no member; did you mean \"by\"?"));
    let (code, message) = refused(Method::POST, "/clock/advance", json!({"by": "1h"})).await;
    assert!(code == 422 && message.contains("manual"), "{code} {message}");
    assert_eq!(refused(Method::GET, "/clusters/none", Value::Null).await.0, 404);
    assert_eq!(refused(Method::POST, "/clusters", json!({"count": 257})).await.0, 400);
    assert_eq!(refused(Method::PUT, "/clock", json!({"mode": "scaled", "factor": 0.001})).await.0, 400);
    assert_eq!(refused(Method::POST, "/programs", json!({"name": "a", "command": ["true"]})).await.0, 403);
    assert_eq!(refused(Method::GET, "/nothing", Value::Null).await.0, 404);
    let large = Value::String("x".repeat(crate::limits::BODY_BYTES));
    assert_eq!(refused(Method::POST, "/images", large).await.0, 413);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_checked_once_for_each_request_and_again_for_the_next() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    admin.api(Method::POST, accounts, Some(account)).await;
    let token =
        admin.lab(Method::POST, "/kubeconfigs", Some(json!({"serviceAccount": "default/robot"}))).await;
    let robot = TestClient::of(token.body["kubeconfig"].as_str().unwrap(), "robot");
    let counted = async || {
        let metrics = admin.api(Method::GET, "/metrics", None).await.body;
        let text = metrics.as_str().unwrap().to_owned();
        let row = text.lines().find(|line| line.starts_with("authentication_attempts{result=\"success\"}"));
        row.unwrap().rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let before = counted().await;
    for _ in 0..3 {
        assert_eq!(robot.api(Method::GET, CONFIG_MAPS, None).await.code, 403, "it authenticates");
    }
    assert_eq!(counted().await - before, 3 + 1, "one more is the second look at the metrics");
    assert_eq!(admin.api(Method::DELETE, &format!("{accounts}/robot"), None).await.code, 200);
    // The cache of accounts may show it for a moment, as in Kubernetes.
    let is_refused = async || robot.api(Method::GET, CONFIG_MAPS, None).await.code == 401;
    let refused = tokio::time::timeout(limits::PATIENCE, async { while !is_refused().await {} }).await;
    assert!(refused.is_ok(), "the account is gone");
    lab.end().await;
}
