//! Components in separate processes: each connects to the apiserver as a client, survives the apiserver's
//! death, and can be replaced. Also `kstore-server explain` and `what-if`.

use crate::SERVER;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kstore_client::{Client, Gvr, ListParams};
use kstore_tests::wait::{rolled_out, watch_until};
use kstore_tests::{Launch, Server, free_port, manifests};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Starts one component against the apiserver whose data is in `dir`.
fn component(dir: &Path, name: &str) -> Server {
    let kubeconfig = dir.join("data").join(format!("{name}.kubeconfig"));
    let args = ["--components", name, "--kubeconfig", kubeconfig.to_str().unwrap()];
    Launch::new(SERVER, dir).args(&args).start_silent()
}

async fn roll_out(client: &Client, name: &str) {
    let deployments = client.dynamic(Gvr::of::<Deployment>());
    deployments.create("default", &manifests::deployment(name, 2)).await.unwrap();
    watch_until(client, Gvr::of::<Deployment>(), "default", name, rolled_out).await;
}

#[test]
fn every_component_runs_in_its_own_process_and_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    // The address outlasts the apiserver: its clients reconnect.
    let (address, data) = (format!("127.0.0.1:{}", free_port()), dir.path().join("data"));
    let flags = ["--components", "apiserver", "--listen", &address, "--data-dir", data.to_str().unwrap()];
    let launch = Launch::new(SERVER, dir.path()).args(&flags);
    let apiserver = launch.start().unwrap();
    let controllers = component(dir.path(), "controllers");
    let _scheduler = component(dir.path(), "scheduler");
    let _kubelets = component(dir.path(), "kubelet-sim");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        roll_out(&apiserver.client("test").await, "first").await;

        controllers.kill();
        let _controllers = component(dir.path(), "controllers");
        roll_out(&apiserver.client("test").await, "second").await;

        apiserver.kill();
        let apiserver = launch.start().unwrap();
        roll_out(&apiserver.client("test").await, "third").await;
    });
}

#[test]
fn components_in_other_processes_are_those_of_the_version_that_the_apiserver_serves() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--components", "apiserver", "--kubernetes-version", "1.34"];
    let apiserver = Launch::on_disk(SERVER, dir.path()).args(&flags).start().unwrap();
    let _controllers = component(dir.path(), "controllers");
    let _scheduler = component(dir.path(), "scheduler");
    let _kubelets = component(dir.path(), "kubelet-sim");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = apiserver.client("test").await;
        let has_release = |node: &Value| node["status"]["nodeInfo"]["kubeletVersion"].is_string();
        watch_until(&client, Gvr::of::<Node>(), "", "node-0", has_release).await;
        let node = client.dynamic(Gvr::of::<Node>()).get("", "node-0").await.unwrap();
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.34.9");
        roll_out(&client, "web").await;
    });
}

#[test]
fn a_process_of_simulated_nodes_says_when_they_are_up_and_when_another_has_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let _apiserver =
        Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let kubeconfig = data.join("kubelet-sim.kubeconfig");
    let start = |log: &str| {
        let mut command = Command::new(SERVER);
        command.args(["--components", "kubelet-sim", "--nodes", "2", "--kubeconfig"]).arg(&kubeconfig);
        let log = std::fs::File::create(dir.path().join(log)).unwrap();
        Killed(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap())
    };
    let said = |process: &mut Killed| {
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line
    };
    let (mut first, mut second) = (start("first"), start("second"));
    for process in [&mut first, &mut second] {
        assert_eq!(said(process), "kstore simulates 2 nodes (node-0 to node-1)\n");
    }
    // Each renews the leases every ten seconds.
    let deadline = Instant::now() + Duration::from_secs(60);
    let logs = || ["first", "second"].map(|log| std::fs::read_to_string(dir.path().join(log)).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        while !logs().iter().any(|log| log.contains("if a second process simulates nodes of the same names"))
        {
            assert!(Instant::now() < deadline, "{:?}", logs());
            sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn processes_with_different_node_prefixes_simulate_nodes_of_one_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Launch::on_disk(SERVER, dir.path()).args(&["--nodes", "2"]).start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = server.client("kubectl").await;
        let nodes = client.dynamic(Gvr::of::<Node>());
        let is_ready = |node: &Value| {
            let conditions = node["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        for name in ["node-0", "node-1"] {
            watch_until(&client, Gvr::of::<Node>(), "", name, is_ready).await;
        }
        let mut edge = Command::new(SERVER);
        edge.args(["--components", "kubelet-sim", "--nodes", "2", "--node-prefix", "edge-"]);
        edge.args(["--adopt-nodes", "none", "--kubeconfig"]).arg(data.join("kubelet-sim.kubeconfig"));
        let log = std::fs::File::create(dir.path().join("edge")).unwrap();
        let mut edge = Killed(edge.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(edge.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "kstore simulates 2 nodes (edge-0 to edge-1)\n");
        let mut subnets = std::collections::BTreeSet::new();
        for name in ["node-0", "node-1", "edge-0", "edge-1"] {
            watch_until(&client, Gvr::of::<Node>(), "", name, is_ready).await;
            let node = nodes.get("", name).await.unwrap();
            assert!(subnets.insert(node["spec"]["podCIDR"].to_string()), "{name}: {node}");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("on-{name}")},
                "spec": {"nodeName": name, "containers": [{"name": "c", "image": "nginx"}]}});
            client.dynamic(Gvr::of::<Pod>()).create("default", &pod).await.unwrap();
        }
        for name in ["node-0", "node-1", "edge-0", "edge-1"] {
            let runs = |pod: &Value| pod["status"]["phase"] == "Running";
            watch_until(&client, Gvr::of::<Pod>(), "default", &format!("on-{name}"), runs).await;
        }
        // No Node but these: neither process registers nodes of the other's names.
        assert_eq!(nodes.list("", &ListParams::default()).await.unwrap().0.len(), 4);
    });
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn explain_prints_the_chain_from_the_deployment_to_its_pods() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::on_disk(SERVER, dir.path()).start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { roll_out(&server.client("kubectl").await, "web").await });
    let explain = |object: &str| {
        let kubeconfig = server.kubeconfig().to_str().unwrap();
        Command::new(SERVER).args(["explain", object, "--kubeconfig", kubeconfig]).output().unwrap()
    };
    let by = |actor: &str| {
        let kubeconfig = server.kubeconfig().to_str().unwrap();
        let flags =
            ["explain", "deployment/web", "--kind", "pods", "--by", actor, "--kubeconfig", kubeconfig];
        let output = Command::new(SERVER).args(flags).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, said) = by("scheduler");
    assert!(code == Some(0) && said.contains("kube-scheduler updated pods/default/web-"), "{said}");
    let (code, said) = by("nobody");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("no write by \"nobody\" matches; writers here: ") && said.contains("kube-scheduler"),
        "{said}"
    );
    let output = explain("deployment/web");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    // Each line is indented deeper than its cause.
    let chain = ["kubectl", "replicasets/default/web-", "pods/default/web-", "kube-scheduler", "kubelet"];
    let depth = |part: &str| {
        let line =
            said.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in\n{said}"));
        line.chars().take_while(|c| !c.is_alphanumeric()).count()
    };
    assert!(chain.map(depth).is_sorted_by(|a, b| a < b), "{said}");
    // A pod names the Deployment and the ReplicaSet that led to it.
    let pod = said.split_whitespace().find_map(|word| word.strip_prefix("pods/default/web-")).unwrap();
    let output = explain(&format!("pod/web-{pod}"));
    let led = String::from_utf8_lossy(&output.stdout).into_owned();
    let at = |part: &str| led.find(part).unwrap_or_else(|| panic!("no {part} in\n{led}"));
    // First why the pod is on its node, by the scheduler's record and the same decision again.
    assert!(led.starts_with(&format!("pod default/web-{pod} → node-")), "{led}");
    let has_record = led.contains("; recorded: 3 nodes evaluated, ") && led.contains("\nNODE ");
    assert!(has_record && led.contains("\nwhat led to it:\n"), "{led}");
    assert!(at("created deployments/default/web") < at("created replicasets/default/web-"), "{led}");
    assert!(at("created replicasets/default/web-") < at("created pods/default/web-"), "{led}");
    let none = explain("deployment/none");
    assert!(
        !none.status.success() && String::from_utf8_lossy(&none.stderr).contains("not found"),
        "{none:?}"
    );
}

#[test]
fn a_pending_pod_is_explained_and_what_if_answers_without_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::on_disk(SERVER, dir.path()).start().unwrap();
    let kubeconfig = server.kubeconfig().to_str().unwrap().to_owned();
    let run = |words: &[&str]| {
        let output = Command::new(SERVER).args(words).args(["--kubeconfig", &kubeconfig]).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = server.client("kubectl").await;
        // A node that has just registered lacks more than processors.
        for name in ["node-0", "node-1", "node-2"] {
            let is_open = |node: &Value| node["spec"]["taints"].is_null();
            watch_until(&client, Gvr::of::<Node>(), "", name, is_open).await;
        }
        let container = json!({ "name": "c", "image": "nginx", "resources": { "requests": { "cpu": "9" } } });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "big" },
            "spec": { "containers": [container] } });
        client.dynamic(Gvr::of::<Pod>()).create("default", &pod).await.unwrap();
        let is_refused = |pod: &Value| pod["status"]["conditions"][0]["reason"] == "Unschedulable";
        watch_until(&client, Gvr::of::<Pod>(), "default", "big", is_refused).await;
    });
    let (code, said) = run(&["explain", "pod/big", "--placement"]);
    assert_eq!(code, Some(0), "{said}");
    for part in ["; attempt", "found no node", "cpu 1 of 9", "request cpu 8 instead of 9 in container c"] {
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
    let question = ["what-if", "--with-nodes", "2xnode/node-0", "--without", "node/node-1", "-o", "json"];
    let (code, said) = run(&question);
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error} in {said}"));
    // The pod was pending before, so its state is no consequence.
    assert_eq!((code, &answer["cpuRequested"]["after"]["nodes"]), (Some(0), &json!(4)), "{said}");
    assert_eq!(
        (&answer["pending"][0]["pendingBefore"], &answer["unsettled"]),
        (&json!(1), &json!([])),
        "{said}"
    );
    let copied = runtime.block_on(async {
        server.client("kubectl").await.dynamic(Gvr::of::<Node>()).get("", "node-0-more-0").await
    });
    assert!(copied.unwrap_err().is_not_found(), "the server has no node of the copy");
    assert_eq!(run(&["what-if"]).0, Some(2), "a wrong question");
}
