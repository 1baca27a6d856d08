//! The audit log of the kstore-server program: events of requests over REST and gRPC, and rotation and
//! failures of its file.

use crate::SERVER;
use kstore_client::{Each, Gvr, Kubeconfig};
use kstore_informer::Causes;
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Https, Launch, Reply, Server, manifests, parse_reply};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA: &str = "rules: [{level: Metadata, users: [kubernetes-admin]}]";

/// A server with an audit log, and the log's path.
struct AuditedServer {
    server: Server,
    log: PathBuf,
    https: Https,
}

fn launch(dir: &Path, policy: &str, flags: &[&str]) -> Launch {
    let file = dir.join("policy.yaml");
    std::fs::write(&file, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{policy}\n")).unwrap();
    Launch::in_memory(SERVER, dir).args(&["--audit-policy-file", file.to_str().unwrap()]).args(flags)
}

fn start(dir: &Path, policy: &str, flags: &[&str]) -> AuditedServer {
    let log = dir.join("logs/audit.log");
    let server =
        launch(dir, policy, flags).args(&["--audit-log-path", log.to_str().unwrap()]).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    AuditedServer { server, log, https }
}

fn events_of(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl AuditedServer {
    /// Events with this value at a JSON pointer.
    fn events(&self, pointer: &str, value: &str) -> Vec<Value> {
        let has = |event: &Value| event.pointer(pointer).is_some_and(|found| *found == value);
        events_of(&self.log).into_iter().filter(has).collect()
    }

    /// The stages of those events.
    fn stages(&self, pointer: &str, value: &str) -> Vec<String> {
        let events = self.events(pointer, value);
        events.iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for events that are logged after the response.
    async fn until_stages(&self, pointer: &str, value: &str, stages: &[&str]) {
        let began = Instant::now();
        while self.stages(pointer, value) != stages {
            let found = self.events(pointer, value);
            assert!(began.elapsed() < PATIENCE, "{stages:?} did not come: {found:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// A GET with additional headers.
    async fn get_with(&self, path: &str, headers: &str) -> Reply {
        raw(&self.https, path, headers).await
    }
}

async fn raw(https: &Https, path: &str, headers: &str) -> Reply {
    parse_reply(&exchange(https, path, headers).await)
}

/// The bytes that a server sends until it closes the connection.
async fn exchange(https: &Https, path: &str, headers: &str) -> Vec<u8> {
    let mut tls = https.try_connect().await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer).await;
    answer
}

/// Runs `test` on a runtime with I/O.
fn connected<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

const POLICY: &str = r#"
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  users: [kubernetes-admin]
  omitManagedFields: true
  resources: [{group: "", resources: [configmaps]}]
- {level: None, nonResourceURLs: ["/healthz*"]}
- {level: Request, users: [kubernetes-admin]}
- {level: Metadata, userGroups: [system:unauthenticated]}
- {level: Metadata, nonResourceURLs: ["*"]}
- {level: Metadata, resources: [{resources: [secrets]}]}
"#;

#[test]
fn writes_over_rest_and_grpc_log_equal_events() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(dir.path(), POLICY, &["--components", "apiserver"]);
    connected(async {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        let reply =
            audited.https.call("POST", &format!("{MAPS}?fieldManager=me"), &map("rest").to_string()).await;
        assert_eq!(reply.code, 201);
        let id = reply.headers["audit-id"].to_str().unwrap();
        let [rest] = &audited.events("/auditID", id)[..] else { panic!("one event") };
        let client = audited.server.client("grpc-test").await;
        client.dynamic(Gvr::new("", "v1", "configmaps")).create("default", &map("grpc")).await.unwrap();
        let [grpc] = &audited.events("/objectRef/name", "grpc")[..] else { panic!("one event") };
        for (event, name) in [(rest, "rest"), (grpc, "grpc")] {
            assert_eq!(event["kind"], "Event");
            assert_eq!(event["level"], "RequestResponse");
            assert_eq!((&event["stage"], &event["verb"]), (&json!("ResponseComplete"), &json!("create")));
            assert_eq!(event["user"]["username"], "kubernetes-admin");
            assert_eq!(event["sourceIPs"], json!(["127.0.0.1"]));
            let reference =
                json!({"resource": "configmaps", "namespace": "default", "name": name, "apiVersion": "v1"});
            assert_eq!(event["objectRef"], reference);
            assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 201}));
            assert_eq!(event["requestObject"]["data"], json!({"a": "b"}));
            assert_eq!(event["responseObject"]["metadata"]["name"], name);
            assert!(event["responseObject"]["metadata"]["managedFields"].is_null(), "{event}");
            assert_eq!(
                event["annotations"],
                json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""})
            );
            let times = [&event["requestReceivedTimestamp"], &event["stageTimestamp"]]
                .map(|time| time.as_str().unwrap().len());
            assert_eq!(times, ["2026-01-02T03:04:05.678901Z".len(); 2]);
        }
        assert_eq!(rest["requestURI"], format!("{MAPS}?fieldManager=me"));
        assert_eq!(
            (&rest["userAgent"], &grpc["requestURI"]),
            (&json!("https-test/1.0"), &json!("/kstore.v1.Kstore/Create"))
        );
        let missing =
            client.dynamic(Gvr::new("", "v1", "configmaps")).get("default", "none").await.unwrap_err();
        let [event] = &audited.events("/objectRef/name", "none")[..] else { panic!("one event") };
        assert_eq!(
            (&event["responseStatus"]["code"], &event["responseStatus"]["message"]),
            (&json!(404), &json!(missing.to_string()))
        );
        assert_eq!(event["responseObject"]["kind"], "Status");
    });
}

#[test]
fn events_of_refused_requests_name_user_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(dir.path(), POLICY, &["--components", "apiserver"]);
    connected(async {
        let anonymous = audited.https.without_certificate();
        let reply = raw(&anonymous, "/api/v1/nodes/forbidden", "").await;
        assert_eq!(reply.code, 403);
        let [event] = &audited.events("/objectRef/name", "forbidden")[..] else { panic!("one event") };
        assert_eq!(event["user"]["username"], "system:anonymous");
        assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
        assert_eq!(event["responseStatus"]["reason"], "Forbidden");

        let reply = raw(&anonymous, "/metrics", "Authorization: Bearer wrong\r\n").await;
        assert_eq!(reply.code, 401);
        let [event] = &audited.events("/requestURI", "/metrics")[..] else { panic!("one event") };
        assert_eq!((&event["stage"], &event["user"]), (&json!("ResponseStarted"), &json!({})));
        assert_eq!(event["responseStatus"]["message"], "Authentication failed, attempted: bearer");

        let headers =
            "Impersonate-User: jane\r\nX-Forwarded-For: 192.0.2.1, nonsense\r\nX-Real-Ip: 192.0.2.2\r\n";
        let reply = audited.get_with("/api/v1/namespaces/default/secrets/s", headers).await;
        assert_eq!(reply.code, 403);
        let [event] = &audited.events("/objectRef/resource", "secrets")[..] else { panic!("one event") };
        assert_eq!(
            (&event["user"]["username"], &event["impersonatedUser"]["username"]),
            (&json!("kubernetes-admin"), &json!("jane"))
        );
        assert_eq!(
            event["authenticationMetadata"],
            json!({"impersonationConstraint": "impersonate:user-info"})
        );
        assert_eq!(event["sourceIPs"], json!(["192.0.2.1", "192.0.2.2", "127.0.0.1"]));
        assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");

        let reply = audited.get_with("/api/v1/nowhere", "").await;
        assert_eq!(reply.code, 404);
        let [event] = &audited.events("/objectRef/resource", "nowhere")[..] else { panic!("one event") };
        assert_eq!(event["responseStatus"]["code"], 404);

        assert_eq!(audited.get_with("/healthz", "").await.code, 200);
        assert!(audited.events("/requestURI", "/healthz").is_empty());
        let metrics = String::from_utf8(audited.get_with("/metrics", "").await.body.to_vec()).unwrap();
        let value = |name: &str| {
            let line =
                metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
            line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
        };
        assert_eq!(
            value("apiserver_audit_event_total "),
            events_of(&audited.log).len() as u64 - 1,
            "all but this one"
        );
        assert!(value("apiserver_audit_level_total{level=\"None\"}") > 0);
        assert_eq!(value("apiserver_audit_error_total{plugin=\"log\"}"), 0);
    });
}

#[test]
fn long_running_requests_log_an_event_at_start_and_at_end() {
    let dir = tempfile::tempdir().unwrap();
    let policy = "rules: [{level: Metadata, users: [kubernetes-admin]}]";
    let audited = start(dir.path(), policy, &["--nodes", "1"]);
    connected(async {
        let path = "/api/v1/namespaces?watch=true&timeoutSeconds=1";
        // A chunked body, which `parse_reply` does not decode.
        let mut tls = audited.https.try_connect().await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        tls.write_all(request.as_bytes()).await.unwrap();
        audited.until_stages("/requestURI", path, &["RequestReceived", "ResponseStarted"]).await;
        let _ = tls.read_to_end(&mut Vec::new()).await;
        let all = ["RequestReceived", "ResponseStarted", "ResponseComplete"];
        audited.until_stages("/requestURI", path, &all).await;
        let events = audited.events("/requestURI", path);
        assert!(
            events.iter().all(|event| event["verb"] == "watch" && event["auditID"] == events[0]["auditID"])
        );
        assert!(
            events[0]["responseStatus"].is_null() && events[2]["responseStatus"]["code"] == 200,
            "{events:?}"
        );

        let client = audited.server.client("test").await;
        let pods = Gvr::new("", "v1", "pods");
        client.dynamic(pods.clone()).create("default", &manifests::pod("a", json!({}))).await.unwrap();
        let is_ready = |pod: &Value| pod["status"]["phase"] == "Running";
        kstore_tests::wait::watch_until(&client, pods, "default", "a", is_ready).await;
        audited.until_stages("/requestURI", "/kstore.v1.Kstore/Watch", &all).await;
        let log = exchange(&audited.https, "/api/v1/namespaces/default/pods/a/log", "").await;
        assert!(log.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&log));
        audited.until_stages("/objectRef/subresource", "log", &all).await;
        let exec = "ws://a/api/v1/namespaces/default/pods/a/exec?command=cat&stdin=true&stdout=true";
        let mut request = exec.into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
        let tls = audited.https.try_connect().await.unwrap();
        let (mut socket, _) = tokio_tungstenite::client_async(request, tls).await.unwrap();
        audited.until_stages("/objectRef/subresource", "exec", &all[..2]).await;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(audited.stages("/objectRef/subresource", "exec"), all[..2], "the stream is still open");
        socket.close(None).await.unwrap();
        drop(socket);
        audited.until_stages("/objectRef/subresource", "exec", &all).await;
        let get = audited.get_with("/api/v1/namespaces/default/pods/a", "").await;
        let id = get.headers["audit-id"].to_str().unwrap();
        assert_eq!(audited.stages("/auditID", id), ["RequestReceived", "ResponseComplete"]);
    });
}

#[test]
fn operations_of_one_call_log_their_own_codes_under_their_own_ids() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(dir.path(), POLICY, &["--components", "apiserver"]);
    connected(async {
        let client = audited.server.client("each-test").await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        client.dynamic(Gvr::new("", "v1", "serviceaccounts")).create("default", &account).await.unwrap();
        let pod = manifests::pod("there", json!({}));
        client.dynamic(Gvr::new("", "v1", "pods")).create("default", &pod).await.unwrap();
        let none = Causes::default();
        let each = Each::new(&client)
            .bind("default", "there", "", "n", &none)
            .bind("default", "absent", "", "n", &none);
        let results = each.execute().await.unwrap();
        assert!(matches!(&results[..], [Ok(_), Err(error)] if error.is_not_found()), "{results:?}");
        let events = audited.events("/requestURI", "/kstore.v1.Kstore/Each");
        let seen = |event: &Value| {
            let reference = &event["objectRef"];
            assert_eq!((&event["verb"], &reference["subresource"]), (&json!("create"), &json!("binding")));
            (reference["name"].clone(), event["responseStatus"]["code"].clone())
        };
        let seen: Vec<_> = events.iter().map(seen).collect();
        assert_eq!(seen, [(json!("there"), json!(201)), (json!("absent"), json!(404))]);
        assert_ne!(events[0]["auditID"], events[1]["auditID"]);
        assert_eq!(events[0]["requestObject"]["target"]["name"], "n");
    });
}

#[test]
fn a_full_audit_log_is_rotated_and_old_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let policy =
        "omitStages: [RequestReceived]\nrules: [{level: RequestResponse, users: [kubernetes-admin]}]";
    let rotation = ["--components", "apiserver", "--audit-log-maxsize", "1", "--audit-log-maxbackup", "2"];
    let audited = start(dir.path(), policy, &rotation);
    connected(async {
        for number in 0..6 {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")},
                "data": {"a": "x".repeat(300 << 10)}});
            assert_eq!(audited.https.call("POST", MAPS, &map.to_string()).await.code, 201);
        }
    });
    let mut files: Vec<_> = std::fs::read_dir(audited.log.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    // Each event contains two objects; the oldest files are removed.
    let names: Vec<_> = files
        .iter()
        .flat_map(|file| events_of(file))
        .map(|event| event["objectRef"]["name"].clone())
        .collect();
    assert_eq!(names, ["m3", "m4", "m5"]);
}

#[test]
fn queued_events_are_written_before_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(dir.path(), METADATA, &["--components", "apiserver", "--audit-log-mode", "batch"]);
    connected(async {
        for _ in 0..20 {
            assert_eq!(audited.get_with("/version", "").await.code, 200);
        }
    });
    let log = audited.log.clone();
    assert!(audited.server.terminate().success());
    assert_eq!(events_of(&log).len(), 40, "two stages each");
}

#[test]
fn audit_log_failures_fail_requests_in_strict_mode_only() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, code) in [("blocking", 200), ("blocking-strict", 500)] {
        let flags = ["--components", "apiserver", "--audit-log-path", "/dev/full", "--audit-log-mode", mode];
        let server = launch(dir.path(), METADATA, &flags).start().unwrap();
        let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
        connected(async {
            let reply = raw(&https, "/version", "").await;
            assert_eq!(reply.code, code, "{mode}");
            if mode == "blocking" {
                let metrics = String::from_utf8(raw(&https, "/metrics", "").await.body.to_vec()).unwrap();
                assert!(!metrics.contains("apiserver_audit_error_total{plugin=\"log\"} 0\n"));
            } else {
                assert!(
                    reply.text("/message").contains("failed to store audit event"),
                    "{}",
                    reply.text("/message")
                );
            }
        });
    }
}

#[test]
fn uses_of_a_token_in_a_secret_are_annotated_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(
        dir.path(),
        "rules: [{level: Metadata, userGroups: [\"system:serviceaccounts:default\"]}]",
        &[],
    );
    connected(async {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder"}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "stored", "annotations": {"kubernetes.io/service-account.name": "builder"}}});
        for (plural, object) in [("serviceaccounts", account), ("secrets", secret)] {
            let path = format!("/api/v1/namespaces/default/{plural}");
            assert_eq!(audited.https.call("POST", &path, &object.to_string()).await.code, 201);
        }
        let began = Instant::now();
        let token = loop {
            let path = "/api/v1/namespaces/default/secrets/stored";
            let secret = audited.https.call("GET", path, "").await.json();
            if let Some(token) = secret["data"]["token"].as_str() {
                use base64::Engine as _;
                break String::from_utf8(base64::engine::general_purpose::STANDARD.decode(token).unwrap())
                    .unwrap();
            }
            assert!(began.elapsed() < PATIENCE, "the secret has no token");
            sleep(Duration::from_millis(20)).await;
        };
        let bearer = format!("Authorization: Bearer {token}\r\n");
        let reply = raw(&audited.https.without_certificate(), "/version", &bearer).await;
        assert_eq!(reply.code, 200);
        audited.until_stages("/requestURI", "/version", &["RequestReceived", "ResponseComplete"]).await;
        let complete = audited.events("/stage", "ResponseComplete").pop().unwrap();
        let notes = &complete["annotations"];
        assert_eq!(notes["authentication.k8s.io/legacy-token"], "system:serviceaccount:default:builder");
        assert_eq!(notes["authentication.k8s.io/legacy-token-manual-secret"], "stored");
        let page = audited.https.call("GET", "/metrics", "").await.body;
        let page = String::from_utf8(page.to_vec()).unwrap();
        for line in
            ["serviceaccount_legacy_tokens_total 1", "serviceaccount_legacy_manual_token_uses_total 1"]
        {
            assert!(page.lines().any(|found| found == line), "{line}");
        }
    });
}

#[test]
fn an_invalid_audit_policy_prevents_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.log").display().to_string();
    for (policy, want) in [
        ("rules: []", "loading audit policy file: loaded illegal policy with 0 rules: from file "),
        ("rules: [{level: All}]", "rules[0].level: Unsupported value: \"All\": supported values: "),
    ] {
        let refusal = launch(dir.path(), policy, &["--audit-log-path", &log]).start().err().unwrap();
        assert!(refusal.contains(want), "{refusal}");
    }
    let missing = dir.path().join("none").display().to_string();
    let flags = ["--audit-policy-file", &missing, "--audit-log-path", &log];
    let refusal = Launch::in_memory(SERVER, dir.path()).args(&flags).start().err().unwrap();
    assert!(refusal.contains("loading audit policy file: failed to read file path"), "{refusal}");
}

#[test]
fn events_carry_authorization_reasons_and_admission_annotations() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(dir.path(), POLICY, &["--components", "apiserver"]);
    connected(async {
        let create = async |path: &str, object: Value| {
            let reply = audited.https.call("POST", path, &object.to_string()).await;
            assert_eq!(reply.code, 201, "{path}: {}", reply.text("/message"));
            reply
        };
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let binding = json!({"metadata": {"name": "jane-views"}, "subjects": [{"kind": "User", "name": "jane"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}});
        create(&format!("{rbac}/clusterrolebindings"), binding).await;
        let reply = audited.get_with(&format!("{MAPS}/none"), "Impersonate-User: jane\r\n").await;
        assert_eq!(reply.code, 404);
        let [event] = &audited.events("/objectRef/name", "none")[..] else { panic!("one event") };
        let reason = "RBAC: allowed by ClusterRoleBinding \"jane-views\" of ClusterRole \"cluster-admin\" to User \"jane\"";
        assert_eq!(event["annotations"]["authorization.k8s.io/reason"], reason);

        let policies = "/apis/admissionregistration.k8s.io/v1";
        let spec = json!({"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": [""],
                "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "false", "message": "noted"}],
            "auditAnnotations": [{"key": "named", "valueExpression": "'it is ' + object.metadata.name"}]});
        let policy = json!({"metadata": {"name": "p.example.com"}, "spec": spec});
        create(&format!("{policies}/validatingadmissionpolicies"), policy).await;
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p.example.com", "validationActions": ["Audit"]}});
        create(&format!("{policies}/validatingadmissionpolicybindings"), binding).await;
        create(MAPS, json!({"metadata": {"name": "judged"}})).await;
        let [event] = &audited.events("/objectRef/name", "judged")[..] else { panic!("one event") };
        assert_eq!(event["annotations"]["p.example.com/named"], "it is judged", "{event}");
        let failure = event["annotations"]["validation.policy.admission.k8s.io/validation_failure"].as_str();
        assert!(failure.is_some_and(|failure| failure.contains("noted")), "{event}");
    });
}

#[test]
fn events_carry_pod_security_annotations() {
    let dir = tempfile::tempdir().unwrap();
    let audited = start(dir.path(), POLICY, &["--components", "apiserver"]);
    connected(async {
        let labels = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/audit": "restricted"});
        let namespace = json!({"metadata": {"name": "held", "labels": labels}});
        let made = audited.https.call("POST", "/api/v1/namespaces", &namespace.to_string()).await;
        assert_eq!(made.code, 201);
        let pod = |security: Value| {
            let container = json!({"name": "c", "image": "i", "securityContext": security});
            json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}).to_string()
        };
        let pods = "/api/v1/namespaces/held/pods";
        let refused = audited.https.call("POST", pods, &pod(json!({"privileged": true}))).await;
        assert_eq!(refused.code, 403);
        let made = audited.https.call("POST", pods, &pod(json!({"runAsUser": 0}))).await;
        assert_eq!(made.code, 201, "{}", made.text("/message"));
        let events = audited.events("/objectRef/resource", "pods");
        assert_eq!(events.len(), 2, "a refusal is noted, too");
        for (event, found) in events.iter().zip(["privileged (container", "runAsUser=0 (container"]) {
            let note =
                |name: &str| event["annotations"][format!("pod-security.kubernetes.io/{name}")].clone();
            assert_eq!(note("enforce-policy"), "baseline:latest", "{event}");
            let violations = note("audit-violations");
            assert!(
                violations.as_str().unwrap().starts_with("would violate PodSecurity \"restricted:latest\": ")
            );
            assert!(violations.as_str().unwrap().contains(found), "{violations}");
        }
    });
}
