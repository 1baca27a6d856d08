//! Writes of each controller for one change by a user, in a whole cluster: counted from the provenance of the
//! revisions and compared with the table in `controllers/README.md`. After each change the cluster settles, and
//! no controller writes again.

use crate::autoscaling::{autoscaler, measure, requesting};
use crate::workspace_root;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kstore_client::DeleteParams;
use kstore_registry::provenance::Note;
use kstore_tests::{Change, Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The lines around the table.
const BEGIN: &str = "<!-- writes per change -->\n\n";
const END: &str = "\n<!-- end of writes per change -->";

/// Time in which most changes settle.
const SETTLING: Duration = Duration::from_secs(90);
/// Time in which the loss of a node settles: its pods are evicted after five minutes.
const NODE_SETTLING: Duration = Duration::from_secs(7 * 60);
/// Time in which a settled cluster is observed after each change.
const OBSERVED: Duration = Duration::from_secs(90);
/// Time in which it is observed after several changes: longer than every interval at which a controller looks
/// again without a change.
const LONG_OBSERVED: Duration = Duration::from_secs(6 * 60);

/// Clients that are no controllers.
const OTHERS: [&str; 5] = ["kubectl", "kubelet", "kubelet-sim", "kube-scheduler", "scheduler"];

/// The writes of one change: the number by controller and by verb with resource.
type Writes = BTreeMap<String, BTreeMap<String, usize>>;

/// Counts writes from one point of the history to the next.
struct WriteCounter<'c> {
    cluster: &'c Cluster,
    counted_to: i64,
    table: String,
}

fn resource(key: &str) -> &str {
    let path = key.strip_prefix("/registry/").expect("keys of objects have the root");
    match path.split('/').collect::<Vec<_>>()[..] {
        ["services", "specs", ..] => "services",
        ["services", "endpoints", ..] => "endpoints",
        ["minions", ..] => "nodes",
        [group, plural, ..] if group.contains('.') => plural,
        [plural, ..] => plural,
        [] => path,
    }
}

impl<'c> WriteCounter<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let table = "| change | controller | writes |\n|---|---|---|\n".to_owned();
        Self { cluster, counted_to: 0, table }
    }

    /// The writes of controllers since the last call, without the Leases of elections and servers.
    fn take(&mut self) -> Writes {
        let new = |change: &Change| change.revision > self.counted_to;
        let changes: Vec<_> = self.cluster.history().into_iter().filter(new).collect();
        self.counted_to = changes.last().map_or(self.counted_to, |change| change.revision);
        let mut writes = Writes::new();
        for change in changes {
            let Some(note) = change.note.as_deref().and_then(Note::decode) else {
                assert!(change.key.starts_with("/registry/events/"), "only events expire: {change:?}");
                continue;
            };
            let agent = note.agent.split('/').next().unwrap_or_default().to_owned();
            let resource = resource(&change.key);
            if OTHERS.contains(&agent.as_str())
                || note.user.starts_with("system:node:")
                || resource == "leases"
            {
                continue;
            }
            // Events share transactions.
            let verb = if resource == "events" { "record" } else { note.verb.as_str() };
            *writes.entry(agent).or_default().entry(format!("{verb} {resource}")).or_default() += 1;
        }
        writes
    }

    /// Makes a change, waits until it has settled, and adds its writes to the table. Then asserts that nothing
    /// is written.
    fn count<'s>(
        &'s mut self,
        what: &'s str,
        change: impl Future<Output = ()> + 's,
    ) -> LocalBoxFuture<'s, ()> {
        self.count_for(what, SETTLING, change)
    }

    /// Like [`Self::count`], with another time to settle. Boxed, because changes are large futures.
    fn count_for<'s>(
        &'s mut self,
        what: &'s str,
        settling: Duration,
        change: impl Future<Output = ()> + 's,
    ) -> LocalBoxFuture<'s, ()> {
        self.count_boxed(what, settling, change.boxed_local()).boxed_local()
    }

    async fn count_boxed(&mut self, what: &str, settling: Duration, change: LocalBoxFuture<'_, ()>) {
        self.take();
        change.await;
        tokio::time::sleep(settling).await;
        let writes = self.take();
        if writes.is_empty() {
            writeln!(self.table, "| {what} | none | |").unwrap();
        }
        for (at, (controller, writes)) in writes.into_iter().enumerate() {
            let writes: Vec<String> =
                writes.into_iter().map(|(write, count)| format!("{count} {write}")).collect();
            let what = if at == 0 { what } else { "" };
            writeln!(self.table, "| {what} | {controller} | {} |", writes.join(", ")).unwrap();
        }
        self.observe(OBSERVED, what).await;
    }

    /// Asserts that nothing is written for some time.
    async fn observe(&mut self, time: Duration, what: &str) {
        tokio::time::sleep(time).await;
        assert_eq!(self.take(), Writes::new(), "written after this had settled: {what}");
    }
}

fn stateful_set(replicas: u32) -> Value {
    let mut set = manifests::deployment("db", replicas);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("db");
    set
}

/// A template whose pods end after some seconds.
fn work() -> Value {
    json!({ "metadata": { "annotations": { "kubelet-sim.kstore.io/run-seconds": "5" } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "work:1" }] } })
}

fn cron_job() -> Value {
    json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "regular" },
        "spec": { "schedule": "*/20 * * * *", "successfulJobsHistoryLimit": 1,
            "jobTemplate": { "spec": { "template": work() } } } })
}

/// Waits for the next run of the CronJob.
async fn next_tick(cluster: &Cluster) {
    let now = cluster.nondet().clock.now().as_second();
    let left = 1200 - u64::try_from(now).unwrap() % 1200;
    tokio::time::sleep(Duration::from_secs(left)).await;
}

async fn workloads(counter: &mut WriteCounter<'_>) {
    let cluster = counter.cluster;
    let replicas = async |count: u32| {
        cluster.merge("deployments", "web", json!({ "spec": { "replicas": count } })).await;
    };
    counter
        .count("create a Deployment of 3", async {
            drop(cluster.create(manifests::deployment("web", 3)).await);
        })
        .await;
    counter.count("scale it to 5", replicas(5)).await;
    counter.count("scale it to 3", replicas(3)).await;
    let image = async |plural, name| drop(cluster.strategic(plural, name, manifests::image("nginx:2")).await);
    counter.count("roll it", image("deployments", "web")).await;
    counter.count("create a StatefulSet of 3", async { drop(cluster.create(stateful_set(3)).await) }).await;
    counter.count("roll it", image("statefulsets", "db")).await;
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "three" },
        "spec": { "completions": 3, "parallelism": 3, "template": work() } });
    counter.count("run a Job of 3 pods", async { drop(cluster.create(job).await) }).await;
    counter.count("create a CronJob", async { drop(cluster.create(cron_job()).await) }).await;
    counter.count("its first run", next_tick(cluster)).await;
    counter.count("its second run", next_tick(cluster)).await;
    counter.count("a further run, which replaces an old one", next_tick(cluster)).await;
    let delete = async |plural, name| cluster.delete(plural, name, DeleteParams::default()).await;
    counter.count("delete it", delete("cronjobs", "regular")).await;
    counter.count("delete the Job", delete("jobs", "three")).await;
    counter.count("delete the StatefulSet", delete("statefulsets", "db")).await;
}

/// Changes of a cluster with a Deployment `web` of 3 pods.
async fn cluster_objects(counter: &mut WriteCounter<'_>) {
    let cluster = counter.cluster;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    counter.count("create a Service of 3 pods", async { drop(cluster.create(service).await) }).await;
    let image = manifests::image("nginx:3");
    counter
        .count("roll its Deployment", async { drop(cluster.strategic("deployments", "web", image).await) })
        .await;
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } } });
    counter.count("create a PodDisruptionBudget", async { drop(cluster.create(budget).await) }).await;
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "quota" },
        "spec": { "hard": { "pods": "20", "configmaps": "20" } } });
    counter.count("create a ResourceQuota", async { drop(cluster.create(quota).await) }).await;
    counter
        .count("create a ConfigMap under it", async {
            drop(cluster.create(manifests::config_map("map", "1")).await);
        })
        .await;
    let delete = async |plural, name| cluster.delete(plural, name, DeleteParams::default()).await;
    counter.count("delete the ConfigMap", delete("configmaps", "map")).await;
    counter
        .count("create a namespace", async { drop(cluster.create(manifests::namespace("shop")).await) })
        .await;
    for name in ["a", "b"] {
        let mut map = manifests::config_map(name, "1");
        map["metadata"]["namespace"] = json!("shop");
        cluster.create(map).await;
    }
    let namespaces = cluster.resource("namespaces");
    let gone = async {
        namespaces.delete("", "shop", &DeleteParams::default()).await.unwrap();
    };
    counter.count("delete a namespace with 2 ConfigMaps", gone).await;
    let mut pods = cluster.list("pods", "default").await;
    // Pods of the deleted Job are left over.
    pods.retain(|pod| pod["status"]["phase"] == "Running");
    let node = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).min().unwrap().to_owned();
    let on_it = pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node).count();
    counter
        .count_for(&format!("lose a node with {on_it} of the 3 pods"), NODE_SETTLING, async {
            cluster.nodes().stop_node(&node).await.unwrap();
        })
        .await;
    counter.count("the node comes back", async { cluster.nodes().resume_node(&node).await.unwrap() }).await;
}

async fn autoscaling(counter: &mut WriteCounter<'_>) {
    let cluster = counter.cluster;
    let load = measure(cluster).await;
    cluster.create(requesting("scaled")).await;
    cluster.wait_rolled_out("scaled").await;
    load.store(50, Ordering::Relaxed);
    counter
        .count("create an autoscaler whose load fits", async {
            drop(cluster.create(autoscaler("scaled", 4)).await);
        })
        .await;
    counter.count("double the load", async { load.store(100, Ordering::Relaxed) }).await;
}

#[test]
fn each_controller_writes_as_often_as_its_readme_says_and_nothing_after_a_change_has_settled() {
    let table = simulate(Setup::seed(71), async |cluster| {
        let mut counter = WriteCounter::new(cluster);
        tokio::time::sleep(SETTLING).await;
        workloads(&mut counter).await;
        counter.observe(LONG_OBSERVED, "workloads").await;
        cluster_objects(&mut counter).await;
        counter.observe(LONG_OBSERVED, "cluster objects").await;
        autoscaling(&mut counter).await;
        counter.observe(LONG_OBSERVED, "autoscaling").await;
        counter.table
    });
    let readme = std::fs::read_to_string(workspace_root().join("controllers/README.md")).unwrap();
    let (_, written) = readme.split_once(BEGIN).expect("the README has the table");
    let (written, _) = written.split_once(END).expect("the table ends");
    assert!(written == table, "the table in controllers/README.md is stale; it should be\n\n{table}");
}
