//! Unmodified kubectl against the program, where kubectl is installed. CI runs a longer script of commands.

use crate::SERVER;
use kstore_tests::{Launch, Server};
use serde_json::Value;
use std::io::Write as _;
use std::process::Stdio;

/// A server with all components; `None` if kubectl is not installed.
fn server(dir: &tempfile::TempDir) -> Option<Server> {
    let server = Launch::in_memory(SERVER, dir.path()).start().unwrap();
    server.kubectl(&[]).is_some().then_some(server)
}

/// Runs kubectl, asserts success, and returns its output.
fn run(server: &Server, args: &str) -> String {
    let args: Vec<_> = args.split(' ').collect();
    let output = server.kubectl(&args).unwrap().output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "kubectl {args:?}: {said}{complained}");
    said.into_owned()
}

/// Runs kubectl, asserts failure, and returns its error output.
fn refuse(server: &Server, args: &str) -> String {
    let args: Vec<_> = args.split(' ').collect();
    let output = server.kubectl(&args).unwrap().output().unwrap();
    assert!(!output.status.success(), "kubectl {args:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn apply(server: &Server, manifest: &str) -> String {
    let mut kubectl = server.kubectl(&["apply", "-f", "-"]).unwrap();
    let mut child = kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_deployment_is_created_scaled_updated_undone_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = server(&dir) else { return };
    let run = |args: &str| run(&server, args);
    assert_eq!(run("create deployment web --image=nginx:1 --replicas=2"), "deployment.apps/web created\n");
    assert!(run("rollout status deployment/web --timeout=180s").contains("successfully rolled out"));
    let table = run("get deployment web");
    let cells: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(4).collect();
    assert_eq!(cells, ["web", "2/2", "2", "2"], "{table}");
    run("scale deployment web --replicas=3");
    run("wait deployment/web --for=jsonpath={.status.readyReplicas}=3 --timeout=180s");
    run("set image deployment/web nginx=nginx:2");
    assert!(run("rollout status deployment/web --timeout=180s").contains("successfully rolled out"));
    assert!(run("get pods -l app=web -o jsonpath={.items[*].spec.containers[0].image}").contains("nginx:2"));
    run("rollout undo deployment/web");
    run("rollout status deployment/web --timeout=180s");
    assert_eq!(run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}"), "nginx:1");
    assert!(run("describe deployment web").contains("ScalingReplicaSet"));
    assert_eq!(run("delete deployment web --timeout=180s"), "deployment.apps \"web\" deleted\n");
    run("wait pod -l app=web --for=delete --timeout=180s");
}

#[test]
fn apply_merges_three_ways_and_errors_read_as_in_kubernetes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = server(&dir) else { return };
    let manifest =
        |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n{data}");
    assert_eq!(apply(&server, &manifest("  a: '1'\n  b: '2'\n")), "configmap/settings created\n");
    run(&server, "patch configmap settings --type=merge -p {\"data\":{\"c\":\"3\"}}");
    assert_eq!(apply(&server, &manifest("  a: '9'\n")), "configmap/settings configured\n");
    let object: Value = serde_json::from_str(&run(&server, "get configmap settings -o json")).unwrap();
    assert_eq!(
        object["data"],
        serde_json::json!({ "a": "9", "c": "3" }),
        "b was applied and is no more; c is another's"
    );
    assert_eq!(apply(&server, &manifest("  a: '9'\n")), "configmap/settings unchanged\n");

    assert_eq!(refuse(&server, "get pod none"), "Error from server (NotFound): pods \"none\" not found\n");
    assert!(refuse(&server, "get dogs").contains("the server doesn't have a resource type \"dogs\""));
    assert!(
        refuse(&server, "create namespace default")
            .contains("(AlreadyExists): namespaces \"default\" already exists")
    );
    assert!(refuse(&server, "create configmap Not_Good").contains("Invalid value: \"Not_Good\""));
    assert_eq!(run(&server, "auth can-i create pods"), "yes\n");
    refuse(&server, "auth can-i create pods --as=jane");
}
