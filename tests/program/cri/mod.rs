//! Pods whose containers a real runtime runs: `--cri` of the program, with a containerd of the test. On a machine without containerd, or
//! without root, a test says so and passes; with `KSTORE_NEEDS_CONTAINERD` it fails.

mod containerd;
mod kubelet;
mod simulated;

use crate::SERVER;
use containerd::{Containerd, IMAGE, missing};
use futures::{SinkExt as _, StreamExt as _};
use kstore_client::Kubeconfig;
use kstore_tests::skip::skip;
use kstore_tests::wait::until;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster whose only node is that of a container runtime.
struct Real {
    server: Server,
    https: Https,
}

/// Runs a test on a thread of its own, which enters the network of its containerd.
fn with_containerd(test: impl AsyncFnOnce(&Containerd, &Path) + Send + 'static) {
    if let Some(why) = missing() {
        return skip("KSTORE_NEEDS_CONTAINERD", &why);
    }
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let containerd = Containerd::start(dir.path()).await;
            test(&containerd, dir.path()).await;
        });
    };
    std::thread::spawn(run).join().unwrap();
}

impl Real {
    async fn start(socket: &Path, launch: Launch) -> Self {
        let socket = format!("unix://{}", socket.display());
        let flags = ["--nodes", "0", "--cri", &socket, "--cri-node", "real-0"];
        let server = launch.args(&flags).start().unwrap();
        let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
        let cluster = Self { server, https };
        until("the node is ready", async || {
            let node = cluster.get("/api/v1/nodes/real-0").await;
            let conditions = node["status"]["conditions"].as_array()?;
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True").then_some(())
        })
        .await;
        cluster
    }

    async fn get(&self, path: &str) -> Value {
        self.https.call("GET", path, "").await.json()
    }

    async fn create(&self, path: &str, object: &Value) {
        let reply = self.https.call("POST", path, &object.to_string()).await;
        assert_eq!(reply.code, 201, "{path}: {}", reply.json());
    }

    async fn run(&self, name: &str, spec: Value) {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
        self.create(PODS, &object).await;
    }

    /// The pod once it `holds`.
    async fn pod(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{PODS}/{name}");
        until(&format!("{name}: {what}"), async || Some(self.get(&path).await).filter(|pod| holds(pod))).await
    }

    /// The status of the pod's first container once it `holds`.
    async fn container(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let pod = self.pod(name, what, |pod| holds(&pod["status"]["containerStatuses"][0])).await;
        pod["status"]["containerStatuses"][0].clone()
    }

    /// The answer to a request whose text is no JSON, with its head.
    async fn text(&self, path: &str) -> String {
        let mut connection = self.https.try_connect().await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn log(&self, pod: &str, query: &str) -> String {
        self.text(&format!("{PODS}/{pod}/log?{query}")).await
    }

    /// Runs a command in the pod with this input; returns output, errors and status.
    async fn exec(&self, pod: &str, argv: &[&str], input: Option<&str>) -> [String; 3] {
        let mut path = format!("ws://kstore{PODS}/{pod}/exec?stdout=true&stderr=true");
        let escaped = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        for word in argv {
            path += &format!("&command={}", word.bytes().map(escaped).collect::<String>());
        }
        if input.is_some() {
            path += "&stdin=true";
        }
        let mut request = path.into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
        let tls = self.https.try_connect().await.unwrap();
        let (mut socket, _) = tokio_tungstenite::client_async(request, tls).await.unwrap();
        if let Some(input) = input {
            socket.send(Message::Binary([&[0], input.as_bytes()].concat().into())).await.unwrap();
            // The end of the channel of standard input.
            socket.send(Message::Binary(vec![255, 0].into())).await.unwrap();
        }
        let mut channels = [const { Vec::new() }; 4];
        while let Some(Ok(message)) = socket.next().await {
            let Message::Binary(bytes) = message else { continue };
            let Some((channel, text)) = bytes.split_first() else { continue };
            channels[usize::from(*channel)].extend_from_slice(text);
        }
        let [_, out, err, status] = channels.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        [out, err, status]
    }
}

fn is_running(status: &Value) -> bool {
    status["state"]["running"].is_object()
}

fn terminated(status: &Value) -> bool {
    status["state"]["terminated"].is_object()
}

#[test]
fn pods_of_the_node_are_containers_of_containerd_with_all_that_their_pod_gives_them() {
    with_containerd(async |containerd, dir| {
        let cluster = Real::start(&containerd.socket, Launch::in_memory(SERVER, dir)).await;
        let node = cluster.get("/api/v1/nodes/real-0").await;
        let version = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap();
        assert!(version.starts_with("containerd://"), "{node}");
        let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"key": value}});
        cluster.create("/api/v1/namespaces/default/configmaps", &map("old")).await;
        let env = json!([{"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "key"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
        let script = "echo begun $FROM_MAP $POD_IP $OF_IMAGE; echo wrong >&2; id -u; hostname; \
                      trap 'echo told; exit 0' TERM; httpd -p 8080 -h /shared; while true; do sleep 0.1; done";
        let main = json!({"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "env": env,
            "securityContext": {"runAsUser": 7, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
            "ports": [{"name": "web", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/index.html", "port": "web"}, "periodSeconds": 1},
            "livenessProbe": {"exec": {"command": ["cat", "/shared/index.html"]}, "periodSeconds": 1},
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}, {"name": "config", "mountPath": "/config"}]});
        let init = json!({"name": "init", "image": IMAGE, "command": ["sh", "-c", "echo from init > /shared/index.html"],
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]});
        let volumes =
            json!([{"name": "shared", "emptyDir": {}}, {"name": "config", "configMap": {"name": "map"}}]);
        let spec = json!({"initContainers": [init], "containers": [main], "volumes": volumes, "terminationGracePeriodSeconds": 20});
        cluster.run("web", spec).await;
        let pod = cluster
            .pod("web", "is ready", |pod| pod["status"]["containerStatuses"][0]["ready"] == true)
            .await;
        let address = pod["status"]["podIP"].as_str().unwrap();
        assert!(address.starts_with("10.88.7."), "{pod}");
        let status = &pod["status"]["containerStatuses"][0];
        assert!(status["containerID"].as_str().unwrap().starts_with("containerd://"), "{pod}");
        assert_eq!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0, "{pod}");
        // The runtime copies the output of a container into its log in its own time.
        let lines = [&format!("begun old {address} 1"), "wrong", "7", "web"];
        until("the log has all lines", async || {
            let log = cluster.log("web", "timestamps=false").await;
            lines.iter().all(|line| log.lines().any(|own| own == *line)).then_some(())
        })
        .await;
        // Commands of clients, with their input, its end, and their exit codes.
        let [out, err, status] =
            cluster.exec("web", &["sh", "-c", "cat; echo bad >&2; exit 3"], Some("input")).await;
        assert_eq!((out.as_str(), err.as_str()), ("input", "bad\n"), "{status}");
        assert!(status.contains("\"message\":\"3\""), "{status}");
        let [out, _, status] = cluster.exec("web", &["cat", "/config/key"], None).await;
        assert_eq!((out.as_str(), status.contains("Success")), ("old", true), "{status}");
        let [_, _, status] = cluster.exec("web", &["no-such-program"], None).await;
        assert!(status.contains("executable file not found"), "{status}");
        // The port, by the runtime's stream.
        let page = cluster.text(&format!("{PODS}/web:8080/proxy/index.html")).await;
        assert!(page.contains("from init"), "{page}");
        // Volumes follow their objects.
        let path = "/api/v1/namespaces/default/configmaps/map";
        assert_eq!(cluster.https.call("PUT", path, &map("new").to_string()).await.code, 200);
        until("the volume has the new value", async || {
            (cluster.exec("web", &["cat", "/config/key"], None).await[0] == "new").then_some(())
        })
        .await;
        let used = until("the usage of the container", async || {
            let summary = cluster.get("/api/v1/nodes/real-0/proxy/stats/summary").await;
            let pods = summary["pods"].as_array()?.clone();
            let own = pods.into_iter().find(|one| one["podRef"]["name"] == "web")?;
            own["containers"][0]["memory"]["workingSetBytes"].as_u64().filter(|bytes| *bytes > 0)
        })
        .await;
        assert!(used < 64 << 20, "{used}");
        // A deleted pod gets its signal, and nothing of it is left.
        assert!(containerd.containers().len() >= 2);
        assert_eq!(cluster.https.call("DELETE", &format!("{PODS}/web"), "").await.code, 200);
        until("the pod is gone", async || {
            (cluster.https.call("GET", &format!("{PODS}/web"), "").await.code == 404).then_some(())
        })
        .await;
        until("no container is left", async || containerd.containers().is_empty().then_some(())).await;
    });
}

#[test]
fn containers_end_restart_and_fail_as_their_runtime_says() {
    with_containerd(async |containerd, dir| {
        let cluster = Real::start(&containerd.socket, Launch::in_memory(SERVER, dir)).await;
        let of = |container: Value, policy: &str| {
            let mut container = container;
            container["name"] = "c".into();
            json!({"containers": [container], "restartPolicy": policy})
        };
        let words = "printf 'last words' > /dev/termination-log; exit 3";
        cluster.run("words", of(json!({"image": IMAGE, "command": ["sh", "-c", words]}), "Never")).await;
        let fails = json!({"image": IMAGE, "command": ["sh", "-c", "echo in the log; exit 4"],
            "terminationMessagePolicy": "FallbackToLogsOnError"});
        cluster.run("again", of(fails, "OnFailure")).await;
        let missing = json!({"image": "registry.invalid/none:1"});
        cluster.run("missing", of(missing, "Never")).await;
        let never = json!({"image": "registry.invalid/none:1", "imagePullPolicy": "Never"});
        cluster.run("never", of(never, "Never")).await;
        let unknown = json!({"image": IMAGE, "command": ["/no-such-program"]});
        cluster.run("unknown", of(unknown, "Never")).await;
        let root = json!({"image": IMAGE, "command": ["true"], "securityContext": {"runAsNonRoot": true}});
        cluster.run("root", of(root, "Never")).await;
        let ended = cluster.container("words", "ends", terminated).await;
        let ended = &ended["state"]["terminated"];
        let shown = (&ended["exitCode"], &ended["message"], &ended["reason"]);
        assert_eq!(shown, (&json!(3), &json!("last words"), &json!("Error")), "{ended}");
        let again = cluster
            .container("again", "runs again", |status| status["restartCount"].as_u64() >= Some(1))
            .await;
        let last = &again["lastState"]["terminated"];
        assert_eq!((&last["exitCode"], &last["message"]), (&json!(4), &json!("in the log\n")), "{again}");
        assert!(cluster.log("again", "previous=true").await.contains("in the log"));
        let waits =
            |reason: &'static str| move |status: &Value| status["state"]["waiting"]["reason"] == reason;
        cluster.container("never", "may not be pulled", waits("ErrImageNeverPull")).await;
        cluster.container("missing", "cannot be pulled", waits("ImagePullBackOff")).await;
        let unknown = cluster.container("unknown", "cannot be started", waits("RunContainerError")).await;
        let message = unknown["state"]["waiting"]["message"].as_str().unwrap();
        assert!(message.contains("no-such-program") && message.contains("no such file"), "{message}");
        let root = cluster.container("root", "would run as root", waits("CreateContainerConfigError")).await;
        let message = root["state"]["waiting"]["message"].as_str().unwrap();
        assert!(message.starts_with("container has runAsNonRoot and image will run as root"), "{message}");
        // The end of the server is that of its containers, because it keeps none.
        cluster.server.terminate();
        assert!(containerd.containers().is_empty(), "{:?}", containerd.containers());
    });
}

#[test]
fn a_restarted_server_adopts_the_containers_that_run_on() {
    with_containerd(async |containerd, dir| {
        let folder = dir.join("pods").display().to_string();
        let launch = || Launch::on_disk(SERVER, dir).args(&["--cri-dir", &folder]);
        let cluster = Real::start(&containerd.socket, launch()).await;
        let script = "echo begun; until [ -e /shared/stop ]; do sleep 0.1; done; echo seen; exit 5";
        let container = json!({"name": "c", "image": IMAGE, "command": ["sh", "-c", script],
            "readinessProbe": {"exec": {"command": ["ls", "/shared"]}, "periodSeconds": 1},
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]});
        let spec = json!({"containers": [container], "volumes": [{"name": "shared", "emptyDir": {}}], "restartPolicy": "Never"});
        cluster.run("long", spec).await;
        let before = cluster.container("long", "is ready", |status| status["ready"] == true).await;
        assert!(is_running(&before));
        cluster.server.kill();
        let cluster = Real::start(&containerd.socket, launch()).await;
        let [out, ..] = cluster.exec("long", &["sh", "-c", "echo adopted; touch /shared/stop"], None).await;
        assert_eq!(out, "adopted\n");
        let ended = cluster.container("long", "ends", terminated).await;
        assert_eq!(
            (&ended["containerID"], &ended["restartCount"]),
            (&before["containerID"], &json!(0)),
            "{ended}"
        );
        assert_eq!(ended["state"]["terminated"]["exitCode"], 5, "{ended}");
        let log = cluster.log("long", "").await;
        assert!(log.contains("begun\n") && log.contains("seen\n"), "{log}");
    });
}

#[tokio::test]
async fn without_a_runtime_the_node_is_not_ready_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}", dir.path().join("none.sock").display());
    let server =
        Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "1", "--cri", &socket]).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    let why = until("the node says why", async || {
        let node = https.call("GET", "/api/v1/nodes/cri-0", "").await.json();
        let conditions = node["status"]["conditions"].as_array()?.clone();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready" && one["status"] == "False")?;
        ready["message"].as_str().filter(|why| why.contains("is down")).map(str::to_owned)
    })
    .await;
    assert!(why.contains(&socket) && why.contains("No such file"), "{why}");
}
