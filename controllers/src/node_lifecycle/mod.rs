//! Node lifecycle controller: monitors heartbeats, updates conditions and taints of nodes, and marks the pods
//! of unreachable ones unready. `plan` decides, `zone` limits the eviction rate; this file reads the caches,
//! remembers heartbeats, and executes the plan. It wakes when a node or its Lease changes, and when a
//! heartbeat is overdue: it polls only nodes that are not ready.
//!
//! Follows `monitorNodeHealth` and `processTaintBaseEviction`.

mod plan;
#[cfg(test)]
mod tests;
mod zone;

use crate::action::Plan;
use crate::apply::Executor;
use crate::caches::{Caches, LookupKey, Pods, Sources, Watched};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::resource::resource_of;
use crate::view::{self, Lease};
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1::Node;
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Action as Next, Builder, Context, Delta, Informer, Key, Object};
use parking_lot::Mutex;
use plan::{Health, Observed, Readiness, readiness};
use std::collections::BTreeMap;
use std::sync::Arc;
use zone::{Limiter, Zones, zone_of};

const WORKERS: usize = 8;

/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let zones: Arc<Mutex<Zones>> = Arc::default();
    let observed = Arc::clone(&zones);
    let controller = cluster
        .controller("node-lifecycle")
        .watch_deltas(&caches.nodes, move |delta: &Delta<Obj<Node>>| concerned(&observed, delta))
        .watch(&caches.leases, |lease: &Lease| [Key::new("", &lease.metadata.name)])
        .workers(WORKERS);
    let executor = cluster.executor("node-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Nodes { cluster, caches, executor, zones, memory: Mutex::default() })
}

/// The node itself, and nodes whose eviction rate its change affects.
fn concerned(zones: &Mutex<Zones>, delta: &Delta<Obj<Node>>) -> Vec<Key> {
    let key = delta.object().key();
    let node: Option<&Node> = match delta {
        Delta::Added(node) | Delta::Updated { new: node, .. } | Delta::Resync(node) => Some(node),
        Delta::Deleted(_) => None,
    };
    let others = zones.lock().observe(key.name(), node);
    std::iter::once(key).chain(others.iter().map(|name| Key::new("", name))).collect()
}

/// Remembered data between runs.
#[derive(Default)]
struct NodeMemory {
    /// Uid and health of each node, by name.
    nodes: BTreeMap<String, (String, Health)>,
    limiters: BTreeMap<String, Limiter>,
}

/// Cache of the Leases that nodes renew as heartbeats.
impl Watched for Informer<Lease> {
    fn start(from: &Sources<'_>) -> Self {
        let of_nodes = WatchParams::default().ns(LEASES);
        let source = from.multi.project::<coordination::Lease, _, _>(of_nodes, view::decode::<Lease>);
        from.start("leases", Some(resource_of::<coordination::Lease>()), Builder::new(source))
    }
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    nodes: Informer<Obj<Node>>,
    leases: Informer<Lease>,
    pods: Pods,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { nodes: caches.get(), leases: caches.get(), pods: caches.get() }
    }
}

struct Nodes {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
    /// Zones as of the node changes that were mapped to keys.
    zones: Arc<Mutex<Zones>>,
    memory: Mutex<NodeMemory>,
}

impl Reconcile for Nodes {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let name = cx.key.name();
        let Some(node) = caches.nodes.get(&cx.key) else {
            let known = self.memory.lock().nodes.remove(name);
            if let Some((uid, _)) = known {
                self.executor.execute(&cx, &[plan::removed(name, &uid)]).await;
            }
            return Ok(Next::Done);
        };
        let plan = self.evaluate(name, &node);
        self.executor.execute_plan(&cx, &plan).await?;
        if let Some((_, health)) = self.memory.lock().nodes.get_mut(name) {
            health.acted_on(&node);
        }
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}

impl Nodes {
    fn evaluate(&self, name: &str, node: &Node) -> Plan {
        let caches = &self.caches;
        let now = self.cluster.nondet.clock.now();
        let lease = caches.leases.get(&Key::new(LEASES, name));
        let renewed = lease.and_then(|l| l.spec.renew_time.as_ref().map(|t| t.0));
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let pods = match readiness(node) {
            Readiness::Ready => vec![],
            Readiness::NotReady | Readiness::Unknown => {
                caches.pods.by(&caches.pods.by_lookup_key, &LookupKey::Node(name.to_owned()))
            }
        };
        let mut memory = self.memory.lock();
        let NodeMemory { nodes, limiters } = &mut *memory;
        let known = nodes.remove(name).filter(|(old, _)| *old == uid).map(|(_, health)| health);
        let is_new = known.is_none();
        let health = Health::observe(known, node, renewed, now);
        let limiter = limiters.entry(zone_of(node)).or_default();
        let zones = self.zones.lock();
        let seen = Observed { node, health: &health, pods: &pods, zones: &zones };
        let mut plan = plan::plan(seen, self.cluster.config.patience, limiter, now);
        drop(zones);
        nodes.insert(name.to_owned(), (uid, health));
        if is_new {
            plan.actions.insert(0, plan::registered(node));
        }
        plan
    }
}
