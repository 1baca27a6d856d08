//! [`Fork`]: a copy of a cluster in the memory of this process, with controllers, scheduler and simulated nodes in virtual time, on which
//! the changes of a question are made.

use super::pods::Pods;
use super::question::{MoreNodes, Named, Question};
use super::read::ClusterCopy;
use anyhow::{Context as _, anyhow, bail};
use kstore_api::object::encode_stored;
use kstore_api::{kind, meta};
use kstore_client::manifest::{Applier, sort_for_apply};
use kstore_client::{Client, DeleteParams, Gvr, ListParams, Patch};
use kstore_cluster::{ClusterConfig, Components, ControlPlane, Storage, server_without_listener};
use kstore_kubelet_sim::behavior::Delay;
use kstore_kubelet_sim::config::Delays;
use kstore_nondet::{Clock, Nondet, Rng};
use kstore_registry::user::UserInfo;
use kstore_store::{Config, Op, Store, Txn};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The seed of everything that is drawn on a copy, so that equal questions have equal answers.
const SEED: u64 = 1;
/// Objects of one transaction.
const BATCH: usize = 64;
/// Virtual time between two looks for pending work.
const LOOK: Duration = Duration::from_secs(1);
/// Looks without pending work after which everything is done.
const QUIET: usize = 3;
/// Virtual time after which the answer is given although something is still to be done.
const PATIENCE: Duration = Duration::from_mins(10);
/// Virtual time without an eviction after which a drain ends: budgets block the rest.
const DRAIN_PATIENCE: Duration = Duration::from_mins(1);
/// Real work in order at the end of the copy.
const END: Duration = Duration::from_secs(10);
/// The time that pods of Jobs run: for an answer about places they do not finish.
const JOB: Duration = Duration::from_hours(24 * 365);

/// The annotation by which the simulator of nodes takes a Node.
const SIMULATED: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// The controllers that make, replace and account for pods. Those that act on time, on other machines or on metrics are left out: the copy
/// answers what follows from the change alone.
const CONTROLLERS: [&str; 12] = [
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "disruption-controller",
    "serviceaccount-controller",
    "resourcequota-controller",
    "persistentvolume-binder-controller",
    "resourceclaim-controller",
    "ephemeral-volume-controller",
];
/// Those that a deletion also needs.
const COLLECTORS: [&str; 1] = ["garbage-collector-controller"];

/// The kinds that own pods, or their owners.
const OWNERS: [(&str, &str); 7] = [
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("", "replicationcontrollers"),
];

/// A copy that runs.
pub(super) struct Fork {
    plane: ControlPlane,
    client: Client,
}

/// The state after the changes.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) pods: Pods,
    pub(super) nodes: Vec<Value>,
    /// The pods whose eviction a disruption budget blocks.
    pub(super) blocked: Vec<String>,
    /// What is still to be done.
    pub(super) unsettled: Vec<String>,
}

impl Fork {
    /// Starts a copy on the current runtime, whose time is virtual.
    ///
    /// # Errors
    /// The copy does not start.
    pub(super) async fn start(copy: &ClusterCopy, question: &Question) -> anyhow::Result<Self> {
        let nondet = Nondet { clock: Clock::simulated_from(copy.time), rng: Rng::seeded(SEED) };
        let store = Store::open(Config::memory(), nondet.clone()).await.context("the copy does not open")?;
        for objects in copy.objects.chunks(BATCH) {
            let puts = objects.iter().map(|(row, object)| {
                let key = row.storage_key(meta::namespace(object), meta::name(object));
                Op::put(key, encode_stored(&simulated(row.plural, object)))
            });
            store.txn(Txn::of(puts.collect())).await.context("the copy takes no object")?;
        }
        let job = Delay::Fixed(JOB);
        let delays = Delays { job, ..Delays::default() };
        let nodes = kstore_kubelet_sim::Config { nodes: 0, events: false, delays, ..Default::default() };
        let mut components = Components { nodes: Some(Box::new(nodes)), ..Components::all(0) };
        let collectors = if question.delete.is_empty() { &[][..] } else { &COLLECTORS[..] };
        let controllers: Vec<_> =
            CONTROLLERS.iter().chain(collectors).map(|name| (*name).to_owned()).collect();
        components.select_controllers(&controllers).map_err(|error| anyhow!("{error}"))?;
        let config =
            ClusterConfig { storage: Storage::Opened(store), components, ..ClusterConfig::default() };
        let plane = ControlPlane::start(server_without_listener(&nondet), config).await?;
        let client = plane.client(UserInfo::new("kubernetes-admin", ["system:masters"]), "what-if");
        let fork = Self { plane, client };
        // What the original would do anyway is no consequence of the question.
        fork.settle().await?;
        Ok(fork)
    }

    /// Makes the changes, and waits until their consequences have settled.
    ///
    /// # Errors
    /// A change is refused: the object is named.
    pub(super) async fn ask(&self, question: &Question) -> anyhow::Result<Outcome> {
        for more in &question.more_nodes {
            self.add_nodes(more).await?;
        }
        for node in &question.without {
            self.remove_node(node).await?;
        }
        let mut blocked = Vec::new();
        for node in &question.drain {
            blocked.extend(self.drain(node).await?);
        }
        for (workload, replicas) in &question.scale {
            let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
            let Named { namespace, name, .. } = workload;
            let done = self.client.dynamic(gvr(workload)).patch(namespace, name, "", &patch).await;
            done.with_context(|| format!("cannot scale {} {name}", workload.kind.qualified()))?;
        }
        for object in &question.delete {
            let Named { namespace, name, .. } = object;
            let done =
                self.client.dynamic(gvr(object)).delete(namespace, name, &DeleteParams::default()).await;
            done.with_context(|| format!("cannot delete {} {name}", object.kind.qualified()))?;
        }
        let (applier, mut objects) = (Applier::new(&self.client), question.objects.clone());
        sort_for_apply(&mut objects);
        for object in objects {
            applier.apply(object).await?;
            // A namespace gets its service account before its pods.
            sleep(Duration::from_millis(100)).await;
        }
        let unsettled = self.settle().await?;
        Ok(Outcome { blocked, unsettled, ..self.state().await? })
    }

    /// The pods and nodes now.
    ///
    /// # Errors
    /// The copy has ended.
    pub(super) async fn state(&self) -> anyhow::Result<Outcome> {
        let (pods, nodes) = (self.list("", "pods").await?, self.list("", "nodes").await?);
        let mut owners = Vec::new();
        for (group, plural) in OWNERS {
            owners.extend(self.list(group, plural).await?);
        }
        let pods = Pods::of(pods.iter(), owners.iter());
        Ok(Outcome { pods, nodes, blocked: Vec::new(), unsettled: Vec::new() })
    }

    /// Ends the copy.
    pub(super) async fn end(self) {
        self.plane.end(Some(Instant::now() + END)).await;
    }

    /// Waits until nothing is to be done, up to [`PATIENCE`]. Returns what is left.
    async fn settle(&self) -> anyhow::Result<Vec<String>> {
        let (end, mut quiet) = (Instant::now() + PATIENCE, 0);
        loop {
            sleep(LOOK).await;
            let pending = self.plane.pending_work().await?;
            quiet = if pending.is_empty() { quiet + 1 } else { 0 };
            if quiet >= QUIET {
                return Ok(Vec::new());
            }
            if Instant::now() >= end {
                return Ok(pending.into_reasons());
            }
        }
    }

    async fn add_nodes(&self, more: &MoreNodes) -> anyhow::Result<()> {
        let api = self.client.dynamic(Gvr::new("", "v1", "nodes"));
        let like = api.get("", &more.like).await.with_context(|| format!("no node {:?}", more.like))?;
        for index in 0..more.count {
            let name = format!("{}-more-{index}", more.like);
            let node = node_like(&like, &name);
            api.create("", &node).await.context("cannot add a node")?;
            // A creation takes no status, and adds the taint of a node that is not ready, which a controller would remove.
            let status = Patch::Merge(json!({ "status": like["status"] }));
            api.patch("", &name, "status", &status).await.context("cannot add a node")?;
            let taints = Patch::Merge(json!({ "spec": { "taints": node["spec"]["taints"] } }));
            api.patch("", &name, "", &taints).await.context("cannot add a node")?;
        }
        Ok(())
    }

    async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        let api = self.client.dynamic(Gvr::new("", "v1", "nodes"));
        api.delete("", name, &DeleteParams::default())
            .await
            .with_context(|| format!("cannot remove node {name:?}"))?;
        let pods = self.client.dynamic(Gvr::new("", "v1", "pods"));
        for pod in self.pods_on(name).await? {
            let at_once = DeleteParams::default().grace(0);
            match pods.delete(meta::namespace(&pod), meta::name(&pod), &at_once).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Evicts the pods of a node, and waits for budgets. Returns the pods that a budget keeps.
    async fn drain(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
        let nodes = self.client.dynamic(Gvr::new("", "v1", "nodes"));
        nodes.patch("", name, "", &cordon).await.with_context(|| format!("cannot drain node {name:?}"))?;
        let api = self.client.dynamic(Gvr::new("", "v1", "pods"));
        let mut last = Instant::now();
        loop {
            let pods = self.pods_on(name).await?;
            let open: Vec<_> = pods.iter().filter(|pod| is_drained(pod)).collect();
            if open.is_empty() {
                return Ok(Vec::new());
            }
            for pod in open.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
                let (namespace, pod) = (meta::namespace(pod), meta::name(pod));
                let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": { "namespace": namespace, "name": pod } });
                match api.create_subresource(namespace, pod, "eviction", &eviction).await {
                    Ok(_) => last = Instant::now(),
                    Err(error) if error.is_not_found() || error.code() == Some(429) => {}
                    Err(error) => bail!("cannot evict pod {namespace}/{pod}: {error}"),
                }
            }
            if last.elapsed() >= DRAIN_PATIENCE {
                return Ok(open
                    .iter()
                    .map(|pod| format!("{}/{}", meta::namespace(pod), meta::name(pod)))
                    .collect());
            }
            sleep(LOOK).await;
        }
    }

    async fn pods_on(&self, node: &str) -> anyhow::Result<Vec<Value>> {
        let api = self.client.dynamic(Gvr::new("", "v1", "pods"));
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        Ok(api.list("", &on_node).await?.0)
    }

    async fn list(&self, group: &str, plural: &str) -> anyhow::Result<Vec<Value>> {
        let row = kind::stored().find(|row| row.plural == plural && row.group == group);
        let row = row.with_context(|| format!("{plural} are not in the table of kinds"))?;
        let api = self.client.dynamic(Gvr::new(row.group, row.version, row.plural));
        Ok(api.list("", &ListParams::default()).await?.0)
    }
}

fn gvr(object: &Named) -> Gvr {
    Gvr::new(object.kind.group.clone(), object.kind.version.clone(), object.kind.plural.clone())
}

/// The object as the copy has it: a node that is ready is simulated; one that is not ready stays as it is.
fn simulated(plural: &str, object: &Value) -> Value {
    let mut object = object.clone();
    if plural == "nodes" && is_ready(&object) {
        object["metadata"]["annotations"][SIMULATED.0] = SIMULATED.1.into();
    }
    object
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.any(|condition| condition["status"] == "True")
}

/// A new node with the labels, taints and capacity of another, and a name of its own.
fn node_like(like: &Value, name: &str) -> Value {
    let mut labels = like["metadata"]["labels"].clone();
    labels["kubernetes.io/hostname"] = name.into();
    let taints = like["spec"]["taints"].as_array().into_iter().flatten();
    let lasting =
        |taint: &&Value| !taint["key"].as_str().is_some_and(|key| key.starts_with("node.kubernetes.io/"));
    let taints: Vec<_> = taints.filter(lasting).cloned().collect();
    json!({ "apiVersion": "v1", "kind": "Node", "spec": { "taints": taints },
        "metadata": { "name": name, "labels": labels, "annotations": { SIMULATED.0: SIMULATED.1 } } })
}

/// Whether a drain evicts the pod: not if a DaemonSet owns it or a node's file defines it, as with `kubectl drain`.
fn is_drained(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_of_daemon =
        owners.clone().any(|owner| owner["kind"] == "DaemonSet" && owner["controller"] == true);
    let is_mirror = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    !is_of_daemon && !is_mirror && !has_ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_simulated_if_it_is_ready() {
        let node = |status: &str| json!({ "metadata": {}, "status": { "conditions": [{ "type": "Ready", "status": status }] } });
        let mark = |node: Value| simulated("nodes", &node)["metadata"]["annotations"][SIMULATED.0].clone();
        assert_eq!((mark(node("True")), mark(node("Unknown"))), (json!("fake"), Value::Null));
    }

    #[test]
    fn a_further_node_has_labels_and_lasting_taints_and_its_own_hostname() {
        let taints = json!([{ "key": "gpu", "effect": "NoSchedule" }, { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }]);
        let labels = json!({ "kubernetes.io/hostname": "a", "disk": "ssd" });
        let like = json!({ "metadata": { "name": "a", "uid": "1", "labels": labels }, "spec": { "taints": taints, "unschedulable": true } });
        let node = node_like(&like, "a-more-0");
        assert_eq!(
            node["metadata"]["labels"],
            json!({ "kubernetes.io/hostname": "a-more-0", "disk": "ssd" })
        );
        assert_eq!(node["spec"], json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] }));
    }

    #[test]
    fn a_drain_leaves_pods_of_daemon_sets_and_of_files() {
        let owned =
            |kind: &str| json!({ "metadata": { "ownerReferences": [{ "kind": kind, "controller": true }] } });
        assert!(is_drained(&owned("ReplicaSet")) && is_drained(&json!({ "metadata": {} })));
        let mirror = json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } });
        assert!(!is_drained(&owned("DaemonSet")) && !is_drained(&mirror));
    }
}
