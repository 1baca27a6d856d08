//! [`Reconstruction`]: the scheduler's decision about one pod, computed again from objects that were read elsewhere. It has the rules of
//! [`crate::decide`] and [`crate::preemption`] and no queue, so it answers for schedulers of other processes too.
//!
//! It differs from the decision at its time in three ways, which its user should say: it looks at all nodes instead of a share of them; of
//! several nodes with the highest score it does not know which one was drawn; and it does not ask extenders.

mod kinds;

use crate::cache::Cache;
use crate::decide::{Choice, Outcome, Refusal, Terms, Tie, decide};
use crate::explain;
use crate::node::NodeInfo;
use crate::plugin::ClusterView;
use crate::plugins::Registry;
use crate::pod::{PodInfo, Uid};
use crate::preemption::{self, Candidate, Preemption};
use crate::snapshot::Snapshot;
use crate::verdict::{self, PlacementTable};
pub use kinds::DecisionKind;
use std::sync::Arc;

/// The state of a cluster as decisions read it.
#[derive(Default)]
pub struct Reconstruction {
    cache: Cache,
    snapshot: Snapshot,
}

/// The result of an attempt to place a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComputedResult {
    /// A node fits. Of several with the highest score it is the first one.
    Fits(Choice),
    /// No node fits.
    Refused(ComputedRefusal),
    /// A filter failed, for this reason.
    Failed(String),
}

/// Why no node fits a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedRefusal {
    /// The message in kube-scheduler's words, as in the pod's condition.
    pub message: String,
    /// The evictions that would make room, if any would.
    pub evictions: Option<Candidate>,
    refusal: Refusal,
}

impl Reconstruction {
    /// Adds an object as the API has it in JSON. Pods without a node count only if they are nominated for one.
    ///
    /// # Errors
    /// It is no object of this kind.
    pub fn add(&mut self, kind: DecisionKind, json: &[u8]) -> Result<(), serde_json::Error> {
        kind.add(&mut self.cache, json)
    }

    /// Counts `pod` on its node, or among the nominated pods.
    pub(crate) fn add_pod(&mut self, pod: Arc<PodInfo>) {
        kinds::add_pod(&mut self.cache, pod);
    }

    /// Takes a pod away from its node and from the nominated pods. Returns what was counted on a node.
    pub fn remove_pod(&mut self, uid: &Uid) -> Option<Arc<PodInfo>> {
        self.cache.nominations_mut().remove(uid);
        self.cache.remove_pod(uid)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.cache.node(name)
    }

    /// Adds or replaces a node.
    pub(crate) fn set_node(&mut self, node: Arc<NodeInfo>) {
        self.cache.set_node(node);
    }

    /// Removes a node; its pods stay counted.
    pub(crate) fn remove_node(&mut self, name: &str) {
        self.cache.remove_node(name);
    }

    /// The pods on a node, in no order.
    pub(crate) fn pods_on(&mut self, name: &str) -> Vec<Arc<PodInfo>> {
        self.snapshot.update(&self.cache);
        let slot = self.snapshot.slot(name);
        slot.map_or_else(Vec::new, |slot| self.snapshot.nodes()[slot].pods().to_vec())
    }

    /// What all filters and scores say about each node for `pod`.
    pub fn table(&mut self, registry: &Registry, pod: &PodInfo) -> PlacementTable {
        self.prepare(pod);
        verdict::table(registry, self.view(), pod)
    }

    /// Decides on `pod` as the scheduler would now, with preemption if no node fits. Nothing is assumed.
    pub fn decide(&mut self, registry: &Registry, pod: &PodInfo) -> ComputedResult {
        match self.outcome(registry, pod) {
            Outcome::Fits(choice) => ComputedResult::Fits(choice),
            Outcome::Failed(why) => ComputedResult::Failed(why),
            Outcome::Unfit(refusal) => {
                let done = registry.post_filter(pod, self.view(), refusal.refusals());
                let (evictions, why) = match done.has_failed {
                    true => (None, None),
                    false => match preemption::preempt(registry, self.view(), pod, &refusal, 0) {
                        Preemption::Victims(candidate) => (Some(candidate), None),
                        Preemption::Ineligible(why) => (None, Some(why.into_owned())),
                        Preemption::Unhelpful(why) => (None, why),
                    },
                };
                let message = explain::message(&refusal, done.text, why.as_deref());
                ComputedResult::Refused(ComputedRefusal { message, evictions, refusal })
            }
        }
    }

    /// The node that `pod` gets, without a search for evictions; `None` if no node fits.
    pub(crate) fn place(&mut self, registry: &Registry, pod: &PodInfo) -> Option<Arc<str>> {
        match self.outcome(registry, pod) {
            Outcome::Fits(choice) => Some(choice.node),
            Outcome::Unfit(_) | Outcome::Failed(_) => None,
        }
    }

    /// The evictions that would make room for `pod`, which no node fits.
    pub(crate) fn evictions(&mut self, registry: &Registry, pod: &PodInfo) -> Option<Candidate> {
        match self.decide(registry, pod) {
            ComputedResult::Refused(refused) => refused.evictions,
            ComputedResult::Fits(_) | ComputedResult::Failed(_) => None,
        }
    }

    fn outcome(&mut self, registry: &Registry, pod: &PodInfo) -> Outcome {
        self.prepare(pod);
        let terms = Terms { start: 0, tie: Tie::Number(0), percentage: 100 };
        decide(registry, self.view(), pod, terms, &mut ()).outcome
    }

    fn prepare(&mut self, pod: &PodInfo) {
        self.snapshot.update(&self.cache);
        self.cache.keep_tallies(pod);
    }

    fn view(&self) -> ClusterView<'_> {
        ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() }
    }
}

impl ComputedRefusal {
    /// The number of nodes that refused the pod.
    pub fn nodes(&self) -> usize {
        self.refusal.nodes
    }
}

#[cfg(test)]
mod tests;
