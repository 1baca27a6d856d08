//! The `kube-apiserver` and `etcd` replacement programs as test harnesses start them: equal flags, files,
//! order and shutdown, within time limits.

mod authorities;
mod callers;
mod elections;
mod programs;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kstore_proto::etcd::etcdserverpb as pb;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_tests::wait::until;
use kstore_tests::webhooks::reviewed;
use kstore_tests::{Https, TlsServer, free_port};
use programs::{
    Authority, Program, assets, etcd_ready, get, https, output, ready, self_signed_client, send, words,
};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};
use tonic::transport::Endpoint;

/// Time limit of an exit after SIGTERM, after which harnesses fail the suite. The performance gate measures exits.
const END: Duration = Duration::from_secs(20);
const DEFAULT: &str = "/api/v1/namespaces/default";

#[test]
fn help_and_version_have_the_form_that_harnesses_parse() {
    let dir = tempfile::tempdir().unwrap();
    let folder = assets(dir.path());
    let text = |program: &str, args: &[&str], code: i32| {
        let output = output(&folder.join(program), args);
        assert_eq!(output.status.code(), Some(code), "{program} {args:?}: {output:?}");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let lists = |help: &str, flag: &str| help.lines().any(|line| line.trim_start().starts_with(flag));
    assert!(!lists(&text("kube-apiserver", &["--help"], 0), "--insecure-port"));
    assert!(lists(&text("etcd", &["--help"], 0), "--unsafe-no-fsync"));
    assert_eq!(
        text("kube-apiserver", &["--version"], 0),
        format!("Kubernetes {}\n", kstore_api::version::Minor::DEFAULT.programs())
    );
    assert!(text("etcd", &["--version"], 0).starts_with("etcd Version: 3.6.0\n"));
    assert!(text("kube-apiserver", &["--nonsense"], 1).starts_with("Error: unknown flag: --nonsense\n"));
    assert!(text("etcd", &["--nonsense"], 2).contains("flag provided but not defined: -nonsense"));
}

/// The two programs as envtest starts them, with its certificates in a folder.
struct Envtest {
    dir: tempfile::TempDir,
    etcd: Option<Program>,
    apiserver: Program,
    etcd_port: u16,
    port: u16,
    serving: Authority,
    clients: Authority,
}

impl Envtest {
    async fn start() -> Self {
        Self::start_in(&[]).await
    }

    /// Starts both, with variables in the environment of the apiserver.
    async fn start_in(environment: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = assets(dir.path());
        let (serving, accounts, clients) = (Authority::new(), Authority::new(), Authority::new());
        let certificates = dir.path().join("certs");
        std::fs::create_dir(&certificates).unwrap();
        serving.serving().write(&certificates, "apiserver");
        accounts.pair.write(&certificates, "sa-signer");
        std::fs::write(certificates.join("client-cert-auth-ca.crt"), &clients.pair.certificate).unwrap();
        let [etcd_port, peer_port, port] = [free_port(), free_port(), free_port()];
        let etcd = words(&format!(
            "--advertise-client-urls=http://127.0.0.1:{etcd_port} --data-dir={0}/data \
             --listen-client-urls=http://127.0.0.1:{etcd_port} --listen-peer-urls=http://127.0.0.1:{peer_port} \
             --unsafe-no-fsync=true",
            dir.path().display()
        ));
        let mut etcd = Program::start(&folder.join("etcd"), &etcd, dir.path());
        etcd_ready(etcd_port, &mut etcd).await;
        let apiserver = words(&format!(
            "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir={0} \
             --client-ca-file={0}/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount \
             --etcd-servers=http://127.0.0.1:{etcd_port} --secure-port={port} \
             --service-account-issuer=https://127.0.0.1:{port}/ --service-account-key-file={0}/sa-signer.crt \
             --service-account-signing-key-file={0}/sa-signer.key --service-cluster-ip-range=10.0.0.0/24",
            certificates.display()
        ));
        let program = folder.join("kube-apiserver");
        let apiserver = Program::start_in(&program, &apiserver, environment, dir.path());
        let mut envtest = Self { dir, etcd: Some(etcd), apiserver, etcd_port, port, serving, clients };
        let anonymous = envtest.client("nobody", "nothing").without_certificate();
        ready(&anonymous, "/healthz", "", &mut envtest.apiserver).await;
        envtest
    }

    /// Writes a kubeconfig for a user.
    fn kubeconfig(&self, user: &str, path: &Path) {
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        let identity = self.clients.client(user, "components");
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority-data": encoded(&self.serving.pair.certificate)}}],
            "users": [{"name": "u", "user": {"client-certificate-data": encoded(&identity.certificate),
                "client-key-data": encoded(&identity.key)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        std::fs::write(path, kubeconfig.to_string()).unwrap();
    }

    /// A client with a newly issued certificate.
    fn client(&self, user: &str, group: &str) -> Https {
        https(self.port, &self.serving.pair.certificate, &self.clients.client(user, group))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envtest_suites_find_the_behaviour_they_rely_on() {
    let mut envtest = Envtest::start().await;
    let admin = envtest.client("admin", "system:masters");
    let namespace = admin.call("GET", DEFAULT, "").await;
    assert_eq!(namespace.code, 200, "{}", namespace.json());
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(&admin.without_certificate(), path, "").await.unwrap().code, 200, "{path}");
    }
    assert_eq!(get(&admin.without_certificate(), DEFAULT, "").await.unwrap().code, 403, "RBAC");
    let user = envtest.client("ann", "dev");
    assert_eq!(user.call("GET", DEFAULT, "").await.code, 403, "a user without rights");
    // A different authority with the same subject does not certify clients.
    let foreign = https(
        envtest.port,
        &envtest.serving.pair.certificate,
        &envtest.serving.client("x", "system:masters"),
    );
    let refused = get(&foreign, DEFAULT, "").await;
    assert!(refused.is_none_or(|reply| reply.code == 401), "another authority of the same subject");
    let accounts = admin.call("GET", &format!("{DEFAULT}/serviceaccounts"), "").await.json();
    assert_eq!(accounts["items"], json!([]), "no controller makes accounts");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]}});
    let made = admin.call("POST", &format!("{DEFAULT}/pods"), &pod.to_string()).await;
    assert_eq!(made.code, 201, "the plugin ServiceAccount is off: {}", made.json());

    definitions_are_discovered_at_once(&admin).await;
    tokens_of_accounts_are_good(&admin, envtest.port).await;
    webhooks_with_their_own_certificate_are_called(&admin).await;

    let files: Vec<String> = files_of(&envtest.dir.path().join("certs"));
    let expected =
        ["apiserver.crt", "apiserver.key", "client-cert-auth-ca.crt", "sa-signer.crt", "sa-signer.key"];
    assert_eq!(files, expected, "nothing is written beside the harness's files");
    let log = envtest.apiserver.log();
    assert!(log.lines().all(|line| line.contains("still waiting for the etcd")), "a quiet run: {log}");
    envtest.apiserver.check();
}

fn files_of(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

async fn definitions_are_discovered_at_once(admin: &Https) {
    for plural in ["gadgets", "widgets"] {
        let kind = if plural == "gadgets" { "Gadget" } else { "Widget" };
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = admin.call("POST", path, &definition.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.json());
        let found = admin.call("GET", "/apis/example.com/v1", "").await;
        assert_eq!(found.code, 200, "{}", found.json());
        let listed = found.json()["resources"].as_array().unwrap().iter().any(|row| row["name"] == plural);
        assert!(listed, "{plural}: {}", found.json());
    }
}

/// Checks that a service account token is signed with the given key, for the given issuer.
async fn tokens_of_accounts_are_good(admin: &Https, port: u16) {
    let accounts = format!("{DEFAULT}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder"}});
    assert_eq!(admin.call("POST", &accounts, &account.to_string()).await.code, 201);
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let made = admin.call("POST", &format!("{accounts}/builder/token"), &asked.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
    let token = made.json()["status"]["token"].clone();
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let status = admin.call("POST", path, &review.to_string()).await.json()["status"].clone();
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:builder", "{status}");
    assert_eq!(status["audiences"], json!([format!("https://127.0.0.1:{port}/")]), "{status}");
    let document = admin.call("GET", "/.well-known/openid-configuration", "").await.json();
    assert_eq!(document["issuer"], format!("https://127.0.0.1:{port}/"));
}

/// Checks webhooks with a `caBundle` that is the server's own certificate, and a URL with two slashes; a
/// configuration applies to the next write.
async fn webhooks_with_their_own_certificate_are_called(admin: &Https) {
    let server = TlsServer::bind("127.0.0.1").await;
    let (address, bundle) = (server.address(), server.own_bundle());
    let deny = post(|body: Bytes| async move {
        let response = json!({"allowed": false, "status": {"message": "asked and denied"}});
        reviewed(&serde_json::from_slice(&body).unwrap(), response).to_string()
    });
    let _serving = server.serve(Router::new().route("/deny", deny));
    let hook = json!({"name": "deny.hooks.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": bundle, "url": format!("https://{address}//deny")},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "deny"}, "webhooks": [hook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let made = admin.call("POST", path, &configuration.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}).to_string();
    let denied = admin.call("POST", &format!("{DEFAULT}/configmaps"), &map).await;
    let message = denied.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("asked and denied"), "{}", denied.json());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_programs_exit_quickly_with_open_watches() {
    let mut envtest = Envtest::start().await;
    let admin = envtest.client("admin", "system:masters");
    let mut watch = admin.try_connect().await.unwrap();
    let request = format!("GET {DEFAULT}/configmaps?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
    watch.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 16];
    watch.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{first:?}");
    let url = format!("http://127.0.0.1:{}", envtest.etcd_port);
    let mut keys = WatchClient::new(Endpoint::new(url).unwrap().connect().await.unwrap());
    let all = pb::WatchCreateRequest { key: vec![0].into(), range_end: vec![0].into(), ..Default::default() };
    let create =
        pb::WatchRequest { request_union: Some(pb::watch_request::RequestUnion::CreateRequest(all)) };
    let (requests, receiver) = tokio::sync::mpsc::channel(1);
    requests.send(create).await.unwrap();
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|request| (request, receiver))
    });
    let mut events = keys.watch(stream).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().unwrap().created);

    let etcd = envtest.etcd.take().unwrap();
    for (name, program) in [("kube-apiserver", envtest.apiserver), ("etcd", etcd)] {
        let (_, took) = program.terminate().await;
        assert!(took < END, "{name} took {took:?}");
    }
    drop((watch, requests));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_apiserver_runs_other_components_if_its_environment_enables_them() {
    let environment = [("KSTORE_CONTROLLERS", "all"), ("KSTORE_SCHEDULER", "1"), ("KSTORE_NODES", "2")];
    let mut envtest = Envtest::start_in(&environment).await;
    let admin = envtest.client("admin", "system:masters");
    rolls_out(&admin, &mut [&mut envtest.apiserver]).await;
    // The second node may register after the pod has started on the first.
    let has_two = async || {
        let nodes = admin.call("GET", "/api/v1/nodes", "").await.json();
        (nodes["items"].as_array().unwrap().len() == 2).then_some(())
    };
    until("both nodes have registered", has_two).await;
}

/// Creates a Deployment and waits until its pod is available.
async fn rolls_out(admin: &Https, programs: &mut [&mut Program]) {
    let labels = json!({"app": "web"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let made = admin.call("POST", path, &deployment.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
    let began = Instant::now();
    loop {
        programs.iter_mut().for_each(|program| program.check());
        let status = admin.call("GET", &format!("{path}/web"), "").await.json()["status"].clone();
        if status["availableReplicas"] == 1 {
            break;
        }
        let logs = || programs.iter().map(|program| program.log()).collect::<String>();
        assert!(began.elapsed() < programs::READY, "{status}: {}", logs());
        sleep(Duration::from_millis(50)).await;
    }
}

/// A Secret of an account gets a token that the API server accepts.
async fn secrets_get_good_tokens(admin: &Https, controllers: &mut Program) {
    let annotations = json!({"kubernetes.io/service-account.name": "default"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "t", "annotations": annotations}});
    assert_eq!(admin.call("POST", &format!("{DEFAULT}/secrets"), &secret.to_string()).await.code, 201);
    let began = Instant::now();
    let token = loop {
        let data = admin.call("GET", &format!("{DEFAULT}/secrets/t"), "").await.json()["data"].clone();
        if let Some(token) = data["token"].as_str() {
            break BASE64_STANDARD.decode(token).unwrap();
        }
        controllers.check();
        assert!(began.elapsed() < programs::READY, "{data}: {}", controllers.log());
        sleep(Duration::from_millis(50)).await;
    };
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": String::from_utf8(token).unwrap()}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = admin.call("POST", path, &review.to_string()).await.json();
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:default", "{review}");
}

/// Controllers and scheduler run as separate programs, with a kubeconfig, health checks and metrics. The flags are
/// those of kwokctl and metacontroller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_and_scheduler_run_as_separate_programs() {
    let mut envtest = Envtest::start_in(&[("KSTORE_NODES", "1")]).await;
    let admin = envtest.client("admin", "system:masters");
    let dir = envtest.dir.path().to_owned();
    let (folder, shown) = (dir.join("assets"), dir.display());
    let [controllers_port, scheduler_port] = [free_port(), free_port()];
    let (manager, scheduler) = ("system:kube-controller-manager", "system:kube-scheduler");
    envtest.kubeconfig(manager, &dir.join("manager.kubeconfig"));
    envtest.kubeconfig(scheduler, &dir.join("scheduler.kubeconfig"));
    // The certificate of the API server is its own authority and says so nowhere: no trust bundle can have it.
    let off = "-garbage-collector-controller,-kube-apiserver-serving-clustertrustbundle-publisher-controller";
    let shared = "--bind-address=127.0.0.1 --kube-api-qps=5000 --kube-api-burst=10000 --leader-elect=false \
                  --authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics";
    let args = words(&format!(
        "{shared} --kubeconfig={shown}/manager.kubeconfig --root-ca-file={shown}/certs/apiserver.crt \
         --node-monitor-period=25s --node-monitor-grace-period=3m20s --secure-port={controllers_port} \
         --controllers=*,{off} --use-service-account-credentials=true \
         --service-account-private-key-file={shown}/certs/sa-signer.key"
    ));
    let mut controllers = Program::start(&folder.join("kube-controller-manager"), &args, &dir);
    let args = words(&format!(
        "{shared} --kubeconfig={shown}/scheduler.kubeconfig --secure-port={scheduler_port} --cert-dir={shown}/scheduler"
    ));
    let mut scheduler = Program::start(&folder.join("kube-scheduler"), &args, &dir);
    rolls_out(&admin, &mut [&mut envtest.apiserver, &mut controllers, &mut scheduler]).await;
    secrets_get_good_tokens(&admin, &mut controllers).await;

    let published = until("the authority is published", async || {
        let found = admin.call("GET", &format!("{DEFAULT}/configmaps/kube-root-ca.crt"), "").await;
        (found.code == 200).then(|| found.json())
    });
    let published = published.await;
    let authority = std::fs::read_to_string(dir.join("certs/apiserver.crt")).unwrap();
    assert_eq!(published["data"]["ca.crt"], authority.as_str());
    let certificate = std::fs::read_to_string(dir.join("scheduler/apiserver.crt")).unwrap();
    let health = https(scheduler_port, &certificate, &envtest.clients.client("x", "y")).without_certificate();
    let answer = get(&health, "/healthz", "").await.unwrap();
    assert_eq!((answer.code, &*answer.body), (200, b"ok".as_slice()));
    let metrics = get(&health, "/metrics", "").await.unwrap();
    let page = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.code == 200 && page.contains("# TYPE"), "{page}");

    // The garbage collector is disabled: the ReplicaSet stays when its Deployment is deleted.
    let path = "/apis/apps/v1/namespaces/default";
    assert_eq!(admin.call("DELETE", &format!("{path}/deployments/web"), "").await.code, 200);
    let sets = admin.call("GET", &format!("{path}/replicasets"), "").await.json();
    assert_eq!(sets["items"].as_array().unwrap().len(), 1, "{sets}");
    for (name, program) in [("kube-controller-manager", controllers), ("kube-scheduler", scheduler)] {
        let log = program.log();
        let unusual: Vec<_> =
            log.lines().filter(|line| !line.ends_with("is accepted and has no effect")).collect();
        assert!(unusual.is_empty(), "a quiet run of {name}: {unusual:?}");
        let (status, took) = program.terminate().await;
        assert!(status.success() && took < END, "{name}: {status} after {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_manager_waits_for_its_apiserver() {
    let dir = tempfile::tempdir().unwrap();
    let folder = assets(dir.path());
    let [port, health_port] = [free_port(), free_port()];
    let (shown, token) = (dir.path().display(), "token");
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster":
            {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    std::fs::write(dir.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let args = words(&format!(
        "--kubeconfig {shown}/kubeconfig --controllers namespace,garbagecollector,serviceaccount \
         --cert-dir {shown}/made --secure-port {health_port}"
    ));
    let mut controllers = Program::start(&folder.join("kube-controller-manager"), &args, dir.path());
    let certificate = made(&dir.path().join("made/apiserver.crt"), &mut controllers).await;
    let health = https(health_port, &certificate, &Authority::new().client("x", "y")).without_certificate();
    ready(&health, "/readyz", "", &mut controllers).await;
    assert_eq!(get(&health, "/metrics", "").await.unwrap().code, 403, "not open unless asked for");

    let key = include_str!("../../../access/testdata/token-keys/rsa.pkcs1.pem");
    std::fs::write(dir.path().join("sa.key"), key).unwrap();
    std::fs::write(dir.path().join("tokens"), format!("{token},manager,1,\"system:masters\"\n")).unwrap();
    let apiserver = words(&format!(
        "--cert-dir {shown}/server --secure-port {port} --etcd-servers unix://{shown}/etcd.sock \
         --service-account-issuer https://kubernetes.default.svc --service-account-signing-key-file {shown}/sa.key \
         --token-auth-file {shown}/tokens --authorization-mode RBAC --allow-privileged"
    ));
    let mut apiserver = Program::start(&folder.join("kube-apiserver"), &apiserver, dir.path());
    let etcd = words(&format!(
        "--data-dir {shown}/data --listen-client-urls unix://{shown}/etcd.sock --advertise-client-urls unix://{shown}/etcd.sock \
         --unsafe-no-fsync"
    ));
    let mut etcd = Program::start(&folder.join("etcd"), &etcd, dir.path());
    let certificate = made(&dir.path().join("server/apiserver.crt"), &mut apiserver).await;
    let client = https(port, &certificate, &Authority::new().client("x", "y")).without_certificate();
    let account = format!("{DEFAULT}/serviceaccounts/default");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let began = Instant::now();
    while get(&client, &account, &bearer).await.is_none_or(|reply| reply.code != 200) {
        [&mut etcd, &mut apiserver, &mut controllers].into_iter().for_each(Program::check);
        assert!(began.elapsed() < programs::READY, "{}{}", apiserver.log(), controllers.log());
        sleep(Duration::from_millis(20)).await;
    }
}

/// The start order and flags are those of metacontroller's test framework: the apiserver starts before its etcd, with
/// an empty certificate directory that other programs read early, a token file, and AlwaysAllow. The etcd listens on a
/// Unix socket, as in Kubernetes' integration tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_waits_for_its_etcd_after_creating_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let folder = assets(dir.path());
    let shown = dir.path().display();
    let key = include_str!("../../../access/testdata/token-keys/rsa.pkcs1.pem");
    std::fs::write(dir.path().join("sa.key"), key).unwrap();
    std::fs::write(dir.path().join("tokens"), "secret,ann,7,\"dev,ops\"\n").unwrap();
    let port = free_port();
    let apiserver = words(&format!(
        "--cert-dir {shown}/made --secure-port {port} --etcd-servers unix://{shown}/etcd.sock --external-hostname localhost \
         --service-account-issuer https://kubernetes.default.svc --service-account-key-file {shown}/sa.key \
         --service-account-signing-key-file {shown}/sa.key --token-auth-file {shown}/tokens \
         --authorization-mode AlwaysAllow"
    ));
    let mut apiserver = Program::start(&folder.join("kube-apiserver"), &apiserver, dir.path());
    let ca = made(&dir.path().join("made/apiserver.crt"), &mut apiserver).await;
    // Sleeps longer than the longest delay between two retries.
    sleep(Duration::from_millis(300)).await;
    apiserver.check();
    let etcd = words(&format!(
        "--data-dir {shown}/data --listen-client-urls unix://{shown}/etcd.sock \
         --advertise-client-urls http://127.0.0.111:0 --listen-peer-urls http://127.0.0.1:0 -log-level warn \
         --quota-backend-bytes 8589934592"
    ));
    let _etcd = Program::start(&folder.join("etcd"), &etcd, dir.path());
    let server = https(port, &ca, &self_signed_client("x", "y")).without_certificate();
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    ready(&server, "/healthz", &bearer("secret"), &mut apiserver).await;
    let code = async |headers: &str| get(&server, DEFAULT, headers).await.unwrap().code;
    assert_eq!(code(&bearer("secret")).await, 200, "everything is allowed");
    assert_eq!(code(&bearer("wrong")).await, 401);
    assert_eq!(code("").await, 401, "AlwaysAllow disables anonymous requests");
    assert_eq!(grant_a_role(&server, &bearer("secret")).await, 201, "roles are not asked either");
    let document = get(&server, "/apis", &bearer("secret")).await.unwrap().json();
    assert!(document["groups"].is_array(), "{document}");
}

/// Waits for the certificate that a program creates.
async fn made(path: &Path, program: &mut Program) -> String {
    let began = Instant::now();
    loop {
        program.check();
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.contains("END CERTIFICATE") {
            return text;
        }
        assert!(began.elapsed() < programs::READY, "no certificate: {}", program.log());
        sleep(Duration::from_millis(10)).await;
    }
}

/// Tries to create a role that grants more than its author's roles; returns the status code.
async fn grant_a_role(server: &Https, headers: &str) -> u16 {
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "everything"}, "rules": rules})
    .to_string();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    send(server, ("POST", path), headers, &role).await.unwrap().code
}

#[test]
fn an_unsupported_flag_value_ends_the_program_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--secure-port=1", "--egress-selector-config-file=f"];
    let output = output(&assets(dir.path()).join("kube-apiserver"), &args);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.starts_with("Error: --egress-selector-config-file=f: kstore connects without a proxy\n"),
        "{text}"
    );
}
