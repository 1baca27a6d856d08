//! PodTopologySpread (DoNotSchedule): placing the pod must not make a domain exceed the emptiest by more than allowed.

use std::collections::BTreeMap;

use crate::cache::NodeState;
use crate::companions::Spread;
use crate::event::ClusterEvent;
use crate::filter::taint_toleration;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// What a refusal says.
pub const REASON: &str = "node(s) didn't match pod topology spread constraints";

/// What a refusal says of a node that is in no domain.
pub const NO_DOMAIN: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// How the pod's like are spread now.
#[derive(Debug)]
pub struct Counts {
    constraints: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    key: String,
    max_skew: i64,
    /// Whether the pod is of its own like.
    own: i64,
    domains: BTreeMap<String, i64>,
    emptiest: i64,
}

/// Why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uneven {
    /// Its domain would have too many.
    TooMany,
    /// It is in no domain.
    NoDomain,
}

/// Counts the pod's like over all nodes; costs nothing for a pod without constraints.
pub fn count<'a>(pod: &PodInfo, nodes: impl Iterator<Item = &'a NodeState> + Clone) -> Counts {
    let counted = pod.spread.iter().map(|spread| Counted {
        key: spread.topology_key.clone(),
        max_skew: spread.max_skew,
        own: i64::from(spread.counts(&pod.labels)),
        domains: domains(pod, spread, nodes.clone()),
        emptiest: 0,
    });
    let mut constraints: Vec<Counted> = counted.collect();
    for (counted, spread) in constraints.iter_mut().zip(&pod.spread) {
        if counted.domains.len() as i64 >= spread.min_domains {
            counted.emptiest = counted.domains.values().copied().min().unwrap_or(0);
        }
    }
    Counts { constraints }
}

fn domains<'a>(
    pod: &PodInfo,
    spread: &Spread,
    nodes: impl Iterator<Item = &'a NodeState>,
) -> BTreeMap<String, i64> {
    let mut domains = BTreeMap::new();
    for node in nodes.filter(|node| takes_part(pod, spread, node.info())) {
        let like = node.pods().iter().filter(|other| {
            !other.deleting && other.key.namespace() == pod.key.namespace() && spread.counts(&other.labels)
        });
        let domain = node.info().labels[&spread.topology_key].clone();
        *domains.entry(domain).or_insert(0) += like.count() as i64;
    }
    domains
}

/// Nodes count that are in a domain of every constraint and that the pod could otherwise choose, as far as it says.
fn takes_part(pod: &PodInfo, spread: &Spread, node: &NodeInfo) -> bool {
    has_domains(pod, node)
        && (!spread.honor_affinity || pod.affinity.admits(&node.name, &node.labels))
        && (!spread.honor_taints || taint_toleration::admits(pod, node))
}

fn has_domains(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.spread.iter().all(|spread| node.labels.contains_key(&spread.topology_key))
}

/// Whether the node may take the pod whose like was counted.
///
/// # Errors
/// Why not.
pub fn check(counts: &Counts, node: &NodeInfo) -> Result<(), Uneven> {
    for c in &counts.constraints {
        let domain = node.labels.get(&c.key).ok_or(Uneven::NoDomain)?;
        let there = c.domains.get(domain).copied().unwrap_or(0);
        if there + c.own - c.emptiest > c.max_skew {
            return Err(Uneven::TooMany);
        }
    }
    Ok(())
}

/// A node with the domains' labels helps if it comes, changes or goes (it may have been the emptiest domain); so does one of the pod's like that comes (the emptiest
/// domain may have got fuller) or goes.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) | ClusterEvent::NodeRemoved(node) => has_domains(pod, node),
        ClusterEvent::NodeChanged { old, new } => has_domains(pod, old) || has_domains(pod, new),
        ClusterEvent::PodPlaced(other) | ClusterEvent::PodFreed(other) => {
            other.key.namespace() == pod.key.namespace() && pod.spread.iter().any(|s| s.counts(&other.labels))
        }
    }
}
