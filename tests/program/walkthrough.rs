//! The path of one request through the program: a `POST` of a Deployment over TLS, until the Deployment is
//! available. [`WALK`] lists the hops of ARCHITECTURE.md; each is a tracing span, and the test asserts their
//! order and their files.
//!
//! The program runs inside the test, so that the spans can be recorded. Tracing is global to a process, so
//! the test runs itself again in a separate process.

use kstore_client::{Gvr, Kubeconfig};
use kstore_tests::wait::{rolled_out, until, watch_until};
use kstore_tests::{Https, manifests};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// One hop of the walk.
struct Hop {
    /// The line of the table in ARCHITECTURE.md.
    line: u8,
    /// The name of the span.
    span: &'static str,
    /// The file in which the span is opened.
    file: &'static str,
    /// Texts that the fields contain, as `name=value` in order, enclosing spans included.
    fields: &'static [&'static str],
}

const fn hop(line: u8, span: &'static str, file: &'static str, fields: &'static [&'static str]) -> Hop {
    Hop { line, span, file, fields }
}

/// The hops of the walk, in order.
const WALK: &[Hop] = &[
    hop(1, "server", "apiserver/src/server/mod.rs", &[]),
    hop(
        2,
        "router",
        "apiserver/src/rest/mod.rs",
        &["method=POST", "path=\"/apis/apps/v1/namespaces/default/deployments\""],
    ),
    hop(3, "authn", "apiserver/src/rest/mod.rs", &["server ", "router "]),
    hop(
        3,
        "pipeline",
        "pipeline/src/pipeline/mod.rs",
        &["router ", "verb=\"create\"", "resource=\"deployments\""],
    ),
    hop(3, "authz", "pipeline/src/pipeline/mod.rs", &["resource=\"deployments\""]),
    hop(3, "decode", "pipeline/src/pipeline/create.rs", &["resource=\"deployments\""]),
    hop(3, "admission", "admission/src/admission.rs", &["resource=\"deployments\"", "phase=\"mutate\""]),
    hop(3, "validation", "pipeline/src/pipeline/create.rs", &["resource=\"deployments\""]),
    hop(3, "admission", "admission/src/admission.rs", &["resource=\"deployments\"", "phase=\"validate\""]),
    hop(
        4,
        "registry",
        "registry/src/registry/create.rs",
        &["pipeline ", "key=\"/registry/deployments/default/web\""],
    ),
    hop(5, "writer", "store/src/runtime/writer.rs", &["step=\"execute\""]),
    hop(6, "wal", "store/src/wal/append.rs", &[]),
    hop(6, "disk", "store/src/disk/real.rs", &[]),
    hop(7, "group", "store/src/runtime/group.rs", &["step=\"publish\""]),
    hop(7, "hub", "store/src/published/hub.rs", &[]),
    hop(8, "cache", "registry/src/cache/mod.rs", &[]),
    hop(9, "grpc", "client/src/grpc.rs", &[]),
    hop(9, "reflector", "informer/src/driver/mod.rs", &["informer=\"deployments\""]),
    hop(9, "indexer", "informer/src/shared.rs", &["informer=\"deployments\""]),
    hop(9, "queue", "informer/src/controller/feed.rs", &["key=default/web"]),
    hop(10, "run", "informer/src/controller/worker.rs", &["controller=\"deployment\"", "key=default/web"]),
    hop(10, "plan", "controllers/src/deployment/mod.rs", &["key=default/web"]),
    hop(10, "apply", "controllers/src/apply/mod.rs", &["controller=\"deployment\""]),
    hop(10, "registry", "registry/src/registry/create.rs", &["key=\"/registry/replicasets/default/web-"]),
    hop(10, "run", "informer/src/controller/worker.rs", &["controller=\"replicaset\"", "key=default/web-"]),
    hop(10, "plan", "controllers/src/replicaset/mod.rs", &["key=default/web-"]),
    hop(10, "apply", "controllers/src/apply/mod.rs", &["controller=\"replicaset\""]),
    hop(10, "registry", "registry/src/registry/create.rs", &["key=\"/registry/pods/default/web-"]),
    hop(11, "queue", "scheduler/src/scheduler/mod.rs", &["pod=default/web-"]),
    hop(11, "decide", "scheduler/src/scheduler/mod.rs", &["pod=default/web-"]),
    hop(11, "bind", "scheduler/src/bind/mod.rs", &["pod=default/web-", "node=node-0"]),
    hop(11, "registry", "registry/src/registry/guaranteed_update.rs", &["key=\"/registry/pods/default/web-"]),
    hop(12, "manager", "kubelet-sim/src/manager/mod.rs", &["pod=default/web-"]),
    hop(12, "pod", "kubelet-sim/src/manager/pods.rs", &["pod=default/web-"]),
    hop(12, "status", "kubelet-sim/src/manager/pods.rs", &["pod=default/web-"]),
    hop(12, "registry", "registry/src/registry/guaranteed_update.rs", &["key=\"/registry/pods/default/web-"]),
    hop(12, "run", "informer/src/controller/worker.rs", &["controller=\"replicaset\"", "key=default/web-"]),
    hop(
        12,
        "registry",
        "registry/src/registry/guaranteed_update.rs",
        &["key=\"/registry/replicasets/default/web-"],
    ),
    hop(12, "run", "informer/src/controller/worker.rs", &["controller=\"deployment\"", "key=default/web"]),
    hop(
        12,
        "registry",
        "registry/src/registry/guaranteed_update.rs",
        &["key=\"/registry/deployments/default/web\""],
    ),
];

/// An opened span.
#[derive(Clone, Debug)]
struct OpenedSpan {
    name: &'static str,
    file: String,
    /// Names and fields of the enclosing spans and of the span, outermost first.
    path: String,
}

/// Records every span in the order of opening.
#[derive(Clone, Default)]
struct SpanRecorder(Arc<Mutex<Vec<OpenedSpan>>>);

/// The enclosing spans and the fields of a span, as text.
struct SpanPath(String);

impl Visit for SpanPath {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanRecorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let around =
            span.parent().and_then(|parent| parent.extensions().get::<SpanPath>().map(|path| path.0.clone()));
        let meta = attributes.metadata();
        let mut path = SpanPath(around.unwrap_or_default() + meta.name() + " ");
        attributes.record(&mut path);
        let file = meta.file().unwrap_or_default().replace('\\', "/");
        let opened = OpenedSpan { name: meta.name(), file, path: path.0.clone() };
        span.extensions_mut().insert(path);
        self.0.lock().unwrap().push(opened);
    }
}

impl Hop {
    fn is(&self, opened: &OpenedSpan) -> bool {
        let mut rest = opened.path.as_str();
        let in_order = self.fields.iter().all(|field| match rest.split_once(field) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        });
        opened.name == self.span && opened.file.ends_with(self.file) && in_order
    }
}

/// Finds the walk in the recorded spans: each hop is the first match after the previous hop.
fn follow(opened: &[OpenedSpan]) {
    let mut at = 0;
    for hop in WALK {
        let found = opened[at..].iter().position(|opened| hop.is(opened));
        let Some(found) = found else {
            let seen: Vec<_> = opened
                .iter()
                .filter(|opened| opened.name == hop.span)
                .map(|o| format!("{} {}", o.file, o.path))
                .collect();
            panic!(
                "hop {} ({} in {} with {:?}) is missing after {at} spans; all of its name:\n{}",
                hop.line,
                hop.span,
                hop.file,
                hop.fields,
                seen.join("\n")
            );
        };
        at += found + 1;
    }
}

/// Runs the walk, in a separate process.
fn walk() {
    let recorder = SpanRecorder::default();
    let filter = tracing_subscriber::filter::LevelFilter::DEBUG;
    let subscriber = tracing_subscriber::registry().with(recorder.clone().with_filter(filter));
    tracing::subscriber::set_global_default(subscriber).expect("no other subscriber is set in this process");
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let data = dir.path().join("data");
    let arguments = ["--listen", "127.0.0.1:0", "--nodes", "1", "--data-dir", data.to_str().unwrap()];
    let arguments = ["kstore-server"]
        .into_iter()
        .chain(arguments)
        .chain(["--write-kubeconfig", kubeconfig.to_str().unwrap()]);
    let cli = kstore_server::Cli::try_parse_from(arguments).unwrap();
    std::thread::spawn(move || kstore_server::main(cli));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = ready(&kubeconfig).await;
        let client = kstore_client::Client::connect(&config, "walk").await.unwrap();
        let node = Gvr::new("", "v1", "nodes");
        watch_until(&client, node, "", "node-0", kstore_tests::wait::is_ready).await;
        let account = Gvr::new("", "v1", "serviceaccounts");
        watch_until(&client, account, "default", "default", |_| true).await;

        recorder.0.lock().unwrap().clear();
        let path = "/apis/apps/v1/namespaces/default/deployments";
        let reply =
            Https::new(&config).call("POST", path, &manifests::deployment("web", 1).to_string()).await;
        assert_eq!(reply.code, 201, "{reply:?}");
        watch_until(&client, Gvr::new("apps", "v1", "deployments"), "default", "web", rolled_out).await;
        follow(&recorder.0.lock().unwrap());
    });
}

/// Waits for the kubeconfig; the server answers as soon as it exists.
async fn ready(kubeconfig: &Path) -> Kubeconfig {
    until("the server has started", async || kubeconfig.exists().then_some(())).await;
    Kubeconfig::read(kubeconfig).unwrap()
}

#[test]
fn a_request_takes_the_path_that_the_architecture_describes() {
    const ALONE: &str = "KSTORE_TEST_WALK";
    if std::env::var_os(ALONE).is_some() {
        return walk();
    }
    let test = std::env::current_exe().unwrap();
    let arguments =
        ["walkthrough::a_request_takes_the_path_that_the_architecture_describes", "--exact", "--nocapture"];
    let alone = Command::new(test).args(arguments).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&alone.stdout) + String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && said.contains("1 passed"), "{said}");
}
