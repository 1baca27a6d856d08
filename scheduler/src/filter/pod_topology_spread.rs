//! PodTopologySpread (DoNotSchedule): placing the pod must not make a domain exceed the emptiest by more than allowed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::cache::NodeState;
use crate::companions::Spread;
use crate::event::ClusterEvent;
use crate::filter::{Change, taint_toleration};
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
    min_domains: i64,
    /// Whether the pod is of its own like.
    own: i64,
    /// How many of the pod's like are in each domain.
    domains: BTreeMap<String, i64>,
    /// How many domains have so many.
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

    /// How many are in the emptiest domain; with too few domains, as if one of them were empty.
    fn emptiest(&self) -> i64 {
        let enough = i64::try_from(self.domains.len()).is_ok_and(|domains| domains >= self.min_domains);
        self.sizes.keys().next().copied().filter(|_| enough).unwrap_or(0)
    }
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
    let counted = pod.spread.iter().map(|spread| {
        let mut counted = Counted {
            key: spread.topology_key.clone(),
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            own: i64::from(spread.counts(&pod.labels)),
            domains: BTreeMap::new(),
            sizes: BTreeMap::new(),
        };
        for node in nodes.clone().filter(|node| takes_part(pod, spread, node.info())) {
            let like = node.pods().iter().filter(|other| is_like(pod, spread, other)).count();
            counted.set(&node.info().labels[&spread.topology_key], |count| count + like as i64);
        }
        counted
    });
    Counts { constraints: counted.collect() }
}

/// Whether `other` counts as one of the pod's like.
fn is_like(pod: &PodInfo, spread: &Spread, other: &PodInfo) -> bool {
    !other.deleting && other.key.namespace() == pod.key.namespace() && spread.counts(&other.labels)
}

impl Counts {
    /// Accounts for a change of `other` on `node`.
    pub(super) fn adjust(&mut self, pod: &PodInfo, node: &NodeInfo, other: &PodInfo, change: Change) {
        for (counted, spread) in self.constraints.iter_mut().zip(&pod.spread) {
            if is_like(pod, spread, other) && takes_part(pod, spread, node) {
                counted.set(&node.labels[&spread.topology_key], |count| change.of(count));
            }
        }
    }
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
        if there + c.own - c.emptiest() > c.max_skew {
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
