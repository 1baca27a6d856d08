//! The plugin InterPodAffinity: the pod's required affinity terms, the pod's anti-affinity, and the
//! anti-affinity of existing pods. The score counts preferred terms, and the required affinity terms of existing pods.

mod score;

use crate::event::EventKind::{
    NodeAdded, NodeChanged, NodeRemoved, OwnChange, PodFreed, PodPlaced, PodRelabeled,
};
use crate::event::{ClusterEvent, EventSet};
use crate::fields::Fields;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{Adjustment, ClusterView, ExtensionPoint, Plugin, PodMove, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::pod_constraints::{AffinityTerm, Namespaces};
use crate::score::Candidates;
use crate::snapshot::Snapshot;
use score::AffinityScoring;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The plugin, with its arguments.
pub(crate) struct InterPodAffinity(AffinityScoring);

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self(AffinityScoring { required_weight: 1, ignores_others: false })
    }
}

const WEIGHT: &str = "hardPodAffinityWeight";
const IGNORE: &str = "ignorePreferredTermsOfExistingPods";

/// Indices of the reasons: the domain lacks a pod that the pod's affinity requires; the pod's anti-affinity excludes a pod in the domain;
/// the anti-affinity of an existing pod in the domain excludes the pod.
const AFFINITY: u32 = 0;
const ANTI_AFFINITY: u32 = 1;
const EXISTING_ANTI_AFFINITY: u32 = 2;

impl Plugin for InterPodAffinity {
    type State<'a> = ExistingPods;

    const ROW: &'static Row = &Row {
        name: "InterPodAffinity",
        points: &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ],
        weight: 2,
        reasons: &[
            "node(s) didn't match pod affinity rules",
            "node(s) didn't match pod anti-affinity rules",
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ],
        events: EventSet::of(&[
            NodeAdded,
            NodeChanged,
            NodeRemoved,
            PodPlaced,
            PodFreed,
            PodRelabeled,
            OwnChange,
        ]),
    };

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let required_weight = args.integer(WEIGHT).unwrap_or(self.0.required_weight);
        if !(0..=100).contains(&required_weight) {
            args.invalid(WEIGHT, &required_weight, "not in valid range [0, 100]");
        }
        let ignores_others = args.boolean(IGNORE).unwrap_or(self.0.ignores_others);
        Some(Self(AffinityScoring { required_weight, ignores_others }))
    }

    fn arguments(&self) -> Option<Value> {
        Some(json!({ WEIGHT: self.0.required_weight, IGNORE: self.0.ignores_others }))
    }

    /// Skips no pod: a nominated pod that goes first may have anti-affinity, even if no pod on a node has.
    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, ExistingPods> {
        PreFilter::Check(count(pod, cluster.snapshot))
    }

    fn check(&self, _pod: &PodInfo, existing: &ExistingPods, node: &NodeState) -> Result<(), Refused> {
        existing.check(node.info())
    }

    fn adjust(&self, pod: &PodInfo, existing: &mut ExistingPods, adjustment: &Adjustment<'_>) {
        existing.adjust(pod, adjustment);
    }

    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        may_help(pod, event)
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        self.0.scores(pod, candidates)
    }
}

/// The number of matches per topology domain, by key and value of a node label.
#[derive(Debug, Default)]
struct Domains(BTreeMap<String, BTreeMap<String, i64>>);

impl Domains {
    fn count(&mut self, node: &NodeInfo, key: &str, change: PodMove) {
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
pub(crate) struct ExistingPods {
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
fn count(pod: &PodInfo, snapshot: &Snapshot) -> ExistingPods {
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
            let (node, change) = (node.info(), PodMove::Added);
            found.adjust(pod, &Adjustment { node, other, change, namespaces });
        }
    }
    found
}

impl ExistingPods {
    /// Counts an assumed change of the pods on a node.
    fn adjust(&mut self, pod: &PodInfo, adjustment: &Adjustment<'_>) {
        let Adjustment { node, other, change, namespaces } = *adjustment;
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

    /// Whether the node admits the pod.
    fn check(&self, node: &NodeInfo) -> Result<(), Refused> {
        let n = self;
        let placeable = n.required_keys.iter().all(|key| node.labels.contains_key(key));
        let may_be_first = n.matches_itself && n.required.is_empty();
        if !(placeable && (may_be_first || n.required_keys.iter().all(|key| n.required.has(node, key)))) {
            return Err(Refused::unresolvable(AFFINITY));
        }
        if n.anti_affinity.has_any(node) {
            return Err(Refused::resolvable(ANTI_AFFINITY));
        }
        if n.existing_anti_affinity.has_any(node) {
            return Err(Refused::resolvable(EXISTING_ANTI_AFFINITY));
        }
        Ok(())
    }
}

/// Any change of nodes may help, and other labels of the pod. So may a new pod that the affinity requires, and a removed pod if an
/// anti-affinity of either side applies. The function has no labels of namespaces: terms with a namespace
/// selector count as matching.
fn may_help(pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
    let selects = |term: &AffinityTerm, other: &PodInfo| {
        term.namespace_selector.is_some()
            || term.selects(other.key.namespace(), &other.labels, &Namespaces::new())
    };
    match event {
        ClusterEvent::NodeAdded(..) | ClusterEvent::NodeChanged { .. } | ClusterEvent::NodeRemoved(_) => true,
        ClusterEvent::PodPlaced(other) => pod.pod_affinity.required.iter().any(|t| selects(t, other)),
        ClusterEvent::PodFreed(other) => {
            pod.pod_affinity.anti_required.iter().any(|t| selects(t, other))
                || other.pod_affinity.anti_required.iter().any(|t| selects(t, pod))
                // If it was the last match of the terms of a pod that satisfies its own terms, the waiting
                // pod may now be the first.
                || pod.pod_affinity.required.iter().any(|t| selects(t, other))
        }
        ClusterEvent::PodRelabeled { old, new } => {
            let changes = |term: &AffinityTerm| {
                term.namespace_selector.is_some() || selects(term, old) != selects(term, new)
            };
            pod.pod_affinity.required.iter().chain(&pod.pod_affinity.anti_required).any(changes)
        }
        ClusterEvent::OwnChange(old) => old.labels != pod.labels,
        ClusterEvent::PodTerminating(_)
        | ClusterEvent::Storage(..)
        | ClusterEvent::Devices(..)
        | ClusterEvent::PodGroup(..) => false,
    }
}
