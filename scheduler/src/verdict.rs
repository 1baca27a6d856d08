//! [`PlacementTable`]: what *all* filters and *all* scores say about each node for one pod. A decision stops at the first filter that
//! refuses a node, and looks at a share of the nodes; the table leaves nothing out, for people who ask why. Pure. No decision uses it.

use crate::filter::PreFilterState;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, Rejection};
use crate::plugins::Registry;
use crate::pod::PodInfo;
use crate::score::Candidates;
use crate::taint::{Effect, tolerated};
use std::cmp::Reverse;
use std::sync::Arc;

/// What filters and scores say about the nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementTable {
    /// Why no node can have the pod, whatever the nodes are like; the nodes have no verdicts then.
    pub contradiction: Option<String>,
    /// The filters that do not skip the pod, in their order.
    pub filters: Vec<&'static str>,
    /// The scores that do not skip the pod, with their weights.
    pub scorers: Vec<(&'static str, i64)>,
    /// The nodes: first those that fit, the highest total first; then the others, the nearest first (see [`NodeVerdict::distance`]).
    pub nodes: Vec<NodeVerdict>,
}

/// What filters and scores say about one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeVerdict {
    /// The node.
    pub node: Arc<str>,
    /// The filters that refuse the node, in their order; none if it fits.
    pub refusals: Vec<NodeRefusal>,
    /// The weighted score; `None` if a filter refuses the node.
    pub total: Option<i64>,
    /// The unweighted scores, in the order of [`PlacementTable::scorers`]; empty if a filter refuses the node.
    pub scores: Vec<i64>,
}

/// Why a filter refuses a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRefusal {
    /// The filter.
    pub plugin: &'static str,
    /// The reasons in kube-scheduler's words.
    pub reasons: Vec<String>,
    /// Whether the removal of pods from the node could change the result.
    pub is_resolvable: bool,
    /// What the node lacks, as far as it can be said in amounts or names.
    pub lacks: Vec<Lack>,
}

/// Something that a node lacks for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Lack {
    /// An amount of a resource: CPU in thousandths of a core, everything else in bytes or pieces.
    Resource {
        /// The name of the resource.
        name: String,
        /// What the pod requests.
        requested: i64,
        /// What the pods on the node leave.
        free: i64,
        /// What the node has for pods.
        allocatable: i64,
    },
    /// A toleration of the pod for this taint of the node.
    Toleration {
        /// The key of the taint.
        key: String,
        /// Its value; may be empty.
        value: String,
        /// Its effect.
        effect: Effect,
    },
}

impl NodeVerdict {
    /// How far the node is from a node that fits: the number of filters that refuse it, then those whose refusal no removal of pods
    /// changes, then the sum of the shortages relative to the requests in per mille.
    pub fn distance(&self) -> (usize, usize, i64) {
        let stuck = self.refusals.iter().filter(|refusal| !refusal.is_resolvable).count();
        let short = self.refusals.iter().flat_map(|refusal| &refusal.lacks).map(Lack::per_mille);
        (self.refusals.len(), stuck, short.fold(0, i64::saturating_add))
    }
}

impl Lack {
    fn per_mille(&self) -> i64 {
        match self {
            Self::Resource { requested, free, .. } => {
                let missing = i128::from(*requested) - i128::from(*free);
                (missing * 1000 / i128::from((*requested).max(1))).clamp(0, 1000) as i64
            }
            Self::Toleration { .. } => 1000,
        }
    }
}

/// Judges all nodes for `pod`.
pub(crate) fn table(registry: &Registry, cluster: ClusterView<'_>, pod: &PodInfo) -> PlacementTable {
    let nodes = cluster.snapshot.nodes();
    if nodes.is_empty() {
        // A decision does not look at the pod then.
        return PlacementTable::default();
    }
    let mut state = match PreFilterState::of(registry, cluster, pod) {
        Ok(state) => state,
        Err(refusal) => {
            let contradiction = Some(refusal.why.into_owned());
            return PlacementTable { contradiction, ..PlacementTable::default() };
        }
    };
    let (nominations, namespaces) = (&cluster.inventory.nominations, cluster.snapshot.namespaces());
    let named: Option<Vec<String>> = state.node_names().map(<[String]>::to_vec);
    let left_out = state.narrowed_by().map(|(_, why)| why);
    let (mut verdicts, mut fitting) = (Vec::new(), Vec::new());
    for (slot, node) in nodes.iter().enumerate() {
        let rejections = state.refusals(node, nominations, namespaces);
        let mut refusals: Vec<_> = rejections.iter().map(|found| refusal(found, pod, node)).collect();
        let is_named =
            named.as_ref().is_none_or(|names| names.iter().any(|name| **name == *node.info().name));
        if refusals.is_empty() && !is_named {
            let reasons = left_out.iter().cloned().collect();
            refusals.push(NodeRefusal {
                plugin: "PreFilter",
                reasons,
                is_resolvable: false,
                lacks: Vec::new(),
            });
        }
        if refusals.is_empty() {
            fitting.push((verdicts.len(), slot));
        }
        let node = Arc::clone(&node.info().name);
        verdicts.push(NodeVerdict { node, refusals, total: None, scores: Vec::new() });
    }
    let scorers = score(registry, cluster, pod, &fitting, &mut verdicts);
    verdicts.sort_by(|a, b| {
        let order =
            |verdict: &NodeVerdict| (verdict.total.is_none(), Reverse(verdict.total), verdict.distance());
        order(a).cmp(&order(b)).then_with(|| a.node.cmp(&b.node))
    });
    PlacementTable { contradiction: None, filters: state.filter_names(), scorers, nodes: verdicts }
}

/// Scores the fitting nodes: pairs of the place among the verdicts and the index in the snapshot.
fn score(
    registry: &Registry,
    cluster: ClusterView<'_>,
    pod: &PodInfo,
    fitting: &[(usize, usize)],
    verdicts: &mut [NodeVerdict],
) -> Vec<(&'static str, i64)> {
    let slots: Vec<usize> = fitting.iter().map(|(_, slot)| *slot).collect();
    let candidates = Candidates::new(cluster.snapshot, cluster.inventory, &slots);
    fitting.iter().for_each(|(place, _)| verdicts[*place].total = Some(0));
    let mut scorers = Vec::new();
    for (id, weight) in registry.line_up().scorers().filter(|_| !fitting.is_empty()) {
        let scorer = registry.get(id);
        if let Some(scores) = scorer.scores(pod, &candidates) {
            scorers.push((scorer.row().name, weight));
            for ((place, _), score) in fitting.iter().zip(scores) {
                let verdict = &mut verdicts[*place];
                verdict.total = verdict.total.map(|total| total.saturating_add(weight.saturating_mul(score)));
                verdict.scores.push(score);
            }
        }
    }
    scorers
}

fn refusal(rejection: &Rejection, pod: &PodInfo, node: &NodeState) -> NodeRefusal {
    let mut reasons = Vec::new();
    rejection.reasons(&mut |reason| reasons.push(reason.to_owned()));
    let lacks = match rejection.name() {
        "NodeResourcesFit" => shortages(pod, node),
        "TaintToleration" => taints(pod, node),
        _ => Vec::new(),
    };
    NodeRefusal { plugin: rejection.name(), reasons, is_resolvable: rejection.is_resolvable(), lacks }
}

fn shortages(pod: &PodInfo, node: &NodeState) -> Vec<Lack> {
    let (wanted, all, taken) = (&pod.requests, &node.info().allocatable, node.requested());
    let extended = wanted
        .iter_extended()
        .map(|(name, amount)| (name.to_string(), amount, all.extended(name), taken.extended(name)));
    let fixed = [
        ("cpu", wanted.milli_cpu, all.milli_cpu, taken.milli_cpu),
        ("memory", wanted.memory, all.memory, taken.memory),
        ("ephemeral-storage", wanted.ephemeral_storage, all.ephemeral_storage, taken.ephemeral_storage),
    ];
    let fixed = fixed.into_iter().map(|(name, wanted, all, taken)| (name.to_owned(), wanted, all, taken));
    let short = fixed
        .chain(extended)
        .filter(|(_, wanted, all, taken)| *wanted > 0 && i128::from(*wanted) + taken > i128::from(*all));
    let mut lacks: Vec<_> = short
        .map(|(name, requested, allocatable, taken)| {
            let free = (i128::from(allocatable) - taken).clamp(0, i128::from(i64::MAX)) as i64;
            Lack::Resource { name, requested, free, allocatable }
        })
        .collect();
    let (pods, allowed) = (node.pod_count(), node.info().allowed_pods);
    if pods + 1 > allowed {
        let free = (allowed - pods).max(0);
        lacks.push(Lack::Resource { name: "pods".to_owned(), requested: 1, free, allocatable: allowed });
    }
    lacks
}

fn taints(pod: &PodInfo, node: &NodeState) -> Vec<Lack> {
    let taints = node.info().taints.iter();
    let keeping = taints
        .filter(|taint| taint.effect != Effect::PreferNoSchedule && !tolerated(taint, &pod.tolerations));
    let lack = |taint: &crate::taint::Taint| Lack::Toleration {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect,
    };
    keeping.map(lack).collect()
}
