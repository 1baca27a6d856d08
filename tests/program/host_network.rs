//! Programs of this machine in the network of the cluster: Services, names, the API server, policies and webhooks. On a machine without
//! network namespaces, or without Python, a test says so, and passes; with `KSTORE_NEEDS_NAMESPACES` it fails.

use crate::host_programs::{Mapped, PODS, has_network, pod};
use crate::pod_webhooks::{MAPS, certificate, map};
use kstore_tests::skip::{NEEDS_NAMESPACES, skip};
use kstore_tests::wait::until;
use serde_json::{Value, json};
use std::path::Path;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const PYTHON: &str = "/usr/bin/python3";

/// A server whose image `ops/op` is this program of Python; `None` where the test cannot run.
fn start(dir: &Path, code: &str) -> Option<Mapped> {
    start_with(dir, code, &[])
}

/// The same with further flags.
pub(crate) fn start_with(dir: &Path, code: &str, flags: &[&str]) -> Option<Mapped> {
    if !Path::new(PYTHON).exists() {
        skip(NEEDS_NAMESPACES, &format!("{PYTHON} is not here"));
        return None;
    }
    let cluster = Mapped::start_with(dir, &format!("exec {PYTHON} -u - <<'END'\n{code}\nEND"), flags);
    if !has_network(dir) {
        skip(NEEDS_NAMESPACES, "pods of programs have no network of their own here");
        return None;
    }
    Some(cluster)
}

impl Mapped {
    /// Waits until this many endpoints of a Service are ready.
    async fn endpoints(&self, service: &str, count: usize) {
        until(&format!("{count} endpoints of {service}"), async || {
            let slices = self.https.call("GET", SLICES, "").await.json();
            let all = slices["items"].as_array().cloned().unwrap_or_default();
            let own = all
                .iter()
                .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
            let endpoints = own.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
            let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
            (ready == count).then_some(())
        })
        .await;
    }

    /// What a command of a simulated pod prints, with its exit code behind it.
    async fn command(&self, name: &str, line: &str) -> String {
        let container = json!({"name": "c", "image": "curlimages/curl",
            "command": ["sh", "-c", format!("{line}; echo \" code $?\"")]});
        self.create(PODS, &pod(name, &json!({"containers": [container]}))).await;
        until(&format!("{name} ends"), async || {
            let log = self.log(name).await;
            log.contains(" code ").then_some(log)
        })
        .await
    }
}

fn service(name: &str, port: u16, target: u16) -> Value {
    let ports = json!([{"port": port, "targetPort": target}]);
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports}})
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_serve_and_reach_the_cluster_by_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let code = r#"
import http.server, os, socket, ssl, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            text = self.answer()
        except OSError as error:
            text = f"failed: {error}"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def answer(self):
        if self.path == "/api":
            trust = ssl.create_default_context(cafile=account + "ca.crt")
            headers = {"Authorization": "Bearer " + open(account + "token").read()}
            asked = urllib.request.Request("https://kubernetes.default.svc/version", headers=headers)
            return urllib.request.urlopen(asked, context=trust).read().decode()
        if self.path == "/other":
            return urllib.request.urlopen("http://other/self").read().decode()
        if self.path == "/missing":
            return socket.gethostbyname("missing")
        if self.path == "/env":
            return os.environ["KUBERNETES_SERVICE_HOST"]
        return f"{socket.gethostname()} answers {self.client_address[0]}"
http.server.ThreadingHTTPServer(("", 80), Web).serve_forever()"#;
    let Some(cluster) = start(dir.path(), code) else { return };
    let container = json!({"name": "op", "image": "ops/op:v1", "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}});
    // Two pods, and a third behind another Service, listen at one port of one machine.
    for (name, app) in [("one", "web"), ("two", "web"), ("other", "other")] {
        let mut object = pod(name, &json!({"containers": [container]}));
        object["metadata"]["labels"]["app"] = app.into();
        cluster.create(PODS, &object).await;
    }
    cluster.create(SERVICES, &service("web", 8080, 80)).await;
    cluster.create(SERVICES, &service("other", 80, 80)).await;
    cluster.endpoints("web", 2).await;
    cluster.endpoints("other", 1).await;
    let log = cluster.command("asks", "curl -s http://web:8080/self").await;
    let client = cluster.pod("asks").await["status"]["podIP"].as_str().unwrap().to_owned();
    assert!(log.contains(&format!("answers {client} code 0")), "{log}");
    let log = cluster.command("asks-api", "curl -s http://web:8080/api").await;
    assert!(log.contains("gitVersion"), "the program has reached the API server: {log}");
    let log = cluster.command("asks-env", "curl -s http://web:8080/env").await;
    assert!(log.contains("10.96.0.1 code 0"), "{log}");
    let log = cluster.command("asks-other", "curl -s http://web:8080/other").await;
    assert!(log.contains("other answers 10."), "one program has reached another by its Service: {log}");
    let log = cluster.command("asks-missing", "curl -s http://web:8080/missing").await;
    assert!(log.contains("failed: [Errno -"), "the name has no address: {log}");
    let proxied = cluster.https.call("GET", &format!("{SERVICES}/other/proxy/self"), "").await;
    assert_eq!(proxied.code, 200);
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed"},
        "spec": {"podSelector": {"matchLabels": {"app": "other"}}, "policyTypes": ["Ingress", "Egress"]}});
    cluster.create("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &policy).await;
    until("the policy holds", async || {
        let number = cluster.https.call("GET", PODS, "").await.json()["items"].as_array()?.len();
        let log = cluster.command(&format!("tries-{number}"), "curl -s -m 2 http://other/self").await;
        log.contains("code 28").then_some(())
    })
    .await;
    cluster.endpoints("other", 1).await;
    cluster.server.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_a_pod_is_a_webhook_without_any_flag() {
    let dir = tempfile::tempdir().unwrap();
    let code = r#"
import http.server, json, ssl
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        allowed = "bad" not in (request["object"].get("data") or {})
        review["response"] = {"uid": request["uid"], "allowed": allowed, "status": {"message": "bad data"}}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("", 9443), Hook)
trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
trust.load_cert_chain("/certs/tls.crt", "/certs/tls.key")
server.socket = trust.wrap_socket(server.socket, server_side=True)
server.serve_forever()"#;
    let Some(cluster) = start(dir.path(), code) else { return };
    let (certificate, key, authority) = certificate();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook"},
        "stringData": {"tls.crt": certificate, "tls.key": key}});
    cluster.create("/api/v1/namespaces/default/secrets", &secret).await;
    let container = json!({"name": "hook", "image": "ops/op:v1", "volumeMounts": [{"name": "certs", "mountPath": "/certs"}],
        "readinessProbe": {"tcpSocket": {"port": 9443}, "periodSeconds": 1}});
    let spec =
        json!({"containers": [container], "volumes": [{"name": "certs", "secret": {"secretName": "hook"}}]});
    cluster.create(PODS, &pod("hook", &spec)).await;
    cluster.create(SERVICES, &service("hook", 443, 9443)).await;
    cluster.endpoints("hook", 1).await;
    let hooks = json!([{"name": "maps.hooks.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": base64::Engine::encode(&base64::prelude::BASE64_STANDARD, authority),
            "service": {"namespace": "default", "name": "hook", "path": "/maps"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}]);
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "maps"}, "webhooks": hooks});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    cluster.create(path, &configuration).await;
    let denied = cluster.https.call("POST", MAPS, &map(json!({"bad": "1"}))).await.json();
    assert_eq!(
        denied["message"], "admission webhook \"maps.hooks.test\" denied the request: bad data",
        "{denied}"
    );
    assert_eq!(cluster.https.call("POST", MAPS, &map(json!({"good": "1"}))).await.code, 201);
    cluster.server.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_with_host_network_have_that_of_their_simulated_node_and_not_the_machines() {
    let dir = tempfile::tempdir().unwrap();
    let code = r#"
import errno, http.server, os, socket
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"{os.environ['POD']} answers {self.client_address[0]}"
        if self.path == "/machine":
            try:
                socket.create_connection(("127.0.0.1", int(os.environ["MACHINE"])))
                text = "reached"
            except OSError as error:
                text = errno.errorcode[error.errno]
        if self.path == "/fellow":
            text = socket.create_connection(("127.0.0.1", 81)).makefile().read()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
if os.environ["POD"] == "fellow":
    server = socket.create_server(("127.0.0.1", 81))
    while True:
        server.accept()[0].sendall(b"its node's loopback")
http.server.ThreadingHTTPServer(("", 80), Web).serve_forever()"#;
    let Some(cluster) = start(dir.path(), code) else { return };
    let machine = cluster.server.address().rsplit(':').next().unwrap().to_owned();
    for name in ["web", "fellow"] {
        let env = json!([{"name": "POD", "value": name}, {"name": "MACHINE", "value": machine}]);
        let mut container = json!({"name": "op", "image": "ops/op:v1", "env": env});
        if name == "web" {
            container["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1});
        }
        let spec = json!({"hostNetwork": true, "nodeName": "node-0", "containers": [container]});
        cluster.create(PODS, &pod(name, &spec)).await;
    }
    cluster.create(SERVICES, &service("web", 8080, 80)).await;
    cluster.endpoints("web", 1).await;
    let node = cluster.pod("web").await["status"]["hostIP"].as_str().unwrap().to_owned();
    let log = cluster.command("by-address", &format!("curl -s http://{node}/")).await;
    let client = cluster.pod("by-address").await["status"]["podIP"].as_str().unwrap().to_owned();
    assert!(log.contains(&format!("web answers {client} code 0")), "{log}");
    let log = cluster.command("by-service", "curl -s http://web:8080/").await;
    assert!(log.contains("web answers 10."), "{log}");
    let log = cluster.command("machine", "curl -s http://web:8080/machine").await;
    assert!(
        log.contains("ECONNREFUSED code 0"),
        "the API server listens there, but not in the node's network: {log}"
    );
    let log = cluster.command("fellow-pod", "curl -s http://web:8080/fellow").await;
    assert!(log.contains("its node's loopback code 0"), "pods of a node share its network: {log}");
    let proxied = cluster.https.call("GET", &format!("{PODS}/web:80/proxy/"), "").await;
    assert_eq!(proxied.code, 200);
    let log = cluster.command("other-port", &format!("curl -s -m 5 http://{node}:82/")).await;
    assert!(log.contains(" code 7"), "{log}");
    cluster.server.terminate();
}
