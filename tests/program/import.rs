//! `kstore-server import`, and servers of imported data: read-only ones, and those that go on.

use crate::SERVER;
use kstore_client::{Gvr, Kubeconfig, ListParams};
use kstore_tests::wait::until;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Objects as `kubectl get -A -o yaml` prints them: a node with a running pod, what calls another program, a Secret and a custom kind.
const DUMP: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: worker-1, uid: 0b7a5d4e-0000-4000-8000-000000000001, resourceVersion: "9000"}
  status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}, allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, uid: 0b7a5d4e-0000-4000-8000-000000000002, resourceVersion: "9100"}
  spec: {nodeName: worker-1, containers: [{name: c, image: nginx}]}
  status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}
- apiVersion: v1
  kind: Secret
  metadata: {name: login, namespace: shop, uid: 0b7a5d4e-0000-4000-8000-000000000003, resourceVersion: "9050"}
  data: {password: Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingWebhookConfiguration
  metadata: {name: guard, uid: 0b7a5d4e-0000-4000-8000-000000000004, resourceVersion: "100"}
  webhooks:
  - name: guard.example.com
    clientConfig: {url: "https://guard.example.com/"}
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
- apiVersion: example.com/v1
  kind: Gadget
  metadata: {name: lost}
"#;

fn import(dir: &Path, arguments: &[&str]) -> Output {
    let source = dir.join("dump.yaml");
    fs::write(&source, DUMP).unwrap();
    Command::new(SERVER).arg("import").arg(&source).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part)).concat()
}

fn https(server: &Server) -> Https {
    Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_data_are_served_as_they_were_and_cannot_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").display().to_string();
    let imported = import(dir.path(), &["--to", &data]);
    let said = text(&imported);
    assert!(imported.status.success(), "{said}");
    for part in [
        "imported 5 objects of 5 kinds",
        "masked     the values of 1 Secret",
        "left out   1 Gadget",
        "--read-only",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let launch = || Launch::new(SERVER, dir.path()).args(&["--listen", "127.0.0.1:0", "--data-dir", &data]);
    let server = launch().args(&["--read-only"]).start().unwrap();
    let (https, client) = (https(&server), server.client("test").await);
    let pod = https.call("GET", "/api/v1/namespaces/shop/pods/web", "").await.json();
    assert_eq!(pod["metadata"]["uid"], "0b7a5d4e-0000-4000-8000-000000000002");
    assert_eq!(
        (&pod["metadata"]["resourceVersion"], &pod["status"]["phase"]),
        (&json!("9100"), &json!("Running"))
    );
    let secret = https.call("GET", "/api/v1/namespaces/shop/secrets/login", "").await.json();
    assert!(secret["data"]["password"].as_str().is_some_and(|value| !value.starts_with("Y29y")), "{secret}");

    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "shop"}});
    for (method, path, body) in [
        ("POST", "/api/v1/namespaces/shop/configmaps", map.to_string()),
        ("DELETE", "/api/v1/namespaces/shop/pods/web", String::new()),
        ("DELETE", "/api/v1/namespaces/shop/pods", String::new()),
        ("PUT", "/api/v1/namespaces/shop/pods/web/status", pod.to_string()),
    ] {
        let refused = https.call(method, path, &body).await;
        assert_eq!(refused.code, 405, "{method} {path} {:?}", refused.json());
    }
    let refused = client.dynamic(Gvr::new("", "v1", "configmaps")).create("shop", &map).await.unwrap_err();
    assert!(refused.to_string().contains("cannot be changed"), "{refused}");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(https.call("POST", path, &review.to_string()).await.code, 201, "a review stores nothing");
    drop(server);
    let again = import(dir.path(), &["--to", &data]);
    assert!(!again.status.success() && text(&again).contains("contains a store already"), "{}", text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_import_goes_on_with_simulated_nodes_and_calls_no_webhook() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").display().to_string();
    let imported = import(dir.path(), &["--live", "--to", &data]);
    assert!(text(&imported).contains("validatingwebhookconfigurations"), "{}", text(&imported));
    let launch = Launch::new(SERVER, dir.path()).args(&["--listen", "127.0.0.1:0", "--data-dir", &data]);
    let server = launch.args(&["--nodes", "0"]).start().unwrap();
    let client = server.client("test").await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "shop"}});
    client.dynamic(Gvr::new("", "v1", "configmaps")).create("shop", &map).await.unwrap();
    let nodes = client.dynamic(Gvr::new("", "v1", "nodes"));
    until("the imported node is simulated", async || {
        let node = nodes.get("", "worker-1").await.unwrap();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        conditions.iter().any(ready).then_some(())
    })
    .await;
    let (pods, _) =
        client.dynamic(Gvr::new("", "v1", "pods")).list("shop", &ListParams::default()).await.unwrap();
    let [pod] = &pods[..] else { panic!("{} pods", pods.len()) };
    assert_eq!(pod["metadata"]["uid"], "0b7a5d4e-0000-4000-8000-000000000002");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or_default(), 0);
}

#[test]
fn a_source_that_is_none_is_refused_with_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let source = dir.path().join("picture.png");
    fs::write(&source, [0x89, b'P', b'N', b'G', 0xff]).unwrap();
    let refused = Command::new(SERVER).arg("import").arg(&source).arg("--to").arg(&data).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("byte 0 is not UTF-8"), "{}", text(&refused));
    assert!(!data.exists());
}
