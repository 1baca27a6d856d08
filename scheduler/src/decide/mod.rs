//! The scheduling decision: the node for a pod with the reasons, or why no node fits. Pure: everything it
//! depends on is an argument.
//!
//! # The rule
//!
//! 1. **Candidates.** The nodes in search order (`Snapshot::nodes`). If every required affinity term pins
//!    node names, only the existing nodes of those names, sorted by name. A pod that a filter refuses as such (it contradicts
//!    itself, or no node can have its volumes or devices) is refused without a look at any node.
//! 2. **Nominated node.** A pod that is nominated for a node runs there if every filter admits it.
//! 3. **Filter.** The search starts at candidate `start` (modulo their number) and wraps around. A node is
//!    feasible if every filter admits it (`filter`). A filter that cannot check a node ends the attempt with an error.
//!    The search stops at one feasible node more than [`sampling::wanted`], or than one if neither plugins nor extenders
//!    compare nodes; the search drops that node. Extenders then filter the feasible nodes, one after the other.
//! 4. **Score.** A single feasible node is taken. Otherwise a node's score is the sum over the plugins of
//!    weight times score, scaled over the feasible nodes; extenders add to it.
//! 5. **Tie.** Of the `n` nodes with the highest score, in the order of the search, the one at `tie mod n`, or the one that
//!    kube-scheduler takes ([`Tie`]).
//! 6. **Next start.** The next search starts after the last counted node: `start` plus feasible nodes plus
//!    refusals, modulo the number of all nodes. A node that a filter could not check does not count. A nominated node that
//!    refused the pod counts once. If the nominated node takes the pod, or the pod is refused as such, the next search starts
//!    where this one would have.

use crate::filter::{PodRefusal, PreFilterState};
use crate::plugin::{ClusterView, ExtensionPoint, PluginId, PluginSet, PointObserver, Refusals, Rejection};
use crate::plugins::Registry;
use crate::pod::PodInfo;
use crate::sampling;
use crate::score::Candidates;
use std::borrow::Cow;
use std::sync::Arc;

/// Which of the nodes with the highest score is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// Of `n` nodes, in the order of the search, the one at this number modulo `n`.
    Number(u64),
    /// The one that kube-scheduler 1.36 takes: it arranges the nodes as a binary heap by score, in the order of the search, and takes
    /// the root. That is the first of the best in pre-order of the tree in which the children of node `i` are `2i + 1` and `2i + 2`.
    HeapRoot,
}

impl Tie {
    /// The index of the taken node among nodes with these totals, whose maximum is `highest`.
    fn choose(self, totals: &[i64], highest: i64) -> usize {
        match self {
            Self::Number(number) => {
                let best: Vec<usize> = (0..totals.len()).filter(|at| totals[*at] == highest).collect();
                best[(number % best.len() as u64) as usize]
            }
            Self::HeapRoot => {
                let mut open = vec![0];
                while let Some(at) = open.pop() {
                    match totals.get(at) {
                        Some(total) if *total == highest => return at,
                        Some(_) => open.extend([2 * at + 2, 2 * at + 1]),
                        None => {}
                    }
                }
                unreachable!("the search visits each node, and one has the maximum")
            }
        }
    }
}

/// The inputs of a decision besides the pod and the nodes.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The index of the candidate at which the search starts.
    pub start: usize,
    /// Which of the nodes with the highest score is taken.
    pub tie: Tie,
    /// The share of the cluster to search, in per cent; zero is adaptive.
    pub percentage: usize,
}

/// A decision and the start of the next search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: Outcome,
    /// The start of the next search.
    pub next_start: usize,
}

/// The outcome of a decision: a node, or a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A node fits the pod.
    Fits(Choice),
    /// No node fits the pod.
    Unfit(Refusal),
    /// A filter failed, for this reason.
    Failed(String),
}

/// The chosen node, with the numbers behind the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The node.
    pub node: Arc<str>,
    /// The number of evaluated nodes.
    pub evaluated: usize,
    /// The number of feasible nodes.
    pub feasible: usize,
    /// The number of feasible nodes with the highest score.
    pub best: usize,
    /// The chosen node's weighted score; zero if it was the only feasible node and the scheduler computed
    /// none.
    pub total: i64,
    /// The chosen node's unweighted score by the plugin's name; empty if the scheduler computed none.
    pub scores: Vec<(&'static str, i64)>,
}

/// The reasons why no node fits the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of nodes.
    pub nodes: usize,
    /// The reason for a refusal without a look at any node: the pod contradicts itself, or no node can have
    /// its volumes or devices.
    pub contradiction: Option<Cow<'static, str>>,
    /// Each refusing node's index in the snapshot and its refusal, in search order.
    pub rejections: Vec<(usize, Rejection)>,
    /// The filters that refused a node: an event that may change their result wakes the pod.
    pub plugins: PluginSet,
    /// The reason for the nodes left out because a filter names others.
    pub left_out: Option<String>,
}

impl Refusal {
    /// What plugins hear of it that do something for the pod.
    pub(crate) fn refusals(&self) -> Refusals<'_> {
        let is_of_pod = self.contradiction.is_some();
        Refusals { rejections: &self.rejections, is_of_pod, by: self.plugins, is_own: false }
    }

    /// The number of nodes left out because a filter names others.
    pub fn not_named(&self) -> usize {
        if self.contradiction.is_some() { 0 } else { self.nodes - self.rejections.len() }
    }
}

/// Decides on which node `pod` runs, without extenders. The module documentation states the rule. `observer` hears of the end of each
/// extension point.
pub fn decide(
    registry: &Registry,
    cluster: ClusterView<'_>,
    pod: &PodInfo,
    terms: Terms,
    observer: &mut dyn PointObserver,
) -> Decision {
    let filtering = filter(registry, cluster, pod, (terms, SearchScope::default()), observer);
    let outcome = match filtering.outcome {
        Filtered::Feasible(nodes) => {
            Outcome::Fits(nodes.choose(registry, cluster, pod, (terms.tie, &[]), observer))
        }
        Filtered::Unfit(refusal) => Outcome::Unfit(refusal),
        Filtered::Failed(why) => Outcome::Failed(why),
    };
    Decision { outcome, next_start: filtering.next_start }
}

/// Where a search looks, and for how much.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SearchScope {
    /// Whether the node for which the pod is nominated is not tried before the others.
    pub(crate) skips_nominated: bool,
    /// Whether extenders compare nodes, so that one feasible node is not enough.
    pub(crate) has_extenders: bool,
}

/// The result of the filters, and the start of the next search.
pub(crate) struct Filtering {
    pub(crate) outcome: Filtered,
    pub(crate) next_start: usize,
}

/// The result of the filters.
pub(crate) enum Filtered {
    /// Nodes that admit the pod.
    Feasible(FeasibleNodes),
    /// No node fits the pod.
    Unfit(Refusal),
    /// A filter failed, for this reason.
    Failed(String),
}

/// The nodes that admit a pod, at least one.
#[derive(Debug)]
pub(crate) struct FeasibleNodes {
    /// The indices of the nodes in the snapshot, in search order.
    pub(crate) slots: Vec<usize>,
    /// The index of each refusing node in the snapshot, and its refusal.
    pub(crate) rejections: Vec<(usize, Rejection)>,
    /// Whether the only node is the nominated one, and no other was looked at.
    pub(crate) is_nominated: bool,
    /// The filters that named the only nodes to look at, and the reason for the others.
    narrowed_by: Option<(PluginSet, String)>,
    /// The number of evaluated nodes.
    evaluated: usize,
}

/// Steps 1 to 3, and 6.
pub(crate) fn filter(
    registry: &Registry,
    cluster: ClusterView<'_>,
    pod: &PodInfo,
    (terms, scope): (Terms, SearchScope),
    observer: &mut dyn PointObserver,
) -> Filtering {
    let all = cluster.snapshot.nodes();
    if all.is_empty() {
        return Filtering { outcome: Filtered::Unfit(no_nodes(registry)), next_start: 0 };
    }
    let state = PreFilterState::observed(registry, cluster, pod, observer);
    observer.end(ExtensionPoint::PreFilter, state.is_ok());
    let mut state = match state {
        Ok(state) => state,
        Err(why) => {
            let outcome = Filtered::Unfit(unusable(all.len(), why));
            return Filtering { outcome, next_start: terms.start };
        }
    };
    let (nominations, namespaces) = (&cluster.inventory.nominations, cluster.snapshot.namespaces());
    let nominated = nominations.node_of(&pod.uid).filter(|_| !scope.skips_nominated);
    let nominated = nominated.and_then(|name| cluster.snapshot.slot(name));
    if let Some(slot) = nominated
        && state.check_observed(&all[slot], (nominations, namespaces), observer).is_ok()
    {
        observer.end(ExtensionPoint::Filter, true);
        let nodes = FeasibleNodes {
            slots: vec![slot],
            rejections: Vec::new(),
            is_nominated: true,
            narrowed_by: None,
            evaluated: 1,
        };
        return Filtering { outcome: Filtered::Feasible(nodes), next_start: terms.start };
    }
    let named = state.node_names();
    let named: Option<Vec<usize>> =
        named.map(|names| names.iter().filter_map(|name| cluster.snapshot.slot(name)).collect());
    let check = |slot: usize| state.check_observed(&all[slot], (nominations, namespaces), observer);
    let count = named.as_ref().map_or(all.len(), Vec::len);
    let bounds = (terms.start, wanted(registry, count, terms.percentage, scope.has_extenders));
    let search = match &named {
        None => search(count, |at| at, check, bounds),
        Some(slots) => search(count, |at| slots[at], check, bounds),
    };
    observer.end(ExtensionPoint::Filter, !search.feasible.is_empty());
    // A node that a filter could not check does not count.
    let checked = search.rejections.len() - usize::from(search.failure.is_some());
    let evaluated = search.feasible.len() + checked;
    let is_uncounted = |slot: usize| !search.rejections.iter().any(|(other, _)| *other == slot);
    let counted = evaluated + usize::from(nominated.is_some_and(is_uncounted));
    let next_start = (terms.start + counted) % all.len();
    Filtering { outcome: search.outcome(all.len(), state.narrowed_by()), next_start }
}

struct Search {
    feasible: Vec<usize>,
    rejections: Vec<(usize, Rejection)>,
    /// Why a filter could not check the last node.
    failure: Option<String>,
}

impl Search {
    /// The result of the filters in a cluster of this many nodes.
    fn outcome(self, nodes: usize, narrowed_by: Option<(PluginSet, String)>) -> Filtered {
        let evaluated = self.feasible.len() + self.rejections.len();
        if let Some(why) = self.failure {
            return Filtered::Failed(why);
        }
        if self.feasible.is_empty() {
            return Filtered::Unfit(refusal(nodes, narrowed_by, self.rejections));
        }
        let (slots, rejections) = (self.feasible, self.rejections);
        Filtered::Feasible(FeasibleNodes { slots, rejections, is_nominated: false, narrowed_by, evaluated })
    }
}

impl FeasibleNodes {
    /// The refusal in a cluster of this many nodes after extenders have refused the rest.
    pub(crate) fn into_refusal(self, nodes: usize) -> Refusal {
        let mut refusal = refusal(nodes, self.narrowed_by, self.rejections);
        refusal.plugins.insert(PluginId::EXTENDERS);
        refusal
    }

    /// Steps 4 and 5. `extra` has what extenders add to the total of each node; nothing if none scores.
    pub(crate) fn choose(
        &self,
        registry: &Registry,
        cluster: ClusterView<'_>,
        pod: &PodInfo,
        (tie, extra): (Tie, &[i64]),
        observer: &mut dyn PointObserver,
    ) -> Choice {
        let candidates = Candidates::new(cluster.snapshot, cluster.inventory, &self.slots);
        let choice = choose(registry, pod, &candidates, (tie, extra), self.evaluated, observer);
        if choice.feasible > 1 {
            observer.end(ExtensionPoint::Score, true);
        }
        choice
    }
}

/// The number of feasible nodes to look for among `count` candidates. One is enough if neither plugins nor extenders compare
/// them.
fn wanted(registry: &Registry, count: usize, percentage: usize, has_extenders: bool) -> usize {
    let scores = !registry.line_up().at(ExtensionPoint::Score).is_empty();
    if scores || has_extenders { sampling::wanted(count, percentage) } else { count.min(1) }
}

/// Step 3 over `count` candidates; `slot` gives a candidate's index among all nodes.
fn search(
    count: usize,
    slot: impl Fn(usize) -> usize,
    mut check: impl FnMut(usize) -> Result<(), Rejection>,
    (start, wanted): (usize, usize),
) -> Search {
    let mut found = Search { feasible: Vec::with_capacity(wanted), rejections: Vec::new(), failure: None };
    for step in 0..count {
        let slot = slot((start + step) % count);
        match check(slot) {
            Ok(()) if found.feasible.len() == wanted => break,
            Ok(()) => found.feasible.push(slot),
            Err(rejection) => {
                found.failure = rejection.failure();
                found.rejections.push((slot, rejection));
                if found.failure.is_some() {
                    break;
                }
            }
        }
    }
    found
}

/// Steps 4 and 5.
fn choose(
    registry: &Registry,
    pod: &PodInfo,
    candidates: &Candidates<'_>,
    (tie, extra): (Tie, &[i64]),
    evaluated: usize,
    observer: &mut dyn PointObserver,
) -> Choice {
    let nodes = &candidates.nodes;
    let node = |at: usize| Arc::clone(&nodes[at].info().name);
    if nodes.len() == 1 {
        return Choice { node: node(0), evaluated, feasible: 1, best: 1, total: 0, scores: Vec::new() };
    }
    let mut totals = if extra.is_empty() { vec![0; nodes.len()] } else { extra.to_vec() };
    let mut columns = Vec::new();
    let measures = observer.measures_plugins();
    if measures {
        observer.begin_plugins();
    }
    for (id, weight) in registry.line_up().scorers() {
        let scorer = registry.get(id);
        let scored = scorer.scores(pod, candidates);
        if measures {
            observer.end_plugin(ExtensionPoint::Score, id, true);
        }
        if let Some(scores) = scored {
            totals
                .iter_mut()
                .zip(&scores)
                .for_each(|(total, score)| *total = total.saturating_add(weight * score));
            columns.push((scorer.row().name, scores));
        }
    }
    let highest = totals.iter().copied().max().expect("some node is feasible");
    let best = totals.iter().filter(|total| **total == highest).count();
    let chosen = tie.choose(&totals, highest);
    Choice {
        node: node(chosen),
        evaluated,
        feasible: nodes.len(),
        best,
        total: highest,
        scores: columns.iter().map(|(name, scores)| (*name, scores[chosen])).collect(),
    }
}

/// The refusal in an empty cluster. It names every filter, so that the first node wakes the pod.
fn no_nodes(registry: &Registry) -> Refusal {
    let plugins = registry.line_up().set(ExtensionPoint::Filter);
    Refusal { nodes: 0, contradiction: None, rejections: Vec::new(), plugins, left_out: None }
}

/// The refusal of a pod that no node can have.
fn unusable(nodes: usize, PodRefusal { plugins, why }: PodRefusal) -> Refusal {
    Refusal { nodes, contradiction: Some(why), rejections: Vec::new(), plugins, left_out: None }
}

/// The refusal from the nodes' rejections.
fn refusal(
    nodes: usize,
    narrowed_by: Option<(PluginSet, String)>,
    rejections: Vec<(usize, Rejection)>,
) -> Refusal {
    let (named_by, left_out) = narrowed_by.unzip();
    let refused_by = rejections.iter().map(|(_, rejection)| rejection.plugin());
    let plugins = refused_by.chain(named_by.unwrap_or_default().iter()).collect();
    Refusal { nodes, contradiction: None, rejections, plugins, left_out }
}

#[cfg(test)]
pub(crate) mod tests;
