//! A reference implementation of the decision: slow, without cache and snapshot, written from the rules
//! alone. Tests compare the fast decision with it. Both share only the input types and the matching of
//! tolerations and affinity terms, which have tests of their own.

mod score;

use crate::decide::Terms;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::{AffinityTerm, LabelSelector, Namespaces};
use crate::taint::{Effect, Taint};
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
        let contradicts = pod.affinity.pinned.as_ref().is_some_and(Vec::is_empty);
        if let Some(node) = nominated
            && !contradicts
            && self.reasons(pod, node).is_empty()
        {
            return (self.best(pod, &[*node], terms.tie), (terms.start + 1) % all.len());
        }
        let mut candidates = all.clone();
        if let Some(names) = &pod.affinity.pinned {
            if names.is_empty() {
                let message = format!("0/{} nodes are available: pod affinity terms conflict.", all.len());
                return (ReferenceDecision::Nowhere { message }, terms.start);
            }
            candidates.retain(|node| names.iter().any(|name| **name == *node.name));
            candidates.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let (feasible, refused) = self.filter(pod, &candidates, terms);
        let next = (terms.start + feasible.len() + refused.len()) % all.len();
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
        let wanted = if n < 100 {
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
        let tolerates = |key: &str, value: &str, effect| {
            let taint = Taint { key: key.to_owned(), value: value.to_owned(), effect };
            pod.tolerations.iter().any(|t| t.covers(&taint))
        };
        if node.unschedulable && !tolerates("node.kubernetes.io/unschedulable", "", Effect::NoSchedule) {
            return vec!["node(s) were unschedulable".to_owned()];
        }
        if pod.node_name.as_ref().is_some_and(|name| *name != node.name) {
            return vec!["node(s) didn't match the requested node name".to_owned()];
        }
        for taint in &node.taints {
            if taint.effect != Effect::PreferNoSchedule && !tolerates(&taint.key, &taint.value, taint.effect)
            {
                return vec!["node(s) had untolerated taint(s)".to_owned()];
            }
        }
        let labelled = pod.affinity.selector.iter().all(|(k, v)| node.labels.get(k) == Some(v));
        let required = pod.affinity.required.as_ref();
        let termed = required.is_none_or(|terms| terms.iter().any(|t| t.matches(&node.name, &node.labels)));
        if !labelled || !termed {
            return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
        }
        let on_node = self.pods_on(node);
        let taken = on_node.iter().flat_map(|p| &p.ports);
        if taken.clone().any(|t| pod.ports.iter().any(|p| p.conflicts_with(t))) {
            return vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
        }
        let shortages = self.shortages(pod, node);
        if !shortages.is_empty() {
            return shortages;
        }
        let reason = self.spread_conflict(pod, node).or_else(|| self.affinity_conflict(pod, node));
        reason.map(str::to_owned).into_iter().collect()
    }

    fn spread_conflict(&self, pod: &PodInfo, node: &NodeInfo) -> Option<&'static str> {
        for spread in &pod.spread {
            let key = &spread.topology_key;
            let Some(here) = node.labels.get(key) else {
                return Some("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
            for other in &self.nodes {
                let everywhere = pod.spread.iter().all(|s| other.labels.contains_key(&s.topology_key));
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
        for (name, _) in pod.requests.iter_extended() {
            check(name, &|p| p.requests.extended(name).into(), node.allocatable.extended(name));
        }
        reasons
    }

    fn best(&self, pod: &PodInfo, feasible: &[&NodeInfo], tie: u64) -> ReferenceDecision {
        if let [only] = feasible {
            return ReferenceDecision::Node { name: Arc::clone(&only.name), total: 0, best: 1, feasible: 1 };
        }
        let taints: Vec<i64> = feasible.iter().map(|node| untolerated(pod, node)).collect();
        let wishes: Vec<i64> = feasible.iter().map(|node| preferred(pod, node)).collect();
        let (most_taints, most_wishes) = (taints.iter().max().copied(), wishes.iter().max().copied());
        let share = |x: i64, max: Option<i64>| max.filter(|m| *m > 0).map_or(0, |m| 100 * x / m);
        let mut totals = Vec::new();
        for (i, node) in feasible.iter().enumerate() {
            let taint = 100 - share(taints[i], most_taints);
            let wish = share(wishes[i], most_wishes);
            totals.push(3 * taint + 2 * wish + self.least_allocated(pod, node) + self.balanced(pod, node));
            totals[i] += self.image_locality(pod, node);
        }
        for scores in [self.soft_spread(pod, feasible), self.soft_affinity(pod, feasible)] {
            totals.iter_mut().zip(scores).for_each(|(total, score)| *total += 2 * score);
        }
        let highest = totals.iter().copied().max().unwrap();
        let best: Vec<usize> = (0..totals.len()).filter(|i| totals[*i] == highest).collect();
        let chosen = feasible[best[(tie % best.len() as u64) as usize]];
        ReferenceDecision::Node {
            name: Arc::clone(&chosen.name),
            total: highest,
            best: best.len(),
            feasible: feasible.len(),
        }
    }

    fn least_allocated(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let cpu = self.sum(node, |p| p.nonzero.milli_cpu) + pod.nonzero.milli_cpu;
        let memory = self.sum(node, |p| p.nonzero.memory) + pod.nonzero.memory;
        let mut parts = Vec::new();
        for (used, all) in
            [(cpu, i128::from(node.allocatable.milli_cpu)), (memory, i128::from(node.allocatable.memory))]
        {
            if all > 0 {
                parts.push(if used > all { 0 } else { (all - used) * 100 / all });
            }
        }
        if parts.is_empty() { 0 } else { (parts.iter().sum::<i128>() / parts.len() as i128) as i64 }
    }

    fn balanced(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        if pod.requests.milli_cpu == 0 && pod.requests.memory == 0 {
            return 0;
        }
        let (cpu, memory) =
            (self.sum(node, |p| p.requests.milli_cpu.into()), self.sum(node, |p| p.requests.memory.into()));
        let balance = |cpu: i128, memory: i128| {
            let all = &node.allocatable;
            let share = |used: i128, all: i64| f64::min(1.0, used as f64 / all as f64);
            let std = if all.milli_cpu == 0 || all.memory == 0 {
                0.0
            } else {
                f64::abs((share(cpu, all.milli_cpu) - share(memory, all.memory)) / 2.0)
            };
            f64::trunc((1.0 - std) * 100.0) as i64
        };
        let with =
            balance(cpu + i128::from(pod.requests.milli_cpu), memory + i128::from(pod.requests.memory));
        50 + (50 + with - balance(cpu, memory)) / 2
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
