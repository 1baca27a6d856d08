//! Simulated nodes in the cluster of a real kube-apiserver. The variable `KUBE_APISERVER` names that program, and `KUBE_SCHEDULER` a
//! kube-scheduler that places the pods; without it the test binds them. The nodes have the role that `sim-rbac` prints, and no other.

use crate::SERVER;
use crate::kube_apiserver::{Kubectl, Process, program, start, store};
use kstore_tests::wait::until;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NODES: &str = "/api/v1/nodes";
const POD: &str = "/api/v1/namespaces/default/pods/p";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/sim-0";

/// A pod that mounts a ConfigMap, for nodes that are simulated, and not ready for want of a controller that would remove the taint.
fn pod(node: Option<&str>) -> Value {
    let tolerations = json!([
        { "key": "sim.kstore.io/simulated", "operator": "Exists" },
        { "key": "node.kubernetes.io/not-ready", "operator": "Exists" },
    ]);
    let mount = json!({ "name": "settings", "mountPath": "/settings" });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "tolerations": tolerations,
            "nodeSelector": { "sim.kstore.io/simulated": "true" },
            "containers": [{ "name": "c", "image": "nginx", "volumeMounts": [mount] }],
            "volumes": [{ "name": "settings", "configMap": { "name": "settings" } }],
        },
    })
}

/// A kubeconfig file for a token.
fn kubeconfig(dir: &Path, kubectl: &Kubectl, token: &str) -> PathBuf {
    let path = dir.join(format!("{}.kubeconfig", token.len()));
    let server = json!({ "server": kubectl.server(), "insecure-skip-tls-verify": true });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": server }],
        "users": [{ "name": "u", "user": { "token": token } }],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

fn spawn(program: &str, args: &[&str], kubeconfig: &Path, log: &Path) -> Process {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let mut command = Command::new(program);
    command.args(args).arg("--kubeconfig").arg(kubeconfig).env("RUST_LOG", "warn,kstore_server=info");
    Process(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
}

/// The standard output of a command that succeeds.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], |all| all);
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .map_or(&Value::Null, |found| &found["status"])
}

/// The pod, once it runs and is ready.
async fn running(kubectl: &Kubectl) -> Value {
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "True";
    until("the pod runs", async || kubectl.get(POD).filter(is_running)).await
}

/// The objects that the test needs: there are no controllers.
fn prepare(kubectl: &Kubectl) {
    for object in [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": "default" } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "b" } }),
        // The Node of a real kubelet.
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "real-1" } }),
    ] {
        assert!(kubectl.apply(&object.to_string()), "{object}");
    }
}

/// Checks that a node keeps others' pods away, and has the version of the server.
fn check_guard(node: &Value) {
    let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap();
    assert!(version.starts_with("v1.36."), "{node}");
    let taints = node["spec"]["taints"].as_array().unwrap();
    let guard = json!({ "key": "sim.kstore.io/simulated", "value": "true", "effect": "NoSchedule" });
    assert!(taints.contains(&guard), "{node}");
    assert_eq!(node["metadata"]["labels"]["sim.kstore.io/simulated"], "true");
}

#[tokio::test]
async fn simulated_nodes_run_pods_of_a_real_kube_apiserver_with_the_least_role() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (_store, etcd) = store(dir.path()).await;
    let (_apiserver, kubectl) = start(&[&program], dir.path(), "real", &etcd).await;
    assert!(kubectl.apply(&output(Command::new(SERVER).arg("sim-rbac"))));
    prepare(&kubectl);
    let token = output(&mut kubectl.command(&["create", "token", "kubelet-sim", "-n", "kube-system"]));
    let (access, log) = (kubeconfig(dir.path(), &kubectl, token.trim()), dir.path().join("nodes.log"));
    let args = ["--components", "kubelet-sim", "--nodes", "2", "--node-prefix", "real-"];
    let refused = Command::new(SERVER).args(args).arg("--kubeconfig").arg(&access).output();
    let refused = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(refused.contains("node \"real-1\" of the cluster is not a simulated one"), "{refused}");
    let args = ["--components", "kubelet-sim", "--nodes", "2", "--node-prefix", "sim-"];
    let nodes = spawn(SERVER, &args, &access, &log);
    let both_ready = |list: &Value| {
        let nodes = list["items"].as_array().map_or(&[][..], |all| all);
        nodes.iter().filter(|node| condition(node, "Ready") == "True").count() == 2
    };
    let list = until("both nodes are ready", async || kubectl.get(NODES).filter(both_ready)).await;
    let simulated = |node: &&Value| node["metadata"]["name"].as_str().unwrap().starts_with("sim-");
    list["items"].as_array().unwrap().iter().filter(simulated).for_each(check_guard);
    let renewed = kubectl.get(LEASE).unwrap()["spec"]["renewTime"].clone();
    assert!(renewed.is_string());

    let scheduler = std::env::var("KUBE_SCHEDULER").ok().map(|program| {
        let admin = kubeconfig(dir.path(), &kubectl, "tok");
        spawn(
            &program,
            &["--leader-elect=false", "--secure-port=0"],
            &admin,
            &dir.path().join("scheduler.log"),
        )
    });
    let node = scheduler.is_none().then_some("sim-1");
    assert!(kubectl.apply(&pod(node).to_string()));
    let before = running(&kubectl).await;
    assert!(before["status"]["podIP"].is_string() && before["status"]["hostIP"].is_string(), "{before}");
    until("events are written", async || {
        let events = output(&mut kubectl.command(&["get", "events", "-o", "jsonpath={.items[*].reason}"]));
        ["Started", "NodeReady"].iter().all(|reason| events.contains(reason)).then_some(())
    })
    .await;
    let is_newer = |lease: &Value| lease["spec"]["renewTime"] != renewed;
    until("the Lease is renewed", async || kubectl.get(LEASE).filter(is_newer)).await;

    // Another process takes the nodes over as they are.
    nodes.end();
    let _nodes = spawn(SERVER, &args, &access, &log);
    let log_text = || std::fs::read_to_string(&log).unwrap();
    until("the second process simulates the nodes", async || {
        (log_text().matches("kstore simulates 2 nodes").count() == 2).then_some(())
    })
    .await;
    let after = running(&kubectl).await;
    assert_eq!(after["status"]["containerStatuses"], before["status"]["containerStatuses"]);
    kubectl.run(&["delete", "pod", "p", "--wait", "--timeout=60s"]);
    assert_eq!(log_text().matches("forbidden").count(), 0, "the role suffices: {}", log_text());
    assert!(log_text().contains("the API server is not one of kstore"), "{}", log_text());
}
