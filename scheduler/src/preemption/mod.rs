//! Preemption: which pods of lower priority are evicted so that a refused pod fits, and on which node
//! (kube-scheduler's DefaultPreemption). Pure; `scheduler` records the result and `bind` writes it.
//!
//! # The rule
//!
//! 1. **Eligible.** A pod with `preemptionPolicy: Never` evicts no pod. Neither does a pod that is nominated for a
//!    node on which pods that were evicted for preemption still terminate, unless no eviction can help there.
//! 2. **Nodes.** Those whose refusal the removal of pods may change, in search order, from `offset` (modulo their
//!    number). The search ends at `wanted` candidates if one of them exceeds no disruption budget.
//! 3. **Victims.** Without its pods of lower priority the node must admit the pod. Then the pods come back one by
//!    one, as far as the pod still fits: first those whose eviction exceeds a budget, and of both groups the most
//!    important first (higher priority, then earlier start). The others are the victims.
//! 4. **Choice.** The candidate with the fewest exceeded budgets; of these with the lowest highest priority of a
//!    victim; the smallest sum of priorities; the fewest victims; the latest start, where the earliest of the
//!    victims of the highest priority counts. Then the first one.

pub(crate) mod evictions;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::decide::Refusal;
use crate::explain::{count, counted};
use crate::filter::PreFilterState;
use crate::node_state::NodeState;
use crate::plugin::{Adjustment, CandidateShare, ClusterView, PodMove, Rejection};
use crate::plugins::Registry;
use crate::pod::PodInfo;
use jiff::Timestamp;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// The result of preemption for a refused pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// The pod fits on this node without these pods.
    Victims(Candidate),
    /// The pod may not evict pods, for this reason. Its nomination stays.
    Ineligible(Cow<'static, str>),
    /// No eviction helps. The sentence says why; there is none in a cluster without nodes, and in a profile that evicts no pods. A
    /// nomination ends.
    Unhelpful(Option<String>),
}

/// A node and the pods that are to be evicted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: Arc<str>,
    /// The pods to evict, most important first; at least one.
    pub victims: Vec<Arc<PodInfo>>,
    /// The number of victims whose eviction exceeds a disruption budget.
    pub violations: usize,
}

/// The number of candidates to look for among `nodes` nodes.
fn wanted(nodes: usize, share: CandidateShare) -> usize {
    (nodes * share.percentage / 100).max(share.minimum).min(nodes)
}

/// The result of the search for candidates.
pub(crate) enum CandidateSearch {
    /// The candidates in search order, at least one.
    Found(Vec<Candidate>),
    /// There are none, for this reason.
    Ended(Preemption),
}

/// Searches victims for `pod`, which all nodes of `snapshot` refused. The module documentation states the rule.
pub fn preempt(
    registry: &Registry,
    cluster: ClusterView<'_>,
    pod: &PodInfo,
    refusal: &Refusal,
    offset: u64,
) -> Preemption {
    match candidates(registry, cluster, pod, refusal, offset) {
        CandidateSearch::Found(candidates) => best(candidates),
        CandidateSearch::Ended(why) => why,
    }
}

/// Step 4.
pub(crate) fn best(candidates: Vec<Candidate>) -> Preemption {
    match candidates.into_iter().min_by_key(harm) {
        Some(best) => Preemption::Victims(best),
        // Only extenders take candidates away.
        None => Preemption::Ineligible("no candidate node for preemption".into()),
    }
}

/// Steps 1 to 3.
pub(crate) fn candidates(
    registry: &Registry,
    cluster: ClusterView<'_>,
    pod: &PodInfo,
    refusal: &Refusal,
    offset: u64,
) -> CandidateSearch {
    let Some(share) = registry.preemption().filter(|_| refusal.nodes > 0) else {
        return CandidateSearch::Ended(Preemption::Unhelpful(None));
    };
    if let Some(why) = ineligible(cluster, pod, refusal) {
        return CandidateSearch::Ended(Preemption::Ineligible(why.into()));
    }
    let resolvable = refusal.rejections.iter().filter(|(_, rejection)| rejection.is_resolvable());
    let mut slots: Vec<usize> = resolvable.map(|(slot, _)| *slot).collect();
    slots.sort_unstable();
    let (mut candidates, mut has_clean, mut reasons) = (Vec::new(), false, BTreeMap::new());
    // One computation serves all nodes: in a full cluster thousands of nodes are examined, and each changes
    // only its own part. A pod that no node can have was refused by no node.
    let state = (!slots.is_empty()).then(|| PreFilterState::of(registry, cluster, pod).ok()).flatten();
    if let Some(state) = state {
        let mut run = DryRun { cluster, pod, state };
        for step in 0..slots.len() {
            let at = (offset % slots.len() as u64) as usize + step;
            match run.victims(&cluster.snapshot.nodes()[slots[at % slots.len()]]) {
                Ok(candidate) => {
                    has_clean |= candidate.violations == 0;
                    candidates.push(candidate);
                }
                Err(why) => why.reasons(&mut |reason| count(&mut reasons, reason, 1)),
            }
            if has_clean && candidates.len() >= wanted(slots.len(), share) {
                break;
            }
        }
    }
    if !candidates.is_empty() {
        return CandidateSearch::Found(candidates);
    }
    count(&mut reasons, NOT_HELPFUL, refusal.nodes - slots.len());
    CandidateSearch::Ended(Preemption::Unhelpful(Some(counted(refusal.nodes, &reasons))))
}

/// The candidate on `node` with the victims that an extender proposes, by uid. The error is the uid of a pod that is not there.
pub(crate) fn proposed(node: &NodeState, uids: &[String], violations: usize) -> Result<Candidate, String> {
    let find = |uid: &String| {
        let found = node.pods().iter().find(|pod| *pod.uid == **uid);
        found.cloned().ok_or_else(|| uid.clone())
    };
    let mut victims = uids.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    victims.sort_by(|a, b| importance(a).cmp(&importance(b)));
    Ok(Candidate { node: Arc::clone(&node.info().name), victims, violations })
}

/// The reason why the pod may not evict pods now.
fn ineligible(cluster: ClusterView<'_>, pod: &PodInfo, refusal: &Refusal) -> Option<&'static str> {
    let ClusterView { snapshot, inventory } = cluster;
    if pod.never_preempts {
        return Some(NEVER);
    }
    let slot = snapshot.slot(inventory.nominations.node_of(&pod.uid)?)?;
    // On a node that no eviction helps, the end of the victims will not help either.
    refusal.rejections.iter().find(|(at, why)| *at == slot && why.is_resolvable())?;
    let mut there = snapshot.nodes()[slot].pods().iter();
    let waits = there.any(|other| other.priority < pod.priority && other.deleting && other.preempted);
    waits.then_some(TERMINATING)
}

/// Why a node is no candidate.
enum Useless {
    /// The node has no pod of lower priority.
    NoVictims,
    /// The node does not admit the pod without them either.
    Refused(Rejection),
}

impl Useless {
    fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        match self {
            Self::NoVictims => emit(NO_VICTIMS),
            Self::Refused(rejection) => rejection.reasons(emit),
        }
    }
}

/// The trial of evictions, one node after the other. `state` describes the cluster with all pods between two trials.
struct DryRun<'a> {
    cluster: ClusterView<'a>,
    pod: &'a PodInfo,
    state: PreFilterState<'a>,
}

impl DryRun<'_> {
    /// Step 3 for one node.
    fn victims(&mut self, node: &NodeState) -> Result<Candidate, Useless> {
        let (mut stripped, mut lower) = node.without_lower(self.pod.priority).ok_or(Useless::NoVictims)?;
        lower.iter().for_each(|other| self.adjust(node, other, PodMove::Removed));
        if let Err(rejection) = self.check(&stripped) {
            lower.iter().for_each(|other| self.adjust(node, other, PodMove::Added));
            return Err(Useless::Refused(rejection));
        }
        lower.sort_by(|a, b| importance(a).cmp(&importance(b)));
        let violates = self.cluster.inventory.budgets.violations(&lower);
        let (mut order, mut others) = (Vec::with_capacity(lower.len()), Vec::new());
        for pair in lower.into_iter().zip(violates) {
            if pair.1 { order.push(pair) } else { others.push(pair) }
        }
        order.append(&mut others);
        let (mut victims, mut violations) = (Vec::new(), 0);
        for (other, violates) in order {
            stripped.add(Arc::clone(&other));
            self.adjust(node, &other, PodMove::Added);
            if self.check(&stripped).is_err() {
                stripped.remove(&other.uid);
                self.adjust(node, &other, PodMove::Removed);
                violations += usize::from(violates);
                victims.push(other);
            }
        }
        victims.iter().for_each(|other| self.adjust(node, other, PodMove::Added));
        victims.sort_by(|a, b| importance(a).cmp(&importance(b)));
        match victims.is_empty() {
            true => Err(Useless::NoVictims),
            false => Ok(Candidate { node: Arc::clone(&node.info().name), victims, violations }),
        }
    }

    fn adjust(&mut self, node: &NodeState, other: &PodInfo, change: PodMove) {
        let namespaces = self.cluster.snapshot.namespaces();
        self.state.adjust(&Adjustment { node: node.info(), other, change, namespaces });
    }

    fn check(&mut self, node: &NodeState) -> Result<(), Rejection> {
        let ClusterView { snapshot, inventory } = self.cluster;
        self.state.check_with_nominated(node, &inventory.nominations, snapshot.namespaces())
    }
}

/// The order of pods by importance, the most important first. The uid makes it total.
fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp, &str) {
    (Reverse(pod.priority), pod.start_order(), &pod.uid)
}

/// Step 4 as a key: smaller is better.
fn harm(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
    // Each victim counts as positive, so that fewer victims are better even among negative priorities.
    let weight = |pod: &Arc<PodInfo>| i64::from(pod.priority) - i64::from(i32::MIN);
    let top = candidate.victims.first().expect("a candidate has victims");
    // The victims are in order of importance: the first has the highest priority and started first among its like.
    let (highest, earliest) = (top.priority, top.start_order());
    let sum = candidate.victims.iter().map(weight).sum();
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest))
}
