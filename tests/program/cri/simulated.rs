//! The simulated runtime served by CRI: `--cri-listen` of the program. The client of container runtimes that `--cri` has is the client.

use super::{PODS, Real, is_running, terminated};
use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_cri::client::{ClientStreams, Phase, RuntimeClient};
use kstore_cri::plan::{ContainerPlan, MountPlan, PodName, SandboxPlan};
use kstore_cri::stream::{self, RemoteEnd, RemotePiece};
use kstore_tests::wait::until;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const IMAGE: &str = "registry.example/busybox:1.36";

/// A server whose simulated runtime is served.
pub(super) struct Served {
    pub(super) server: Server,
    pub(super) socket: PathBuf,
    client: RuntimeClient,
}

impl Served {
    /// `node` follows the socket in the flag.
    pub(super) fn start(dir: &Path, node: &str, nodes: &str) -> Self {
        let socket = dir.join("runtime.sock");
        let listen = format!("unix://{}{node}", socket.display());
        let server = Launch::in_memory(SERVER, dir)
            .args(&["--nodes", nodes, "--cri-listen", &listen])
            .start()
            .unwrap();
        let client = RuntimeClient::new(socket.clone());
        Self { server, socket, client }
    }

    /// Makes and starts a container; returns its id.
    async fn run(&self, sandbox: (&str, &SandboxPlan), plan: &ContainerPlan) -> String {
        let id = self.client.create(sandbox, plan).await.unwrap();
        self.client.start(&id).await.unwrap();
        id
    }
}

fn pod(name: &str, logs: &Path) -> SandboxPlan {
    let (namespace, uid) = ("own".to_owned(), format!("uid-{name}"));
    SandboxPlan {
        pod: PodName { namespace, name: name.to_owned(), uid },
        log_directory: logs.display().to_string(),
        ..SandboxPlan::default()
    }
}

fn shell(name: &str, script: &str) -> ContainerPlan {
    ContainerPlan {
        name: name.to_owned(),
        image: IMAGE.to_owned(),
        command: ["sh", "-c", script].map(str::to_owned).into(),
        log_path: format!("{name}/0.log"),
        ..ContainerPlan::default()
    }
}

#[tokio::test]
async fn a_client_of_cri_makes_runs_and_removes_pods_without_an_object_of_the_api() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), "", "1");
    let client = &served.client;
    let version = until("the endpoint answers", async || client.version().await.ok()).await;
    assert_eq!(version.name, "kstore");
    assert_eq!(client.problem().await.unwrap(), None);
    pull_images(client).await;
    let mut events = client.events().await.unwrap();
    let plan = pod("web", &dir.path().join("logs"));
    let sandbox = client.run_sandbox(&plan).await.unwrap();
    assert!(events.next().await, "the sandbox is told");
    let again = client.run_sandbox(&plan).await.unwrap_err();
    assert!(again.to_string().contains("code = AlreadyExists"), "{again}");
    let address = client.addresses(&sandbox).await.unwrap()[0];
    assert!(address.to_string().starts_with("10.201."), "{address}");
    let missing = ContainerPlan { name: "x".into(), image: "none:1".into(), ..ContainerPlan::default() };
    assert!(client.create((&sandbox, &plan), &missing).await.unwrap_err().is_not_found());

    run_program(&served, (&sandbox, &plan), dir.path()).await;
    let nginx =
        ContainerPlan { name: "nginx".into(), image: "nginx:1.27".into(), ..ContainerPlan::default() };
    let nginx = served.run((&sandbox, &plan), &nginx).await;
    stream_to(client, &nginx).await;
    let page = get(client, &sandbox, 80).await;
    assert!(page.contains("200 OK") && page.contains("nginx"), "{page}");
    let url = client.port_forward(&sandbox, 81).await.unwrap();
    let (near, _far) = tokio::io::duplex(64);
    assert!(stream::forward(&url, 81, near).await.unwrap().contains("refused"));

    // What is stopped and removed is gone, and may be removed again.
    client.stop(&nginx, Duration::from_secs(5)).await.unwrap();
    assert_eq!(client.report(&nginx).await.unwrap().phase, Phase::Exited);
    client.remove(&nginx).await.unwrap();
    client.remove(&nginx).await.unwrap();
    assert!(client.report(&nginx).await.unwrap_err().is_not_found());
    client.remove_sandbox(&sandbox).await.unwrap();
    client.remove_sandbox(&sandbox).await.unwrap();
    assert!(client.sandboxes(&BTreeMap::new()).await.unwrap().is_empty());
    assert!(client.containers(&BTreeMap::new(), None).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_socket_of_the_served_runtime_is_one_server_s_and_ends_with_it() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let served = Served::start(dir.path(), "", "1");
    until("the endpoint answers", async || served.client.version().await.ok()).await;
    let listen = format!("unix://{}", served.socket.display());
    let second = Launch::in_memory(SERVER, other.path()).args(&["--cri-listen", &listen]).start();
    let why = second.err().unwrap();
    assert!(why.contains("another process listens there"), "{why}");
    served.server.terminate();
    assert!(!served.socket.exists());
}

/// Images are there once they are pulled, and only those that exist can be.
async fn pull_images(client: &RuntimeClient) {
    assert_eq!(client.image(IMAGE).await.unwrap(), None);
    let refused = client.pull("registry.invalid/none:1", None).await.unwrap_err();
    assert!(refused.is_not_found(), "{refused}");
    client.pull(IMAGE, None).await.unwrap();
    client.pull("nginx:1.27", None).await.unwrap();
    assert!(client.image(IMAGE).await.unwrap().unwrap().id.starts_with("sha256:"));
}

/// Runs a program with variables, files of this machine, a log file and an exit code.
async fn run_program(served: &Served, sandbox: (&str, &SandboxPlan), dir: &Path) {
    let client = &served.client;
    let folder = dir.join("shown");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("key"), "of the machine").unwrap();
    let words = dir.join("last-words");
    std::fs::write(&words, "").unwrap();
    let mount = |source: &Path, target: &str, is_read_only| MountPlan {
        source: source.display().to_string(),
        target: target.to_owned(),
        is_read_only,
        ..MountPlan::default()
    };
    let script = "echo $OWN; cat /shown/key; echo; echo wrong >&2; \
                  until [ -e /stop ]; do sleep 0.05; done; echo -n bye > /words; exit 3";
    let program = ContainerPlan {
        env: vec![("OWN".to_owned(), "of the client".to_owned())],
        mounts: vec![mount(&folder, "/shown", true), mount(&words, "/words", false)],
        ..shell("program", script)
    };
    let id = served.run(sandbox, &program).await;
    let log = dir.join("logs/program/0.log");
    let lines = until("the log is written", async || {
        let text = std::fs::read_to_string(&log).ok()?;
        (text.lines().count() == 3).then_some(text)
    })
    .await;
    for line in [" stdout F of the client", " stdout F of the machine", " stderr F wrong"] {
        assert!(lines.lines().any(|own| own.ends_with(line)), "{line}: {lines}");
    }
    std::fs::write(folder.join("key"), "newer").unwrap();
    execute(client, &id).await;
    client.exec_sync(&id, &["touch".into(), "/stop".into()], None).await.unwrap();
    let ended = until("the program ends", async || {
        Some(client.report(&id).await.unwrap()).filter(|report| report.phase == Phase::Exited)
    })
    .await;
    assert_eq!((ended.exit_code, ended.reason.as_str()), (3, "Error"));
    assert_eq!(std::fs::read_to_string(&words).unwrap(), "bye");
    let early = client.exec_sync(&id, &["true".into()], None).await.unwrap_err();
    assert!(early.message().contains("only a running one"), "{early}");
}

/// Commands of a client have their outputs, codes and time limits, and see the machine's files as they are.
async fn execute(client: &RuntimeClient, id: &str) {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let seen = client.exec_sync(id, &words(&["cat", "/shown/key"]), None).await.unwrap();
    assert_eq!((seen.stdout.as_slice(), seen.exit_code), (&b"newer"[..], 0));
    let failed = client.exec_sync(id, &words(&["sh", "-c", "echo bad >&2; exit 7"]), None).await.unwrap();
    assert_eq!((failed.stderr.as_slice(), failed.exit_code), (&b"bad\n"[..], 7));
    let slow = client.exec_sync(id, &words(&["sleep", "60"]), Some(Duration::from_secs(1))).await;
    assert!(slow.unwrap_err().is_timeout());
    assert_eq!(client.report(id).await.unwrap().phase, Phase::Running);
    let usage = client.usage(&BTreeMap::new()).await.unwrap();
    assert!(usage.iter().any(|one| one.name == "program"), "{usage:?}");
}

/// A command of a client has input, both outputs and a code over a stream, whose token counts once.
async fn stream_to(client: &RuntimeClient, id: &str) {
    let streams = ClientStreams { stdin: true, stdout: true, stderr: true, tty: false };
    let argv = ["sh".to_owned(), "-c".to_owned(), "cat; echo end >&2; exit 5".to_owned()];
    let url = client.exec(id, &argv, streams).await.unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let (mut input, mut output) = stream::open(&url, streams).await.unwrap();
    assert!(input.send(b"of the client").await);
    input.end().await;
    let (mut printed, mut failed, mut end) = (Vec::new(), Vec::new(), None);
    while let Some(piece) = output.next().await {
        match piece {
            RemotePiece::Stdout(bytes) => printed.extend_from_slice(&bytes),
            RemotePiece::Stderr(bytes) => failed.extend_from_slice(&bytes),
            RemotePiece::End(ended) => end = Some(ended),
        }
    }
    assert_eq!((printed.as_slice(), failed.as_slice()), (&b"of the client"[..], &b"end\n"[..]));
    assert_eq!(end, Some(RemoteEnd::Code(5)));
    let used = stream::open(&url, streams).await;
    assert!(used.err().is_some_and(|error| error.to_string().contains("404")), "a token counts once");
}

/// The answer to a request for `/` at a port of a sandbox.
async fn get(client: &RuntimeClient, sandbox: &str, port: u16) -> String {
    let url = client.port_forward(sandbox, port).await.unwrap();
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let asking = async {
        far.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (refused, answer) = tokio::join!(stream::forward(&url, port, near), asking);
    assert_eq!(refused.unwrap(), "");
    answer
}

#[tokio::test]
async fn a_client_of_cri_sees_the_pods_of_its_node_and_only_the_api_changes_them() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(dir.path(), "", "1");
    let client = &served.client;
    let https = Https::new(&Kubeconfig::read(served.server.kubeconfig()).unwrap());
    let container =
        json!({"name": "c", "image": "busybox", "command": ["sh", "-c", "echo begun; sleep 3600"]});
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "simulated"}, "spec": {"containers": [container]}});
    assert_eq!(https.call("POST", PODS, &object.to_string()).await.code, 201);
    let found = until("the container runs", async || {
        let all = client.containers(&BTreeMap::new(), None).await.ok()?;
        all.into_iter().find(|one| one.name == "c" && one.phase == Phase::Running)
    })
    .await;
    let sandboxes = client.sandboxes(&BTreeMap::new()).await.unwrap();
    assert_eq!(sandboxes.len(), 1, "{sandboxes:?}");
    assert_eq!((&sandboxes[0].id, sandboxes[0].is_ready), (&found.sandbox, true));
    let pod = https.call("GET", &format!("{PODS}/simulated"), "").await.json();
    let address = client.addresses(&found.sandbox).await.unwrap()[0].to_string();
    assert_eq!(pod["status"]["podIP"], address.as_str());
    let seen = client.exec_sync(&found.id[..12], &["hostname".into()], None).await.unwrap();
    assert_eq!(seen.stdout, b"simulated\n");
    for refused in [
        client.stop(&found.id, Duration::ZERO).await,
        client.remove(&found.id).await,
        client.remove_sandbox(&found.sandbox).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.message().contains("belongs to the pod default/simulated"), "{refused}");
    }
    assert_eq!(client.report(&found.id).await.unwrap().phase, Phase::Running);
}

/// Property: what a node of `--cri` does with containerd, it does with the simulated runtime of another server.
#[tokio::test]
async fn the_pods_of_another_cluster_run_in_the_served_runtime() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let served = Served::start(dir.path(), ",node=outside", "1");
    let cluster = Real::start(&served.socket, Launch::in_memory(SERVER, other.path())).await;
    let node = cluster.get("/api/v1/nodes/real-0").await;
    let version = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap();
    assert!(version.starts_with("kstore://"), "{node}");
    run_with_volumes(&cluster).await;
    run_to_their_ends(&cluster).await;
    // A deleted pod gets its signal, and the end of the cluster leaves nothing.
    assert_eq!(cluster.https.call("DELETE", &format!("{PODS}/web"), "").await.code, 200);
    until("the pod is gone", async || {
        (cluster.https.call("GET", &format!("{PODS}/web"), "").await.code == 404).then_some(())
    })
    .await;
    cluster.server.terminate();
    let left = served.client.sandboxes(&BTreeMap::new()).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

fn map(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"key": value}})
}

/// A pod with an init container, variables, volumes that follow their objects, a probe, logs and commands.
async fn run_with_volumes(cluster: &Real) {
    cluster.create("/api/v1/namespaces/default/configmaps", &map("old")).await;
    let env = json!([{"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "key"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    let script = "echo begun $FROM_MAP $POD_IP; echo wrong >&2; hostname; cat /shared/page; \
                  trap 'echo told; exit 0' TERM; while true; do sleep 0.1; done";
    let shared = json!({"name": "shared", "mountPath": "/shared"});
    let config = json!({"name": "config", "mountPath": "/config", "readOnly": true});
    let main = json!({"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "env": env,
        "readinessProbe": {"exec": {"command": ["cat", "/shared/page"]}, "periodSeconds": 1},
        "volumeMounts": [shared, config]});
    let init = json!({"name": "init", "image": IMAGE, "command": ["sh", "-c", "echo from init > /shared/page"],
        "volumeMounts": [shared]});
    let volumes =
        json!([{"name": "shared", "emptyDir": {}}, {"name": "config", "configMap": {"name": "map"}}]);
    let spec = json!({"initContainers": [init], "containers": [main], "volumes": volumes});
    cluster.run("web", spec).await;
    let ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
    let pod = cluster.pod("web", "is ready", ready).await;
    let address = pod["status"]["podIP"].as_str().unwrap();
    assert!(address.starts_with("10.201."), "{pod}");
    assert_eq!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0, "{pod}");
    let log = cluster.log("web", "timestamps=false").await;
    for line in [&format!("begun old {address}"), "wrong", "web", "from init"] {
        assert!(log.lines().any(|own| own == line), "{line}: {log}");
    }
    let argv = ["sh", "-c", "cat; echo bad >&2; exit 3"];
    let [out, err, status] = cluster.exec("web", &argv, Some("input")).await;
    assert_eq!((out.as_str(), err.as_str()), ("input", "bad\n"), "{status}");
    assert!(status.contains("\"message\":\"3\""), "{status}");
    let [_, _, status] = cluster.exec("web", &["no-such-program"], None).await;
    assert!(status.contains("no-such-program"), "{status}");
    let path = "/api/v1/namespaces/default/configmaps/map";
    assert_eq!(cluster.https.call("PUT", path, &map("new").to_string()).await.code, 200);
    until("the volume has the new value", async || {
        (cluster.exec("web", &["cat", "/config/key"], None).await[0] == "new").then_some(())
    })
    .await;
}

/// Pods whose containers end, run again, or cannot be pulled.
async fn run_to_their_ends(cluster: &Real) {
    let words = "printf 'last words' > /dev/termination-log; exit 3";
    let of = |container: Value, policy: &str| {
        let mut container = container;
        container["name"] = "c".into();
        json!({"containers": [container], "restartPolicy": policy})
    };
    cluster.run("words", of(json!({"image": IMAGE, "command": ["sh", "-c", words]}), "Never")).await;
    let fails = json!({"image": IMAGE, "command": ["sh", "-c", "echo in the log; exit 4"],
        "terminationMessagePolicy": "FallbackToLogsOnError"});
    cluster.run("again", of(fails, "OnFailure")).await;
    cluster.run("missing", of(json!({"image": "registry.invalid/none:1"}), "Never")).await;
    let nginx = json!({"image": "nginx", "ports": [{"containerPort": 80}]});
    cluster.run("nginx", of(nginx, "Always")).await;
    let ended = cluster.container("words", "ends", terminated).await;
    let ended = &ended["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["message"]), (&json!(3), &json!("last words")), "{ended}");
    let is_again = |status: &Value| status["restartCount"].as_u64() >= Some(1);
    let again = cluster.container("again", "runs again", is_again).await;
    let last = &again["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["message"]), (&json!(4), &json!("in the log\n")), "{again}");
    let waits = |status: &Value| status["state"]["waiting"]["reason"] == "ImagePullBackOff";
    cluster.container("missing", "cannot be pulled", waits).await;
    cluster.container("nginx", "runs", is_running).await;
}
