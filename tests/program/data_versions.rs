//! A data directory that servers of several versions of Kubernetes use one after the other.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn launch(dir: &Path, version: &str) -> Launch {
    let args = ["--components", "apiserver", "--kubernetes-version", version];
    Launch::on_disk(SERVER, dir).args(&args)
}

fn https(server: &Server) -> Https {
    Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap())
}

async fn create(server: &Server, path: &str, object: &Value) -> Value {
    let answer = https(server).call("POST", path, &object.to_string()).await;
    assert_eq!(answer.code, 201, "{path}: {}", answer.json());
    answer.json()
}

async fn read(server: &Server, path: &str) -> Value {
    https(server).call("GET", path, "").await.json()
}

/// A driver with a member that Kubernetes has since 1.35.
fn driver(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
        "spec": {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": true}})
}

/// A policy, a kind that Kubernetes serves since 1.36, which labels config maps.
async fn create_policy(server: &Server) {
    let label = r#"Object{metadata: Object.metadata{labels: Object.metadata.labels{marked: "yes"}}}"#;
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "mark"}, "spec": {"reinvocationPolicy": "Never", "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}}]}});
    create(server, POLICIES, &policy).await;
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "mark"}, "spec": {"policyName": "mark"}});
    create(server, BINDINGS, &binding).await;
}

async fn create_map(server: &Server, name: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    create(server, MAPS, &map).await
}

fn recorded(dir: &Path) -> String {
    let output = Command::new(SERVER)
        .args(["store", "status", "--output", "json", "--data-dir"])
        .arg(dir.join("data"))
        .output()
        .unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["kubernetes"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_a_newer_version_are_refused_unless_the_operator_allows_the_loss() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let log = || fs::read_to_string(dir.join("server.log")).unwrap();

    let server = launch(dir, "1.33").start().unwrap();
    create_map(&server, "first").await;
    assert!(server.terminate().success());
    assert_eq!(recorded(dir), "1.33");

    let server = launch(dir, "1.36").start().unwrap();
    assert!(log().contains("data of Kubernetes 1.33 is served as 1.36"), "{}", log());
    assert_eq!(read(&server, &format!("{MAPS}/first")).await["metadata"]["name"], "first");
    for name in ["written.example.com", "kept.example.com"] {
        let created = create(&server, DRIVERS, &driver(name)).await;
        assert_eq!(created["spec"]["serviceAccountTokenInSecrets"], true);
    }
    create_policy(&server).await;
    assert!(server.terminate().success());

    let refusal = launch(dir, "1.34").start().err().unwrap();
    assert!(
        refusal.contains(
            "data of Kubernetes 1.36 is not served as 1.34: kinds and fields would be lost; --allow-downgrade overrides \
             (1 mutatingadmissionpolicies.admissionregistration.k8s.io, \
             1 mutatingadmissionpolicybindings.admissionregistration.k8s.io, \
             spec.serviceAccountTokenInSecrets of 2 csidrivers.storage.k8s.io)"
        ),
        "{refusal}"
    );
    assert_eq!(recorded(dir), "1.36", "a refused start records nothing");

    let server = launch(dir, "1.34").args(&["--allow-downgrade"]).start().unwrap();
    let shown = read(&server, &format!("{DRIVERS}/written.example.com")).await;
    assert_eq!(shown["spec"]["tokenRequests"][0]["audience"], "a");
    assert_eq!(shown["spec"].get("serviceAccountTokenInSecrets"), None);
    let mut changed = shown.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    let path = format!("{DRIVERS}/written.example.com");
    let answer = https(&server).call("PUT", &path, &changed.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.json());
    assert_eq!(https(&server).call("GET", POLICIES, "").await.code, 404);
    let map = create_map(&server, "second").await;
    assert_eq!(map["metadata"].get("labels"), None, "a policy that this version lacks has no effect");
    assert!(log().contains("objects of a kind that is not served stay in the store"), "{}", log());
    assert!(server.terminate().success());
    assert_eq!(recorded(dir), "1.34");

    // Without the flag from now on, and back to the newer version.
    assert!(launch(dir, "1.34").start().unwrap().terminate().success());
    let server = launch(dir, "1.36").start().unwrap();
    let kept = |name: &str| {
        let path = format!("{DRIVERS}/{name}.example.com");
        let server = &server;
        async move { read(server, &path).await["spec"]["serviceAccountTokenInSecrets"].clone() }
    };
    assert_ne!(kept("written").await, true, "the write removed what the older version lacks");
    assert_eq!(kept("kept").await, true);
    assert_eq!(read(&server, &format!("{POLICIES}/mark")).await["metadata"]["name"], "mark");
    assert!(server.terminate().success());
}

const REFUSAL: &str = "data of Kubernetes 1.36 is not served as 1.34: kinds and fields would be lost; --allow-downgrade \
     overrides (spec.serviceAccountTokenInSecrets of 1 csidrivers.storage.k8s.io)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_carries_the_version_of_its_data() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let server = launch(dir, "1.36").start().unwrap();
    create(&server, DRIVERS, &driver("a.example.com")).await;
    assert!(server.terminate().success());
    let snapshot = |words: &[&str]| {
        let output = Command::new(SERVER).args(["store", "snapshot"]).args(words).current_dir(dir).output();
        assert!(output.unwrap().status.success(), "{words:?}");
    };
    snapshot(&["save", "kept.db", "--data-dir", "data"]);
    fs::create_dir(dir.join("other")).unwrap();
    snapshot(&["restore", "kept.db", "--data-dir", "other/data"]);
    let other = dir.join("other");
    assert_eq!(recorded(&other), "1.36");
    // The store itself has the record: the file is a copy.
    fs::remove_file(other.join("data/kubernetes-version")).unwrap();
    let refusal = launch(&other, "1.34").start().err().unwrap();
    assert!(refusal.contains(REFUSAL), "{refusal}");
    assert!(launch(&other, "1.36").start().unwrap().terminate().success());
    assert_eq!(recorded(&other), "1.36");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_one_etcd_share_the_version_of_its_data() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let socket = format!("unix://{}", dir.join("etcd.sock").display());
    let store = ["--components", "store", "--in-memory", "--etcd-listen", &socket];
    let etcd = Launch::new(SERVER, dir).args(&store).start_silent();
    let servers = format!("--etcd-servers={socket}");
    let on_etcd = |name: &str, version: &str| {
        let own = dir.join(name);
        fs::create_dir_all(&own).unwrap();
        Launch::on_disk(SERVER, &own).args(&[
            "--components",
            "apiserver",
            "--kubernetes-version",
            version,
            &servers,
        ])
    };
    let server = on_etcd("a", "1.36").start().unwrap();
    create(&server, DRIVERS, &driver("a.example.com")).await;
    assert!(server.terminate().success());
    let refusal = on_etcd("b", "1.34").start().err().unwrap();
    assert!(refusal.contains(REFUSAL), "{refusal}");
    let server = on_etcd("b", "1.34").args(&["--allow-downgrade"]).start().unwrap();
    let shown = read(&server, &format!("{DRIVERS}/a.example.com")).await;
    assert_eq!(shown["spec"].get("serviceAccountTokenInSecrets"), None);
    assert!(server.terminate().success());
    assert!(on_etcd("a", "1.34").start().unwrap().terminate().success(), "it is of 1.34 now");
    assert!(etcd.terminate().success());
}

#[test]
fn run_names_its_version_for_the_command_and_checks_that_of_its_copy() {
    let temporary = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let command = ["--", "sh", "-c", "echo version=$KUBERNETES_VERSION"];
        let output = Command::new(SERVER)
            .arg("run")
            .args(["--components", "apiserver"])
            .args(flags)
            .args(command)
            .current_dir(temporary.path())
            .env_remove("KSTORE_KUBERNETES_VERSION")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run(&["--kubernetes-version", "1.34.1"]).1, "version=1.34\n");
    assert!(launch(temporary.path(), "1.35").start().unwrap().terminate().success());
    assert_eq!(run(&["--from", "data", "--kubernetes-version", "1.35"]).1, "version=1.35\n");
    let (success, _, error) = run(&["--from", "data", "--kubernetes-version", "1.34"]);
    assert!(!success && error.contains("data of Kubernetes 1.35 is not served as 1.34"), "{error}");
    let (success, output, error) =
        run(&["--from", "data", "--kubernetes-version", "1.34", "--allow-downgrade"]);
    assert!(success && output == "version=1.34\n", "{error}");
    assert_eq!(recorded(temporary.path()), "1.35", "the original is only read");
}
