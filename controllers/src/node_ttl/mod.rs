//! Node TTL controller: annotates each node with the cache lifetime of Secrets and ConfigMaps in its kubelet,
//! which grows with the cluster. `plan` decides; this file counts the nodes and executes the plan.
//!
//! Follows `updateNodeIfNeeded`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use k8s_openapi::api::core::v1::Node;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use parking_lot::Mutex;
use plan::ClusterSizes;
use std::collections::BTreeSet;
use std::sync::Arc;

const WORKERS: usize = 2;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let nodes: Informer<Obj<Node>> = cluster.caches.get();
    let sizes: Arc<Mutex<ClusterSizes>> = Arc::default();
    let seen = Mutex::new(BTreeSet::new());
    let observed = Arc::clone(&sizes);
    let controller = cluster
        .controller("ttl")
        .watch_deltas(&nodes, move |delta| concerned(&observed, &seen, delta))
        .workers(WORKERS);
    let executor = cluster.executor("ttl-controller");
    work(controller, cluster.stop.clone(), NodeTtlReconciler { nodes, executor, sizes })
}

/// The node, unless its annotation is unchanged; all nodes if the size of the cluster reaches another step.
fn concerned(sizes: &Mutex<ClusterSizes>, seen: &Mutex<BTreeSet<Key>>, delta: &Delta<Obj<Node>>) -> Vec<Key> {
    let node = delta.object();
    let key = node.key();
    let mut seen = seen.lock();
    match delta {
        Delta::Updated { old, .. } if plan::annotation(old) == plan::annotation(node) => return vec![],
        Delta::Deleted(_) => drop(seen.remove(&key)),
        Delta::Added(_) | Delta::Updated { .. } | Delta::Resync(_) => drop(seen.insert(key.clone())),
    }
    match sizes.lock().count(seen.len()) {
        true => seen.iter().cloned().collect(),
        false => vec![key],
    }
}

struct NodeTtlReconciler {
    nodes: Informer<Obj<Node>>,
    executor: Executor,
    sizes: Arc<Mutex<ClusterSizes>>,
}

impl Reconcile for NodeTtlReconciler {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(node) = self.nodes.get(&cx.key) else { return Ok(Next::Done) };
        let seconds = self.sizes.lock().seconds();
        let action = plan::plan(&node, seconds);
        self.executor.execute(&cx, action.as_slice()).await.result()?;
        Ok(Next::Done)
    }
}
