//! Logs, exec, attach and port-forward: from a client through the apiserver and the tunnel to a simulated
//! node and back.

use kstore_access::peer::{ClientCertificate, Peer};
use kstore_client::{Client, DeleteParams};
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Rest, Setup, simulate, websocket};
use serde_json::{Value, json};
use std::time::Duration;

const V4: &str = "v4.channel.k8s.io";
const V5: &str = "v5.channel.k8s.io,v4.channel.k8s.io";

pub(super) fn pod(name: &str, annotations: &[(&str, &str)], containers: &[&str]) -> Value {
    let key = |(key, value): &(&str, &str)| (format!("kubelet-sim.kstore.io/{key}"), json!(value));
    let annotations: serde_json::Map<String, Value> = annotations.iter().map(key).collect();
    let containers: Vec<_> = containers.iter().map(|name| json!({"name": name, "image": "nginx"})).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": containers}})
}

pub(super) async fn run(cluster: &Cluster, pod: Value) {
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.create(pod).await;
    let running = async || {
        let pod = cluster.get("pods", "default", &name).await.unwrap();
        pod["status"]["phase"] == "Running"
    };
    cluster.wait_until("the pod runs", running).await;
}

/// Code and text of a container's log.
async fn log(cluster: &Cluster, rest: &str) -> (u16, String) {
    let reply = cluster.rest().call("GET", &format!("/api/v1/namespaces/default/pods/{rest}"), "").await;
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    match reply.code {
        200 | 204 => (reply.code, text),
        code => (code, reply.text("/message")),
    }
}

#[test]
fn a_log_contains_the_scripted_output_of_the_container() {
    simulate(Setup::seed(1), async |cluster| {
        let script = [("a.logs", "one\ntwo"), ("a.log-line", "tick {n}"), ("a.log-every", "10s")];
        run(cluster, pod("two", &script, &["a", "b"])).await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        let choose = "a container name must be specified for pod two, choose one of: [a b]";
        let cases = [
            ("two/log?container=a", 200, "one\ntwo\ntick 1\ntick 2\n"),
            ("two/log?container=a&tailLines=1", 200, "tick 2\n"),
            ("two/log?container=a&sinceSeconds=10", 200, "tick 2\n"),
            ("two/log?container=a&limitBytes=5", 200, "one\nt"),
            ("two/log?container=a&stream=Stderr", 200, ""),
            ("two/log?container=b", 200, "simulated container b started (image nginx)\n"),
            ("two/log", 400, choose),
            ("two/log?container=c", 400, "container c is not valid for pod two"),
            (
                "two/log?container=a&previous=true",
                400,
                "previous terminated container \"a\" in pod \"two\" not found",
            ),
            ("nope/log", 404, "pods \"nope\" not found"),
            (
                "two/log?container=a&tailLines=-1",
                422,
                "PodLogOptions \"two\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
            ),
        ];
        for (path, code, text) in cases {
            assert_eq!(log(cluster, path).await, (code, text.to_owned()), "{path}");
        }
        let (_, stamped) = log(cluster, "two/log?container=a&timestamps=true&tailLines=1").await;
        let (time, line) = stamped.split_once(' ').unwrap();
        assert_eq!(line, "tick 2\n");
        assert!(time.starts_with("2026-01-01T00:00:") && time.ends_with('Z') && time.len() == 30, "{time}");
    });
}

#[test]
fn a_followed_log_ends_with_its_container() {
    simulate(Setup::seed(2), async |cluster| {
        run(cluster, pod("web", &[("log-every", "1s")], &["web"])).await;
        let delete = async {
            tokio::time::sleep(Duration::from_millis(2500)).await;
            cluster.delete("pods", "web", DeleteParams::default()).await;
        };
        let (followed, ()) = tokio::join!(log(cluster, "web/log?follow=true&tailLines=0"), delete);
        assert_eq!(followed, (200, "1\n2\n".to_owned()));
    });
}

#[test]
fn the_log_of_a_crashed_container_can_be_read_while_the_next_runs() {
    simulate(Setup::seed(3), async |cluster| {
        let script = [("run-seconds", "3"), ("exit-code", "3"), ("crash-times", "1")];
        run(cluster, pod("crash", &script, &["c"])).await;
        let restarted = async || {
            let pod = cluster.get("pods", "default", "crash").await.unwrap();
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["state"]["running"].is_object()
        };
        cluster.wait_until("it was restarted", restarted).await;
        let began = "simulated container c started (image nginx)\n";
        assert_eq!(log(cluster, "crash/log").await, (200, began.to_owned()));
        let ended = format!("{began}simulated container c ended with exit code 3 after 3s\n");
        assert_eq!(log(cluster, "crash/log?previous=true").await, (200, ended));
    });
}

#[test]
fn logs_of_containers_that_have_not_started_or_are_unreachable_report_why() {
    simulate(Setup::seed(4), async |cluster| {
        let mut nowhere = pod("nowhere", &[], &["c"]);
        nowhere["spec"]["nodeSelector"] = json!({"no": "where"});
        cluster.create(nowhere).await;
        assert_eq!(log(cluster, "nowhere/log").await, (204, String::new()));
        let refused = cluster.websocket(&exec("nowhere", &["true"], ""), V4).await.err().unwrap();
        assert_eq!(refused.0, 400);
        assert!(refused.1.contains("pod nowhere does not have a host assigned"), "{}", refused.1);

        cluster.create(pod("pull", &[("image-pull", "fail")], &["c"])).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let waiting = "container \"c\" in pod \"pull\" is waiting to start: trying and failing to pull image";
        assert_eq!(log(cluster, "pull/log").await, (400, waiting.to_owned()));

        run(cluster, pod("web", &[], &["web"])).await;
        let node = cluster.get("pods", "default", "web").await.unwrap()["spec"]["nodeName"].clone();
        let node = node.as_str().unwrap();
        cluster.nodes().stop_node(node).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let dialled = format!(
            "Get \"https://{node}:10250/containerLogs/default/web/web\": dial {node}: \
             no kubelet has a tunnel open for this node"
        );
        assert_eq!(log(cluster, "web/log").await, (500, dialled));
        cluster.nodes().resume_node(node).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(log(cluster, "web/log").await.0, 200);
    });
}

pub(super) fn exec(pod: &str, command: &[&str], more: &str) -> String {
    let escaped = |word: &str| word.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let command: String = command.iter().map(|word| format!("command={}&", escaped(word))).collect();
    format!("/api/v1/namespaces/default/pods/{pod}/exec?{command}stdout=true&stderr=true{more}")
}

/// Output and errors of a command, and the Status at its end.
async fn run_command(cluster: &Cluster, command: &[&str]) -> (String, String, Value) {
    let mut socket = cluster.websocket(&exec("web", command, ""), V5).await.unwrap();
    let [_, out, err, status] = socket.channels().await;
    (out, err, serde_json::from_str(&status).unwrap())
}

#[test]
fn exec_separates_channels_and_ends_with_a_status() {
    simulate(Setup::seed(5), async |cluster| {
        let data =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"k": "v"}});
        cluster.create(data).await;
        let mut web =
            pod("web", &[("exec", r#"{"ping": {"stdout": "pong\n", "code": 9, "after": 60}}"#)], &["web"]);
        let container = &mut web["spec"]["containers"][0];
        container["env"] =
            json!([{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
        container["volumeMounts"] = json!([{"name": "cm", "mountPath": "/etc/cm"}]);
        web["spec"]["volumes"] = json!([{"name": "cm", "configMap": {"name": "cm"}}]);
        run(cluster, web).await;

        let (out, err, status) =
            run_command(cluster, &["sh", "-c", "cat /etc/cm/k; echo $NODE >&2; exit 3"]).await;
        let node = cluster.get("pods", "default", "web").await.unwrap()["spec"]["nodeName"].clone();
        assert_eq!((out.as_str(), err.trim()), ("v", node.as_str().unwrap()));
        assert_eq!((&status["status"], &status["reason"]), (&json!("Failure"), &json!("NonZeroExitCode")));
        assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));

        let before = cluster.nondet().clock.now();
        let (out, _, status) = run_command(cluster, &["ping"]).await;
        assert_eq!((out.as_str(), &status["details"]["causes"][0]["message"]), ("pong\n", &json!("9")));
        let took = cluster.nondet().clock.now().duration_since(before).as_secs();
        assert!((60..70).contains(&took), "{took}");

        let (_, _, status) = run_command(cluster, &["true"]).await;
        assert_eq!(status["status"], "Success");
        let (_, _, status) = run_command(cluster, &["nope"]).await;
        assert_eq!(status["reason"], "InternalError");
        let text = status["message"].as_str().unwrap();
        assert!(text.ends_with("exec: \"nope\": executable file not found in $PATH"), "{text}");
    });
}

#[test]
fn exec_echoes_input_until_it_is_closed() {
    simulate(Setup::seed(6), async |cluster| {
        run(cluster, pod("web", &[], &["web"])).await;
        let path = exec("web", &["cat"], "&stdin=true");
        let mut socket = cluster.websocket(&path, V5).await.unwrap();
        // More than any flow-control window holds, read as it is echoed.
        let (piece, pieces) = (vec![b'x'; 8 * 1024], 64);
        let mut back = 0;
        for _ in 0..pieces {
            socket.send([&[0][..], &piece].concat()).await;
            while back < piece.len() {
                back += socket.next().await.unwrap().len() - 1;
            }
            back -= piece.len();
        }
        socket.send(&[255, 0][..]).await;
        let [_, _, _, status] = socket.channels().await;
        assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["status"], "Success");

        // Before version 5 the first message is empty and marks the start.
        let mut socket = cluster.websocket(&path, V4).await.unwrap();
        assert_eq!(socket.next().await.as_deref(), Some(&[1][..]));
    });
}

#[test]
fn attach_streams_output_from_now_on() {
    simulate(Setup::seed(7), async |cluster| {
        run(cluster, pod("web", &[("log-every", "1s"), ("run-seconds", "5500ms")], &["web"])).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let path = "/api/v1/namespaces/default/pods/web/attach?stdout=true&stderr=true";
        let [_, out, _, status] = cluster.websocket(path, V5).await.unwrap().channels().await;
        assert_eq!(out, "3\n4\n5\n");
        assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["status"], "Success");
    });
}

#[test]
fn invalid_stream_requests_are_refused_before_the_upgrade() {
    simulate(Setup::seed(8), async |cluster| {
        run(cluster, pod("web", &[], &["web"])).await;
        let pods = "/api/v1/namespaces/default/pods";
        let cases = [
            (exec("web", &["true"], "&dryRun=All"), V4, 400, "dryRun is not supported"),
            (exec("web", &["true"], "&container=x"), V4, 400, "container x is not valid for pod web"),
            (exec("web", &[], ""), V4, 400, "you must specify at least one command for the container"),
            (exec("nope", &["true"], ""), V4, 404, "pods \\\"nope\\\" not found"),
            (exec("web", &["true"], ""), "chat", 403, "unable to negotiate protocol"),
            (format!("{pods}/web/attach"), V4, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ];
        for (path, protocols, code, text) in cases {
            let refused = cluster.websocket(&path, protocols).await.err();
            let (got, body) = refused.unwrap_or_else(|| panic!("{path} was served"));
            assert!(got == code && body.contains(text), "{path}: {got} {body}");
        }
        let reply = cluster.rest().call("GET", &exec("web", &["true"], ""), "").await;
        assert_eq!((reply.code, reply.text("/message").as_str()), (400, "Upgrade request required"));
    });
}

#[test]
fn permission_to_read_pods_does_not_allow_exec() {
    simulate(Setup::seed(9), async |cluster| {
        run(cluster, pod("web", &[], &["web"])).await;
        let rule = |verbs: Value, resources: Value| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "half"}, "rules": [rule(json!(["get"]), json!(["pods", "pods/log", "pods/exec"]))]});
        cluster.create(role).await;
        cluster
            .create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "half"}, "subjects": [{"kind": "User", "name": "ann"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"}}))
            .await;
        let ann = || UserInfo::new("ann", [""; 0]);
        let path = "/api/v1/namespaces/default/pods/web/log";
        assert_eq!(cluster.rest_as(ann()).call("GET", path, "").await.code, 200);
        let unprivileged = UserInfo::new("bob", [""; 0]);
        assert_eq!(cluster.rest_as(unprivileged).call("GET", path, "").await.code, 403);
        let api = cluster.apiserver().in_process(ann());
        let refused = websocket::open(api.clone(), &exec("web", &["true"], ""), V4).await.err().unwrap();
        assert_eq!(refused.0, 403);
        assert!(refused.1.contains("cannot create resource \\\"pods/exec\\\""), "{}", refused.1);

        // Permission to read pods does not allow serving a node's tunnel either.
        let refused = Client::over(api, "ann").tunnel(vec!["node-0".to_owned()]).await.err().unwrap();
        assert_eq!(refused.code(), Some(403));
    });
}

#[test]
fn forwarded_ports_answer_http_and_name_the_pod() {
    simulate(Setup::seed(10), async |cluster| {
        let mut web = pod("web", &[], &["web"]);
        web["spec"]["containers"][0]["image"] = json!("app");
        web["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
        run(cluster, web).await;
        let path = "/api/v1/namespaces/default/pods/web/portforward?ports=80&ports=81";
        let mut socket = cluster.websocket(path, V4).await.unwrap();
        for (channel, port) in [(0, 80), (1, 80), (2, 81), (3, 81)] {
            assert_eq!(
                socket.next().await.as_deref(),
                Some(&[channel, port, 0][..]),
                "each begins with its port"
            );
        }
        let refused = socket.next().await.unwrap();
        assert_eq!(refused[0], 3);
        assert!(String::from_utf8_lossy(&refused).contains("localhost:81"), "{refused:?}");
        let body = "simulated pod default/web, container web, port 80\n";
        for _ in 0..2 {
            socket.send(&b"\0GET / HTTP/1.1\r\n\r\n"[..]).await;
            let answer = socket.next().await.unwrap();
            assert_eq!(answer[0], 0);
            assert!(String::from_utf8_lossy(&answer[1..]).ends_with(body), "{answer:?}");
        }
        // As the clients of Python and JavaScript offer protocols.
        let mut socket = cluster.websocket(path, "v5.channel.k8s.io,v4.channel.k8s.io").await.unwrap();
        assert_eq!(socket.next().await.as_deref(), Some(&[0, 80, 0][..]));
        let refused = cluster.websocket(path, "v5.channel.k8s.io").await.err().unwrap();
        assert_eq!(refused.0, 403, "kubelets forward no ports in version 5");
    });
}

#[test]
fn a_watch_may_be_a_websocket() {
    simulate(Setup::api_alone(), async |cluster| {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        cluster.create(map("one")).await;
        let path = "/api/v1/namespaces/default/configmaps?watch=true";
        let mut socket = cluster.websocket(&format!("{path}&timeoutSeconds=5"), "").await.unwrap();
        cluster.create(map("two")).await;
        cluster.delete("configmaps", "one", DeleteParams::default()).await;
        let mut seen = Vec::new();
        while let Some(message) = socket.next().await {
            assert_eq!(message.last(), Some(&b'\n'), "a line, as over HTTP");
            let event: Value = serde_json::from_slice(&message).unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
            seen.push((event["type"].as_str().unwrap().to_owned(), name));
        }
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
        let root = ("ADDED", "kube-root-ca.crt");
        let seen: Vec<_> = seen.into_iter().filter(|event| *event != root).collect();
        assert_eq!(seen, [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one")]);

        let refused = cluster.websocket(&format!("{path}&labelSelector=%3D"), "").await.err().unwrap();
        assert_eq!(refused.0, 400, "{}", refused.1);
    });
}

/// Runs a command with this input. Returns its output and exit code.
async fn run_with(cluster: &Cluster, pod: &str, command: &[&str], input: &[u8]) -> (String, i64) {
    let mut socket = cluster.websocket(&exec(pod, command, "&stdin=true"), V5).await.unwrap();
    for piece in input.chunks(8 * 1024) {
        socket.send([&[0][..], piece].concat()).await;
    }
    socket.send(&[255, 0][..]).await;
    let [_, out, err, status] = socket.channels().await;
    let status: Value = serde_json::from_str(&status).unwrap();
    let code = status["details"]["causes"][0]["message"].as_str().map_or(0, |code| code.parse().unwrap());
    (out + &err, code)
}

#[test]
fn container_files_last_until_restart_and_volume_files_until_the_pod_is_deleted() {
    simulate(Setup::seed(14), async |cluster| {
        let script = [("a.run-seconds", "60"), ("a.crash-times", "1")];
        let mut both = pod("both", &script, &["a", "b"]);
        both["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
        for container in 0..2 {
            both["spec"]["containers"][container]["volumeMounts"] =
                json!([{"name": "shared", "mountPath": "/shared"}]);
        }
        run(cluster, both).await;
        let in_container = async |container: &str, script: &str| {
            let path = exec("both", &["sh", "-c", script], &format!("&container={container}"));
            let [_, out, _, status] = cluster.websocket(&path, V5).await.unwrap().channels().await;
            (out, serde_json::from_str::<Value>(&status).unwrap()["status"] == "Success")
        };
        let write = "echo own > /tmp/own; echo all > /shared/all; ls /tmp";
        assert_eq!(in_container("a", write).await, ("own\n".to_owned(), true));
        assert_eq!(in_container("a", "cat /tmp/own").await, ("own\n".to_owned(), true));
        assert_eq!(in_container("b", "cat /shared/all").await, ("all\n".to_owned(), true));
        assert!(!in_container("b", "cat /tmp/own").await.1, "that is the other container's disk");
        let restarted = async || {
            let pod = cluster.get("pods", "default", "both").await.unwrap();
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["state"]["running"].is_object()
        };
        cluster.wait_until("it was restarted", restarted).await;
        assert!(!in_container("a", "cat /tmp/own").await.1);
        assert_eq!(in_container("a", "cat /shared/all").await, ("all\n".to_owned(), true));
    });
}

#[test]
fn files_are_written_up_to_the_capacity_of_the_container() {
    simulate(Setup::seed(15), async |cluster| {
        run(cluster, pod("web", &[], &["web"])).await;
        let input = vec![b'x'; 300_000];
        let (out, code) =
            run_with(cluster, "web", &["sh", "-c", "cat > /tmp/f && wc -c /tmp/f"], &input).await;
        assert_eq!((out.as_str(), code), ("300000 /tmp/f\n", 0));
        let full = "dd if=/dev/zero of=/tmp/g bs=1M count=64";
        let (out, code) = run_with(cluster, "web", &["sh", "-c", full], b"").await;
        assert_eq!((out.as_str(), code), ("dd: error writing '/tmp/g': No space left on device\n", 1));
    });
}

#[test]
fn an_ephemeral_container_starts_and_can_be_attached_to() {
    simulate(Setup::seed(16), async |cluster| {
        run(cluster, pod("web", &[("run-seconds", "3600")], &["web"])).await;
        let pods = "/api/v1/namespaces/default/pods";
        let patch = json!({"spec": {"ephemeralContainers": [
            {"name": "look", "image": "busybox", "stdin": true, "tty": true, "targetContainerName": "web"}]}});
        let path = format!("{pods}/web/ephemeralcontainers");
        let strategic = "application/strategic-merge-patch+json";
        let reply = cluster.rest().call_as("PATCH", &path, strategic, patch.to_string()).await;
        assert_eq!(reply.code, 200, "{}", reply.text("/message"));
        let state = async || {
            let pod = cluster.get("pods", "default", "web").await.unwrap();
            assert_eq!(pod["status"]["phase"], "Running");
            pod["status"]["ephemeralContainerStatuses"][0]["state"].clone()
        };
        cluster.wait_until("it runs", async || state().await["running"].is_object()).await;
        let path = format!("{pods}/web/attach?container=look&stdin=true&stdout=true&tty=true");
        let mut socket = cluster.websocket(&path, V5).await.unwrap();
        socket.send(&b"\0hostname; exit 4\r"[..]).await;
        let [_, out, _, status] = socket.channels().await;
        assert_eq!(out, "/ # hostname; exit 4\r\nweb\r\n");
        assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["status"], "Success");
        cluster.wait_until("it has ended", async || state().await["terminated"]["exitCode"] == 4).await;
        let pod = cluster.get("pods", "default", "web").await.unwrap();
        let ready = pod["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready");
        assert_eq!(ready.unwrap()["status"], "True", "readiness does not depend on it");
    });
}

#[test]
fn interactive_input_ends_the_process_and_its_pod() {
    simulate(Setup::seed(17), async |cluster| {
        let mut typed = pod("typed", &[], &["c"]);
        typed["spec"]["restartPolicy"] = json!("Never");
        let container = &mut typed["spec"]["containers"][0];
        (container["stdin"], container["stdinOnce"]) = (json!(true), json!(true));
        container["args"] = json!(["sh", "-c", "cat > /tmp/f; wc -l /tmp/f; exit 3"]);
        run(cluster, typed).await;
        let path = "/api/v1/namespaces/default/pods/typed/attach?stdin=true&stdout=true&stderr=true";
        let mut socket = cluster.websocket(path, V5).await.unwrap();
        socket.send(&b"\0one\ntwo\n"[..]).await;
        socket.send(&[255, 0][..]).await;
        let [_, out, _, _] = socket.channels().await;
        assert_eq!(out, "2 /tmp/f\n");
        let failed = async || {
            let pod = cluster.get("pods", "default", "typed").await.unwrap();
            let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
            pod["status"]["phase"] == "Failed" && ended["exitCode"] == 3
        };
        cluster.wait_until("it has failed", failed).await;
    });
}

/// The API as an administrator with a client certificate that expires after this many seconds.
pub(super) fn with_expiring_certificate(cluster: &Cluster, seconds: i64) -> kstore_apiserver::InProcess {
    let user = UserInfo::new("kubernetes-admin", ["system:masters"]);
    let expires = cluster.nondet().clock.now() + jiff::SignedDuration::from_secs(seconds);
    let certificate = Some(ClientCertificate { user: std::sync::Arc::new(user), expires });
    cluster.apiserver().for_peer(Peer::Tls { certificate, proxy: None, address: ([127, 0, 0, 1], 1).into() })
}

#[test]
fn streams_end_when_the_credentials_of_their_caller_expire() {
    const GOOD_FOR: u64 = 30;
    simulate(Setup::seed(12), async |cluster| {
        let mut web = pod("web", &[("log-every", "1s")], &["web"]);
        web["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
        run(cluster, web).await;
        let pod = "/api/v1/namespaces/default/pods/web";
        let paths = [
            exec("web", &["cat"], "&stdin=true"),
            format!("{pod}/attach?stdout=true"),
            format!("{pod}/log?follow=true"),
            format!("{pod}/portforward?ports=80"),
        ];
        for path in paths {
            let begun = tokio::time::Instant::now();
            let api = with_expiring_certificate(cluster, GOOD_FOR.cast_signed());
            let protocols = if path.contains("/log") { "binary.k8s.io" } else { V4 };
            let mut socket = websocket::open(api.clone(), &path, protocols).await.unwrap();
            let ended = async { while socket.next().await.is_some() {} };
            tokio::time::timeout(Duration::from_secs(10 * GOOD_FOR), ended).await.expect(&path);
            let lasted = begun.elapsed().as_secs();
            assert!((GOOD_FOR - 1..=GOOD_FOR + 1).contains(&lasted), "{path}: {lasted} s");
            let refused = websocket::open(api, &path, protocols).await.err().unwrap();
            assert_eq!(refused.0, 401, "{path}");
        }
        // A followed log over HTTP is a body that ends.
        let rest = Rest::new(with_expiring_certificate(cluster, GOOD_FOR.cast_signed()));
        let begun = tokio::time::Instant::now();
        let reply = rest.call("GET", &format!("{pod}/log?follow=true"), "").await;
        assert_eq!((reply.code, begun.elapsed().as_secs().abs_diff(GOOD_FOR) <= 1), (200, true));
    });
}
