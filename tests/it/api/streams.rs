//! Logs, exec and attach: from a client through the apiserver and the tunnel to a simulated node and back.

use kstore_apiserver::authn::UserInfo;
use kstore_client::{Client, DeleteParams};
use kstore_tests::{Cluster, Setup, simulate, websocket};
use serde_json::{Value, json};
use std::time::Duration;

const V4: &str = "v4.channel.k8s.io";
const V5: &str = "v5.channel.k8s.io,v4.channel.k8s.io";

fn pod(name: &str, annotations: &[(&str, &str)], containers: &[&str]) -> Value {
    let key = |(key, value): &(&str, &str)| (format!("kubelet-sim.kstore.io/{key}"), json!(value));
    let annotations: serde_json::Map<String, Value> = annotations.iter().map(key).collect();
    let containers: Vec<_> = containers.iter().map(|name| json!({"name": name, "image": "nginx"})).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": containers}})
}

async fn run(cluster: &Cluster, pod: Value) {
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.create(pod).await;
    let running = async || {
        let pod = cluster.get("pods", "default", &name).await.unwrap();
        pod["status"]["phase"] == "Running"
    };
    cluster.wait_until("the pod runs", running).await;
}

/// Code and text of a log.
async fn log(cluster: &Cluster, rest: &str) -> (u16, String) {
    let reply = cluster.rest().call("GET", &format!("/api/v1/namespaces/default/pods/{rest}"), "").await;
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    match reply.code {
        200 | 204 => (reply.code, text),
        code => (code, reply.text("/message")),
    }
}

#[test]
fn a_log_shows_what_the_container_was_scripted_to_say() {
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
fn a_crashed_run_can_be_read_while_the_next_one_runs() {
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
fn what_has_not_begun_or_cannot_be_reached_says_so() {
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

fn exec(pod: &str, command: &[&str], more: &str) -> String {
    let escaped = |word: &str| word.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let command: String = command.iter().map(|word| format!("command={}&", escaped(word))).collect();
    format!("/api/v1/namespaces/default/pods/{pod}/exec?{command}stdout=true&stderr=true{more}")
}

/// What a command prints on out and err, and the Status at its end.
async fn run_command(cluster: &Cluster, command: &[&str]) -> (String, String, Value) {
    let mut socket = cluster.websocket(&exec("web", command, ""), V5).await.unwrap();
    let [_, out, err, status] = socket.channels().await;
    (out, err, serde_json::from_str(&status).unwrap())
}

#[test]
fn commands_answer_on_their_channels_and_end_with_a_status() {
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
fn input_comes_back_from_cat_until_it_is_closed() {
    simulate(Setup::seed(6), async |cluster| {
        run(cluster, pod("web", &[], &["web"])).await;
        let path = exec("web", &["cat"], "&stdin=true");
        let mut socket = cluster.websocket(&path, V5).await.unwrap();
        // More than any window holds, by somebody who reads as it comes back.
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

        // Before version 5 the first message is empty, and says that it has begun.
        let mut socket = cluster.websocket(&path, V4).await.unwrap();
        assert_eq!(socket.next().await.as_deref(), Some(&[1][..]));
    });
}

#[test]
fn an_attached_terminal_sees_what_is_logged_from_now_on() {
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
fn streams_that_cannot_be_served_are_refused_before_they_begin() {
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
fn reading_pods_is_no_permission_to_run_commands() {
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
        let nobody = UserInfo::new("bob", [""; 0]);
        assert_eq!(cluster.rest_as(nobody).call("GET", path, "").await.code, 403);
        let doors = cluster.apiserver().in_process(ann());
        let refused = websocket::open(doors.clone(), &exec("web", &["true"], ""), V4).await.err().unwrap();
        assert_eq!(refused.0, 403);
        assert!(refused.1.contains("cannot create resource \\\"pods/exec\\\""), "{}", refused.1);

        // Nor to stand in for a node.
        let refused = Client::over(doors, "ann").tunnel(vec!["node-0".to_owned()]).await.err().unwrap();
        assert_eq!(refused.code(), Some(403));
    });
}

#[test]
fn forwarded_ports_answer_http_and_name_the_pod() {
    simulate(Setup::seed(10), async |cluster| {
        let mut web = pod("web", &[], &["web"]);
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
    });
}

/// Code and text of what a proxied request is answered.
async fn proxied(cluster: &Cluster, method: &str, path: &str) -> (u16, String) {
    let reply = cluster.rest().call(method, &format!("/api/v1/{path}"), "").await;
    match reply.text("/message") {
        message if message.is_empty() => (reply.code, String::from_utf8(reply.body.to_vec()).unwrap()),
        message => (reply.code, message),
    }
}

/// A pod that listens, behind a service, and one service that nobody is behind.
async fn served(cluster: &Cluster) {
    let mut web = pod("web", &[("http", "hello\n")], &["web"]);
    web["metadata"]["labels"] = json!({"app": "web"});
    web["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080}]);
    run(cluster, web).await;
    for (name, app) in [("web", "web"), ("empty", "none")] {
        let spec = json!({"selector": {"app": app},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
        let meta = json!({"name": name});
        cluster.create(json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})).await;
    }
    let listed = async || {
        let slices = cluster.list("endpointslices", "default").await;
        slices.iter().any(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
    };
    cluster.wait_until("the endpoint is listed", listed).await;
}

#[test]
fn requests_are_handed_on_to_pods_services_and_nodes() {
    simulate(Setup::seed(11), async |cluster| {
        served(cluster).await;
        let web = cluster.get("pods", "default", "web").await.unwrap();
        let node = web["spec"]["nodeName"].as_str().unwrap();
        let ip = web["status"]["podIP"].as_str().unwrap();
        let refused = format!("error trying to reach service: dial tcp {ip}:81: connect: connection refused");
        let hello = || (200, "hello\n".to_owned());
        let of = |code: u16, text: &str| (code, text.to_owned());
        let cases = [
            ("GET", "pods/web/proxy/", hello()),
            ("GET", "pods/web:8080/proxy/a/b?c=d", hello()),
            ("POST", "pods/http:web:8080/proxy/", hello()),
            ("DELETE", "pods/web/proxy/x", hello()),
            ("OPTIONS", "pods/web/proxy/x", hello()),
            ("HEAD", "pods/web/proxy/", of(200, "")),
            ("GET", "pods/web:81/proxy/", of(503, &refused)),
            ("GET", "pods/ftp:web:8080/proxy/", of(400, "invalid pod request \"ftp:web:8080\"")),
            ("GET", "pods/nope/proxy/", of(404, "pods \"nope\" not found")),
            ("GET", "pods/web/proxy/?dryRun=All", of(400, "dryRun is not supported")),
            ("GET", "services/web:80/proxy/", hello()),
            ("PUT", "services/web:http/proxy/", hello()),
            ("GET", "services/web/proxy/", of(503, "no endpoints available for service \"web\"")),
            ("GET", "services/web:81/proxy/", of(503, "no service port 81 found for service \"web\"")),
            ("GET", "services/empty:80/proxy/", of(503, "no endpoints available for service \"empty\"")),
            ("GET", "services/nope:80/proxy/", of(404, "services \"nope\" not found")),
        ];
        for (method, path, expected) in cases {
            let path = format!("namespaces/default/{path}");
            assert_eq!(proxied(cluster, method, &path).await, expected, "{method} {path}");
        }
        assert_eq!(proxied(cluster, "GET", &format!("nodes/{node}/proxy/healthz")).await, of(200, "ok"));
        assert_eq!(proxied(cluster, "GET", &format!("nodes/{node}:10250/proxy/nope")).await.0, 404);
        assert_eq!(proxied(cluster, "GET", &format!("nodes/{node}:80/proxy/")).await.0, 503);
        let pods = cluster.rest().call("GET", &format!("/api/v1/nodes/{node}/proxy/pods"), "").await;
        assert_eq!(pods.text("/kind"), "PodList");
        assert_eq!(pods.text("/items/0/metadata/name"), "web");

        let reply = cluster.rest().call("GET", "/api/v1/namespaces/default/pods/web/proxy?a=b", "").await;
        assert_eq!(reply.code, 301);
        assert_eq!(reply.headers["location"], "/api/v1/namespaces/default/pods/web/proxy/?a=b");
    });
}

#[test]
fn links_of_a_proxied_page_lead_through_the_proxy() {
    simulate(Setup::seed(12), async |cluster| {
        let mut web = pod("web", &[("http", "<a href=\"/next\">next</a>")], &["web"]);
        web["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
        run(cluster, web).await;
        let path = "/api/v1/namespaces/default/pods/web/proxy/";
        let reply = cluster.rest().call("GET", path, "").await;
        assert_eq!(reply.headers["content-type"], "text/html; charset=utf-8");
        let page = String::from_utf8(reply.body.to_vec()).unwrap();
        assert_eq!(page, format!("<a href=\"{path}next\">next</a>"));
    });
}

#[test]
fn a_proxied_request_needs_the_permission_of_its_method() {
    simulate(Setup::seed(13), async |cluster| {
        served(cluster).await;
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "look"}, "rules": [{"apiGroups": [""], "resources": ["pods/proxy"],
                "resourceNames": ["web:8080"], "verbs": ["get"]}]});
        cluster.create(role).await;
        cluster
            .create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "look"}, "subjects": [{"kind": "User", "name": "ann"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "look"}}))
            .await;
        let ann = cluster.rest_as(UserInfo::new("ann", [""; 0]));
        let pods = "/api/v1/namespaces/default/pods";
        for (method, name, code) in [
            ("GET", "web:8080", 200),
            ("HEAD", "web:8080", 200),
            ("POST", "web:8080", 403),
            ("OPTIONS", "web:8080", 403),
            ("GET", "web", 403),
        ] {
            let reply = ann.call(method, &format!("{pods}/{name}/proxy/"), "").await;
            assert_eq!(reply.code, code, "{method} {name}");
        }
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
