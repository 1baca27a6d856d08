//! The InterPodAffinity filter (required terms): the pod's affinity, the pod's anti-affinity, and the
//! anti-affinity of existing pods.

use std::collections::BTreeMap;

use crate::cache::NodeState;
use crate::companions::{AffinityTerm, Namespaces};
use crate::event::ClusterEvent;
use crate::filter::Change;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// The reason if the domain lacks a pod that the pod's affinity requires.
pub const LONELY: &str = "node(s) didn't match pod affinity rules";

/// The reason if the domain has a pod that the pod's anti-affinity excludes.
pub const SHUNS: &str = "node(s) didn't match pod anti-affinity rules";

/// The reason if the anti-affinity of an existing pod in the domain excludes the pod.
pub const SHUNNED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The reason for refusing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwelcome {
    /// [`LONELY`]
    Lonely,
    /// [`SHUNS`]
    Shuns,
    /// [`SHUNNED`]
    Shunned,
}

/// The number of matches per topology domain, by key and value of a node label.
#[derive(Debug, Default)]
struct Domains(BTreeMap<String, BTreeMap<String, i64>>);

impl Domains {
    fn count(&mut self, node: &NodeInfo, key: &str, change: Change) {
        let Some(value) = node.labels.get(key) else { return };
        let values = self.0.entry(key.to_owned()).or_default();
        let count = change.of(values.get(value).copied().unwrap_or(0));
        if count > 0 {
            values.insert(value.clone(), count);
        } else {
            values.remove(value);
        }
        if values.is_empty() {
            self.0.remove(key);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the node is in a domain of this key that has a match.
    fn has(&self, node: &NodeInfo, key: &str) -> bool {
        let values = self.0.get(key);
        values.zip(node.labels.get(key)).is_some_and(|(values, value)| values.contains_key(value))
    }

    fn has_any(&self, node: &NodeInfo) -> bool {
        self.0.keys().any(|key| self.has(node, key))
    }
}

/// The existing pods that concern one pod's affinity, counted by domain.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// The topology keys of the pod's affinity terms.
    wanted_keys: Vec<String>,
    /// Domains with pods that satisfy all affinity terms at once.
    wanted: Domains,
    /// Whether the pod satisfies its own affinity terms, so that it may be the first of its group.
    wants_itself: bool,
    /// Domains with pods that the pod's anti-affinity excludes.
    shuns: Domains,
    /// Domains with pods whose anti-affinity excludes the pod.
    shunned: Domains,
}

/// Counts the existing pods over all nodes. Returns at once if neither the pod nor any pod on a node
/// (`anyone_shuns`) has required terms.
pub fn look<'a>(
    pod: &PodInfo,
    nodes: impl Iterator<Item = &'a NodeState> + Clone,
    anyone_shuns: bool,
    namespaces: &Namespaces,
) -> Neighbours {
    let terms = &pod.companions;
    let own = |t: &AffinityTerm| t.means(pod.key.namespace(), &pod.labels, namespaces);
    let mut found = Neighbours {
        wanted_keys: terms.wanted.iter().map(|t| t.topology_key.clone()).collect(),
        wants_itself: terms.wanted.iter().all(own),
        ..Neighbours::default()
    };
    let concerns = |node: &&NodeState| !terms.is_empty() || (anyone_shuns && node.shunning_pods() > 0);
    for node in nodes.filter(concerns) {
        for other in node.pods() {
            found.adjust(pod, node.info(), other, Change::Comes, namespaces);
        }
    }
    found
}

impl Neighbours {
    /// Counts a change of `other` on `node`.
    pub(super) fn adjust(
        &mut self,
        pod: &PodInfo,
        node: &NodeInfo,
        other: &PodInfo,
        change: Change,
        namespaces: &Namespaces,
    ) {
        for term in &other.companions.shunned {
            if term.means(pod.key.namespace(), &pod.labels, namespaces) {
                self.shunned.count(node, &term.topology_key, change);
            }
        }
        let terms = &pod.companions;
        let means = |t: &AffinityTerm| t.means(other.key.namespace(), &other.labels, namespaces);
        if !terms.wanted.is_empty() && terms.wanted.iter().all(means) {
            terms.wanted.iter().for_each(|term| self.wanted.count(node, &term.topology_key, change));
        }
        for term in terms.shunned.iter().filter(|term| means(term)) {
            self.shuns.count(node, &term.topology_key, change);
        }
    }
}

/// Whether the node admits the pod for which `neighbours` was counted.
///
/// # Errors
///
/// The reason for the refusal.
pub fn check(neighbours: &Neighbours, node: &NodeInfo) -> Result<(), Unwelcome> {
    let n = neighbours;
    let placeable = n.wanted_keys.iter().all(|key| node.labels.contains_key(key));
    let may_be_first = n.wants_itself && n.wanted.is_empty();
    if !(placeable && (may_be_first || n.wanted_keys.iter().all(|key| n.wanted.has(node, key)))) {
        return Err(Unwelcome::Lonely);
    }
    if n.shuns.has_any(node) {
        return Err(Unwelcome::Shuns);
    }
    if n.shunned.has_any(node) {
        return Err(Unwelcome::Shunned);
    }
    Ok(())
}

/// Any change of nodes may help. So may a new pod that the affinity requires, and a removed pod if an
/// anti-affinity of either side applies. The function has no labels of namespaces: terms with a namespace
/// selector count as matching.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    let means = |term: &AffinityTerm, other: &PodInfo| {
        term.namespace_selector.is_some()
            || term.means(other.key.namespace(), &other.labels, &Namespaces::new())
    };
    match event {
        ClusterEvent::NodeAdded(_) | ClusterEvent::NodeChanged { .. } | ClusterEvent::NodeRemoved(_) => true,
        ClusterEvent::PodPlaced(other) => pod.companions.wanted.iter().any(|t| means(t, other)),
        ClusterEvent::PodFreed(other) => {
            pod.companions.shunned.iter().any(|t| means(t, other))
                || other.companions.shunned.iter().any(|t| means(t, pod))
                // If it was the last match of the terms of a pod that satisfies its own terms, the waiting
                // pod may now be the first.
                || pod.companions.wanted.iter().any(|t| means(t, other))
        }
    }
}
