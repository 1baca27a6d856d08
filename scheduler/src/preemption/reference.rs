//! A second implementation of preemption for tests: slow, over the lists of [`ReferenceCluster`], with each filter
//! evaluated anew over the whole cluster, and each criterion of the choice on its own.

use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::reference::ReferenceCluster;
use std::sync::Arc;

/// A node and its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReferenceCandidate {
    pub(crate) node: Arc<str>,
    pub(crate) victims: Vec<Arc<PodInfo>>,
    pub(crate) violations: usize,
}

/// A disruption budget: it covers the pods with this label `app`, and allows this number of evictions.
pub(crate) type ReferenceBudget = (String, i64);

/// The reasons that no eviction removes.
const FINAL: [&str; 5] = [
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't match pod affinity rules",
];

fn may_help(pod: &PodInfo, node: &NodeInfo, reasons: &[String]) -> bool {
    let (wants, has) = (&pod.requests, &node.allocatable);
    let mut extended = wants.iter_extended();
    let is_larger = wants.milli_cpu > has.milli_cpu
        || wants.memory > has.memory
        || wants.ephemeral_storage > has.ephemeral_storage
        || extended.any(|(name, amount)| amount > has.extended(name));
    let lacks = |reason: &String| reason.starts_with("Insufficient") || reason == "Too many pods";
    let is_final = |reason: &String| FINAL.contains(&reason.as_str()) || (is_larger && lacks(reason));
    !reasons.iter().any(is_final)
}

impl ReferenceCluster {
    /// The candidates for a refused pod; `None` if there are none. Without budgets.
    pub(crate) fn preempts(&self, pod: &PodInfo) -> Option<Vec<ReferenceCandidate>> {
        let all = self.candidates(pod, &[]);
        (!all.is_empty()).then_some(all)
    }

    /// The candidates for a refused pod in search order.
    pub(crate) fn candidates(&self, pod: &PodInfo, budgets: &[ReferenceBudget]) -> Vec<ReferenceCandidate> {
        let is_named = |node: &&NodeInfo| {
            pod.affinity.pinned.as_ref().is_none_or(|names| names.iter().any(|name| **name == *node.name))
        };
        let nodes = self.in_order().into_iter().filter(is_named);
        let nodes = nodes.filter(|node| may_help(pod, node, &self.reasons(pod, node)));
        nodes.filter_map(|node| self.victims(pod, node, budgets)).collect()
    }

    fn victims(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        budgets: &[ReferenceBudget],
    ) -> Option<ReferenceCandidate> {
        let mut trial = self.clone();
        let mut lower: Vec<Arc<PodInfo>> = Vec::new();
        trial.placed.retain(|(other, name)| {
            let stays = *name != node.name || other.priority >= pod.priority;
            if !stays {
                lower.push(Arc::clone(other));
            }
            stays
        });
        trial.removed.extend(lower.iter().map(|other| (Arc::clone(other), Arc::clone(&node.name))));
        if lower.is_empty() || !trial.reasons(pod, node).is_empty() {
            return None;
        }
        sort(&mut lower);
        let exceeds = |at: usize| {
            budgets.iter().any(|(app, allowed)| {
                let covers = |other: &&Arc<PodInfo>| other.labels.get("app") == Some(app);
                covers(&&lower[at]) && lower[..=at].iter().filter(covers).count() as i64 > *allowed
            })
        };
        let (first, second): (Vec<usize>, Vec<usize>) = (0..lower.len()).partition(|at| exceeds(*at));
        let (mut victims, mut violations) = (Vec::new(), 0);
        for at in first.into_iter().chain(second) {
            let returned = (Arc::clone(&lower[at]), Arc::clone(&node.name));
            trial.removed.retain(|(other, _)| other.uid != returned.0.uid);
            trial.placed.push(returned);
            if !trial.reasons(pod, node).is_empty() {
                trial.removed.extend(trial.placed.pop());
                violations += usize::from(exceeds(at));
                victims.push(Arc::clone(&lower[at]));
            }
        }
        sort(&mut victims);
        Some(ReferenceCandidate { node: Arc::clone(&node.name), victims, violations })
    }
}

fn sort(pods: &mut [Arc<PodInfo>]) {
    pods.sort_by_key(|pod| (-i64::from(pod.priority), pod.start_order(), Arc::clone(&pod.uid)));
}

/// The choice among candidates in the order of the search: each criterion keeps the best ones.
pub(crate) fn choice(mut left: Vec<ReferenceCandidate>) -> Option<ReferenceCandidate> {
    let top = |c: &ReferenceCandidate| c.victims.iter().map(|v| i64::from(v.priority)).max().unwrap();
    let sum = |c: &ReferenceCandidate| c.victims.iter().map(|v| i64::from(v.priority) + (1 << 31)).sum();
    let start = |c: &ReferenceCandidate| {
        let highest = c.victims.iter().filter(|v| i64::from(v.priority) == top(c));
        highest.map(|v| v.start_order()).min().unwrap().as_second()
    };
    let criteria: [&dyn Fn(&ReferenceCandidate) -> i64; 5] =
        [&|c| c.violations as i64, &top, &sum, &|c| c.victims.len() as i64, &|c| -start(c)];
    for criterion in criteria {
        let best = left.iter().map(criterion).min()?;
        left.retain(|candidate| criterion(candidate) == best);
    }
    left.into_iter().next()
}
