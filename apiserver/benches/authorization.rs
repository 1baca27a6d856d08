//! The cost of authorization over large clusters: decisions of RBAC with ten thousand bindings and of the
//! Node mode with ten thousand pods, and the first decision after a change. Prints one row for each.
//! Run by `cargo bench -p kstore-apiserver --bench authorization`.

use kstore_access::authz::{Attributes, Authorizer, Decision, Mode, Modes, More, Target, bootstrap};
use kstore_nondet::Nondet;
use kstore_registry::cache::Cache;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Store};
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const NAMESPACES: usize = 100;
const BINDINGS: usize = 10_000;
const PODS: usize = 10_000;
const NODES: usize = 100;
/// Pods of the one crowded node.
const CROWD: usize = 500;
/// Repetitions of a measurement; the median counts.
const ROUNDS: usize = 25;
/// Decisions in a row that are measured together.
const BATCH: u32 = 200;

/// A cluster in memory.
struct Cluster {
    store: Store,
    cache: Arc<Cache>,
}

impl Cluster {
    async fn new() -> Self {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.expect("memory opens");
        let storage = Arc::new(Embedded::new(store.clone()));
        let (cache, follow) = Cache::fill(storage, |_| {}).await.expect("an empty store is read");
        tokio::spawn(follow);
        Self { store, cache }
    }

    async fn put(&self, plural: &str, object: &Value) {
        let member = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let path = [plural.to_owned(), member("namespace"), member("name")];
        let path: Vec<_> = path.into_iter().filter(|part| !part.is_empty()).collect();
        let key = format!("/registry/{}", path.join("/"));
        self.store.put(key, object.to_string()).await.expect("the store accepts it");
    }

    async fn fresh(&self) {
        self.cache.fresh().await.expect("the cache follows");
    }
}

fn rbac(kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": name}});
    object.as_object_mut().expect("it is one").extend(rest.as_object().expect("it is one").clone());
    object
}

fn binding(number: usize) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "worker"});
    let subjects = json!([{"kind": "User", "name": format!("user-{number}")}]);
    let namespace = format!("ns-{}", number % NAMESPACES);
    let name = format!("binding-{number}");
    rbac("RoleBinding", &namespace, &name, &json!({"roleRef": role, "subjects": subjects}))
}

fn role(namespace: usize, verb: &str) -> Value {
    let rules = json!([
        {"verbs": [verb, "watch"], "apiGroups": [""], "resources": ["pods", "services", "configmaps"]},
        {"verbs": [verb], "apiGroups": ["apps"], "resources": ["deployments", "replicasets"]},
    ]);
    rbac("Role", &format!("ns-{namespace}"), "worker", &json!({"rules": rules}))
}

fn pod(number: usize, node: &str, phase: &str) -> Value {
    let container = |name: &str| {
        json!({"name": name, "image": "registry.example.com/app:1", "envFrom": [{"secretRef": {"name": format!("env-{number}")}}],
            "env": [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]})
    };
    let name = format!("pod-{number:05}");
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": format!("ns-{}", number % NAMESPACES), "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "serviceAccountName": "default", "containers": [container("app"), container("sidecar")],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt"}}]}}, {"name": "s", "secret": {"secretName": format!("secret-{number}")}}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "app", "ready": true, "restartCount": 0}, {"name": "sidecar", "ready": true, "restartCount": 0}]}})
}

fn allows(authorizer: &Authorizer, user: &UserInfo, verb: &str, of: (&str, &str, &str)) -> bool {
    let (resource, namespace, name) = of;
    let target = Target::Resource { group: "", resource, subresource: "", namespace, name };
    let attributes = Attributes { user, verb, target, more: More::default() };
    matches!(authorizer.decide_now(&attributes), Decision::Allow(_))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn print(what: &str, took: Duration) {
    println!("| {what} | {:.1} µs |", took.as_secs_f64() * 1e6);
}

/// Measures one decision, repeated.
fn decisions(what: &str, expected: bool, decide: impl Fn() -> bool) {
    let batch = || {
        let began = Instant::now();
        (0..BATCH).for_each(|_| assert_eq!(black_box(decide()), expected, "{what}"));
        began.elapsed() / BATCH
    };
    print(what, median((0..5).map(|_| batch()).collect()));
}

/// Measures the first decision after each of several changes.
async fn after_changes(
    what: &str,
    cluster: &Cluster,
    plural: &str,
    change: impl Fn(usize) -> Value,
    decide: impl Fn() -> bool,
) {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        cluster.put(plural, &change(round)).await;
        cluster.fresh().await;
        let began = Instant::now();
        black_box(decide());
        times.push(began.elapsed());
    }
    print(what, median(times));
}

async fn measure_rbac() {
    let cluster = Cluster::new().await;
    for object in bootstrap::objects() {
        let plural = format!("{}s", object["kind"].as_str().expect("a kind").to_lowercase());
        cluster.put(&plural, &object).await;
    }
    for namespace in 0..NAMESPACES {
        cluster.put("roles", &role(namespace, "get")).await;
    }
    for number in 0..BINDINGS {
        cluster.put("rolebindings", &binding(number)).await;
    }
    cluster.fresh().await;
    let authorizer = Authorizer::of_modes(cluster.cache.clone(), Modes::new([Mode::Rbac]));
    let user = UserInfo::new("user-4242", ["system:authenticated", "developers"]);
    let may = |verb, namespace| allows(&authorizer, &user, verb, ("pods", namespace, "p"));
    let began = Instant::now();
    assert!(may("get", "ns-42"));
    print("RBAC: the first decision, which compiles 10,000 bindings", began.elapsed());
    decisions("RBAC: a request is allowed", true, || may("get", "ns-42"));
    decisions("RBAC: a request is not allowed", false, || may("delete", "ns-42"));
    let other = |round: usize| {
        let mut other = binding(round);
        other["subjects"][0]["name"] = json!(format!("other-{round}"));
        other
    };
    after_changes(
        "RBAC: the first decision after a changed binding",
        &cluster,
        "rolebindings",
        other,
        || may("get", "ns-42"),
    )
    .await;
    let changed = |round: usize| role(42, if round.is_multiple_of(2) { "list" } else { "get" });
    after_changes("RBAC: the first decision after a changed role", &cluster, "roles", changed, || {
        may("get", "ns-42")
    })
    .await;
    let began = Instant::now();
    for number in 0..1_000 {
        cluster.put("rolebindings", &binding(BINDINGS + number)).await;
        cluster.fresh().await;
        assert!(may("watch", "ns-42"));
    }
    print("RBAC: a binding is created and a request decided, mean of 1,000", began.elapsed() / 1_000);
}

async fn measure_node() {
    let cluster = Cluster::new().await;
    let node_of = |number: usize| match number < PODS {
        true => format!("node-{}", number % NODES),
        false => "crowded".to_owned(),
    };
    for number in 0..PODS + CROWD {
        cluster.put("pods", &pod(number, &node_of(number), "Running")).await;
    }
    cluster.fresh().await;
    let authorizer = Authorizer::of_modes(cluster.cache.clone(), Modes::new([Mode::Node]));
    for (node, own) in [("node-42", 4_242), ("crowded", PODS + 250)] {
        let user = UserInfo::new(format!("system:node:{node}"), ["system:nodes"]);
        let namespace = format!("ns-{}", own % NAMESPACES);
        let may = |secret: &str| allows(&authorizer, &user, "get", ("secrets", &namespace, secret));
        let (known, unknown) = (format!("secret-{own}"), "none".to_owned());
        let began = Instant::now();
        assert!(may(&known));
        print(
            &format!("{node}: the first decision about a secret, which decodes all pods of the node"),
            began.elapsed(),
        );
        decisions(&format!("{node}: a secret of a pod"), true, || may(&known));
        decisions(&format!("{node}: a secret of no pod"), false, || may(&unknown));
        let changed = |round: usize| {
            let phase = if round.is_multiple_of(2) { "Pending" } else { "Running" };
            pod(own, node, phase)
        };
        after_changes(
            &format!("{node}: the first decision after a changed pod"),
            &cluster,
            "pods",
            changed,
            || may(&known),
        )
        .await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("| authorization | time |\n|---|---|");
    measure_rbac().await;
    measure_node().await;
}
