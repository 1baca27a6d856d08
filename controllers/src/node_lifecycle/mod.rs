//! Watches whether nodes are alive, says so in their conditions and taints, and marks the pods of dead ones. `plan` judges, `zone`
//! limits; this file reads the caches, remembers heartbeats, and has the plan carried out. It wakes when a node or its lease
//! changes, and when a node has been silent for too long: it polls only nodes that are not ready.

mod plan;
#[cfg(test)]
mod tests;
mod zone;

pub use plan::Patience;

use crate::action::Action;
use crate::apply::Hands;
use crate::caches::Held;
use crate::runner::{Cluster, Reconcile, Trouble, work};
use crate::view::Lease;
use k8s_openapi::api::core::v1::Node;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Key, Object};
use parking_lot::Mutex;
use plan::{Health, Observed, Readiness, readiness};
use std::collections::BTreeMap;
use std::sync::Arc;
use zone::{Limiter, Zones, zone_of};

const WORKERS: usize = 8;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let caches = &cluster.caches;
    let nodes = caches.nodes.clone();
    let controller = cluster
        .controller("node-lifecycle")
        .watch_deltas(&caches.nodes, move |delta: &Delta<Obj<Node>>| {
            let mut keys = vec![delta.object().key()];
            // One node's turn changes what its zone allows for the others that are not ready.
            if let Delta::Updated { old, new } = delta
                && readiness(old) != readiness(new)
            {
                let sick = |n: &&Arc<Obj<Node>>| readiness(n) != Readiness::Ready;
                keys.extend(nodes.list().iter().filter(sick).map(Object::key));
            }
            keys
        })
        .watch(&caches.leases, |lease: &Lease| [Key::new("", &lease.metadata.name)])
        .workers(WORKERS);
    let hands = cluster.hands("node-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Nodes { cluster, hands, memory: Mutex::default() }).await;
}

/// What is remembered between runs.
#[derive(Default)]
struct Memory {
    /// Uid and health of each node, by name.
    nodes: BTreeMap<String, (String, Health)>,
    limiters: BTreeMap<String, Limiter>,
}

struct Nodes {
    cluster: Arc<Cluster>,
    hands: Hands,
    memory: Mutex<Memory>,
}

impl Reconcile for Nodes {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let caches = &self.cluster.caches;
        let name = cx.key.name();
        let Some(node) = caches.nodes.get(&cx.key) else {
            let known = self.memory.lock().nodes.remove(name);
            if let Some((uid, _)) = known {
                self.hands.carry_out(&cx, &[plan::removed(name, &uid)]).await;
            }
            return Ok(Next::Done);
        };
        let (actions, wake) = self.judge(name, &node);
        self.hands.carry_out(&cx, &actions).await.result()?;
        if let Some((_, health)) = self.memory.lock().nodes.get_mut(name) {
            health.acted_on(&node);
        }
        Ok(wake.map_or(Next::Done, Next::Again))
    }
}

impl Nodes {
    fn judge(&self, name: &str, node: &Node) -> (Vec<Action>, Option<std::time::Duration>) {
        let caches = &self.cluster.caches;
        let now = self.cluster.nondet.clock.now();
        let lease = caches.leases.get(&Key::new("kube-node-lease", name));
        let renewed = lease.and_then(|l| l.spec.renew_time.as_ref().map(|t| t.0));
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let (pods, zones) = match readiness(node) {
            Readiness::Ready => (vec![], Zones::default()),
            Readiness::NotReady | Readiness::Unknown => {
                let pods = caches.pods.by(&caches.pods_held, &Held::On(name.to_owned()));
                (pods, Zones::count(caches.nodes.list().iter().map(|n| &***n)))
            }
        };
        let mut memory = self.memory.lock();
        let Memory { nodes, limiters } = &mut *memory;
        let known = nodes.remove(name).filter(|(old, _)| *old == uid).map(|(_, health)| health);
        let mut actions = vec![];
        if known.is_none() {
            actions.push(plan::registered(node));
        }
        let health = Health::observe(known, node, renewed, now);
        let limiter = limiters.entry(zone_of(node)).or_default();
        let seen = Observed { node, health: &health, pods: &pods, zones: &zones };
        let plan = plan::plan(seen, self.cluster.config.patience, limiter, now);
        nodes.insert(name.to_owned(), (uid, health));
        actions.extend(plan.actions);
        (actions, plan.wake)
    }
}
