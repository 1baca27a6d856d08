//! The PodTopologySpread filter (DoNotSchedule): the pod must not make a domain's skew exceed the maximum.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::cache::NodeState;
use crate::event::ClusterEvent;
use crate::filter::{Change, taint_toleration};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::Spread;

/// The reason of a refusal.
pub const REASON: &str = "node(s) didn't match pod topology spread constraints";

/// The reason for a node that is in no domain.
pub const NO_DOMAIN: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// The matching pods per domain for each constraint of a pod.
#[derive(Debug)]
pub struct Counts {
    constraints: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    key: String,
    max_skew: i64,
    min_domains: i64,
    /// 1 if the constraint counts the pod itself, else 0.
    own: i64,
    /// The number of matching pods per domain.
    domains: BTreeMap<String, i64>,
    /// The number of domains per number of matching pods.
    sizes: BTreeMap<i64, usize>,
}

impl Counted {
    fn set(&mut self, domain: &str, count: impl FnOnce(i64) -> i64) {
        let before = self.domains.get(domain).copied();
        let after = count(before.unwrap_or(0));
        if let Some(before) = before
            && let Entry::Occupied(mut size) = self.sizes.entry(before)
        {
            *size.get_mut() -= 1;
            if *size.get() == 0 {
                size.remove();
            }
        }
        *self.sizes.entry(after).or_default() += 1;
        self.domains.insert(domain.to_owned(), after);
    }

    /// The smallest number of matching pods in a domain; zero with too few domains.
    fn minimum(&self) -> i64 {
        let enough = i64::try_from(self.domains.len()).is_ok_and(|domains| domains >= self.min_domains);
        self.sizes.keys().next().copied().filter(|_| enough).unwrap_or(0)
    }
}

/// The reason for refusing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadConflict {
    /// The node's domain would exceed the maximum skew.
    MaxSkew,
    /// The node is in no domain.
    NoDomain,
}

/// Counts the matching pods over all nodes; does no work for a pod without constraints.
pub fn count<'a>(pod: &PodInfo, nodes: impl Iterator<Item = &'a NodeState> + Clone) -> Counts {
    let counted = pod.spread.iter().map(|spread| {
        let mut counted = Counted {
            key: spread.topology_key.clone(),
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            own: i64::from(spread.counts(&pod.labels)),
            domains: BTreeMap::new(),
            sizes: BTreeMap::new(),
        };
        for node in nodes.clone().filter(|node| is_eligible(pod, spread, node.info())) {
            let like = node.pods().iter().filter(|other| is_counted(pod, spread, other)).count();
            counted.set(&node.info().labels[&spread.topology_key], |count| count + like as i64);
        }
        counted
    });
    Counts { constraints: counted.collect() }
}

/// Whether the constraint counts `other`.
fn is_counted(pod: &PodInfo, spread: &Spread, other: &PodInfo) -> bool {
    !other.deleting && other.key.namespace() == pod.key.namespace() && spread.counts(&other.labels)
}

impl Counts {
    /// Counts a change of `other` on `node`.
    pub(super) fn adjust(&mut self, pod: &PodInfo, node: &NodeInfo, other: &PodInfo, change: Change) {
        for (counted, spread) in self.constraints.iter_mut().zip(&pod.spread) {
            if is_counted(pod, spread, other) && is_eligible(pod, spread, node) {
                counted.set(&node.labels[&spread.topology_key], |count| change.of(count));
            }
        }
    }
}

/// Whether `node` counts: it has the label of every constraint, and the pod's affinity and tolerations admit
/// it as far as the constraint honors them.
fn is_eligible(pod: &PodInfo, spread: &Spread, node: &NodeInfo) -> bool {
    has_domains(pod, node)
        && (!spread.honor_affinity || pod.affinity.admits(&node.name, &node.labels))
        && (!spread.honor_taints || taint_toleration::admits(pod, node))
}

fn has_domains(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.spread.iter().all(|spread| node.labels.contains_key(&spread.topology_key))
}

/// Whether the node admits the pod for which `counts` was counted.
///
/// # Errors
///
/// The reason for the refusal.
pub fn check(counts: &Counts, node: &NodeInfo) -> Result<(), SpreadConflict> {
    for c in &counts.constraints {
        let domain = node.labels.get(&c.key).ok_or(SpreadConflict::NoDomain)?;
        let there = c.domains.get(domain).copied().unwrap_or(0);
        if there + c.own - c.minimum() > c.max_skew {
            return Err(SpreadConflict::MaxSkew);
        }
    }
    Ok(())
}

/// Helpful events: a node with the topology labels is added, changed or removed (it may have been the domain
/// with the fewest pods); a matching pod is added (the smallest domain may have grown) or removed.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) | ClusterEvent::NodeRemoved(node) => has_domains(pod, node),
        ClusterEvent::NodeChanged { old, new } => has_domains(pod, old) || has_domains(pod, new),
        ClusterEvent::PodPlaced(other) | ClusterEvent::PodFreed(other) => {
            other.key.namespace() == pod.key.namespace() && pod.spread.iter().any(|s| s.counts(&other.labels))
        }
    }
}
