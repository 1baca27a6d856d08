//! `kstore-server run` with objects: the cluster's contents before the command starts, and the errors that
//! prevent its start.

use crate::SERVER;
use kstore_client::{Client, Gvr, Kubeconfig};
use kstore_tests::wait::{PATIENCE, until};
use kstore_tests::{Launch, manifests};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tokio::time::Instant;

const SHOPS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.a.example}
spec:
  group: a.example
  names: {kind: Shop, plural: shops}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
"#;
const SHOP: &str = "
# A namespace, and objects in it and in `default`.
apiVersion: v1
kind: Namespace
metadata: {name: town}
---
apiVersion: a.example/v1
kind: Shop
metadata: {name: bakery, namespace: town}
spec: {size: 0644}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: default, labels: {a: b}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {generateName: any-}}
";

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A `run` command with these flags in a folder.
fn command(dir: &Path, flags: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new(SERVER);
    run.arg("run").args(flags).arg("--").args(command).current_dir(dir).stdin(Stdio::null());
    run
}

/// A running `run` whose command prints its kubeconfig and exits when standard input closes.
struct Running {
    child: Child,
    client: Client,
}

impl Running {
    async fn start(dir: &Path, flags: &[&str]) -> Self {
        let mut command =
            command(dir, flags, &["sh", "-c", "cat \"$KUBECONFIG\" && echo && echo END && cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let kubeconfig: Vec<_> =
            lines.by_ref().map(Result::unwrap).take_while(|line| line != "END").collect();
        assert!(!kubeconfig.is_empty(), "the command started");
        let kubeconfig: Kubeconfig = Kubeconfig::parse(&kubeconfig.join("\n"), dir).unwrap();
        Self { child, client: Client::connect(&kubeconfig, "test").await.unwrap() }
    }

    async fn get(
        &self,
        (group, version, plural): (&'static str, &'static str, &'static str),
        ns: &str,
        name: &str,
    ) -> Value {
        self.client.dynamic(Gvr::new(group, version, plural)).get(ns, name).await.unwrap()
    }

    fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

#[test]
fn objects_are_available_before_the_command_starts_in_parallel_runs() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "crds/shops.yaml", SHOPS);
    write(dir.path(), "crds/kustomization.yaml", "resources: [shops.yaml]\n");
    write(dir.path(), "objects/1-shop.yaml", SHOP);
    write(dir.path(), "objects/2-web.json", &manifests::deployment("web", 2).to_string());
    let flags = ["--crd", "crds", "--manifest", "objects", "--wait=available"];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = Running::start(dir.path(), &flags).await;
        let second = Running::start(dir.path(), &flags).await;
        for run in [&first, &second] {
            let deployment = run.get(("apps", "v1", "deployments"), "default", "web").await;
            assert_eq!(deployment["status"]["availableReplicas"], 2, "{deployment}");
            let managers = deployment["metadata"]["managedFields"].as_array().unwrap();
            assert!(managers.iter().any(|entry| entry["manager"] == "kstore-server"), "{deployment}");
            let shop = run.get(("a.example", "v1", "shops"), "town", "bakery").await;
            assert_eq!(shop["spec"]["size"], 420, "{shop}");
            let account = run.get(("", "v1", "serviceaccounts"), "default", "default").await;
            assert_eq!(
                account["metadata"]["labels"]["a"], "b",
                "an object that exists is changed: {account}"
            );
        }
        let delete = first.client.dynamic(Gvr::new("a.example", "v1", "shops"));
        delete.delete("town", "bakery", &kstore_client::DeleteParams::default()).await.unwrap();
        second.get(("a.example", "v1", "shops"), "town", "bakery").await;
        assert!(first.end().success() && second.end().success());
    });
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn refused_objects_prevent_the_commands_start() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "shops.yaml", SHOPS);
    write(dir.path(), "shop.yaml", SHOP);
    write(dir.path(), "broken.yaml", "kind: ConfigMap\n---\na: b: c\n");
    write(dir.path(), "folder/readme.md", "nothing");
    let bad = format!(
        "{}\n---\n{}",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "B_"}})
    );
    write(dir.path(), "bad.yaml", &bad);
    let cases: [(&[&str], i32, &[&str]); 7] = [
        (&["--manifest", "none.yaml"], 1, &["kstore-server: cannot read none.yaml: No such file"]),
        (
            &["--manifest", "broken.yaml"],
            1,
            &[
                "broken.yaml: document 2 of the manifest (line 2) cannot be parsed: yaml: line 2: mapping values",
            ],
        ),
        (&["--manifest", "folder"], 1, &["folder has no files that end in .json, .yaml or .yml"]),
        (&["--crd", "shop.yaml"], 1, &["shop.yaml has no CustomResourceDefinition"]),
        (
            &["--manifest", "shop.yaml"],
            1,
            &[
                "shop.yaml: document 2: no matches for kind \"Shop\" in version \"a.example/v1\": ensure CRDs are installed first",
            ],
        ),
        (
            &["--manifest", "bad.yaml"],
            1,
            &[
                "bad.yaml: document 2: ConfigMap B_: ConfigMap \"B_\" is invalid: metadata.name: Invalid value",
            ],
        ),
        (
            &["--crd", "-", "--manifest", "-"],
            2,
            &["--crd and --manifest can read standard input (-) only once"],
        ),
    ];
    for (flags, code, texts) in cases {
        let output = command(dir.path(), flags, &["touch", "started"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {output:?}");
        for text in texts {
            assert!(stderr_of(&output).contains(text), "{flags:?}: {}", stderr_of(&output));
        }
        assert!(!dir.path().join("started").exists(), "{flags:?}");
    }
}

#[test]
fn unavailable_objects_are_reported_with_their_pods_and_exit_code_75() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "web.yaml", &manifests::deployment("web", 1).to_string());
    let flags = ["--nodes", "0", "--manifest", "web.yaml", "--wait=available", "--wait-timeout"];
    // On a busy machine the pod may not exist after the first time.
    for (time, is_last) in [("2s", false), ("20s", false), ("2m", true)] {
        let flags = [&flags[..], &[time]].concat();
        let output = command(dir.path(), &flags, &["touch", "started"]).output().unwrap();
        assert_eq!(output.status.code(), Some(75), "{output:?}");
        assert!(!dir.path().join("started").exists());
        let (said, late) = (stderr_of(&output), format!("kstore-server run: not available after {time}"));
        let missing = [
            late.as_str(),
            "web.yaml: Deployment default/web: 0 of 1 updated replicas are available",
            "Available=False (MinimumReplicasUnavailable): Deployment does not have minimum availability.",
            "pod web-",
            "PodScheduled=False (Unschedulable): no nodes available to schedule pods",
        ]
        .into_iter()
        .find(|text| !said.contains(text));
        match missing {
            None => break,
            Some(text) => assert!(!is_last, "no {text:?} in {said}"),
        }
    }
    // Without waiting for availability the command starts.
    let output = command(dir.path(), &flags[..4], &["touch", "started"]).output().unwrap();
    assert!(output.status.success() && dir.path().join("started").exists(), "{output:?}");
}

#[test]
fn an_object_that_cannot_become_available_ends_the_wait_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut web = manifests::deployment("web", 1);
    web["spec"]["progressDeadlineSeconds"] = json!(1);
    write(dir.path(), "web.json", &web.to_string());
    let flags = ["--nodes", "0", "--manifest", "web.json", "--wait=available", "--wait-timeout", "10m"];
    let began = Instant::now();
    let output = command(dir.path(), &flags, &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    let text = "web.json: Deployment default/web: it exceeded its progress deadline";
    assert!(stderr_of(&output).contains(text), "{}", stderr_of(&output));
    assert!(began.elapsed() < PATIENCE, "before the time is over");
}

#[test]
fn without_waiting_the_command_starts_at_once_and_ends_when_an_object_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = command(dir.path(), &["--wait=none", "--manifest", "-"], &["sleep", "600"]);
    let mut child = run.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(SHOP.as_bytes()).unwrap();
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        stderr_of(&output)
            .contains("standard input: document 2: no matches for kind \"Shop\" in version \"a.example/v1\""),
        "{}",
        stderr_of(&output)
    );
    assert!(began.elapsed() < PATIENCE, "the command was ended");
    write(dir.path(), "map.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    let flags = ["--wait=none", "--manifest", "map.yaml"];
    assert!(command(dir.path(), &flags, &["sleep", "0.2"]).status().unwrap().success());
}

/// The copies of `run --from` in a folder of temporary files.
fn copies(temporary: &Path) -> usize {
    let entries = std::fs::read_dir(temporary).unwrap().map(Result::unwrap);
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("kstore-run-")).count()
}

#[test]
fn a_run_works_on_a_copy_of_a_cluster_and_leaves_neither_it_nor_its_folder_behind() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    write(dir.path(), "other.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}");
    let server = Launch::on_disk(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = server.client("test").await;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prepared"}});
        client.dynamic(Gvr::new("", "v1", "configmaps")).create("default", &map).await.unwrap();
    });
    let flags = ["--from", "data", "--etcd-listen", "127.0.0.1:0", "--manifest", "other.yaml"];
    let refused = command(dir.path(), &flags, &["true"]).env("TMPDIR", &temporary).output().unwrap();
    assert!(!refused.status.success() && stderr_of(&refused).contains("a server uses it"), "{refused:?}");
    assert!(server.terminate().success());
    // Twice: the first run has changed nothing in the original.
    for _ in 0..2 {
        let script = "test -n \"$ETCDCTL_ENDPOINTS\" && cat \"$KUBECONFIG\"";
        let run =
            command(dir.path(), &flags, &["sh", "-c", script]).env("TMPDIR", &temporary).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        assert!(String::from_utf8_lossy(&run.stdout).contains("cluster: kstore\n"), "{run:?}");
        assert!(!stderr_of(&run).contains("access"), "the copy is the user's alone: {}", stderr_of(&run));
        assert_eq!(copies(&temporary), 0);
    }
    let mut killed = command(dir.path(), &flags, &["sh", "-c", "echo; exec sleep 600"]);
    let mut killed = killed.env("TMPDIR", &temporary).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(killed.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(copies(&temporary), 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    runtime.block_on(until("the copy is removed", async || (copies(&temporary) == 0).then_some(())));
    runtime.block_on(async {
        let run = Running::start(dir.path(), &["--from", "data"]).await;
        run.get(("", "v1", "configmaps"), "default", "prepared").await;
        let other = run.client.dynamic(Gvr::new("", "v1", "configmaps")).get("default", "other").await;
        assert!(other.is_err(), "an earlier run wrote it into its copy");
        assert!(run.end().success());
    });
}

#[test]
fn a_signal_ends_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "web.yaml", &manifests::deployment("web", 1).to_string());
    let copy = dir.path().join("kubeconfig");
    let flags =
        ["--nodes", "0", "--manifest", "web.yaml", "--wait=available", "--write-kubeconfig", "kubeconfig"];
    let mut child = command(dir.path(), &flags, &["true"]).spawn().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(until("the cluster has started", async || copy.exists().then_some(())));
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
