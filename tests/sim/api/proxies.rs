//! Requests that the apiserver proxies to pods, services and nodes.

use super::network::of_image;
use super::streams::{pod, run, with_expiring_certificate};
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, simulate, websocket};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Code and text of the answer to a proxied request.
async fn proxied(cluster: &Cluster, method: &str, path: &str) -> (u16, String) {
    let reply = cluster.rest().call(method, &format!("/api/v1/{path}"), "").await;
    match reply.text("/message") {
        message if message.is_empty() => (reply.code, String::from_utf8(reply.body.to_vec()).unwrap()),
        message => (reply.code, message),
    }
}

/// Creates a listening pod behind a Service, and a Service without pods.
async fn create_served(cluster: &Cluster) {
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
    wait_for_endpoint(cluster).await;
}

/// Waits until a Service has a ready pod.
async fn wait_for_endpoint(cluster: &Cluster) {
    let listed = async || {
        let slices = cluster.list("endpointslices", "default").await;
        slices.iter().any(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
    };
    cluster.wait_until("the endpoint is listed", listed).await;
}

#[test]
fn requests_are_proxied_to_pods_services_and_nodes() {
    simulate(Setup::seed(11), async |cluster| {
        create_served(cluster).await;
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
fn requests_are_proxied_over_tls_without_verification_of_the_certificate() {
    simulate(Setup::seed(14), async |cluster| {
        let mut porter = of_image("porter", "agnhost", &["porter"]);
        porter["metadata"]["labels"] = json!({"app": "porter"});
        let container = &mut porter["spec"]["containers"][0];
        container["env"] = json!([{"name": "SERVE_TLS_PORT_443", "value": "secret"}, {"name": "SERVE_PORT_80", "value": "plain"}]);
        container["ports"] =
            json!([{"name": "https", "containerPort": 443}, {"name": "http", "containerPort": 80}]);
        run(cluster, porter).await;
        let spec = json!({"selector": {"app": "porter"}, "ports": [
            {"name": "https", "port": 8443, "targetPort": "https"}, {"name": "http", "port": 80, "targetPort": 80}]});
        cluster
            .create(
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "porter"}, "spec": spec}),
            )
            .await;
        wait_for_endpoint(cluster).await;
        let mut web = pod("web", &[("http", "hello\n")], &["web"]);
        web["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080}]);
        run(cluster, web).await;
        let ip = cluster.get("pods", "default", "porter").await.unwrap()["status"]["podIP"].clone();
        let refused = format!("dial tcp {}:81: connect: connection refused", ip.as_str().unwrap());
        let plain = "http: server gave HTTP response to HTTPS client";
        for (path, code, text) in [
            ("pods/https:porter:443", 200, "secret"),
            ("pods/https:porter:", 200, "secret"),
            ("services/https:porter:https", 200, "secret"),
            ("services/https:porter:8443", 200, "secret"),
            ("services/http:porter:http", 200, "plain"),
            ("services/porter:https", 400, "Client sent an HTTP request to an HTTPS server.\n"),
            ("pods/porter:443", 400, "Client sent an HTTP request to an HTTPS server.\n"),
            ("pods/https:porter:80", 503, plain),
            ("services/https:porter:http", 503, plain),
            ("pods/https:porter:81", 503, &refused),
            ("pods/https:web:8080", 503, plain),
        ] {
            let text =
                if code == 503 { format!("error trying to reach service: {text}") } else { text.to_owned() };
            let answer = proxied(cluster, "GET", &format!("namespaces/default/{path}/proxy/")).await;
            assert_eq!(answer, (code, text), "{path}");
        }
    });
}

#[test]
fn links_in_proxied_pages_are_rewritten_to_the_proxy() {
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
        create_served(cluster).await;
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

/// Creates a pod on a node whose tunnel the test serves.
async fn create_on_test_node(cluster: &Cluster) {
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"}})).await;
    let mut web = pod("web", &[], &["web"]);
    web["spec"]["nodeName"] = json!("own");
    cluster.create(web).await;
    let path = "/api/v1/namespaces/default/pods/web/status";
    let status = json!({"status": {"podIP": "10.9.8.7", "podIPs": [{"ip": "10.9.8.7"}]}}).to_string();
    let reply = cluster.rest().call_as("PATCH", path, "application/merge-patch+json", status).await;
    assert_eq!(reply.code, 200, "{}", reply.text("/message"));
}

/// Reads up to the end of an HTTP head.
async fn head_of(connection: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn an_upgraded_connection_is_proxied_until_its_credentials_expire() {
    const GOOD_FOR: i64 = 30;
    simulate(Setup::api_alone(), async |cluster| {
        create_on_test_node(cluster).await;
        let mut tunnel = cluster.client().tunnel(vec!["own".to_owned()]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (sender, mut heads) = tokio::sync::mpsc::channel(1);
        let node = async {
            let (mut reader, writer) = tunnel.next().await.unwrap().opened().unwrap().begin();
            let serve = async {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.extend(reader.next().await.unwrap().data);
                }
                sender.send(String::from_utf8(head).unwrap()).await.unwrap();
                let answer =
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
                writer.send(1, answer).await;
                while let Some(piece) = reader.next().await {
                    writer.send(1, piece.data).await;
                }
            };
            // The tunnel makes progress only while it is polled.
            tokio::select! {
                biased;
                () = serve => {}
                _ = tunnel.next() => {}
            }
        };
        let client = async {
            let begun = tokio::time::Instant::now();
            let mut connection = websocket::connection(with_expiring_certificate(cluster, GOOD_FOR));
            let request = "GET /api/v1/namespaces/default/pods/web:80/proxy/a?b=c HTTP/1.1\r\nHost: kstore\r\n\
                           Connection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer secret\r\n\r\n";
            connection.write_all(request.as_bytes()).await.unwrap();
            assert!(head_of(&mut connection).await.starts_with("HTTP/1.1 101 "));
            let head = heads.recv().await.unwrap();
            assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
            assert!(head.contains("Upgrade: echo\r\n") && !head.contains("secret"), "{head}");
            assert!(
                head.contains("X-Forwarded-Uri: /api/v1/namespaces/default/pods/web:80/proxy/a\r\n"),
                "{head}"
            );
            connection.write_all(b"over").await.unwrap();
            let mut back = [0; 4];
            connection.read_exact(&mut back).await.unwrap();
            assert_eq!(&back, b"over");
            // The connection ends when the credentials expire that opened it.
            assert_eq!(connection.read(&mut back).await.unwrap(), 0);
            assert_eq!(begun.elapsed().as_secs(), GOOD_FOR.unsigned_abs());
        };
        tokio::select! {
            biased;
            () = client => {}
            () = node => panic!("the node has nothing more to do"),
        }
    });
}

#[test]
fn a_silent_backend_times_out() {
    simulate(Setup::api_alone(), async |cluster| {
        create_on_test_node(cluster).await;
        let path = "namespaces/default/pods/web:80/proxy/";
        let why =
            "error trying to reach service: dial tcp 10.9.8.7:80: no kubelet has a tunnel open for this node";
        assert_eq!(proxied(cluster, "GET", path).await, (503, why.to_owned()));
        let mut tunnel = cluster.client().tunnel(vec!["own".to_owned()]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mute = async {
            let mut streams = Vec::new();
            loop {
                streams.push(tunnel.next().await.unwrap().opened().unwrap().begin());
            }
        };
        let ask = async {
            for (path, why, seconds) in [
                (path, "net/http: timeout awaiting response headers", 600),
                ("namespaces/default/pods/https:web:443/proxy/", "net/http: TLS handshake timeout", 10),
            ] {
                let begun = tokio::time::Instant::now();
                let why = format!("error trying to reach service: {why}");
                assert_eq!(proxied(cluster, "GET", path).await, (503, why));
                assert_eq!(begun.elapsed().as_secs(), seconds);
            }
        };
        tokio::select! {
            biased;
            () = ask => {}
            () = mute => {}
        }
    });
}
