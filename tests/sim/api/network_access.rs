//! What simulated pods reach beside each other's servers, and what they are kept from: the API server, NetworkPolicies, gRPC probes, and
//! commands and logs of servers.

use super::network::{log, of_image, sh};
use super::streams::run;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

async fn address(cluster: &Cluster, pod: &str) -> String {
    let pod = cluster.get("pods", "default", pod).await.unwrap();
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

#[test]
fn commands_ask_the_api_server_with_the_rights_of_their_pod() {
    simulate(Setup::seed(61).certificate(), async |cluster| {
        let group = "rbac.authorization.k8s.io";
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
        cluster
            .create(json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}))
            .await;
        cluster
            .create(json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "reader"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]}))
            .await;
        let is_published = async || cluster.get("configmaps", "default", "kube-root-ca.crt").await.is_some();
        cluster.wait_until("the authority is published", is_published).await;
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let ask = |host: &str, flags: &str, resource: &str| {
            format!("curl -s {flags} https://{host}/api/v1/namespaces/default/{resource}")
        };
        let own = format!("--cacert {MOUNT}/ca.crt -H \"Authorization: Bearer $(cat {MOUNT}/token)\"");
        for host in ["kubernetes.default.svc", "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"] {
            let (page, err, code) = sh(cluster, "c", &ask(host, &own, "configmaps")).await;
            assert!(page.contains("kube-root-ca.crt") && code == 0, "{host}: {page} {err}");
        }
        let host = "kubernetes.default.svc";
        let (page, ..) = sh(cluster, "c", &ask(host, &own, "secrets")).await;
        let refused: Value = serde_json::from_str(&page).unwrap();
        assert_eq!((&refused["code"], &refused["reason"]), (&json!(403), &json!("Forbidden")), "{page}");
        assert!(
            refused["message"].as_str().unwrap().contains("system:serviceaccount:default:default"),
            "{page}"
        );
        // Without the authority the certificate is not trusted, and without a token the caller is anonymous.
        assert_eq!(sh(cluster, "c", &ask(host, "", "configmaps")).await.2, 60);
        let (page, ..) = sh(cluster, "c", &ask(host, "-k", "configmaps")).await;
        assert!(page.contains("system:anonymous"), "{page}");
        assert_eq!(sh(cluster, "c", "curl -s kubernetes.default.svc:80").await.2, 7, "it has one port");
    });
}

#[test]
fn a_pod_verifies_its_token_by_the_documents_of_the_api_server() {
    simulate(Setup::seed(63).certificate(), async |cluster| {
        let is_published = async || cluster.get("configmaps", "default", "kube-root-ca.crt").await.is_some();
        cluster.wait_until("the authority is published", is_published).await;
        let verified = async |name: &str, audience: &str, phase: &str| {
            let flags =
                ["test-service-account-issuer-discovery", "--token-path=/tokens/own", "--audience", audience];
            let mut pod = of_image(name, "agnhost", &flags);
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["volumes"] = json!([{"name": "t", "projected": {"sources": [
                {"serviceAccountToken": {"path": "own", "audience": "test", "expirationSeconds": 600}}]}}]);
            pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "t", "mountPath": "/tokens"}]);
            cluster.create(pod).await;
            let is_over =
                async || cluster.get("pods", "default", name).await.unwrap()["status"]["phase"] == phase;
            cluster.wait_until("the program has ended", is_over).await;
            log(cluster, name).await
        };
        let text = verified("right", "test", "Succeeded").await;
        assert!(text.contains("OK: Validated signature on JWT"), "{text}");
        let text = verified("wrong", "other", "Failed").await;
        assert!(text.contains("oidc: expected audience \"other\" got [\"test\"]"), "{text}");
    });
}

#[test]
fn network_policies_keep_pods_from_servers_and_leave_probes_and_forwarded_ports_alone() {
    simulate(Setup::seed(62), async |cluster| {
        for (name, image, arguments) in [
            ("web", "nginx", &[][..]),
            ("friend", "busybox", &["sleep", "86400"]),
            ("other", "busybox", &["sleep", "86400"]),
        ] {
            let mut pod = of_image(name, image, arguments);
            pod["metadata"]["labels"] = json!({"name": name});
            if name == "web" {
                pod["spec"]["containers"][0]["readinessProbe"] =
                    json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
            }
            run(cluster, pod).await;
        }
        let spec = json!({"selector": {"name": "web"}, "ports": [{"port": 8080, "targetPort": 80}]});
        cluster
            .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}))
            .await;
        let is_endpoint = async || {
            let slices = cluster.list("endpointslices", "default").await;
            slices.iter().any(|slice| {
                slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
                    && slice["endpoints"][0]["conditions"]["ready"] == true
            })
        };
        cluster.wait_until("it is an endpoint", is_endpoint).await;
        let from = json!([{"from": [{"podSelector": {"matchLabels": {"name": "friend"}}}], "ports": [{"port": 80}]}]);
        let policy = |name: &str, spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec});
        let selector = json!({"matchLabels": {"name": "web"}});
        cluster.create(policy("web", json!({"podSelector": selector, "ingress": from}))).await;
        let web = address(cluster, "web").await;
        for target in [format!("{web}:80"), "web:8080".to_owned()] {
            let ask = format!("wget -T 5 -qO- http://{target}");
            assert_eq!(sh(cluster, "friend", &ask).await.2, 0, "{target}");
            let before = cluster.nondet().clock.now();
            let kept_away = sh(cluster, "other", &ask).await;
            assert_eq!(kept_away, (String::new(), "wget: download timed out\n".to_owned(), 1), "{target}");
            let took = cluster.nondet().clock.now().duration_since(before).as_secs();
            assert!((5..7).contains(&took), "no answer comes: {took}");
        }
        assert_eq!(sh(cluster, "web", "wget -qO- localhost").await.2, 0, "a pod reaches itself");
        let proxied = cluster.rest().call("GET", "/api/v1/namespaces/default/pods/web:80/proxy/", "").await;
        assert_eq!(proxied.code, 200);
        // An egress policy without rules keeps a pod from everything, the API server too.
        let selector = json!({"matchLabels": {"name": "friend"}});
        cluster.create(policy("closed", json!({"podSelector": selector, "policyTypes": ["Egress"]}))).await;
        assert_eq!(sh(cluster, "friend", &format!("wget -T 5 -qO- http://{web}")).await.2, 1);
        let warned = cluster.rest().call("GET", "/api/v1/namespaces/default/pods/web", "").await;
        let web: Value = serde_json::from_slice(&warned.body).unwrap();
        assert_eq!(web["status"]["containerStatuses"][0]["ready"], true, "probes come from the node");
    });
}

#[test]
fn grpc_probes_ask_servers_and_servers_run_commands_and_log_requests() {
    simulate(Setup::seed(63), async |cluster| {
        let health = |name: &str, flags: &[&str], probe: &str, service: &str| {
            let mut pod = of_image(name, "agnhost", &[&["grpc-health-checking"], flags].concat());
            pod["spec"]["containers"][0][probe] = json!({"grpc": {"port": 5000, "service": service}, "periodSeconds": 2, "failureThreshold": 1});
            pod
        };
        run(cluster, health("ill", &["--delay-unhealthy-sec=10"], "livenessProbe", "")).await;
        run(cluster, health("well", &[], "readinessProbe", "")).await;
        run(cluster, health("strange", &[], "readinessProbe", "other")).await;
        run(cluster, health("elsewhere", &["--port=5001"], "readinessProbe", "")).await;
        let status = async |pod: &str| {
            cluster.get("pods", "default", pod).await.unwrap()["status"]["containerStatuses"][0].clone()
        };
        cluster.wait_until("it is ready", async || status("well").await["ready"] == true).await;
        let restarts = async || status("ill").await["restartCount"].as_i64().is_some_and(|count| count >= 1);
        cluster.wait_until("it restarts", restarts).await;
        let events = cluster.rest().call("GET", "/api/v1/namespaces/default/events", "").await;
        let text = String::from_utf8(events.body.to_vec()).unwrap();
        for (pod, expected) in [
            ("ill", "Liveness probe failed: service unhealthy (responded with \\\"NOT_SERVING\\\")".to_owned()),
            (
                "strange",
                "Readiness probe failed: error: health rpc probe failed: rpc error: code = NotFound desc = unknown service".to_owned(),
            ),
            (
                "elsewhere",
                format!(
                    "Readiness probe failed: timeout: failed to connect service \\\"{}:5000\\\" within 1s: context deadline exceeded",
                    address(cluster, "elsewhere").await
                ),
            ),
        ] {
            assert!(text.contains(&expected), "{pod}: {text}");
        }
        assert_eq!(
            [status("strange").await["ready"].clone(), status("elsewhere").await["ready"].clone()],
            [false, false]
        );

        run(cluster, of_image("net", "agnhost", &["netexec"])).await;
        run(cluster, of_image("web", "nginx", &[])).await;
        run(cluster, of_image("c", "busybox", &["sleep", "86400"])).await;
        let (net, web) = (address(cluster, "net").await, address(cluster, "web").await);
        let shell = |command: &str| format!("curl -s '{net}:8080/shell?cmd={command}'");
        let out = |text: &str| (text.to_owned(), String::new(), 0);
        assert_eq!(sh(cluster, "c", &shell("hostname")).await, out("{\"output\":\"net\\n\"}"));
        let failed = out("{\"error\":\"exit status 3\",\"output\":\"\"}");
        assert_eq!(sh(cluster, "c", &shell("exit%203")).await, failed);
        // A command of a server reaches another server, which runs no further command for it.
        let inner = format!("curl%20-s%20{net}:8080/shell?cmd=hostname");
        assert!(sh(cluster, "c", &shell(&inner)).await.0.contains("makes no further requests"));
        let begin = log(cluster, "web").await;
        assert_eq!(sh(cluster, "c", &format!("wget -qO- {web}/no; wget -qO- {web} >/dev/null")).await.2, 0);
        let lines = log(cluster, "web").await;
        let rest = lines.strip_prefix(&begin).unwrap();
        let codes: Vec<_> = rest.lines().filter_map(|line| line.split(' ').nth(8)).collect();
        assert!(begin.starts_with("simulated container c started") && codes == ["404", "200"], "{lines}");
    });
}

#[test]
fn datagrams_reach_servers_directly_and_through_services_and_policies_keep_them_away() {
    simulate(Setup::seed(64), async |cluster| {
        let mut net = of_image("net", "agnhost", &["netexec"]);
        net["metadata"]["labels"] = json!({"name": "net"});
        run(cluster, net).await;
        run(cluster, of_image("c", "agnhost", &["pause"])).await;
        let ports = json!([{"name": "tcp", "port": 90, "targetPort": 8080}, {"name": "udp", "port": 90, "targetPort": 8081, "protocol": "UDP"}]);
        let spec = json!({"selector": {"name": "net"}, "ports": ports});
        cluster
            .create(
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": spec}),
            )
            .await;
        let net = address(cluster, "net").await;
        let out = |text: &str| (text.to_owned(), String::new(), 0);
        for target in [format!("{net} 8081"), "front 90".to_owned()] {
            let ask = format!("echo hostname | nc -u -w 2 {target}");
            assert_eq!(sh(cluster, "c", &ask).await, out("net"), "{target}");
        }
        let own = address(cluster, "c").await;
        let seen = sh(cluster, "c", &format!("echo clientip | nc -u -w 2 {net} 8081")).await.0;
        assert!(seen.starts_with(&format!("{own}:")), "{seen}");
        let dial = format!("curl -s '{net}:8080/dial?host=front&port=90&request=hostname&protocol=udp'");
        assert_eq!(sh(cluster, "c", &dial).await, out("{\"responses\":[\"net\"]}"));
        let connect = |port: u16| {
            format!("/agnhost connect --protocol=udp --udp-data=hostname --timeout=2s {net}:{port}")
        };
        assert_eq!(sh(cluster, "c", &connect(8081)).await.2, 0);
        assert_eq!(sh(cluster, "c", &connect(8082)).await, (String::new(), "REFUSED\n".to_owned(), 1));
        let spec = json!({"podSelector": {"matchLabels": {"name": "net"}}, "ingress": [{"ports": [{"port": 8080}]}]});
        cluster
            .create(json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "net"}, "spec": spec}))
            .await;
        assert_eq!(sh(cluster, "c", &connect(8081)).await, (String::new(), "TIMEOUT\n".to_owned(), 1));
        assert_eq!(sh(cluster, "c", &format!("curl -s {net}:8080/hostname")).await, out("net"));
    });
}
