//! The snapshot of a kube-apiserver's etcd, with values in protobuf, a custom kind and some history, in the commands that look back: the
//! import of it, `history`, `diff` and `undo`, and nodes that go on with its pods.

use crate::SERVER;
use kstore_client::{Client, Gvr, Kubeconfig, ListParams};
use kstore_tests::wait::until;
use kstore_tests::{Https, KubeSnapshot, Launch, NAMESPACES, PODS_OF_NODE, Server, write_kube_snapshot};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PODS: usize = 500;

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part)).concat()
}

/// A snapshot of 500 pods, and its contents.
fn snapshot(dir: &Path) -> (PathBuf, KubeSnapshot) {
    let file = dir.join("backup.db");
    let made = write_kube_snapshot(&file, dir, PODS).unwrap();
    (file, made)
}

/// Imports a snapshot and serves it, with more arguments for the import and the server.
async fn serve(dir: &Path, file: &Path, import: &[&str], server: &[&str]) -> (Server, String) {
    let data = dir.join("data").display().to_string();
    let imported =
        Command::new(SERVER).arg("import").arg(file).args(["--to", &data]).args(import).output().unwrap();
    assert!(imported.status.success(), "{}", text(&imported));
    let launch =
        Launch::new(SERVER, dir).args(&["--listen", "127.0.0.1:0", "--data-dir", &data]).args(server);
    (launch.start().unwrap(), text(&imported))
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    Command::new(SERVER).args(arguments).arg("--kubeconfig").arg(server.kubeconfig()).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kube_apiservers_snapshot_is_served_with_its_history() {
    let dir = tempfile::tempdir().unwrap();
    let (file, made) = snapshot(dir.path());
    let (server, said) = serve(dir.path(), &file, &[], &["--read-only"]).await;
    assert!(said.contains(&format!("imported {} objects of 7 kinds", made.objects)), "{made:?} {said}");
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    let get = async |path: &str| https.call("GET", path, "").await.json();
    let pod = get("/api/v1/namespaces/team-0/pods/pod-10").await;
    let label = (&pod["metadata"]["labels"]["track"], &pod["status"]["phase"], &pod["spec"]["nodeName"]);
    assert_eq!(label, (&json!("stable"), &json!("Running"), &json!("node-0")), "{pod}");
    assert_eq!(pod["metadata"]["uid"], "00000006-0000-4000-8000-00000000000a");
    let created = made.created;
    let then = get(&format!("/kstore/v1/at/{created}/api/v1/namespaces/team-0/pods/pod-10")).await;
    assert_eq!(
        (&then["status"]["phase"], &then["spec"]["nodeName"]),
        (&json!("Pending"), &Value::Null),
        "{then}"
    );
    let all = get(&format!("/kstore/v1/at/{}/api/v1/pods", made.newest)).await;
    assert_eq!(all["items"].as_array().unwrap().len(), PODS);

    let history = text(&run(&server, &["history", "pod/pod-10", "-n", "team-0", "-p", "paths"]));
    for part in ["3 revisions", "Pending → Running", "kubelet", "kubectl-label", "– → stable"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let widget = text(&run(&server, &["history", "widget/widget-3", "-n", "team-3"]));
    assert!(widget.contains("2 revisions") && widget.contains("1 → 2"), "{widget}");
    let (from, to) = (created.to_string(), made.newest.to_string());
    let compared = run(&server, &["diff", &from, &to, "--stat"]);
    assert_eq!(compared.status.code(), Some(1), "{}", text(&compared));
    let compared = text(&compared);
    let counts = [
        ("pods", format!("{PODS} changed")),
        ("widgets.ex.io", "10 changed".to_owned()),
        ("configmaps", "1 removed".to_owned()),
    ];
    for (kind, count) in counts {
        let line = compared.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
        assert!(line.contains(&count), "{kind} {count}: {compared}");
    }
    let settings = text(&run(&server, &["diff", &format!("cm/settings@{from}"), &to, "-n", "team-0"]));
    assert!(settings.contains("one → two"), "{settings}");
    let gone = text(&run(&server, &["history", "cm/old", "-n", "team-0"]));
    assert!(gone.contains("deleted") && gone.contains("2 revisions"), "{gone}");
}

/// Pods by name, each with uid, node, phase and the number of restarts.
async fn pods(client: &Client) -> BTreeMap<String, [Value; 4]> {
    let mut found = BTreeMap::new();
    for namespace in 0..NAMESPACES {
        let list = client.dynamic(Gvr::new("", "v1", "pods"));
        let (pods, _) = list.list(&format!("team-{namespace}"), &ListParams::default()).await.unwrap();
        for pod in pods {
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].clone();
            let state = [
                pod["metadata"]["uid"].clone(),
                pod["spec"]["nodeName"].clone(),
                pod["status"]["phase"].clone(),
                restarts,
            ];
            found.insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), state);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_go_on_with_the_pods_of_a_kube_apiservers_snapshot_and_undo_takes_back_its_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = snapshot(dir.path());
    let (server, _) = serve(dir.path(), &file, &["--live"], &["--nodes", "0"]).await;
    let client = server.client("test").await;
    let before = pods(&client).await;
    assert_eq!(before.len(), PODS);
    assert!(before.values().all(|[_, node, phase, restarts]| {
        node.as_str().is_some_and(|node| node.starts_with("node-")) && phase == "Running" && *restarts == 0
    }));
    let nodes = client.dynamic(Gvr::new("", "v1", "nodes"));
    until("the imported nodes renew their Leases", async || {
        let leases = client.dynamic(Gvr::new("coordination.k8s.io", "v1", "leases"));
        let (leases, _) = leases.list("kube-node-lease", &ListParams::default()).await.unwrap();
        (leases.len() == PODS / PODS_OF_NODE).then_some(())
    })
    .await;
    assert_eq!(nodes.list("", &ListParams::default()).await.unwrap().0.len(), PODS / PODS_OF_NODE);
    assert_eq!(pods(&client).await, before, "no pod is made again, moved or restarted");

    let undone = run(&server, &["undo", "configmap/settings", "-n", "team-0", "--yes"]);
    assert!(undone.status.success(), "{}", text(&undone));
    let maps = client.dynamic(Gvr::new("", "v1", "configmaps"));
    assert_eq!(maps.get("team-0", "settings").await.unwrap()["data"]["mode"], "one", "{}", text(&undone));
    let back = run(&server, &["undo", "pod/pod-20", "-n", "team-0", "--yes"]);
    let labels = client.dynamic(Gvr::new("", "v1", "pods")).get("team-0", "pod-20").await.unwrap();
    assert_eq!(labels["metadata"]["labels"], json!({"app": "web"}), "{}", text(&back));
}
