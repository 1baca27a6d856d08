//! A reference implementation of the decision: slow, without cache and snapshot, written from the rules
//! alone. Tests compare the fast decision with it. Both share only the input types and the matching of
//! tolerations and affinity terms, which have tests of their own.

pub(crate) mod profile;
mod score;

use crate::affinity::Term;
use crate::decide::{Terms, Tie};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::{AffinityTerm, LabelSelector, Namespaces};
use crate::taint::{Effect, Taint};
use profile::{ReferenceProfile, ReferenceStrategy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The decision of the reference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReferenceDecision {
    /// The pod is bound to this node, with this total (absent if it was the only feasible node), one of `best`
    /// nodes with the highest score.
    Node { name: Arc<str>, total: i64, best: usize, feasible: usize },
    /// No node fits, for these reasons.
    Nowhere { message: String },
}

/// A cluster as lists: nodes in order of arrival, zones in order of their first node, and the pods with their
/// nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferenceCluster {
    pub(crate) nodes: Vec<Arc<NodeInfo>>,
    zones: Vec<String>,
    pub(crate) placed: Vec<(Arc<PodInfo>, Arc<str>)>,
    /// Waiting pods with the nodes for which they are nominated.
    pub(crate) nominated: Vec<(Arc<PodInfo>, Arc<str>)>,
    /// Pods that a trial of preemption has taken from their nodes.
    pub(crate) removed: Vec<(Arc<PodInfo>, Arc<str>)>,
    /// Which plugins run, and how.
    pub(crate) profile: ReferenceProfile,
}

impl ReferenceCluster {
    /// Adds or replaces a node. A node whose zone changes moves to the end of its new zone, as if it were new.
    pub(crate) fn set_node(&mut self, node: Arc<NodeInfo>) {
        match self.nodes.iter().position(|n| n.name == node.name) {
            Some(at) if zone(&self.nodes[at]) == zone(&node) => self.nodes[at] = node,
            _ => {
                self.remove_node(&node.name);
                if !self.zones.contains(&zone(&node)) {
                    self.zones.push(zone(&node));
                }
                self.nodes.push(node);
            }
        }
    }

    /// Removes a node. A zone without nodes is forgotten.
    pub(crate) fn remove_node(&mut self, name: &str) {
        self.nodes.retain(|node| *node.name != *name);
        let nodes = &self.nodes;
        self.zones.retain(|z| nodes.iter().any(|node| zone(node) == *z));
    }

    pub(crate) fn pods_on(&self, node: &NodeInfo) -> Vec<&PodInfo> {
        self.placed.iter().filter(|(_, name)| *name == node.name).map(|(pod, _)| &**pod).collect()
    }

    fn sum(&self, node: &NodeInfo, of: impl Fn(&PodInfo) -> i128) -> i128 {
        self.pods_on(node).into_iter().map(of).sum()
    }

    /// The nodes in search order: zones take turns, and each gives its next node.
    pub(crate) fn in_order(&self) -> Vec<&NodeInfo> {
        let mut left: Vec<&NodeInfo> = self.nodes.iter().map(|node| &**node).collect();
        let mut ordered = Vec::new();
        while !left.is_empty() {
            for z in &self.zones {
                if let Some(at) = left.iter().position(|node| zone(node) == *z) {
                    ordered.push(left.remove(at));
                }
            }
        }
        ordered
    }

    /// The decision for `pod`, and the start of the next search.
    pub(crate) fn decide(&self, pod: &PodInfo, terms: Terms) -> (ReferenceDecision, usize) {
        let all = self.in_order();
        if all.is_empty() {
            return (
                ReferenceDecision::Nowhere { message: "no nodes available to schedule pods".to_owned() },
                0,
            );
        }
        let nominated = self.nominated.iter().find(|(other, _)| other.uid == pod.uid);
        let nominated = nominated.and_then(|(_, name)| all.iter().find(|node| node.name == *name));
        let pinned = pod.affinity.pinned.as_ref().filter(|_| self.profile.narrows);
        let contradicts = pinned.is_some_and(Vec::is_empty);
        let nominated = nominated.filter(|_| !contradicts);
        if let Some(node) = nominated
            && self.reasons(pod, node).is_empty()
        {
            return (self.best(pod, &[*node], terms.tie), terms.start);
        }
        let mut candidates = all.clone();
        if let Some(names) = pinned {
            if names.is_empty() {
                let message = format!("0/{} nodes are available: pod affinity terms conflict.", all.len());
                return (ReferenceDecision::Nowhere { message }, terms.start);
            }
            candidates.retain(|node| names.iter().any(|name| **name == *node.name));
            candidates.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let (feasible, refused) = self.filter(pod, &candidates, terms);
        let seen = feasible.len() + refused.len();
        let is_among = |node: &NodeInfo| {
            (0..seen).any(|step| candidates[(terms.start + step) % candidates.len()].name == node.name)
        };
        let more = usize::from(nominated.is_some_and(|node| !is_among(node)));
        let next = (terms.start + seen + more) % all.len();
        if feasible.is_empty() {
            return (ReferenceDecision::Nowhere { message: message(all.len(), &refused) }, next);
        }
        (self.best(pod, &feasible, terms.tie), next)
    }

    fn filter<'a>(
        &self,
        pod: &PodInfo,
        candidates: &[&'a NodeInfo],
        terms: Terms,
    ) -> (Vec<&'a NodeInfo>, Vec<Vec<String>>) {
        let n = candidates.len();
        let wanted = if self.profile.scores.is_empty() {
            1
        } else if n < 100 {
            n
        } else {
            let percent =
                if terms.percentage > 0 { terms.percentage } else { (50 - (n / 125).min(50)).max(5) };
            (n * percent.min(100) / 100).max(100)
        };
        let (mut feasible, mut refused) = (Vec::new(), Vec::new());
        for step in 0..n {
            let node = candidates[(terms.start + step) % n];
            let reasons = self.reasons(pod, node);
            if reasons.is_empty() && feasible.len() == wanted {
                break;
            }
            if reasons.is_empty() { feasible.push(node) } else { refused.push(reasons) }
        }
        (feasible, refused)
    }

    /// The reasons against the node; empty if the node is feasible, with and without the pods that are nominated
    /// for it and go first.
    pub(crate) fn reasons(&self, pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
        let ahead = |(other, name): &&(Arc<PodInfo>, Arc<str>)| {
            *name == node.name && other.priority >= pod.priority && other.uid != pod.uid
        };
        let mut crowded = self.clone();
        crowded.placed.extend(self.nominated.iter().filter(ahead).cloned());
        let reasons = crowded.reasons_now(pod, node);
        if reasons.is_empty() { self.reasons_now(pod, node) } else { reasons }
    }

    fn reasons_now(&self, pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
        let filters = self.profile.filters.iter();
        filters
            .map(|filter| self.reasons_of(filter, pod, node))
            .find(|reasons| !reasons.is_empty())
            .unwrap_or_default()
    }

    fn reasons_of(&self, filter: &str, pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
        let tolerates = |key: &str, value: &str, effect| {
            let taint = Taint { key: key.to_owned(), value: value.to_owned(), effect };
            pod.tolerations.iter().any(|t| t.covers(&taint))
        };
        let refused_by =
            |reason: &str, refuses: bool| if refuses { vec![reason.to_owned()] } else { Vec::new() };
        match filter {
            "NodeUnschedulable" => {
                let cordon = "node.kubernetes.io/unschedulable";
                let refuses = node.unschedulable && !tolerates(cordon, "", Effect::NoSchedule);
                refused_by("node(s) were unschedulable", refuses)
            }
            "NodeName" => {
                let refuses = pod.node_name.as_ref().is_some_and(|name| *name != node.name);
                refused_by("node(s) didn't match the requested node name", refuses)
            }
            "TaintToleration" => {
                let hard = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
                let mut untolerated = hard.filter(|taint| !tolerates(&taint.key, &taint.value, taint.effect));
                refused_by("node(s) had untolerated taint(s)", untolerated.next().is_some())
            }
            "NodeAffinity" => {
                if !self.profile.admits(node) {
                    return vec!["node(s) didn't match scheduler-enforced node affinity".to_owned()];
                }
                let labelled = pod.affinity.selector.iter().all(|(k, v)| node.labels.get(k) == Some(v));
                let required = pod.affinity.required.as_ref();
                let matches = |terms: &Vec<Term>| terms.iter().any(|t| t.matches(&node.name, &node.labels));
                let refuses = !labelled || !required.is_none_or(matches);
                refused_by("node(s) didn't match Pod's node affinity/selector", refuses)
            }
            "NodePorts" => {
                let on_node = self.pods_on(node);
                let mut taken = on_node.iter().flat_map(|p| &p.ports);
                let refuses = taken.any(|t| pod.ports.iter().any(|p| p.conflicts_with(t)));
                refused_by("node(s) didn't have free ports for the requested pod ports", refuses)
            }
            "NodeResourcesFit" => self.shortages(pod, node),
            "PodTopologySpread" => self.spread_conflict(pod, node).map(str::to_owned).into_iter().collect(),
            "InterPodAffinity" => self.affinity_conflict(pod, node).map(str::to_owned).into_iter().collect(),
            "NodeDeclaredFeatures" => {
                let feature = "RestartAllContainersOnContainerExits".to_owned();
                let refuses = pod.restarts_all_containers && !node.declared_features.contains(&feature);
                refused_by("node(s) didn't match Pod's required features", refuses)
            }
            other => panic!("the reference has no filter {other}"),
        }
    }

    fn spread_conflict(&self, pod: &PodInfo, node: &NodeInfo) -> Option<&'static str> {
        let (spreads, _) = self.profile.spreads(pod);
        for spread in &spreads {
            let key = &spread.topology_key;
            let Some(here) = node.labels.get(key) else {
                return Some("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
            for other in &self.nodes {
                let everywhere = spreads.iter().all(|s| other.labels.contains_key(&s.topology_key));
                let chosen = pod.affinity.admits(&other.name, &other.labels) || !spread.honor_affinity;
                let hard = other.taints.iter().filter(|t| t.effect != Effect::PreferNoSchedule);
                let mut untolerated = hard.filter(|taint| !pod.tolerations.iter().any(|t| t.covers(taint)));
                if everywhere && chosen && (!spread.honor_taints || untolerated.next().is_none()) {
                    // An empty selector counts no pod that has a node, but the pod itself and nominated pods.
                    let is_nominated =
                        |p: &PodInfo| self.nominated.iter().any(|(other, _)| other.uid == p.uid);
                    let selects = |p: &PodInfo| {
                        let labels = spread.selector.as_ref().is_some_and(|s| s.matches(&p.labels));
                        labels && p.key.namespace() == pod.key.namespace()
                    };
                    let is_counted =
                        |p: &PodInfo| spread.selector != Some(LabelSelector::default()) && !p.deleting;
                    let like = |p: &&PodInfo| selects(p) && (is_counted(p) || is_nominated(p));
                    let count = self.pods_on(other).into_iter().filter(like).count() as i64;
                    // kube-scheduler's `updateWithPod` subtracts also those that it has never counted.
                    let uncounted = self.removed.iter().filter(|(p, name)| *name == other.name && selects(p));
                    let uncounted = uncounted.filter(|(p, _)| !is_counted(p)).count() as i64;
                    *domains.entry(&other.labels[key]).or_default() += count - uncounted;
                }
            }
            let few = (domains.len() as i64) < spread.min_domains;
            let least = if few { 0 } else { domains.values().copied().min().unwrap_or(0) };
            let own = i64::from(spread.selector.as_ref().is_some_and(|s| s.matches(&pod.labels)));
            let there = domains.get(here.as_str()).copied().unwrap_or(0);
            if there + own - least > spread.max_skew {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }

    fn affinity_conflict(&self, pod: &PodInfo, node: &NodeInfo) -> Option<&'static str> {
        let selects =
            |t: &AffinityTerm, p: &PodInfo| t.selects(p.key.namespace(), &p.labels, &Namespaces::new());
        let near = |t: &AffinityTerm, other: &NodeInfo| {
            let (here, there) = (node.labels.get(&t.topology_key), other.labels.get(&t.topology_key));
            here.is_some() && here == there
        };
        let mut placed: Vec<(&NodeInfo, &PodInfo)> = Vec::new();
        for other in &self.nodes {
            placed.extend(self.pods_on(other).into_iter().map(|p| (&**other, p)));
        }
        let wanted = &pod.pod_affinity.required;
        let all_wanted: Vec<_> =
            placed.iter().filter(|(_, p)| wanted.iter().all(|t| selects(t, p))).collect();
        let in_domain = |t: &&AffinityTerm| all_wanted.iter().any(|(other, _)| near(t, other));
        let labelled = wanted.iter().all(|t| node.labels.contains_key(&t.topology_key));
        let somewhere =
            |t: &AffinityTerm| all_wanted.iter().any(|(other, _)| other.labels.contains_key(&t.topology_key));
        let no_match = !wanted.iter().any(somewhere);
        let first = no_match && wanted.iter().all(|t| selects(t, pod));
        if !(labelled && (first || wanted.iter().all(|t| in_domain(&t)))) {
            return Some("node(s) didn't match pod affinity rules");
        }
        let shuns = |t: &AffinityTerm| placed.iter().any(|(other, p)| selects(t, p) && near(t, other));
        if pod.pod_affinity.anti_required.iter().any(shuns) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let shunned = |(other, p): &(&NodeInfo, &PodInfo)| {
            p.pod_affinity.anti_required.iter().any(|t| selects(t, pod) && near(t, other))
        };
        placed.iter().any(shunned).then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }

    fn shortages(&self, pod: &PodInfo, node: &NodeInfo) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.pods_on(node).len() as i64 + 1 > node.allowed_pods {
            reasons.push("Too many pods".to_owned());
        }
        let mut check = |name: &str, of: &dyn Fn(&PodInfo) -> i128, all: i64| {
            if of(pod) > 0 && self.sum(node, of) + of(pod) > i128::from(all) {
                reasons.push(format!("Insufficient {name}"));
            }
        };
        check("cpu", &|p| p.requests.milli_cpu.into(), node.allocatable.milli_cpu);
        check("memory", &|p| p.requests.memory.into(), node.allocatable.memory);
        check(
            "ephemeral-storage",
            &|p| p.requests.ephemeral_storage.into(),
            node.allocatable.ephemeral_storage,
        );
        let ignored = |name: &str| self.profile.ignored.contains(&name);
        for (name, _) in pod.requests.iter_extended().filter(|(name, _)| !ignored(name)) {
            check(name, &|p| p.requests.extended(name).into(), node.allocatable.extended(name));
        }
        reasons
    }

    fn best(&self, pod: &PodInfo, feasible: &[&NodeInfo], tie: Tie) -> ReferenceDecision {
        if let [only] = feasible {
            return ReferenceDecision::Node { name: Arc::clone(&only.name), total: 0, best: 1, feasible: 1 };
        }
        let mut totals = vec![0; feasible.len()];
        for (score, weight) in &self.profile.scores {
            let column = self.column(score, pod, feasible);
            totals.iter_mut().zip(column).for_each(|(total, score)| *total += weight * score);
        }
        let highest = totals.iter().copied().max().unwrap();
        let best: Vec<usize> = (0..totals.len()).filter(|i| totals[*i] == highest).collect();
        let chosen = feasible[match tie {
            Tie::Number(number) => best[(number % best.len() as u64) as usize],
            Tie::HeapRoot => heap_root(&totals),
        }];
        ReferenceDecision::Node {
            name: Arc::clone(&chosen.name),
            total: highest,
            best: best.len(),
            feasible: feasible.len(),
        }
    }

    /// The scores of one plugin.
    fn column(&self, score: &str, pod: &PodInfo, feasible: &[&NodeInfo]) -> Vec<i64> {
        let map = |of: &dyn Fn(&NodeInfo) -> i64| feasible.iter().map(|node| of(node)).collect::<Vec<_>>();
        let percent = |raw: Vec<i64>| {
            let max = raw.iter().copied().max().unwrap();
            raw.into_iter().map(|x| if max > 0 { 100 * x / max } else { 0 }).collect::<Vec<_>>()
        };
        match score {
            "TaintToleration" => {
                percent(map(&|node| untolerated(pod, node))).into_iter().map(|x| 100 - x).collect()
            }
            "NodeAffinity" => percent(map(&|node| preferred(pod, node) + self.profile.preference(node))),
            "NodeResourcesFit" => map(&|node| self.allocated(pod, node)),
            "PodTopologySpread" => self.soft_spread(pod, feasible),
            "InterPodAffinity" => self.soft_affinity(pod, feasible),
            "NodeResourcesBalancedAllocation" => map(&|node| self.balanced(pod, node)),
            "ImageLocality" => map(&|node| self.image_locality(pod, node)),
            other => panic!("the reference has no score {other}"),
        }
    }

    /// The score of NodeResourcesFit by the profile's strategy.
    fn allocated(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let profile = &self.profile;
        let is_ratio = matches!(profile.strategy, ReferenceStrategy::Ratio(_));
        let mut parts = Vec::new();
        for (name, weight) in &profile.resources {
            let nonzero = |p: &PodInfo| match *name {
                "cpu" => p.nonzero.milli_cpu,
                "memory" => p.nonzero.memory,
                other => p.requests.extended(other).into(),
            };
            let all = allocatable(node, name);
            if all == 0 || (!["cpu", "memory"].contains(name) && nonzero(pod) == 0) {
                continue;
            }
            let value = profile.strategy.value(self.sum(node, nonzero) + nonzero(pod), all);
            if value > 0 || !is_ratio {
                parts.push((value, *weight));
            }
        }
        let (sum, weights): (i64, i64) = parts
            .iter()
            .fold((0, 0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
        match (weights, is_ratio) {
            (0, _) => 0,
            (_, false) => sum / weights,
            (_, true) => (sum as f64 / weights as f64).round() as i64,
        }
    }

    fn balanced(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let request = |p: &PodInfo, name: &str| -> i128 {
            match name {
                "cpu" => p.requests.milli_cpu.into(),
                "memory" => p.requests.memory.into(),
                other => p.requests.extended(other).into(),
            }
        };
        let names = &self.profile.balanced;
        if names.iter().all(|name| request(pod, name) == 0) {
            return 0;
        }
        let balance = |with_pod: i128| {
            let counts = |name: &&&str| {
                let is_wanted = ["cpu", "memory"].contains(*name) || request(pod, name) > 0;
                is_wanted && allocatable(node, name) > 0
            };
            let share = |name: &&str| {
                let used = self.sum(node, |p| request(p, name)) + with_pod * request(pod, name);
                f64::min(1.0, used as f64 / allocatable(node, name) as f64)
            };
            let shares: Vec<f64> = names.iter().filter(counts).map(share).collect();
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            let deviation = match &shares[..] {
                [a, b] => f64::abs((a - b) / 2.0),
                [] | [_] => 0.0,
                many => {
                    let squares = many.iter().fold(0.0, |sum, x| sum + (x - mean) * (x - mean));
                    f64::sqrt(squares / many.len() as f64)
                }
            };
            f64::trunc((1.0 - deviation) * 100.0) as i64
        };
        50 + (50 + balance(1) - balance(0)) / 2
    }
}

fn allocatable(node: &NodeInfo, resource: &str) -> i128 {
    match resource {
        "cpu" => node.allocatable.milli_cpu.into(),
        "memory" => node.allocatable.memory.into(),
        other => node.allocatable.extended(other).into(),
    }
}

fn zone(node: &NodeInfo) -> String {
    let label = |name: &str| node.labels.get(name).cloned().unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

fn untolerated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let avoid =
        |t: &&Taint| t.effect == Effect::PreferNoSchedule && !pod.tolerations.iter().any(|x| x.covers(t));
    node.taints.iter().filter(avoid).count() as i64
}

fn preferred(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let wishes = pod.affinity.preferred.iter();
    wishes.filter(|p| p.term.matches(&node.name, &node.labels)).map(|p| p.weight).sum()
}

fn message(nodes: usize, refused: &[Vec<String>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refused.iter().flatten() {
        *counts.entry(reason).or_default() += 1;
    }
    if nodes > refused.len() {
        counts.insert("node(s) didn't satisfy plugin(s) [NodeAffinity]", nodes - refused.len());
    }
    let mut texts: Vec<String> = counts.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    texts.sort();
    format!("0/{nodes} nodes are available: {}.", texts.join(", "))
}

/// The index of the total at the root, after a heap with the greatest total at its root is made from the totals in their order.
fn heap_root(totals: &[i64]) -> usize {
    let mut heap: Vec<usize> = (0..totals.len()).collect();
    for top in (0..heap.len() / 2).rev() {
        let mut at = top;
        loop {
            let children = (2 * at + 1..2 * at + 3).filter(|child| *child < heap.len());
            let Some(greatest) = children.rev().max_by_key(|child| totals[heap[*child]]) else { break };
            if totals[heap[greatest]] <= totals[heap[at]] {
                break;
            }
            heap.swap(at, greatest);
            at = greatest;
        }
    }
    heap[0]
}
