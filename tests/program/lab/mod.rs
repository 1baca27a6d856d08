//! The lab in the program, driven as users of other languages do: kubectl and HTTP against the real binary.

mod faults;
mod memory;
mod run;

use crate::SERVER;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use kstore_client::Kubeconfig;
use kstore_tests::wait::until;
use kstore_tests::webhooks::reviewed;
use kstore_tests::{Https, Launch, Server, TlsServer};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tower::ServiceExt as _;

const LAB: &str = "/kstore/lab/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// A server in memory with these flags, and an administrator's connection.
fn start(dir: &Path, flags: &[&str]) -> (Server, Https) {
    let server = Launch::in_memory(SERVER, dir).args(flags).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    (server, https)
}

/// Sends a call of the lab. Returns code and answer. Calls that wait for clients do so until the busiest machine is done, unless the body
/// says otherwise: their ten seconds are of real time.
async fn lab(https: &Https, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut body = body.clone();
    let is_waiting = ["/settled", "/quiet", "/advance"].iter().any(|end| path.ends_with(end));
    if let Some(body) = body.as_object_mut().filter(|_| is_waiting) {
        body.entry("patience").or_insert(json!("10m"));
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = https.call(method, &format!("{LAB}{path}"), &body).await;
    (reply.code, reply.json())
}

/// A connection to the cluster of a kubeconfig.
fn of_kubeconfig(text: &Value, dir: &Path) -> Https {
    Https::new(&Kubeconfig::parse(text.as_str().unwrap(), dir).unwrap())
}

fn map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

/// A CronJob that runs at each full hour, and whose Jobs stay.
fn hourly(name: &str) -> String {
    let container = json!({"name": "a", "image": "a", "command": ["true"]});
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let spec = json!({"schedule": "0 * * * *", "successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": {"template": pod}}});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}).to_string()
}

/// The times at which the Jobs were made, ascending.
async fn job_times(https: &Https) -> Vec<String> {
    let jobs = https.call("GET", JOBS, "").await.json();
    let time = |job: &Value| job["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    let mut times: Vec<String> = jobs["items"].as_array().unwrap().iter().map(time).collect();
    times.sort_unstable();
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_flag_the_program_has_no_lab() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path(), &["--nodes", "0"]);
    for path in ["", "/clock", "/clusters"] {
        assert_eq!(lab(&https, "GET", path, &Value::Null).await.0, 404, "{path}");
    }
    let unknown = https.call("POST", "/kstore/unknown", "").await;
    assert_eq!(lab(&https, "POST", "/settled", &Value::Null).await, (unknown.code, unknown.json()));
    let reply = https.call("GET", MAPS, "").await;
    assert!(reply.code == 200 && !reply.headers.contains_key("lab-time"), "{:?}", reply.headers);
    let http2 = https.http2().await;
    let call = http::Request::post(format!("{}/kstore.lab.v1.Lab/GetInfo", server.address()))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::empty())
        .unwrap();
    let answer = http2.oneshot(call).await.unwrap();
    let status = answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    assert_eq!(status.as_deref(), Some("12"), "no service answers: {:?}", answer.headers());
    assert_eq!(answer.status(), http::StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "application/grpc");
    assert!(threads(&server).iter().all(|name| !name.starts_with("lab")), "{:?}", threads(&server));
}

/// The names of a server's threads.
fn threads(server: &Server) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(|task| name(task.unwrap()).trim().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hours_of_cron_jobs_pass_in_one_call_and_forks_go_their_own_way() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--lab",
        "--lab-clock",
        "manual",
        "--lab-start",
        "2026-03-01T00:00:30Z",
        "--lab-seed",
        "7",
        "--nodes",
        "1",
    ];
    let (_server, https) = start(dir.path(), &flags);
    let (code, info) = lab(&https, "GET", "", &Value::Null).await;
    assert_eq!((code, &info["cluster"], &info["clock"]["mode"]), (200, &json!("main"), &json!("manual")));
    assert_eq!(info["clock"]["time"], "2026-03-01T00:00:30Z", "no time has passed");
    for number in 0..2 {
        let path = "/apis/batch/v1/namespaces/default/cronjobs";
        assert_eq!(https.call("POST", path, &hourly(&format!("hourly-{number}"))).await.code, 201);
    }
    let (code, settled) = lab(&https, "POST", "/settled", &json!({})).await;
    assert_eq!((code, &settled["settled"]), (200, &json!(true)), "{settled}");
    let (code, fork) = lab(&https, "POST", "/clusters", &json!({"name": "other"})).await;
    assert_eq!((code, &fork["seed"]), (201, &json!(7)), "{fork}");
    let (code, advanced) = lab(&https, "POST", "/clock/advance", &json!({"by": "3h"})).await;
    assert_eq!((code, &advanced["ended"]), (200, &json!("there")), "{advanced}");
    let times = job_times(&https).await;
    assert_eq!(times.len(), 6, "each hour, two");
    assert!(times.iter().all(|time| time.ends_with(":00:00Z")), "{times:?}");
    let other = of_kubeconfig(&fork["kubeconfig"], dir.path());
    assert_eq!(job_times(&other).await, Vec::<String>::new(), "the fork's clock stands");
    assert_eq!(other.call("POST", MAPS, &map("a")).await.code, 201);
    assert_eq!(https.call("GET", &format!("{MAPS}/a"), "").await.code, 404);
    let (code, advanced) = lab(&https, "POST", "/clusters/other/clock/advance", &json!({"by": "1h"})).await;
    assert_eq!((code, job_times(&other).await.len()), (200, 2), "{advanced}");
    assert_eq!(lab(&https, "DELETE", "/clusters/other", &Value::Null).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_not_an_administrators_are_refused_and_busy_clients_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--lab", "--lab-clock", "manual", "--components", "apiserver"];
    let (_server, https) = start(dir.path(), &flags);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(https.call("POST", accounts, &account.to_string()).await.code, 201);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    let bindings = format!("/apis/{group}/v1/clusterrolebindings");
    assert_eq!(https.call("POST", &bindings, &binding.to_string()).await.code, 201);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let token = https.call("POST", &format!("{accounts}/robot/token"), &request.to_string()).await.json();
    let bearer = format!("Authorization: Bearer {}\r\n", token["status"]["token"].as_str().unwrap());
    let robot = https.without_certificate();
    let path = format!("{LAB}/clock");
    assert_eq!(robot.call_with("GET", MAPS, &bearer, "").await.code, 200, "RBAC grants the API");
    let refused = robot.call_with("GET", &path, &bearer, "").await;
    assert!(refused.code == 403 && refused.json()["message"].as_str().unwrap().contains("system:masters"));
    assert_eq!(robot.call("GET", &path, "").await.code, 403, "anonymous");

    let busy = json!({"match": {"agent": "worker"}, "busy": true});
    assert_eq!(lab(&https, "PUT", "/clients/worker", &busy).await.0, 200);
    let (code, status) = lab(&https, "POST", "/settled", &json!({"patience": "200ms"})).await;
    assert_eq!(code, 504);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("client worker: says that it is busy"), "{message}");
    assert_eq!(lab(&https, "PUT", "/clients/worker", &json!({"busy": false})).await.0, 200);
    let (code, settled) = lab(&https, "POST", "/settled", &json!({})).await;
    assert_eq!(code, 200, "{settled}");

    // A token ends by the cluster's clock.
    assert_eq!(lab(&https, "POST", "/clock/advance", &json!({"by": "2h"})).await.0, 200);
    assert_eq!(robot.call_with("GET", MAPS, &bearer, "").await.code, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_real_time_stays_there_and_its_forks_may_have_another_clock() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path(), &["--lab", "--nodes", "1"]);
    assert!(threads(&server).iter().all(|name| !name.starts_with("lab")), "the process's threads serve it");
    let (code, status) = lab(&https, "PUT", "/clock", &json!({"mode": "manual"})).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        code == 422 && message.contains("--lab-clock") && message.contains("POST /clusters"),
        "{message}"
    );
    for (path, body) in [("/clock/advance", json!({"by": "1h"})), ("/clock/leap", json!({"by": "1h"}))] {
        assert_eq!(lab(&https, "POST", path, &body).await.0, 422, "{path}");
    }
    let reply = https.call("POST", MAPS, &map("a")).await;
    assert!(reply.code == 201 && reply.headers.contains_key("lab-time"), "{:?}", reply.headers);
    let (_, log) = lab(&https, "GET", "/requests?client=https-test&verb=create", &Value::Null).await;
    assert_eq!(log["requests"][0]["resource"], "configmaps", "{log}");
    let settled = until("the cluster is settled", async || {
        let (code, settled) = lab(&https, "POST", "/settled", &json!({})).await;
        (code == 200).then_some(settled)
    });
    assert_eq!(settled.await["settled"], true);
    assert_eq!(lab(&https, "POST", "/images", &json!({"name": "prepared"})).await.0, 201);
    let fork = json!({"name": "later", "clock": {"mode": "manual"}});
    let (code, fork) = lab(&https, "POST", "/clusters", &fork).await;
    assert_eq!(code, 201, "{fork}");
    let later = of_kubeconfig(&fork["kubeconfig"], dir.path());
    assert_eq!(later.call("GET", &format!("{MAPS}/a"), "").await.code, 200);
    assert_eq!(
        later.call("POST", "/apis/batch/v1/namespaces/default/cronjobs", &hourly("h")).await.code,
        201
    );
    let (code, advanced) = lab(&later, "POST", "/clock/advance", &json!({"by": "3h"})).await;
    assert_eq!((code, job_times(&later).await.len()), (200, 3), "{advanced}");
    https.call("POST", MAPS, &map("b")).await;
    // At the port of the fork: a reset ends the connections of its own.
    assert_eq!(lab(&later, "POST", "/clusters/main/reset", &json!({"to": "prepared"})).await.0, 200);
    let names = https.call("GET", MAPS, "").await.json().to_string();
    assert!(names.contains("\"a\"") && !names.contains("\"b\""), "{names}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_stands_while_a_webhook_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let webhooks = TlsServer::bind("hook.default.svc").await;
    let (address, ca) = (webhooks.address(), webhooks.ca_bundle());
    let answer = |body: Bytes| async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        reviewed(&serde_json::from_slice(&body).unwrap(), json!({"allowed": true})).to_string()
    };
    let _serving = webhooks.serve(Router::new().route("/slow", post(answer)));
    let resolve = format!("default/hook={address}");
    let flags = ["--lab", "--lab-clock", "manual", "--nodes", "1", "--webhook-service-resolve", &resolve];
    let (_server, https) = start(dir.path(), &flags);
    let hook = json!({"name": "slow.hooks.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 20, "failurePolicy": "Fail",
        "clientConfig": {"caBundle": ca, "service": {"namespace": "default", "name": "hook", "path": "/slow"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"}, "webhooks": [hook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(https.call("POST", path, &configuration.to_string()).await.code, 201);
    assert_eq!(
        https.call("POST", "/apis/batch/v1/namespaces/default/cronjobs", &hourly("h")).await.code,
        201
    );
    let (code, settled) = lab(&https, "POST", "/settled", &json!({})).await;
    assert_eq!(code, 200, "{settled}");
    let (code, advanced) = lab(&https, "POST", "/clock/advance", &json!({"by": "4h"})).await;
    assert_eq!((code, &advanced["ended"]), (200, &json!("there")), "{advanced}");
    let times = job_times(&https).await;
    assert_eq!(times.len(), 4, "each Job was admitted: {times:?}");
    assert!(times.iter().all(|time| time.contains(":00:0")), "at its hour: {times:?}");
    assert!(advanced["barriers"].as_u64() >= Some(4), "{advanced}");
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_of_the_server_have_their_effect_in_the_lab() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
        .unwrap();
    let log = dir.path().join("audit.log");
    let (policy, shown) = (policy.display().to_string(), log.display().to_string());
    let flags = [
        "--lab",
        "--lab-clock",
        "manual",
        "--nodes",
        "2",
        "--service-cluster-ip-range",
        "10.9.0.0/24",
        "--anonymous-auth=false",
        "--enable-admission-plugins",
        "AlwaysPullImages",
        "--audit-policy-file",
        &policy,
        "--audit-log-path",
        &shown,
        "--name",
        "blue",
    ];
    let (server, https) = start(dir.path(), &flags);
    let (code, settled) = lab(&https, "POST", "/settled", &json!({})).await;
    assert_eq!(code, 200, "{settled}");
    let nodes = https.call("GET", "/api/v1/nodes", "").await.json();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 2);
    let service = https.call("GET", "/api/v1/namespaces/default/services/kubernetes", "").await.json();
    assert_eq!(service["spec"]["clusterIP"], "10.9.0.1");
    assert_eq!(https.without_certificate().call("GET", "/version", "").await.code, 401);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", "image": "a", "imagePullPolicy": "IfNotPresent"}]}});
    let pod = https.call("POST", "/api/v1/namespaces/default/pods", &pod.to_string()).await.json();
    assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let metrics = json!({"object": "apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io", "condition": "Available"});
    let (code, answer) = lab(&https, "POST", "/wait", &metrics).await;
    assert_eq!(code, 200, "the metrics server answers: {answer}");
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    assert!(kubeconfig.contains("kstore-blue"), "the name of the cluster");
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("/api/v1/namespaces/default/pods"), "requests are in the audit log");
    assert!(!log.contains(LAB), "and calls of the lab are not");
}
