//! InterPodAffinity (required terms): near whom the pod must be, whom it keeps away from, and who keeps away from it.

use std::collections::BTreeSet;

use crate::cache::NodeState;
use crate::companions::{AffinityTerm, Labels, Namespaces};
use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// What a refusal says when someone wanted is missing.
pub const LONELY: &str = "node(s) didn't match pod affinity rules";

/// What a refusal says when someone shunned is near.
pub const SHUNS: &str = "node(s) didn't match pod anti-affinity rules";

/// What a refusal says when the pod is shunned by someone near.
pub const SHUNNED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwelcome {
    /// See [`LONELY`].
    Lonely,
    /// See [`SHUNS`].
    Shuns,
    /// See [`SHUNNED`].
    Shunned,
}

/// A node label and its value: all nodes that have it.
type Domain = (String, String);

/// Who is where, as far as it concerns one pod.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// The label keys near which someone wanted must be.
    wanted_keys: Vec<String>,
    /// Where pods are that satisfy all wanted terms at once.
    wanted: BTreeSet<Domain>,
    /// Whether the pod may be the first of its kind, since it satisfies its own terms and nobody else does.
    may_be_first: bool,
    /// Where pods are that it keeps away from.
    shuns: BTreeSet<Domain>,
    /// Where pods are that keep away from it.
    shunned: BTreeSet<Domain>,
}

/// Looks at all nodes; costs nothing when neither the pod nor anyone on a node (`anyone_shuns`) has required terms.
pub fn look<'a>(
    pod: &PodInfo,
    nodes: impl Iterator<Item = &'a NodeState> + Clone,
    anyone_shuns: bool,
    namespaces: &Namespaces,
) -> Neighbours {
    let mut found = Neighbours::default();
    let terms = &pod.companions;
    if anyone_shuns {
        let shunning = nodes.clone().filter(|node| node.shunning_pods() > 0);
        for (node, other) in shunning.flat_map(|node| node.pods().iter().map(move |other| (node, other))) {
            let means_me = |t: &&AffinityTerm| t.means(pod.key.namespace(), &pod.labels, namespaces);
            mark(&mut found.shunned, node.info(), other.companions.shunned.iter().filter(means_me));
        }
    }
    if terms.is_empty() {
        return found;
    }
    for (node, other) in nodes.flat_map(|node| node.pods().iter().map(move |other| (node, other))) {
        let means = |t: &AffinityTerm| t.means(other.key.namespace(), &other.labels, namespaces);
        if !terms.wanted.is_empty() && terms.wanted.iter().all(means) {
            mark(&mut found.wanted, node.info(), terms.wanted.iter());
        }
        mark(&mut found.shuns, node.info(), terms.shunned.iter().filter(|t| means(t)));
    }
    found.wanted_keys = terms.wanted.iter().map(|t| t.topology_key.clone()).collect();
    let own = |t: &AffinityTerm| t.means(pod.key.namespace(), &pod.labels, namespaces);
    found.may_be_first = found.wanted.is_empty() && terms.wanted.iter().all(own);
    found
}

fn mark<'a>(domains: &mut BTreeSet<Domain>, node: &NodeInfo, terms: impl Iterator<Item = &'a AffinityTerm>) {
    domains.extend(terms.filter_map(|term| domain(&node.labels, &term.topology_key)));
}

fn domain(labels: &Labels, key: &str) -> Option<Domain> {
    labels.get(key).map(|value| (key.to_owned(), value.clone()))
}

/// Whether the node may take the pod whose neighbours were looked at.
///
/// # Errors
/// Why not.
pub fn check(neighbours: &Neighbours, node: &NodeInfo) -> Result<(), Unwelcome> {
    let n = neighbours;
    let in_any =
        |domains: &BTreeSet<Domain>| domains.iter().any(|(key, value)| node.labels.get(key) == Some(value));
    let near = |key: &String| domain(&node.labels, key).is_some_and(|d| n.wanted.contains(&d));
    let placeable = n.wanted_keys.iter().all(|key| node.labels.contains_key(key));
    if !(placeable && (n.may_be_first || n.wanted_keys.iter().all(near))) {
        return Err(Unwelcome::Lonely);
    }
    if in_any(&n.shuns) {
        return Err(Unwelcome::Shuns);
    }
    if in_any(&n.shunned) {
        return Err(Unwelcome::Shunned);
    }
    Ok(())
}

/// Any change of nodes helps; so does the coming of a wanted pod, and the going of any pod that either side may shun. The
/// labels of namespaces are not at hand here: terms that ask for them count as matching.
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
                // The last of those whom a pod that satisfies its own terms wanted: it may now be the first.
                || pod.companions.wanted.iter().any(|t| means(t, other))
        }
    }
}
