//! Taint eviction controller: deletes pods from nodes whose NoExecute taints they do not tolerate, or no
//! longer. `plan` decides; this file reads the caches, remembers when it first saw taints without a time, and
//! executes the plan.
//!
//! Follows `handleNodeUpdate` and `handlePodUpdate`.

pub(crate) mod plan;
#[cfg(test)]
mod tests;

use crate::caches::{Caches, LookupKey, Pods};
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::eviction::ScheduledEvictions;
use crate::view::Pod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kstore_client::Obj;
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object};
use parking_lot::Mutex;
use plan::TimedTaint;
use std::collections::BTreeMap;
use std::sync::Arc;

const WORKERS: usize = 8;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches::of(&cluster.caches);
    let (pods, by_lookup_key) = (caches.pods.clone(), caches.pods.by_lookup_key.clone());
    let nodes = caches.nodes.clone();
    let controller = cluster
        .controller("taint-eviction")
        .watch_deltas(&caches.nodes, move |delta: &Delta<Obj<Node>>| {
            let changed = match delta {
                Delta::Added(node) => !execute_taints(node).is_empty(),
                Delta::Updated { old, new } => execute_taints(old) != execute_taints(new),
                Delta::Deleted(_) | Delta::Resync(_) => false,
            };
            if !changed {
                return vec![];
            }
            let name = delta.object().key().name().to_owned();
            pods.by(&by_lookup_key, &LookupKey::Node(name)).iter().map(|pod| pod.key()).collect()
        })
        .watch(&caches.pods, move |pod: &Pod| {
            let node = nodes.get(&Key::new("", &pod.spec.node_name))?;
            (!execute_taints(&node).is_empty()).then(|| pod.key())
        })
        .workers(WORKERS);
    let evictions = ScheduledEvictions::new(cluster.executor("taint-eviction-controller"), plan::TEXTS);
    let stop = cluster.stop.clone();
    let me = Evictions { cluster, caches, evictions, first_seen: Mutex::default() };
    work(controller, stop, me)
}

fn execute_taints(node: &Node) -> Vec<&Taint> {
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    taints.into_iter().flatten().filter(|t| t.effect == "NoExecute").collect()
}

/// Key, effect and value of a taint without a time.
type TaintWithoutTime = (String, String, Option<String>);

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    nodes: Informer<Obj<Node>>,
    pods: Pods,
}

impl ControllerCaches {
    fn of(caches: &Caches) -> Self {
        Self { nodes: caches.get(), pods: caches.get() }
    }
}

struct Evictions {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    evictions: ScheduledEvictions,
    first_seen: Mutex<BTreeMap<TaintWithoutTime, Timestamp>>,
}

impl Reconcile for Evictions {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let caches = &self.caches;
        let Some(pod) = caches.pods.get(&cx.key) else {
            self.evictions.forget(&cx.key);
            return Ok(Next::Done);
        };
        let now = self.cluster.nondet.clock.now();
        let verdict = plan::evaluate(&pod, &self.taints_of(&pod, now), now);
        self.evictions.execute(cx, &pod, verdict, now).await
    }
}

impl Evictions {
    fn taints_of(&self, pod: &Pod, now: Timestamp) -> Vec<TimedTaint> {
        let name = &pod.spec.node_name;
        let node = self.caches.nodes.get(&Key::new("", name));
        let taints = node.as_deref().map(|n| execute_taints(n)).unwrap_or_default();
        let mut first_seen = self.first_seen.lock();
        let still = |(node, key, value): &TaintWithoutTime| {
            node != name
                || taints.iter().any(|t| t.key == *key && t.value == *value && t.time_added.is_none())
        };
        first_seen.retain(|timeless, _| still(timeless));
        let since = |taint: &Taint| match &taint.time_added {
            Some(at) => at.0,
            None => *first_seen.entry((name.clone(), taint.key.clone(), taint.value.clone())).or_insert(now),
        };
        let mut since = since;
        taints.iter().map(|taint| TimedTaint { taint: (*taint).clone(), at: since(taint) }).collect()
    }
}
