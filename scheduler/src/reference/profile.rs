//! What a profile changes in the reference: which plugins run, in which order, with which weights and arguments.

use crate::affinity::{Preference, Term};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::{LabelSelector, Spread};

/// How the score of NodeResourcesFit values the used share of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReferenceStrategy {
    LeastAllocated,
    MostAllocated,
    /// Points of used per cent and score, 0 to 10.
    Ratio(Vec<(i64, i64)>),
}

/// The profile of a reference: by default kube-scheduler's default plugins as far as the reference has them.
#[derive(Clone, Debug)]
pub(crate) struct ReferenceProfile {
    /// In the order in which they run.
    pub(crate) filters: Vec<&'static str>,
    /// Whether NodeAffinity names the only nodes to look at.
    pub(crate) narrows: bool,
    /// The scores with their weights.
    pub(crate) scores: Vec<(&'static str, i64)>,
    pub(crate) strategy: ReferenceStrategy,
    /// The resources of the strategy with their weights.
    pub(crate) resources: Vec<(&'static str, i64)>,
    /// The resources of NodeResourcesBalancedAllocation.
    pub(crate) balanced: Vec<&'static str>,
    /// Extended resources that NodeResourcesFit does not look at.
    pub(crate) ignored: Vec<&'static str>,
    /// `hardPodAffinityWeight`.
    pub(crate) required_weight: i64,
    /// `ignorePreferredTermsOfExistingPods`.
    pub(crate) ignores_others: bool,
    /// `addedAffinity`: the required terms and the preferred ones.
    pub(crate) added: (Option<Vec<Term>>, Vec<Preference>),
    /// The hard and the soft constraints of a list of default ones, and the selector of the only Service.
    pub(crate) spread: Option<(Vec<Spread>, Vec<Spread>, LabelSelector)>,
}

impl Default for ReferenceProfile {
    fn default() -> Self {
        Self {
            filters: vec![
                "NodeUnschedulable",
                "NodeName",
                "TaintToleration",
                "NodeAffinity",
                "NodePorts",
                "NodeResourcesFit",
                "PodTopologySpread",
                "InterPodAffinity",
                "NodeDeclaredFeatures",
            ],
            narrows: true,
            scores: vec![
                ("TaintToleration", 3),
                ("NodeAffinity", 2),
                ("NodeResourcesFit", 1),
                ("PodTopologySpread", 2),
                ("InterPodAffinity", 2),
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
            ],
            strategy: ReferenceStrategy::LeastAllocated,
            resources: vec![("cpu", 1), ("memory", 1)],
            balanced: vec!["cpu", "memory"],
            ignored: Vec::new(),
            required_weight: 1,
            ignores_others: false,
            added: (None, Vec::new()),
            spread: None,
        }
    }
}

impl ReferenceProfile {
    /// The constraints that a node must keep for the pod, and those that it should keep.
    pub(super) fn spreads(&self, pod: &PodInfo) -> (Vec<Spread>, Vec<Spread>) {
        let preferences = pod.preferences.as_ref().unwrap();
        let Some((hard, soft, service)) = self.spread.as_ref().filter(|_| !preferences.has_spread) else {
            return (pod.spread.clone(), preferences.spread.clone());
        };
        if !service.matches(&pod.labels) {
            return (Vec::new(), Vec::new());
        }
        let with = |spreads: &[Spread]| {
            let one = |spread: &Spread| Spread { selector: Some(service.clone()), ..spread.clone() };
            spreads.iter().map(one).collect()
        };
        (with(hard), with(soft))
    }

    /// Whether the profile's own affinity admits the node.
    pub(super) fn admits(&self, node: &NodeInfo) -> bool {
        let terms = self.added.0.as_ref();
        terms.is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.labels)))
    }

    /// The weights of the profile's preferred terms that the node satisfies.
    pub(super) fn preference(&self, node: &NodeInfo) -> i64 {
        let wishes = self.added.1.iter().filter(|wish| wish.term.matches(&node.name, &node.labels));
        wishes.map(|wish| wish.weight).sum()
    }
}

impl ReferenceStrategy {
    /// The score of one resource, 0 to 100.
    pub(super) fn value(&self, used: i128, all: i128) -> i64 {
        let percent = |part: i128| (part * 100 / all) as i64;
        match self {
            Self::LeastAllocated => percent((all - used).max(0)),
            Self::MostAllocated => percent(used.min(all)),
            Self::Ratio(points) => {
                let at = percent(used.min(all));
                let mut value = points.last().unwrap().1 * 10;
                for (index, (to, score)) in points.iter().enumerate().rev() {
                    if at <= *to {
                        value = match index.checked_sub(1).map(|before| points[before]) {
                            None => score * 10,
                            Some((from, before)) => {
                                before * 10 + (score - before) * 10 * (at - from) / (to - from)
                            }
                        };
                    }
                }
                value
            }
        }
    }
}
