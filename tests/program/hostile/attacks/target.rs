//! [`Target`]: the program under attack, with users, and what is measured of it.

use super::figures::Figures;
use super::observer::{self, Observer};
use super::{Attack, Data, passwords};
use crate::hostile::sockets::{few_files, https};
use kstore_nondet::Nondet;
use kstore_store::{Alarm, Config, Store};
use kstore_tests::wait::{PATIENCE, until};
use kstore_tests::{Https, Launch, Server, manifests};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;

const MIB: usize = 1 << 20;
/// The request of [`Writer::Deleter`].
const DELETION: &str = "DELETE /api/v1/namespaces/default/configmaps?labelSelector=none%3Dnone HTTP/1.1\r\n\
    Host: kstore\r\nConnection: close\r\n\r\n";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The program under attack.
pub(super) struct Target {
    server: Option<Server>,
    pub(super) admin: Https,
    pub(super) dir: tempfile::TempDir,
    begun: Mutex<Option<Begun>>,
    /// A user of the cluster before the storage was full.
    pub(super) former: Option<User>,
}

struct Begun {
    observer: Observer,
    at: Instant,
    before: usize,
}

/// Who writes while the attack goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Tenant,
    Administrator,
    /// The administrator deletes objects that are not there, since nothing can be created.
    Deleter,
}

/// A user with a role in a namespace of its own.
#[derive(Clone)]
pub(super) struct User {
    pub(super) https: Https,
    pub(super) namespace: String,
    /// The line with the user's token.
    pub(super) authorization: String,
}

impl Target {
    pub(super) async fn start(program: &str, attack: &Attack) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = match attack.files {
            Some(files) => few_files(dir.path(), program, files),
            None => program.to_owned(),
        };
        let launch = match attack.data {
            Data::InMemory => Launch::in_memory(&program, dir.path()),
            Data::Full => Launch::on_disk(&program, dir.path()),
        };
        let mut launch = launch.args(attack.flags);
        if !attack.passwords.is_empty() {
            let users = passwords::file(&program, dir.path(), attack.passwords);
            launch = launch.args(&["--basic-auth-file", &users]);
        }
        if attack.has_etcd {
            let url = format!("unix://{}", dir.path().join("etcd.sock").display());
            launch = launch.args(&["--etcd-listen", &url]);
        }
        let first = Self::of(&launch, dir);
        match attack.data {
            Data::InMemory => first,
            Data::Full => first.restarted_full(&launch).await,
        }
    }

    /// Starts the program; a program that does not start fails here, with its log.
    fn of(launch: &Launch, dir: tempfile::TempDir) -> Self {
        let server = launch.start().unwrap();
        let admin = https(&server);
        Self { server: Some(server), admin, dir, begun: Mutex::new(None), former: None }
    }

    /// Creates a user with an object, fills the storage, and starts the program again.
    async fn restarted_full(mut self, launch: &Launch) -> Self {
        let eve = self.user("eve", "edit").await;
        let kept = manifests::config_map("kept", "x").to_string();
        assert_eq!(eve.send(("POST", &eve.path("configmaps")), "application/json", &kept).await, 201);
        let server = self.server.take().expect("it runs");
        assert!(tokio::task::spawn_blocking(|| server.terminate()).await.unwrap().success());
        let data = self.dir.path().join("data");
        let store = Store::open(Config::durable(data), Nondet::real()).await.unwrap();
        store.alarm_raise(Alarm::NoSpace).await.unwrap();
        store.close().await;
        let again = Self::of(launch, self.dir);
        let https = again.admin.without_certificate();
        Self { former: Some(User { https, ..eve }), ..again }
    }

    /// The socket of the etcd API.
    pub(super) fn etcd(&self) -> PathBuf {
        self.dir.path().join("etcd.sock")
    }

    /// Creates an object as the administrator.
    pub(super) async fn create(&self, path: &str, object: &Value) {
        let made = timeout(PATIENCE, self.admin.call("POST", path, &object.to_string())).await.unwrap();
        assert_eq!(made.code, 201, "{path}: {}", made.json());
    }

    /// A user that has a ClusterRole in a new namespace of the user's name.
    pub(super) async fn user(&self, name: &str, role: &str) -> User {
        self.create("/api/v1/namespaces", &manifests::namespace(name)).await;
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        self.create(&accounts, &json!({"metadata": {"name": "user"}})).await;
        let binding = json!({"metadata": {"name": "user"},
            "subjects": [{"kind": "ServiceAccount", "name": "user", "namespace": name}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
        self.create(&format!("{RBAC}/namespaces/{name}/rolebindings"), &binding).await;
        let token = self.admin.call("POST", &format!("{accounts}/user/token"), r#"{"spec":{}}"#).await;
        assert_eq!(token.code, 201, "{}", token.json());
        let authorization = format!("Bearer {}", token.text("/status/token"));
        let (https, namespace) = (self.admin.without_certificate(), name.to_owned());
        let user = User { https, namespace, authorization };
        if ["view", "edit"].contains(&role) {
            // The rules of these roles are gathered by a controller.
            let path = user.path("configmaps");
            until("the role has rules", async || {
                (user.send(("GET", &path), "application/json", "").await == 200).then_some(())
            })
            .await;
        }
        user
    }

    /// The client and the request of a write, and the code of its answer.
    async fn write_of(&self, writer: Writer) -> ((Https, String), &'static str) {
        if writer == Writer::Deleter {
            return ((self.admin.clone(), DELETION.to_owned()), "200");
        }
        let tenant = self.user("tenant", "edit").await;
        match writer {
            Writer::Tenant => ((tenant.https.clone(), tenant.write()), "201"),
            Writer::Administrator | Writer::Deleter => {
                ((self.admin.clone(), tenant.write_without_token()), "201")
            }
        }
    }

    /// Begins to observe the program.
    pub(super) async fn begin(&self, writer: Writer) {
        let (write, code) = self.write_of(writer).await;
        let first = observer::send(&write.0, &write.1).await;
        assert!(first.starts_with(&format!("HTTP/1.1 {code}")), "{first}");
        let server = self.server.as_ref().expect("it runs");
        server.forget_peak();
        let begun = Begun {
            observer: Observer::begin(&self.admin, write, code),
            at: Instant::now(),
            before: server.resident_bytes() / MIB,
        };
        *self.begun.lock().unwrap() = Some(begun);
    }

    /// Ends the observation and the program.
    pub(super) async fn end(&mut self, name: &'static str, sent: usize) -> Figures {
        let Begun { observer, at, before } = self.begun.lock().unwrap().take().expect("the attack began");
        let time = at.elapsed();
        let [livez, writes] = observer.end().await;
        let server = self.server.take().expect("it runs");
        let peak = server.peak_bytes().map_or(0, |bytes| bytes / MIB);
        let asked = Instant::now();
        let status = tokio::task::spawn_blocking(|| server.terminate()).await.unwrap();
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => code.to_string(),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        Figures { name, sent, time, before, peak, livez, writes, exit, end: asked.elapsed() }
    }
}

impl User {
    /// A request of the user, complete with its head.
    pub(super) fn request(&self, (method, path): (&str, &str), content_type: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\nAuthorization: {}\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            self.authorization,
            body.len()
        )
    }

    /// Sends a request of the user and returns its code; 0 without an answer.
    pub(super) async fn send(&self, (method, path): (&str, &str), content_type: &str, body: &str) -> u16 {
        let request = self.request((method, path), content_type, body);
        let answer = timeout(PATIENCE, observer::send(&self.https, &request)).await.unwrap_or_default();
        answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// The path of a resource in the user's namespace.
    pub(super) fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    fn write(&self) -> String {
        let object = json!({"metadata": {"generateName": "w-"}}).to_string();
        self.request(("POST", &self.path("configmaps")), "application/json", &object)
    }

    fn write_without_token(&self) -> String {
        self.write().replace(&format!("Authorization: {}\r\n", self.authorization), "")
    }

    /// An HTTP/2 connection, over which requests need the user's authorization.
    pub(super) async fn http2(&self) -> Channel {
        self.https.http2().await
    }

    /// The head of a request over HTTP/2, without a body.
    pub(super) fn get(&self, path: &str) -> http::Request<tonic::body::Body> {
        let request = http::Request::get(format!("https://kstore{path}"));
        request.header("authorization", &self.authorization).body(tonic::body::Body::empty()).unwrap()
    }

    /// A gRPC request of the user.
    pub(super) fn call<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("authorization", self.authorization.parse().unwrap());
        request
    }

    /// Creates a pod that runs a command, and waits until its container has begun.
    pub(super) async fn run(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let made = self.send(("POST", &self.path("pods")), "application/json", &pod.to_string()).await;
        assert_eq!(made, 201, "{name}");
        let path = self.path(&format!("pods/{name}"));
        until(&format!("{name} begins"), async || {
            let request = self.request(("GET", &path), "application/json", "");
            let answer = observer::send(&self.https, &request).await;
            (answer.contains("\"startedAt\"")).then_some(())
        })
        .await;
    }
}
