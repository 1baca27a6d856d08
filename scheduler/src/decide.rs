//! The scheduling decision: the node for a pod with the reasons, or why no node fits. Pure: everything it
//! depends on is an argument.
//!
//! # The rule
//!
//! 1. **Candidates.** The nodes in search order ([`Snapshot::nodes`]). If every required affinity term pins
//!    node names, only the existing nodes of those names, sorted by name. A pod that contradicts itself, or
//!    whose volumes or devices no node can have, is refused without a look at any node.
//! 2. **Nominated node.** A pod that is nominated for a node runs there if every filter admits it.
//! 3. **Filter.** The search starts at candidate `start` (modulo their number) and wraps around. A node is
//!    feasible if every filter admits it ([`filter::check_with_nominated`]). The search stops at one feasible node more than
//!    [`sampling::wanted`]; the search drops that node.
//! 4. **Score.** A single feasible node is taken. Otherwise a node's score is the sum over [`Scorer::ALL`] of
//!    weight times score, scaled over the feasible nodes.
//! 5. **Tie.** Of the `n` nodes with the highest score, in the order of the search, the one at `tie mod n`.
//! 6. **Next start.** The next search starts after the last counted node: `start` plus feasible nodes plus
//!    refusals, modulo the number of all nodes.

use std::borrow::Cow;
use std::sync::Arc;

use crate::filter::{self, Claims, ClaimsRefusal, Plugin, PluginSet, PreFilterState, Rejection};
use crate::inventory::Inventory;
use crate::pod::PodInfo;
use crate::sampling;
use crate::score::{Candidates, Scorer};
use crate::snapshot::Snapshot;

/// The inputs of a decision besides the pod and the nodes.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The index of the candidate at which the search starts.
    pub start: usize,
    /// The number that selects among nodes with the highest score.
    pub tie: u64,
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
    /// The chosen node's unweighted score by plugin; empty if the scheduler computed none.
    pub scores: Vec<(Scorer, i64)>,
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
}

impl Refusal {
    /// The number of nodes left out because the pod's affinity names others.
    pub fn not_named(&self) -> usize {
        if self.contradiction.is_some() { 0 } else { self.nodes - self.rejections.len() }
    }
}

/// Decides on which node `pod` runs. The module documentation states the rule.
pub fn decide(snapshot: &Snapshot, inventory: &Inventory, pod: &PodInfo, terms: Terms) -> Decision {
    let all = snapshot.nodes();
    let named = pod.affinity.pinned.as_ref();
    if let Some([]) = named.map(Vec::as_slice)
        && !all.is_empty()
    {
        return Decision { outcome: Outcome::Unfit(contradiction(all.len())), next_start: terms.start };
    }
    let claims = match Claims::of(pod, inventory) {
        Err(why) if !all.is_empty() => {
            return Decision { outcome: Outcome::Unfit(unusable(all.len(), why)), next_start: terms.start };
        }
        claims => claims.unwrap_or_default(),
    };
    let mut prefilter_state = PreFilterState::of(pod, snapshot, &inventory.tallies, claims);
    let (nominations, namespaces) = (&inventory.nominations, snapshot.namespaces());
    let mut check = |slot: usize| {
        filter::check_with_nominated(pod, &mut prefilter_state, &all[slot], nominations, namespaces)
    };
    let nominated = nominations.node_of(&pod.uid).and_then(|name| snapshot.slot(name));
    if let Some(slot) = nominated.filter(|slot| check(*slot).is_ok()) {
        let choice = choose(pod, &Candidates::new(snapshot, inventory, &[slot]), terms.tie, 1);
        return Decision { outcome: Outcome::Fits(choice), next_start: (terms.start + 1) % all.len() };
    }
    let search = match named {
        None => search(all.len(), |at| at, check, terms),
        Some(names) => {
            let slots: Vec<usize> = names.iter().filter_map(|name| snapshot.slot(name)).collect();
            search(slots.len(), |at| slots[at], check, terms)
        }
    };
    let evaluated = search.feasible.len() + search.rejections.len();
    let next_start = if all.is_empty() { 0 } else { (terms.start + evaluated) % all.len() };
    let outcome = if search.feasible.is_empty() {
        Outcome::Unfit(refusal(all.len(), named.is_some(), search.rejections))
    } else {
        let candidates = Candidates::new(snapshot, inventory, &search.feasible);
        Outcome::Fits(choose(pod, &candidates, terms.tie, evaluated))
    };
    Decision { outcome, next_start }
}

struct Search {
    feasible: Vec<usize>,
    rejections: Vec<(usize, Rejection)>,
}

/// Step 3 over `count` candidates; `slot` gives a candidate's index among all nodes.
fn search(
    count: usize,
    slot: impl Fn(usize) -> usize,
    mut check: impl FnMut(usize) -> Result<(), Rejection>,
    terms: Terms,
) -> Search {
    let wanted = sampling::wanted(count, terms.percentage);
    let mut found = Search { feasible: Vec::with_capacity(wanted), rejections: Vec::new() };
    for step in 0..count {
        let slot = slot((terms.start + step) % count);
        match check(slot) {
            Ok(()) if found.feasible.len() == wanted => break,
            Ok(()) => found.feasible.push(slot),
            Err(rejection) => found.rejections.push((slot, rejection)),
        }
    }
    found
}

/// Steps 4 and 5.
fn choose(pod: &PodInfo, candidates: &Candidates<'_>, tie: u64, evaluated: usize) -> Choice {
    let nodes = &candidates.nodes;
    let node = |at: usize| Arc::clone(&nodes[at].info().name);
    if nodes.len() == 1 {
        return Choice { node: node(0), evaluated, feasible: 1, best: 1, total: 0, scores: Vec::new() };
    }
    let mut totals = vec![0; nodes.len()];
    let mut columns = Vec::with_capacity(Scorer::ALL.len());
    for scorer in Scorer::ALL {
        if let Some(scores) = scorer.scores(pod, candidates) {
            totals.iter_mut().zip(&scores).for_each(|(total, score)| *total += scorer.weight() * score);
            columns.push((scorer, scores));
        }
    }
    let highest = totals.iter().copied().max().expect("some node is feasible");
    let best: Vec<usize> = (0..totals.len()).filter(|at| totals[*at] == highest).collect();
    let chosen = best[(tie % best.len() as u64) as usize];
    Choice {
        node: node(chosen),
        evaluated,
        feasible: nodes.len(),
        best: best.len(),
        total: highest,
        scores: columns.iter().map(|(scorer, scores)| (*scorer, scores[chosen])).collect(),
    }
}

fn contradiction(nodes: usize) -> Refusal {
    Refusal {
        nodes,
        contradiction: Some(Cow::Borrowed(filter::node_affinity::CONFLICT)),
        rejections: Vec::new(),
        plugins: [Plugin::NodeAffinity].into_iter().collect(),
    }
}

/// The refusal of a pod whose volumes or devices no node can have.
fn unusable(nodes: usize, refusal: ClaimsRefusal) -> Refusal {
    Refusal {
        nodes,
        contradiction: Some(Cow::Owned(refusal.why)),
        rejections: Vec::new(),
        plugins: [refusal.plugin].into_iter().collect(),
    }
}

/// The refusal from the nodes' rejections. In an empty cluster it names every filter, so that the first node
/// wakes the pod.
fn refusal(nodes: usize, named: bool, rejections: Vec<(usize, Rejection)>) -> Refusal {
    let mut plugins: PluginSet = rejections.iter().map(|(_, rejection)| rejection.plugin()).collect();
    if named {
        plugins.insert(Plugin::NodeAffinity);
    }
    if nodes == 0 {
        plugins = PluginSet::all();
    }
    Refusal { nodes, contradiction: None, rejections, plugins }
}

#[cfg(test)]
pub(crate) mod tests;
