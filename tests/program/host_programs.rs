//! Containers that run programs of this machine: `--image` of the program. On a machine without user namespaces a test says so, and passes;
//! with `KSTORE_NEEDS_NAMESPACES` it fails.

use crate::SERVER;
use futures::{SinkExt as _, StreamExt as _};
use kstore_client::Kubeconfig;
use kstore_tests::skip::{NEEDS_NAMESPACES, skip};
use kstore_tests::wait::until;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// With this variable the test of a server that may not open `/dev/net/tun` fails where every user may.
const NO_TUN: &str = "KSTORE_NEEDS_CLOSED_TUN";

/// A server whose image `ops/op` is mapped to a shell script.
pub(crate) struct Mapped {
    pub(crate) server: Server,
    pub(crate) https: Https,
}

impl Mapped {
    pub(crate) fn start(dir: &Path, script: &str) -> Self {
        Self::start_with(dir, script, &[])
    }

    /// The same with further flags.
    pub(crate) fn start_with(dir: &Path, script: &str, flags: &[&str]) -> Self {
        let program = dir.join("op.sh");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mapping = format!("ops/op:*={}", program.display());
        // Most tests need no network of a pod, which not every machine has.
        let server = Launch::in_memory(SERVER, dir).args(&["--image", &mapping, "--image-host-network"]);
        let server = server.args(flags).start().unwrap();
        let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
        Self { server, https }
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) {
        let reply = self.https.call("POST", path, &object.to_string()).await;
        assert_eq!(reply.code, 201, "{path}: {}", reply.json());
    }

    pub(crate) async fn pod(&self, name: &str) -> Value {
        self.https.call("GET", &format!("{PODS}/{name}"), "").await.json()
    }

    /// The status of a pod's container once it `holds`; `None` if containers cannot be confined on this machine.
    pub(crate) async fn container(
        &self,
        pod: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        until(&format!("{pod}: {what}"), async || {
            let status = self.pod(pod).await["status"]["containerStatuses"][0].clone();
            if let Some(why) = status["state"]["waiting"]["message"]
                .as_str()
                .filter(|why| why.contains("cannot be confined"))
            {
                skip(NEEDS_NAMESPACES, why);
                return Some(None);
            }
            holds(&status).then_some(Some(status))
        })
        .await
    }

    /// Gives the only container of a pod other limits in place.
    async fn resize(&self, mut pod: Value, limits: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        pod["metadata"]["resourceVersion"].take();
        pod["spec"]["containers"][0]["resources"] = json!({"limits": limits, "requests": limits});
        let reply = self.https.call("PUT", &format!("{PODS}/{name}/resize"), &pod.to_string()).await;
        assert_eq!(reply.code, 200, "{}", reply.json());
    }

    /// The log of a pod, among the head and the lengths of the answer that has it.
    pub(crate) async fn log(&self, pod: &str) -> String {
        let mut connection = self.https.try_connect().await.unwrap();
        let request = format!("GET {PODS}/{pod}/log HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }
}

/// Whether pods of programs have a network of their own on this machine: else the server warns at its start.
pub(crate) fn has_network(dir: &Path) -> bool {
    let log = std::fs::read_to_string(dir.join("server.log")).unwrap_or_default();
    !log.contains("have the network of this machine") && !log.contains("no container runs a program")
}

pub(crate) fn pod(name: &str, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
    object["spec"]["restartPolicy"] = "Never".into();
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapped_image_runs_its_program_with_what_the_pod_gives_it() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"account=/var/run/secrets/kubernetes.io/serviceaccount
echo "$0 $*"; echo "to stderr" >&2
cat $account/namespace; echo; head -1 $account/ca.crt; wc -c < $account/token
echo "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
cat /config/key; echo; echo "$FROM_MAP $POD_NAME"; id -u; uname -n
until grep -q new /config/key; do :; done
echo renewed; printf 'last words' > /dev/termination-log; exit 3"#;
    let cluster = Mapped::start(dir.path(), script);
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"key": value}});
    cluster.create("/api/v1/namespaces/default/configmaps", &map("old")).await;
    let env = json!([{"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "key"}}},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    let container = json!({"name": "op", "image": "ops/op:v1", "command": ["/manager"], "args": ["--name=$(POD_NAME)"], "env": env,
        "volumeMounts": [{"name": "config", "mountPath": "/config"}]});
    let spec =
        json!({"containers": [container], "volumes": [{"name": "config", "configMap": {"name": "map"}}]});
    cluster.create(PODS, &pod("op", &spec)).await;
    let running = |status: &Value| status["state"]["running"].is_object();
    if cluster.container("op", "runs", running).await.is_none() {
        return;
    }
    let begun = async || cluster.log("op").await.contains("old\nold op\n").then_some(());
    until("the program has read its files", begun).await;
    let changed =
        cluster.https.call("PUT", "/api/v1/namespaces/default/configmaps/map", &map("new").to_string()).await;
    assert_eq!(changed.code, 200);
    let ended =
        cluster.container("op", "ends", |status| status["state"]["terminated"].is_object()).await.unwrap();
    let ended = &ended["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["message"]), (&json!(3), &json!("last words")), "{ended}");
    let log = cluster.log("op").await;
    let address = match has_network(dir.path()) {
        true => "10.96.0.1:443".to_owned(),
        false => cluster.server.address().trim_start_matches("https://").to_owned(),
    };
    for line in [
        "/opt/bin/op.sh --name=op",
        "to stderr",
        "default",
        "-----BEGIN CERTIFICATE-----",
        &address,
        "old op",
        "0",
        "op",
        "renewed",
    ] {
        assert!(log.lines().any(|own| own == line), "{line}: {log}");
    }
    assert!(!log.contains(&dir.path().display().to_string()), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_gets_its_signal_and_a_killed_server_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'echo told; exit 0' TERM\nsleep 1000 & echo begun\nwhile :; do sleep 0.01; done";
    let cluster = Mapped::start(dir.path(), script);
    let mark = format!("mark-{}-{}", std::process::id(), dir.path().display());
    let left = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let environments = all.map(|entry| std::fs::read(entry.path().join("environ")).unwrap_or_default());
        environments.filter(|text| text.windows(mark.len()).any(|part| part == mark.as_bytes())).count()
    };
    let container = json!({"name": "op", "image": "ops/op:v1", "env": [{"name": "MARK", "value": mark}]});
    for name in ["one", "two"] {
        cluster.create(PODS, &pod(name, &json!({"containers": [container]}))).await;
        let running = |status: &Value| status["state"]["running"].is_object();
        if cluster.container(name, "runs", running).await.is_none() {
            return;
        }
        until("the program begins", async || cluster.log(name).await.contains("begun\n").then_some(())).await;
    }
    assert!(left() >= 4, "two programs, each with a child");
    let deleted = cluster.https.call("DELETE", &format!("{PODS}/one"), "").await;
    assert_eq!(deleted.code, 200);
    until("the pod is gone", async || {
        (cluster.https.call("GET", &format!("{PODS}/one"), "").await.code == 404).then_some(())
    })
    .await;
    until("one program is left", async || {
        cluster.log("two").await.contains("begun").then(left).filter(|left| *left <= 3)
    })
    .await;
    drop(cluster);
    until("no process is left", async || (left() == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_beyond_the_limit_also_a_resized_one_kills_a_program_and_usage_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    // `tail` keeps what it has read until the end of its input.
    let script = "(head -c 40000000 /dev/zero; sleep 1000) | tail -c 50000000 >/dev/null & wait";
    let cluster = Mapped::start(dir.path(), script);
    let container =
        |limits: &Value| json!({"name": "op", "image": "ops/op:v1", "resources": {"limits": limits}});
    let spec = json!({"containers": [container(&json!({"memory": "16Mi", "cpu": "500m"}))]});
    cluster.create(PODS, &pod("large", &spec)).await;
    cluster.create(PODS, &pod("small", &json!({"containers": [container(&json!({"memory": "1Gi"}))]}))).await;
    let ended = |status: &Value| status["state"]["terminated"].is_object();
    let Some(ended) = cluster.container("large", "ends", ended).await else { return };
    let ended = &ended["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(137), &json!("OOMKilled")), "{ended}");
    let small = until("the usage of the other pod", async || {
        let pod = cluster.pod("small").await;
        let path = format!("/api/v1/nodes/{}/proxy/stats/summary", pod["spec"]["nodeName"].as_str().unwrap());
        let summary = cluster.https.call("GET", &path, "").await.json();
        let pods = summary["pods"].as_array().cloned().unwrap_or_default();
        let own = pods.into_iter().find(|one| one["podRef"]["name"] == "small")?;
        let used = own["containers"][0]["memory"]["workingSetBytes"].as_u64()?;
        (used >= 40_000_000).then_some(pod)
    })
    .await;
    assert!(small["status"]["containerStatuses"][0]["state"]["running"].is_object(), "{small}");
    cluster.resize(small, &json!({"memory": "16Mi"})).await;
    let ended = |status: &Value| status["state"]["terminated"].is_object();
    let ended = cluster.container("small", "ends by its new limit", ended).await.unwrap();
    assert_eq!(ended["state"]["terminated"]["reason"], "OOMKilled", "{ended}");
    if std::fs::read_to_string(dir.path().join("server.log"))
        .unwrap()
        .contains("processors by control groups")
    {
        return;
    }
    let event = until("the limit without effect is told", async || {
        let path = "/api/v1/namespaces/default/events?fieldSelector=reason%3DLimitNotEnforced";
        cluster.https.call("GET", path, "").await.json()["items"].as_array()?.first().cloned()
    })
    .await;
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("the limit on cpu (500m) is not enforced: "), "{event}");
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{op}", "{event}");
    assert_eq!(event["involvedObject"]["name"], "large", "the other pod has no such limit: {event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_a_program_asks_for_and_does_not_get_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Mapped::start(dir.path(), "grep CapEff: /proc/self/status; exit 4");
    let container = json!({"name": "op", "image": "ops/op:v1",
        "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}}});
    cluster.create(PODS, &pod("op", &json!({"containers": [container], "hostPID": true}))).await;
    let ended = |status: &Value| status["state"]["terminated"].is_object();
    if cluster.container("op", "ends", ended).await.is_none() {
        return;
    }
    let log = cluster.log("op").await;
    assert!(log.contains("\nCapEff:\t0000000000000000\n"), "{log}");
    let event = until("what is ignored is told", async || {
        let path = "/api/v1/namespaces/default/events?fieldSelector=reason%3DSecurityContextIgnored";
        cluster.https.call("GET", path, "").await.json()["items"].as_array()?.first().cloned()
    })
    .await;
    let fields = "spec.hostPID, securityContext.privileged, securityContext.capabilities.add";
    let message = format!("a program of this machine gets no further rights: ignored {fields}");
    assert_eq!((&event["type"], &event["message"]), (&json!("Warning"), &json!(message)), "{event}");
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{op}", "{event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_attaches_sends_input_to_the_program_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo begun; while read line; do echo \"got $line\"; done; echo end >&2; exit 4";
    let cluster = Mapped::start(dir.path(), script);
    let container = json!({"name": "op", "image": "ops/op:v1", "stdin": true, "stdinOnce": true});
    cluster.create(PODS, &pod("op", &json!({"containers": [container]}))).await;
    let running = |status: &Value| status["state"]["running"].is_object();
    if cluster.container("op", "runs", running).await.is_none() {
        return;
    }
    until("the program begins", async || cluster.log("op").await.contains("begun\n").then_some(())).await;
    let path = format!("ws://kstore{PODS}/op/attach?stdin=true&stdout=true&stderr=true");
    let mut request = path.into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
    let tls = cluster.https.try_connect().await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, tls).await.unwrap();
    socket.send(Message::Binary(b"\0one\n"[..].into())).await.unwrap();
    let mut channels = [String::new(), String::new(), String::new(), String::new()];
    let mut has_ended_input = false;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(bytes) = message else { continue };
        let Some((channel, text)) = bytes.split_first() else { continue };
        channels[usize::from(*channel)].push_str(std::str::from_utf8(text).unwrap());
        if !has_ended_input && channels[1].ends_with("got one\n") {
            has_ended_input = true;
            // The end of the channel of standard input.
            socket.send(Message::Binary(vec![255, 0].into())).await.unwrap();
        }
    }
    let [_, out, err, status] = channels;
    assert_eq!((out.as_str(), err.as_str()), ("begun\ngot one\n", "end\n"), "{status}");
    let ended =
        cluster.container("op", "ends", |status| status["state"]["terminated"].is_object()).await.unwrap();
    assert_eq!(ended["state"]["terminated"]["exitCode"], 4, "{ended}");
    let log = cluster.log("op").await;
    assert!(log.contains("got one\n") && log.contains("end\n"), "{log}");
}

/// A script that runs the server as a user who may not open `/dev/net/tun`; `None` where this user is not root and may open it.
fn server_without_tun(dir: &Path) -> Option<String> {
    let script = dir.join("unprivileged.sh");
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { "setpriv --reuid 65534 --regid 65534 --clear-groups" } else { "" };
    let may = format!("{user} sh -c 'exec 3<>/dev/net/tun' 2>/dev/null");
    if std::process::Command::new("sh").args(["-c", &may]).status().unwrap().success() {
        skip(NO_TUN, "every user may open /dev/net/tun here");
        return None;
    }
    std::fs::write(&script, format!("#!/bin/sh\nexec {user} {SERVER} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    Some(script.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_can_have_no_network_of_their_own_run_only_if_a_flag_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = server_without_tun(dir.path()) else { return };
    let image = dir.path().join("op.sh");
    std::fs::write(&image, "#!/bin/sh\necho started; exec sleep 1000\n").unwrap();
    std::fs::set_permissions(&image, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mapping = format!("ops/op:*={}", image.display());
    for flags in [&[][..], &["--image-host-network"]] {
        let launch = Launch::in_memory(&program, dir.path()).args(&["--image", &mapping]).args(flags);
        let server = launch.start().unwrap();
        let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
        let cluster = Mapped { server, https };
        let container = json!({"name": "op", "image": "ops/op:v1"});
        cluster.create(PODS, &pod("p", &json!({"containers": [container]}))).await;
        let is_decided = |status: &Value| {
            let state = &status["state"];
            state["running"].is_object() || state["waiting"]["reason"] == "CreateContainerConfigError"
        };
        let status = until("the pod is refused or runs", async || {
            let status = cluster.pod("p").await["status"]["containerStatuses"][0].clone();
            is_decided(&status).then_some(status)
        })
        .await;
        let message = status["state"]["waiting"]["message"].as_str().unwrap_or_default().to_owned();
        if message.contains("cannot be confined") && !message.contains("network of this machine") {
            return skip(NEEDS_NAMESPACES, &message);
        }
        if flags.is_empty() {
            assert!(message.contains("--image-host-network") && message.contains("/dev/net/tun"), "{status}");
            let events = until("an event tells it", async || {
                let list = cluster.https.call("GET", "/api/v1/namespaces/default/events", "").await.json();
                list.to_string().contains("they would have the network of this machine").then_some(list)
            })
            .await;
            assert!(events.to_string().contains("Failed"), "{events}");
        } else {
            assert!(status["state"]["running"].is_object(), "{status}");
            until("it prints", async || cluster.log("p").await.contains("started").then_some(())).await;
        }
        cluster.server.terminate();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_a_simulated_and_a_host_container_keeps_both_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Mapped::start(dir.path(), "exec sleep 1000");
    let mounts = json!([{"name": "shared", "mountPath": "/shared"}]);
    let containers = json!([{"name": "op", "image": "ops/op:v1", "volumeMounts": mounts},
        {"name": "side", "image": "busybox", "command": ["sleep", "1000"], "volumeMounts": mounts}]);
    let spec = json!({"containers": containers, "volumes": [{"name": "shared", "emptyDir": {}}]});
    cluster.create(PODS, &pod("mixed", &spec)).await;
    let is_refused = |status: &Value| status["state"]["waiting"]["reason"] == "CreateContainerConfigError";
    let Some(first) = cluster.container("mixed", "is refused", is_refused).await else { return };
    let text = "volume \"shared\" is shared by a simulated and a host container";
    assert!(first["state"]["waiting"]["message"].as_str().unwrap().starts_with(text), "{first}");
    let other = until("the other one is refused, too", async || {
        let status = cluster.pod("mixed").await["status"]["containerStatuses"][1].clone();
        is_refused(&status).then_some(status)
    })
    .await;
    assert!(other["state"]["waiting"]["message"].as_str().unwrap().starts_with(text), "{other}");
    until("events tell it", async || {
        let list =
            cluster.https.call("GET", "/api/v1/namespaces/default/events", "").await.json().to_string();
        (list.matches("is shared by a simulated and a host container").count() >= 2).then_some(())
    })
    .await;
    cluster.server.terminate();
}
