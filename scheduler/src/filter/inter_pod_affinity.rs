//! The InterPodAffinity filter (required terms): the pod's affinity, the pod's anti-affinity, and the
//! anti-affinity of existing pods.

use std::collections::BTreeMap;

use crate::event::ClusterEvent;
use crate::filter::Change;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::{AffinityTerm, Namespaces};
use crate::snapshot::Snapshot;

/// The reason if the domain lacks a pod that the pod's affinity requires.
pub const AFFINITY: &str = "node(s) didn't match pod affinity rules";

/// The reason if the domain has a pod that the pod's anti-affinity excludes.
pub const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";

/// The reason if the anti-affinity of an existing pod in the domain excludes the pod.
pub const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The reason for refusing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinityConflict {
    /// The domain lacks a pod that the pod's affinity requires.
    Affinity,
    /// The pod's anti-affinity excludes a pod in the domain.
    AntiAffinity,
    /// The anti-affinity of an existing pod in the domain excludes the pod.
    ExistingAntiAffinity,
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
pub struct ExistingPods {
    /// The topology keys of the pod's affinity terms.
    required_keys: Vec<String>,
    /// Domains with pods that satisfy all affinity terms at once.
    required: Domains,
    /// Whether the pod satisfies its own affinity terms, so that it may be the first of its group.
    matches_itself: bool,
    /// Domains with pods that the pod's anti-affinity excludes.
    anti_affinity: Domains,
    /// Domains with pods whose anti-affinity excludes the pod.
    existing_anti_affinity: Domains,
}

/// Counts the existing pods over all nodes. Returns at once if neither the pod nor any pod on a node has required
/// terms.
pub fn count(pod: &PodInfo, snapshot: &Snapshot) -> ExistingPods {
    let (terms, namespaces) = (&pod.pod_affinity, snapshot.namespaces());
    let own = |t: &AffinityTerm| t.selects(pod.key.namespace(), &pod.labels, namespaces);
    let mut found = ExistingPods {
        required_keys: terms.required.iter().map(|t| t.topology_key.clone()).collect(),
        matches_itself: terms.required.iter().all(own),
        ..ExistingPods::default()
    };
    let has_required = terms.has_required();
    if !has_required && !snapshot.has_anti_affinity() {
        return found;
    }
    for node in snapshot.nodes().iter().filter(|node| has_required || node.anti_affinity_pods() > 0) {
        let pods = if has_required { node.pods() } else { node.pods_with_terms() };
        for other in pods {
            found.adjust(pod, node.info(), other, Change::Added, namespaces);
        }
    }
    found
}

impl ExistingPods {
    /// Counts a change of `other` on `node`.
    pub(super) fn adjust(
        &mut self,
        pod: &PodInfo,
        node: &NodeInfo,
        other: &PodInfo,
        change: Change,
        namespaces: &Namespaces,
    ) {
        for term in &other.pod_affinity.anti_required {
            if term.selects(pod.key.namespace(), &pod.labels, namespaces) {
                self.existing_anti_affinity.count(node, &term.topology_key, change);
            }
        }
        let terms = &pod.pod_affinity;
        let selects = |t: &AffinityTerm| t.selects(other.key.namespace(), &other.labels, namespaces);
        if !terms.required.is_empty() && terms.required.iter().all(selects) {
            terms.required.iter().for_each(|term| self.required.count(node, &term.topology_key, change));
        }
        for term in terms.anti_required.iter().filter(|term| selects(term)) {
            self.anti_affinity.count(node, &term.topology_key, change);
        }
    }
}

/// Whether the node admits the pod for which `existing` was counted.
///
/// # Errors
///
/// The reason for the refusal.
pub fn check(existing: &ExistingPods, node: &NodeInfo) -> Result<(), AffinityConflict> {
    let n = existing;
    let placeable = n.required_keys.iter().all(|key| node.labels.contains_key(key));
    let may_be_first = n.matches_itself && n.required.is_empty();
    if !(placeable && (may_be_first || n.required_keys.iter().all(|key| n.required.has(node, key)))) {
        return Err(AffinityConflict::Affinity);
    }
    if n.anti_affinity.has_any(node) {
        return Err(AffinityConflict::AntiAffinity);
    }
    if n.existing_anti_affinity.has_any(node) {
        return Err(AffinityConflict::ExistingAntiAffinity);
    }
    Ok(())
}

/// Any change of nodes may help. So may a new pod that the affinity requires, and a removed pod if an
/// anti-affinity of either side applies. The function has no labels of namespaces: terms with a namespace
/// selector count as matching.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    let selects = |term: &AffinityTerm, other: &PodInfo| {
        term.namespace_selector.is_some()
            || term.selects(other.key.namespace(), &other.labels, &Namespaces::new())
    };
    match event {
        ClusterEvent::NodeAdded(_) | ClusterEvent::NodeChanged { .. } | ClusterEvent::NodeRemoved(_) => true,
        ClusterEvent::PodPlaced(other) => pod.pod_affinity.required.iter().any(|t| selects(t, other)),
        ClusterEvent::PodFreed(other) => {
            pod.pod_affinity.anti_required.iter().any(|t| selects(t, other))
                || other.pod_affinity.anti_required.iter().any(|t| selects(t, pod))
                // If it was the last match of the terms of a pod that satisfies its own terms, the waiting
                // pod may now be the first.
                || pod.pod_affinity.required.iter().any(|t| selects(t, other))
        }
    }
}
