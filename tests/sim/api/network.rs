//! The network of simulated pods: commands reach servers of known images in other pods, forwarded ports and proxied requests do, and
//! connections fail as they do in a cluster.

use super::endpoint_slices::endpoints;
use super::streams::{exec, pod, run};
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const V5: &str = "v5.channel.k8s.io,v4.channel.k8s.io";

/// A pod of one container with an image and its arguments.
pub(super) fn of_image(name: &str, image: &str, arguments: &[&str]) -> Value {
    let mut pod = pod(name, &[], &["c"]);
    pod["spec"]["containers"][0]["image"] = json!(image);
    if !arguments.is_empty() {
        pod["spec"]["containers"][0]["args"] = json!(arguments);
    }
    pod
}

/// Output, errors and exit code of a script in a pod.
pub(super) async fn sh(cluster: &Cluster, pod: &str, script: &str) -> (String, String, i64) {
    let mut socket = cluster.websocket(&exec(pod, &["sh", "-c", script], ""), V5).await.unwrap();
    let [_, out, err, status] = socket.channels().await;
    let status: Value = serde_json::from_str(&status).unwrap();
    let code = status["details"]["causes"][0]["message"].as_str().map_or(0, |code| code.parse().unwrap());
    (out, err, code)
}

async fn address(cluster: &Cluster, pod: &str) -> String {
    let pod = cluster.get("pods", "default", pod).await.unwrap();
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

pub(super) async fn log(cluster: &Cluster, pod: &str) -> String {
    let reply = cluster.rest().call("GET", &format!("/api/v1/namespaces/default/pods/{pod}/log"), "").await;
    String::from_utf8(reply.body.to_vec()).unwrap()
}

#[test]
fn pods_reach_each_other_and_the_api_server_reaches_them() {
    simulate(Setup::seed(31), async |cluster| {
        run(cluster, of_image("web", "nginx:1.27.0", &[])).await;
        run(cluster, of_image("net", "agnhost", &["netexec"])).await;
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let (web, net, own) =
            (address(cluster, "web").await, address(cluster, "net").await, address(cluster, "c").await);
        let (page, err, code) = sh(cluster, "c", &format!("wget -qO- http://{web}")).await;
        assert!(page.contains("<title>Welcome to nginx!</title>") && code == 0, "{page} {err}");
        let script =
            format!("curl -s {net}:8080/hostname; echo; wget -qO- {net}:8080/clientip | cut -d: -f1");
        assert_eq!(sh(cluster, "c", &script).await, (format!("net\n{own}\n"), String::new(), 0));
        let dial = format!("curl -s '{net}:8080/dial?host={web}&port=80&request=no'");
        assert!(sh(cluster, "c", &dial).await.0.starts_with("{\"responses\":[\"<html>"));
        // A page that a command writes, through its own loopback.
        let write = "mkdir -p /usr/share/nginx/html && echo two > /usr/share/nginx/html/index.html && curl -s localhost";
        assert_eq!(sh(cluster, "web", write).await.0, "two\n");
        let proxied = cluster.rest().call("GET", "/api/v1/namespaces/default/pods/web:80/proxy/", "").await;
        assert_eq!((proxied.code, &proxied.body[..]), (200, &b"two\n"[..]));
        let proxied = cluster
            .rest()
            .call("GET", "/api/v1/namespaces/default/pods/net:8080/proxy/echo?msg=x&code=404", "")
            .await;
        assert_eq!((proxied.code, &proxied.body[..]), (404, &b"x"[..]));
        let mut socket = cluster
            .websocket("/api/v1/namespaces/default/pods/net/portforward?ports=8080", "v4.channel.k8s.io")
            .await
            .unwrap();
        for _ in 0..2 {
            socket.next().await.unwrap();
        }
        socket.send(&b"\0GET /hostname HTTP/1.1\r\nHost: x\r\n\r\n"[..]).await;
        let mut text = String::new();
        while !text.ends_with("net") {
            text.push_str(&String::from_utf8_lossy(&socket.next().await.unwrap()[1..]));
        }
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        let lines = log(cluster, "net").await;
        assert!(
            lines.contains("Started HTTP server on port 8080\n") && lines.ends_with(" GET /hostname\n"),
            "{lines}"
        );
    });
}

#[test]
fn connections_fail_as_in_a_cluster_and_servers_end_with_their_containers() {
    simulate(Setup::seed(32), async |cluster| {
        run(cluster, of_image("net", "agnhost", &["netexec", "--http-port=80"])).await;
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let net = address(cluster, "net").await;
        let before = cluster.nondet().clock.now();
        for (script, err) in [
            (
                format!("wget -qO- {net}:81"),
                format!("wget: can't connect to remote host ({net}): Connection refused\n"),
            ),
            ("wget -T 5 -qO- 10.255.255.1".to_owned(), "wget: download timed out\n".to_owned()),
            (
                "wget -qO- 8.8.8.8".to_owned(),
                "wget: can't connect to remote host (8.8.8.8): Host is unreachable\n".to_owned(),
            ),
            ("wget -qO- web".to_owned(), "wget: bad address 'web'\n".to_owned()),
        ] {
            assert_eq!(sh(cluster, "c", &script).await, (String::new(), err, 1));
        }
        let took = cluster.nondet().clock.now().duration_since(before).as_secs();
        assert!((5..7).contains(&took), "only the packets that vanish take time: {took}");
        // Two commands at once: one listens, the other one connects. A third finds the port taken.
        let script = "echo there | nc -l -p 7 >/tmp/got & sleep 1; nc -l -p 7; echo code $?; echo hi | nc localhost 7; wait; cat /tmp/got";
        assert_eq!(sh(cluster, "c", script).await.0, "code 1\nthere\nhi\n");
        // A program that is not simulated answers at the ports that it declares.
        let mut db = of_image("db", "postgres", &[]);
        db["spec"]["containers"][0]["ports"] = json!([{"containerPort": 5432}]);
        run(cluster, db).await;
        let db = address(cluster, "db").await;
        assert_eq!(
            sh(cluster, "c", &format!("until nc -z {db} 5432; do sleep 1; done; nc -z {db} 5433")).await.2,
            1
        );
        // A signal or a time limit ends a command that waits for the network.
        let limited =
            sh(cluster, "c", "timeout 3 nc -l -p 8; echo $?; timeout 3 nc 10.255.255.1 1; echo $?").await;
        assert_eq!(limited.0, "143\n143\n");
        // The program's own end.
        assert_eq!(sh(cluster, "c", &format!("wget -qO- '{net}/exit?code=3'")).await.2, 0);
        let ended = async || {
            let pod = cluster.get("pods", "default", "net").await.unwrap();
            pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
        };
        cluster.wait_until("it restarts", ended).await;
        cluster.delete("pods", "net", kstore_client::DeleteParams::default()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(sh(cluster, "c", &format!("wget -T 2 -qO- {net}")).await.1, "wget: download timed out\n");
    });
}

#[test]
fn a_pod_that_asks_without_end_leaves_the_others_their_connections() {
    simulate(Setup::seed(33), async |cluster| {
        run(cluster, of_image("net", "agnhost", &["netexec"])).await;
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let net = address(cluster, "net").await;
        // A dial that dials: the second one is refused, so that requests do not multiply.
        let inner = format!("dial%3Fhost={net}%26port=8080%26request=hostname%26tries=100");
        let outer = format!("curl -s '{net}:8080/dial?host={net}&port=8080&request={inner}&tries=3'");
        let (out, _, _) = sh(cluster, "c", &outer).await;
        assert_eq!(out.matches("makes no further requests").count(), 3, "{out}");
        // More connections at once than a command may have: the others fail, and all end.
        let flood = format!(
            "for i in $(seq 1 200); do nc -w 1 {net} 8080 </dev/null >/dev/null 2>&1 & done; wait; echo done"
        );
        assert_eq!(sh(cluster, "c", &flood).await.0, "done\n");
        let (page, _, code) = sh(cluster, "c", &format!("curl -s {net}:8080/hostname")).await;
        assert_eq!((page.as_str(), code), ("net", 0));
    });
}

#[test]
fn services_are_reached_by_name_and_address_and_lead_to_ready_pods() {
    simulate(Setup::seed(34), async |cluster| {
        for name in ["a", "b"] {
            let mut pod = of_image(name, "agnhost", &["serve-hostname"]);
            pod["metadata"]["labels"] = json!({"app": "names"});
            pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 9376}]);
            run(cluster, pod).await;
        }
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let spec = json!({"selector": {"app": "names"}, "ports": [{"port": 80, "targetPort": "http"}]});
        cluster.create(service("names", spec)).await;
        cluster.create(service("all", json!({"selector": {"app": "names"}, "clusterIP": "None"}))).await;
        cluster
            .create(service(
                "alias",
                json!({"type": "ExternalName", "externalName": "names.default.svc.cluster.local"}),
            ))
            .await;
        cluster.create(service("empty", json!({"selector": {"app": "none"}, "ports": [{"port": 80}]}))).await;
        let ip = cluster.get("services", "default", "names").await.unwrap()["spec"]["clusterIP"].clone();
        let ip = ip.as_str().unwrap();
        let script =
            format!("for i in $(seq 1 20); do wget -qO- http://{ip}; echo; done | sort -u | tr '\\n' ' '");
        assert_eq!(sh(cluster, "c", &script).await.0, "a b ", "each is chosen at times");
        for name in
            ["names", "names.default", "names.default.svc", "names.default.svc.cluster.local", "alias"]
        {
            let (out, err, code) = sh(cluster, "c", &format!("wget -qO- http://{name}")).await;
            assert!(["a", "b"].contains(&out.as_str()) && code == 0, "{name}: {out} {err}");
        }
        assert!(["a", "b"].contains(&sh(cluster, "c", "curl -s all:9376").await.0.as_str()));
        let empty = cluster.get("services", "default", "empty").await.unwrap()["spec"]["clusterIP"].clone();
        let refused =
            format!("wget: can't connect to remote host ({}): Connection refused\n", empty.as_str().unwrap());
        assert_eq!(sh(cluster, "c", "wget -qO- empty").await.1, refused);
        assert_eq!(sh(cluster, "c", "wget -qO- names.other").await.1, "wget: bad address 'names.other'\n");
        // A pod that ends is not chosen any more.
        cluster.delete("pods", "a", kstore_client::DeleteParams::default()).await;
        endpoints(cluster, "names", 1).await;
        let script = "for i in $(seq 1 10); do wget -qO- names; done";
        assert_eq!(sh(cluster, "c", script).await.0, "b".repeat(10));
    });
}

#[test]
fn probes_and_hooks_ask_the_servers_of_known_images() {
    simulate(Setup::seed(35), async |cluster| {
        let mut sick = of_image("sick", "agnhost", &["liveness"]);
        sick["spec"]["containers"][0]["livenessProbe"] =
            json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 3, "failureThreshold": 1});
        sick["spec"]["containers"][0]["readinessProbe"] =
            json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1});
        run(cluster, sick).await;
        let status = async |pod: &str| {
            cluster.get("pods", "default", pod).await.unwrap()["status"]["containerStatuses"][0].clone()
        };
        cluster.wait_until("it is ready", async || status("sick").await["ready"] == true).await;
        let before = cluster.nondet().clock.now();
        let restarted =
            async || status("sick").await["restartCount"].as_i64().is_some_and(|count| count >= 1);
        cluster.wait_until("it restarts", restarted).await;
        let took = cluster.nondet().clock.now().duration_since(before).as_secs();
        assert!((8..20).contains(&took), "it is well for ten seconds, and not for {took}");

        // A path that the welcome page's server does not have, and a hook that asks its own pod.
        let mut web = of_image("web", "nginx", &[]);
        web["spec"]["containers"][0]["readinessProbe"] =
            json!({"httpGet": {"path": "/ready", "port": 80}, "periodSeconds": 1});
        run(cluster, web).await;
        let mut fine = of_image("fine", "nginx", &[]);
        fine["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 80}});
        fine["spec"]["containers"][0]["lifecycle"] =
            json!({"postStart": {"httpGet": {"path": "/", "port": 80}}});
        run(cluster, fine).await;
        cluster.wait_until("it is ready", async || status("fine").await["ready"] == true).await;
        assert_eq!(status("web").await["ready"], false);
        let events = cluster.rest().call("GET", "/api/v1/namespaces/default/events", "").await;
        let text = String::from_utf8(events.body.to_vec()).unwrap();
        assert!(text.contains("Readiness probe failed: HTTP probe failed with statuscode: 404"), "{text}");
        assert!(text.contains("Liveness probe failed: HTTP probe failed with statuscode: 500"), "{text}");
        let write = "mkdir -p /usr/share/nginx/html && echo ok > /usr/share/nginx/html/ready";
        assert_eq!(sh(cluster, "web", write).await.2, 0);
        cluster.wait_until("it is ready", async || status("web").await["ready"] == true).await;
    });
}

#[test]
fn services_without_selectors_node_ports_and_affinity_lead_to_their_endpoints() {
    simulate(Setup::seed(39), async |cluster| {
        for name in ["a", "b"] {
            let mut pod = of_image(name, "agnhost", &["serve-hostname"]);
            pod["metadata"]["labels"] = json!({"app": "names"});
            run(cluster, pod).await;
        }
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let ports = json!([{"name": "http", "port": 80, "targetPort": 9376}]);
        cluster.create(service("by-hand", json!({"ports": [{"name": "http", "port": 80}]}))).await;
        for (slice, pod) in [("one", "a"), ("two", "b")] {
            let labels = json!({"kubernetes.io/service-name": "by-hand"});
            let endpoints = json!([{"addresses": [address(cluster, pod).await]}]);
            cluster.create(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": slice, "labels": labels},
                "addressType": "IPv4", "ports": [{"name": "http", "port": 9376}], "endpoints": endpoints})).await;
        }
        let spec = json!({"selector": {"app": "names"}, "type": "NodePort", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}}, "ports": ports});
        let made = cluster.create(service("sticky", spec)).await;
        let node_port = made["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
        let nodes = cluster.list("nodes", "").await;
        let node = nodes[0]["status"]["addresses"].as_array().unwrap();
        let node = node.iter().find(|one| one["type"] == "InternalIP").unwrap()["address"].as_str().unwrap();
        let many = |target: &str| {
            format!("for i in $(seq 1 20); do wget -qO- http://{target}; echo; done | sort -u | tr '\\n' ' '")
        };
        assert_eq!(sh(cluster, "c", &many("by-hand")).await.0, "a b ");
        let first = sh(cluster, "c", &many("sticky")).await.0;
        assert!(["a ", "b "].contains(&first.as_str()), "one client, one endpoint: {first}");
        let over_node = sh(cluster, "c", &many(&format!("{node}:{node_port}"))).await.0;
        assert!(["a ", "b "].contains(&over_node.as_str()), "{over_node}");
        let refused = format!("wget: can't connect to remote host ({node}): Connection refused\n");
        assert_eq!(sh(cluster, "c", &format!("wget -qO- {node}:1")).await.1, refused);
        assert_eq!(sh(cluster, "c", "wget -qO- http://10.96.0.1:443").await.2, 1, "not the own loopback");
        names_are_answered(cluster, &service, &ports).await;
    });
}

/// The names of the Services of the test above, as the commands of a pod are told them.
async fn names_are_answered(cluster: &Cluster, service: &impl Fn(&str, Value) -> Value, ports: &Value) {
    cluster
        .create(service("all", json!({"selector": {"app": "names"}, "clusterIP": "None", "ports": ports})))
        .await;
    cluster
        .create(service(
            "alias",
            json!({"type": "ExternalName", "externalName": "by-hand.default.svc.cluster.local"}),
        ))
        .await;
    let ip = cluster.get("services", "default", "by-hand").await.unwrap()["spec"]["clusterIP"].clone();
    let (ip, zone) = (ip.as_str().unwrap(), "default.svc.cluster.local");
    let dashed = address(cluster, "a").await.replace('.', "-");
    for (script, out, code) in [
        ("dig +short +search by-hand".to_owned(), format!("{ip}\n"), 0),
        ("getent hosts by-hand.default.svc".to_owned(), format!("{ip:<15} by-hand.{zone}\n"), 0),
        (format!("dig +short -x {ip}"), format!("by-hand.{zone}.\n"), 0),
        ("dig +short +search alias".to_owned(), format!("by-hand.{zone}.\n{ip}\n"), 0),
        (format!("dig +short _http._tcp.by-hand.{zone} SRV"), format!("0 100 80 by-hand.{zone}.\n"), 0),
        (format!("dig +short {dashed}.all.{zone}"), format!("{}\n", address(cluster, "a").await), 0),
        (format!("dig +short -x {}", address(cluster, "a").await), format!("{dashed}.all.{zone}.\n"), 0),
        (format!("dig +short all.{zone} | wc -l"), "2\n".to_owned(), 0),
        (
            format!("dig +short {dashed}.default.pod.cluster.local"),
            format!("{}\n", address(cluster, "a").await),
            0,
        ),
        (
            "nslookup nothing >/dev/null; echo $?; getent hosts nothing; echo $?".to_owned(),
            "1\n2\n".to_owned(),
            0,
        ),
    ] {
        assert_eq!(sh(cluster, "c", &script).await, (out, String::new(), code), "{script}");
    }
}
