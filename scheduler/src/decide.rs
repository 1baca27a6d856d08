//! The decision: which node a pod goes to, and why; or why it goes nowhere. Pure: everything it depends on is an argument.
//!
//! # The rule
//!
//! 1. **Candidates.** The nodes in order of search ([`Snapshot::nodes`]). When every required affinity term pins node names,
//!    only the existing nodes of those names, in order of name.
//!    A pod that contradicts itself, or whose volumes no node can have, goes nowhere, and no node is asked.
//! 2. **Filter.** The search starts at candidate `start` (modulo their number) and wraps around. A node is feasible when
//!    every filter admits it ([`filter::check`]). The search stops when one feasible node more than
//!    [`sampling::wanted`] has been seen; that one is dropped.
//! 3. **Score.** With one feasible node, it is taken. Otherwise each node's score is the sum over [`Scorer::ALL`] of weight
//!    times score, scaled over the feasible nodes.
//! 4. **Tie.** Among the `n` nodes of the highest score, in the order in which they were found, the one at `tie mod n`.
//! 5. The next search starts after the last node that was counted: `start` plus feasible nodes plus refusals, modulo
//!    the number of all nodes.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cache::NodeState;
use crate::filter::{self, Plugin, PluginSet, Rejection, Surroundings, VolumeRefusal, Volumes};
use crate::pod::PodInfo;
use crate::sampling;
use crate::score::Scorer;
use crate::snapshot::Snapshot;
use crate::storage::Storage;

/// What a decision depends on besides the pod and the nodes.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Where the search starts.
    pub start: usize,
    /// Chooses among equals.
    pub tie: u64,
    /// How much of the cluster to look at, in per cent; zero is adaptive.
    pub percentage: usize,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was decided.
    pub outcome: Outcome,
    /// Where the next search starts.
    pub next_start: usize,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod goes to a node.
    Fits(Choice),
    /// No node will take it.
    Unfit(Refusal),
}

/// The chosen node, and what the choice was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The node.
    pub node: Arc<str>,
    /// How many nodes were looked at.
    pub evaluated: usize,
    /// How many of them would have done.
    pub feasible: usize,
    /// How many of those had the highest score.
    pub best: usize,
    /// The chosen node's weighted score; zero when it was the only feasible node and none was computed.
    pub total: i64,
    /// The chosen node's unweighted score by plugin; empty when none was computed.
    pub scores: Vec<(Scorer, i64)>,
}

/// Why no node will take the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How many nodes there are.
    pub nodes: usize,
    /// Set when no node was asked: the pod contradicts itself, or its volumes can be nowhere.
    pub contradiction: Option<Cow<'static, str>>,
    /// Each refusing node's place in the snapshot, and its refusal, in the order in which they were asked.
    pub rejections: Vec<(usize, Rejection)>,
    /// The filters that refused somewhere: events that may change their answer wake the pod.
    pub plugins: PluginSet,
}

impl Refusal {
    /// How many nodes were not asked, because the pod's affinity names others.
    pub fn not_named(&self) -> usize {
        if self.contradiction.is_some() { 0 } else { self.nodes - self.rejections.len() }
    }
}

/// Decides where `pod` goes. The rule stands at the head of this module.
pub fn decide(snapshot: &Snapshot, storage: &Storage, pod: &PodInfo, terms: Terms) -> Decision {
    let all = snapshot.nodes();
    let named = pod.affinity.pinned.as_ref();
    if let Some([]) = named.map(Vec::as_slice)
        && !all.is_empty()
    {
        return Decision { outcome: Outcome::Unfit(contradiction(all.len())), next_start: terms.start };
    }
    let volumes = match Volumes::of(pod, storage) {
        Err(why) if !all.is_empty() => {
            return Decision { outcome: Outcome::Unfit(unusable(all.len(), why)), next_start: terms.start };
        }
        volumes => volumes.unwrap_or(None),
    };
    let around = Surroundings::of(pod, all.iter(), snapshot.anyone_shuns(), snapshot.namespaces(), volumes);
    let check = |slot: usize| filter::check(pod, &around, &all[slot]);
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
        Outcome::Fits(choose(pod, all, &search.feasible, terms.tie, evaluated))
    };
    Decision { outcome, next_start }
}

struct Search {
    feasible: Vec<usize>,
    rejections: Vec<(usize, Rejection)>,
}

/// Step 2 over `count` candidates, where `slot` gives a candidate's place among all nodes.
fn search(
    count: usize,
    slot: impl Fn(usize) -> usize,
    check: impl Fn(usize) -> Result<(), Rejection>,
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

/// Steps 3 and 4.
fn choose(pod: &PodInfo, all: &[NodeState], feasible: &[usize], tie: u64, evaluated: usize) -> Choice {
    let nodes: Vec<&NodeState> = feasible.iter().map(|slot| &all[*slot]).collect();
    let node = |at: usize| Arc::clone(&nodes[at].info().name);
    if nodes.len() == 1 {
        return Choice { node: node(0), evaluated, feasible: 1, best: 1, total: 0, scores: Vec::new() };
    }
    let mut totals = vec![0; nodes.len()];
    let mut columns = Vec::with_capacity(Scorer::ALL.len());
    for scorer in Scorer::ALL {
        if let Some(scores) = scorer.scores(pod, &nodes) {
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

/// The refusal of a pod whose volumes no node can have.
fn unusable(nodes: usize, refusal: VolumeRefusal) -> Refusal {
    Refusal {
        nodes,
        contradiction: Some(Cow::Owned(refusal.why)),
        rejections: Vec::new(),
        plugins: [refusal.plugin].into_iter().collect(),
    }
}

/// An empty cluster refuses in the name of every filter, so that the first node wakes the pod.
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
