//! A real kube-apiserver and kstore with the same data: on kstore's store one after the other, in several versions of Kubernetes, and on
//! one etcd side by side. The variable `KUBE_APISERVER` names the program, of Kubernetes 1.36; without it the tests say so and pass.

use crate::SERVER;
use kstore_tests::wait::until;
use kstore_tests::{Etcd, Launch, free_port};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Objects of stable kinds, of a custom kind's definition, and one with a member that Kubernetes has since 1.35.
const OBJECTS: &str = r#"
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 3,
  "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
  "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "500m"}}}]}}}}
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}, "data": {"a": "b"}, "binaryData": {"x": "AAE="}}
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "stringData": {"p": "x"}}
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": [{"port": 80}]}}
{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop"}, "spec":
  {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}
{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cj", "namespace": "shop"}, "spec": {"schedule": "*/5 * * * *",
  "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}}}
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "np", "namespace": "shop"},
  "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "claim", "namespace": "shop"},
  "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d.ex.io"},
  "spec": {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": true}}
{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "vp"}, "spec":
  {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
  "resources": ["configmaps"]}]}, "validations": [{"expression": "true"}]}}
{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"}, "spec":
  {"group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"}, "versions":
  [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object",
  "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}}
"#;
const WIDGET: &str = r#"{"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}, "spec": {"size": 3}}"#;
const DRIVER: &str = "/apis/storage.k8s.io/v1/csidrivers/d.ex.io";
/// The objects.
const PATHS: [&str; 13] = [
    "/api/v1/namespaces/shop",
    "/apis/apps/v1/namespaces/shop/deployments/web",
    "/api/v1/namespaces/shop/configmaps/c",
    "/api/v1/namespaces/shop/secrets/s",
    "/api/v1/namespaces/shop/services/web",
    "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web",
    "/apis/batch/v1/namespaces/shop/cronjobs/cj",
    "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/np",
    "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/claim",
    DRIVER,
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/vp",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io",
    "/apis/ex.io/v1/namespaces/shop/widgets/w",
];

/// kubectl as an administrator of some API server.
pub(crate) struct Kubectl(Vec<String>);

impl Kubectl {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(&self.0).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn apply(&self, text: &str) -> bool {
        let mut applied = self.command(&["apply", "-f", "-"]);
        let mut applied = applied.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        applied.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        applied.wait().unwrap().success()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        serde_json::from_slice(&self.command(&["get", "--raw", path]).output().unwrap().stdout).ok()
    }

    /// The objects as the server shows them, by path.
    fn objects(&self) -> BTreeMap<&'static str, Value> {
        PATHS
            .iter()
            .map(|path| (*path, self.get(path).unwrap_or_else(|| panic!("{path} is missing"))))
            .collect()
    }

    /// The URL of the API server.
    pub(crate) fn server(&self) -> &str {
        &self.0[1]
    }

    async fn ready(self) -> Self {
        let is_ready = async || {
            self.command(&["get", "--raw", "/readyz"]).output().unwrap().status.success().then_some(())
        };
        until("the API server is ready", is_ready).await;
        self
    }

    async fn create_objects(&self) {
        assert!(self.apply(OBJECTS));
        until("the custom kind is served", async || self.apply(WIDGET).then_some(())).await;
    }
}

/// A program that serves the API, killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Ends it by SIGTERM, and waits until it has.
    pub(crate) fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a kube-apiserver, the real one or kstore's, on an etcd.
pub(crate) async fn start(program: &[&str], dir: &Path, name: &str, etcd: &str) -> (Process, Kubectl) {
    let file = |name: &str| dir.join(name).display().to_string();
    let (port, key, public) = (free_port().to_string(), file("sa.key"), file("sa.pub"));
    if !Path::new(&key).exists() {
        let pair = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        std::fs::write(&public, pair.public_key_pem()).unwrap();
        std::fs::write(file("tokens"), "tok,admin,admin,\"system:masters\"\n").unwrap();
    }
    let log = File::create(file(&format!("{name}.log"))).unwrap();
    let child = Command::new(program[0])
        .args(&program[1..])
        .args([
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", file(name)),
        ])
        .args([
            "--bind-address=127.0.0.1",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
        ])
        .args(["--service-account-issuer=https://kubernetes.default.svc".to_owned()])
        .args([
            format!("--service-account-key-file={public}"),
            format!("--service-account-signing-key-file={key}"),
        ])
        .arg(format!("--token-auth-file={}", file("tokens")))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let server = format!("https://127.0.0.1:{port}");
    let flags =
        ["--server", &server, "--token", "tok", "--insecure-skip-tls-verify", "--kubeconfig=/dev/null"];
    (Process(child), Kubectl(flags.map(str::to_owned).to_vec()).ready().await)
}

/// The path of a real kube-apiserver.
pub(crate) fn program() -> Option<String> {
    let program = std::env::var("KUBE_APISERVER").ok();
    if program.is_none() {
        println!("skipped: KUBE_APISERVER names no kube-apiserver");
    }
    program
}

/// kstore's store, served as an etcd.
pub(crate) async fn store(dir: &Path) -> (Process, String) {
    let address = format!("127.0.0.1:{}", free_port());
    let mut store = Command::new(SERVER);
    store.args(["--components", "store", "--etcd-listen", &address, "--data-dir"]).arg(data(dir));
    let store = Process(store.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the store listens", async || tokio::net::TcpStream::connect(&address).await.ok()).await;
    (store, format!("http://{address}"))
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

#[tokio::test]
async fn a_kube_apiserver_and_kstore_serve_the_same_store_in_turns_and_in_versions() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (served, url) = store(dir.path()).await;
    let (real, kubectl) = start(&[&program], dir.path(), "real", &url).await;
    kubectl.create_objects().await;
    let mut expected = kubectl.objects();
    real.end();
    served.end();

    for version in ["1.36", "1.37", "1.34", "1.36"] {
        let args = ["--components", "apiserver", "--allow-downgrade", "--kubernetes-version", version];
        let network = ["--service-cluster-ip-range", "10.96.0.0/16"];
        let server = Launch::on_disk(SERVER, dir.path()).args(&args).args(&network).start().unwrap();
        let kubectl = Kubectl(vec!["--kubeconfig".to_owned(), server.kubeconfig().display().to_string()]);
        let mut shown = expected.clone();
        if version == "1.34" {
            let driver = shown.get_mut(DRIVER).unwrap();
            driver["spec"].as_object_mut().unwrap().remove("serviceAccountTokenInSecrets").unwrap();
        }
        assert_eq!(kubectl.objects(), shown, "{version}");
        kubectl.run(&[
            "-n",
            "shop",
            "annotate",
            "--overwrite",
            "cronjobs/cj",
            "widgets/w",
            &format!("by={version}"),
        ]);
        for path in [PATHS[6], PATHS[12]] {
            expected.insert(path, kubectl.get(path).unwrap());
        }
        assert!(server.terminate().success());
    }

    let (_served, url) = store(dir.path()).await;
    let (_real, kubectl) = start(&[&program], dir.path(), "again", &url).await;
    assert_eq!(kubectl.objects(), expected);
    assert_eq!(expected[PATHS[6]]["metadata"]["annotations"]["by"], "1.36");
    kubectl.run(&["-n", "shop", "scale", "deployment/web", "--replicas=4"]);
}

#[tokio::test]
async fn a_kube_apiserver_and_kstore_serve_one_etcd_side_by_side() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let (_real, real) = start(&[&program], dir.path(), "real", etcd.url()).await;
    let (ours, kstore) = start(&[SERVER, "as", "kube-apiserver"], dir.path(), "ours", etcd.url()).await;
    real.create_objects().await;
    until("kstore serves the custom kind", async || kstore.get(PATHS[12])).await;
    assert_eq!(kstore.objects(), real.objects());

    kstore.run(&["-n", "shop", "scale", "deployment/web", "--replicas=4"]);
    kstore.run(&["-n", "shop", "patch", "widget/w", "--type=merge", "-p", r#"{"spec": {"size": 4}}"#]);
    real.run(&["-n", "shop", "label", "configmap/c", "by=real"]);
    assert_eq!(kstore.objects(), real.objects());
    ours.end();
    real.run(&["-n", "shop", "annotate", "service/web", "by=real"]);
    let (_ours, kstore) = start(&[SERVER, "as", "kube-apiserver"], dir.path(), "ours", etcd.url()).await;
    assert_eq!(kstore.objects(), real.objects());
    assert_eq!(kstore.get(PATHS[1]).unwrap()["spec"]["replicas"], 4);
}
