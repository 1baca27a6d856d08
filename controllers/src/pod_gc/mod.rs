//! Pod garbage collector: deletes pods that no other component will delete. `plan` decides; this file
//! schedules sweeps and executes the plan.
//!
//! Follows `gcTerminated`, `gcOrphaned` and `gcUnscheduledTerminating`.

mod plan;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::caches::{Caches, Pods};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{SWEEP_INTERVAL, TERMINATED_PODS};
use crate::view::{Pod, elapsed};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key};
use parking_lot::Mutex;
use plan::{Missing, Observed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (pods, nodes) = (caches.pods.clone(), caches.nodes.clone());
    let controller = cluster
        .controller("pod-gc")
        .watch_deltas(&caches.nodes, |delta: &Delta<Obj<Node>>| {
            let leaves = match delta {
                Delta::Added(_) | Delta::Resync(_) => false,
                Delta::Updated { old, new } => plan::is_out_of_service(new) && !plan::is_out_of_service(old),
                Delta::Deleted(_) => true,
            };
            leaves.then(sweep)
        })
        .watch_deltas(&caches.pods, move |delta| is_waste(&pods, &nodes, delta).then(sweep))
        .workers(1);
    let executor = cluster.executor("pod-garbage-collector");
    let stop = cluster.stop.clone();
    work(controller, stop, PodGc { cluster, caches, executor, memory: Mutex::default() })
}

/// The single key, for all pods.
fn sweep() -> Key {
    Key::new("", "sweep")
}

/// Whether a sweep might delete the pod.
fn is_waste(pods: &Informer<Pod>, nodes: &Informer<Obj<Node>>, delta: &Delta<Pod>) -> bool {
    let pod = match delta {
        Delta::Added(pod) | Delta::Updated { new: pod, .. } | Delta::Resync(pod) => pod,
        Delta::Deleted(_) => return false,
    };
    let node = pod.spec.node_name.as_str();
    if node.is_empty() {
        return pod.terminating();
    }
    pod.status.phase.is_terminal() && pods.len() > TERMINATED_PODS
        || nodes.is_synced() && nodes.get(&Key::new("", node)).is_none()
}

#[derive(Default)]
struct PodGcMemory {
    missing: Missing,
    last: Option<Timestamp>,
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    pods: Pods,
    nodes: Informer<Obj<Node>>,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { pods: caches.get(), nodes: caches.get() }
    }
}

struct PodGc {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    executor: Executor,
    memory: Mutex<PodGcMemory>,
}

impl Reconcile for PodGc {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let now = self.cluster.nondet.clock.now();
        let last = self.memory.lock().last;
        if let Some(wait) =
            last.and_then(|last| SWEEP_INTERVAL.checked_sub(elapsed(last, now))).filter(|w| !w.is_zero())
        {
            return Ok(Next::Again(wait));
        }
        let plan = {
            let pods = caches.pods.list();
            let nodes = caches.nodes.list();
            let nodes: BTreeMap<&str, &Node> =
                nodes.iter().filter_map(|n| Some((n.metadata.name.as_deref()?, &***n))).collect();
            let mut memory = self.memory.lock();
            memory.last = Some(now);
            plan::plan(Observed { pods: &pods, nodes: &nodes }, &mut memory.missing, now)
        };
        self.executor.execute_plan(&cx, &plan).await?;
        Ok(plan.wake.map_or(Next::Done, Next::Again))
    }
}
