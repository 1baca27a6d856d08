//! Node IPAM controller: assigns each node without a pod CIDR one from the cluster's networks. `plan`
//! decides; this file reads the cache of nodes and executes the plan. Without a cluster network it does
//! nothing. Simulated nodes have their own CIDRs.
//!
//! Follows `AllocateOrOccupyCIDR`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::networks::PodNetworks;
use k8s_openapi::api::core::v1::Node;
use kstore_api::cidr::Cidr;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One worker, so that a CIDR is assigned to one node at a time.
const WORKERS: usize = 1;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let networks = cluster.config.networks.pods.clone();
    let work = (!networks.is_empty()).then(|| {
        let nodes: Informer<Obj<Node>> = cluster.caches.get();
        let others = nodes.clone();
        let controller = cluster
            .controller("node-ipam")
            .watch_deltas(&nodes, move |delta| concerned(&others, delta))
            .workers(WORKERS);
        let executor = cluster.executor("cidrAllocator");
        let stop = cluster.stop.clone();
        work(controller, stop, PodCidrs { nodes, executor, networks, given: Mutex::default() })
    });
    let stop = cluster.stop.clone();
    async move {
        match work {
            Some(work) => work.await,
            None => stop.cancelled().await,
        }
    }
}

/// The node without a CIDR; all such nodes when a CIDR becomes free.
fn concerned(nodes: &Informer<Obj<Node>>, delta: &Delta<Obj<Node>>) -> Vec<Key> {
    match delta {
        Delta::Deleted(gone) => {
            let waiting = nodes.list();
            let waiting = waiting.iter().filter(|node| plan::networks(node).is_empty()).map(Object::key);
            std::iter::once(gone.key()).chain(waiting).collect()
        }
        Delta::Added(node) | Delta::Resync(node) | Delta::Updated { new: node, .. } => {
            let waits = plan::networks(node).is_empty();
            if waits { vec![node.key()] } else { vec![] }
        }
    }
}

struct PodCidrs {
    nodes: Informer<Obj<Node>>,
    executor: Executor,
    networks: PodNetworks,
    /// Recently assigned CIDRs, which the cache may not show yet.
    given: Mutex<BTreeMap<Key, Vec<Cidr>>>,
}

impl Reconcile for PodCidrs {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(node) = self.nodes.get(&cx.key) else {
            self.given.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        if !plan::networks(&node).is_empty() {
            return Ok(Next::Done);
        }
        let all = self.nodes.list();
        let others = all.iter().filter(|other| other.key() != cx.key);
        let mut taken: Vec<Cidr> = others.flat_map(|other| plan::networks(other)).collect();
        taken.extend(self.given.lock().iter().filter(|(key, _)| **key != cx.key).flat_map(|(_, own)| own));
        let (chosen, action) = plan::plan(&node, &self.networks, &taken);
        self.given.lock().insert(cx.key.clone(), chosen);
        self.executor.execute(&cx, &[action]).await.result()?;
        Ok(Next::Done)
    }
}
