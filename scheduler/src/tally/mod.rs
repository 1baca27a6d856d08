//! [`Tally`]: the pods on each node and in each zone that a selector selects. The cache keeps the tallies of recent
//! selectors up to date as pods and nodes come and go, so that a decision counts no pods.

use crate::limits::TALLIES;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::pod::PodInfo;
use crate::pod_constraints::LabelSelector;
use crate::zones::Location;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The numbers of selected pods.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By index of the node, whether the node object exists or not.
    nodes: Vec<u32>,
    /// By number of the zone, over the nodes that exist.
    zones: Vec<u32>,
    /// The number of the last use.
    used: u64,
}

impl Tally {
    /// Counts the pods of the namespace on `nodes`.
    pub fn of<'a>(
        nodes: impl Iterator<Item = &'a NodeState>,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Self {
        let mut tally = Self::default();
        for node in nodes {
            let pods = node.pods().iter().filter(|pod| pod.key.namespace() == namespace);
            let count = pods.filter(|pod| is_selected(pod, selector)).count();
            tally.change(node.location(), |before| before + count as u32);
        }
        tally
    }

    fn change(&mut self, at: Location, count: impl Fn(u32) -> u32) {
        let changed = |counts: &mut Vec<u32>, at: usize| {
            let after = count(counts.get(at).copied().unwrap_or(0));
            // Most selectors have pods on few nodes.
            if after > 0 && counts.len() <= at {
                counts.resize(at + 1, 0);
            }
            if let Some(count) = counts.get_mut(at) {
                *count = after;
            }
        };
        changed(&mut self.nodes, at.index);
        if let Some(zone) = at.zone {
            changed(&mut self.zones, zone);
        }
    }

    /// Moves the pods of a node to another zone.
    fn move_node(&mut self, index: usize, from: Option<usize>, to: Option<usize>) {
        let count = self.nodes.get(index).copied().unwrap_or(0);
        if count > 0 {
            if let Some(from) = from {
                self.zones[from] -= count;
            }
            if let Some(to) = to {
                self.zones.resize(self.zones.len().max(to + 1), 0);
                self.zones[to] += count;
            }
        }
    }

    /// The number of selected pods on the node with this index.
    pub fn on(&self, index: usize) -> i64 {
        self.nodes.get(index).copied().unwrap_or(0).into()
    }

    /// The number of selected pods in the zone with this number.
    pub fn in_zone(&self, zone: usize) -> i64 {
        self.zones.get(zone).copied().unwrap_or(0).into()
    }

    /// The indices of the nodes with selected pods, and their number.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, i64)> {
        let occupied = self.nodes.iter().enumerate().filter(|(_, count)| **count > 0);
        occupied.map(|(index, count)| (index, i64::from(*count)))
    }
}

/// The value of a label; empty without it.
pub fn label<'a>(node: &'a NodeInfo, key: &str) -> &'a str {
    node.labels.get(key).map_or("", String::as_str)
}

/// Whether the selector counts the pod. A pod that is being deleted does not count, and the empty selector, which
/// selects every pod elsewhere, counts none: kube-scheduler's rule for topology spread.
fn is_selected(pod: &PodInfo, selector: &LabelSelector) -> bool {
    !pod.deleting && !selector.is_empty() && selector.matches(&pod.labels)
}

/// The tallies of recent selectors by namespace.
#[derive(Debug, Default)]
pub struct Tallies {
    namespaces: BTreeMap<String, BTreeMap<LabelSelector, Tally>>,
    count: usize,
    uses: u64,
    /// The generation of the cache of nodes and pods that the tallies describe.
    generation: u64,
}

impl Tallies {
    /// Keeps the tally of a selector from now on. `nodes` gives all nodes with their pods; it is called if the tally is
    /// not known, which costs all pods. Then the least recently used tally above [`TALLIES`] is dropped.
    pub fn keep<'a, N: Iterator<Item = &'a NodeState>>(
        &mut self,
        namespace: &str,
        selector: &LabelSelector,
        nodes: impl FnOnce() -> N,
    ) {
        self.uses += 1;
        if let Some(tally) = self.namespaces.get_mut(namespace).and_then(|all| all.get_mut(selector)) {
            tally.used = self.uses;
            return;
        }
        let tally = Tally { used: self.uses, ..Tally::of(nodes(), namespace, selector) };
        self.namespaces.entry(namespace.to_owned()).or_default().insert(selector.clone(), tally);
        self.count += 1;
        if self.count > TALLIES {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.iter().min_by_key(|(_, _, tally)| tally.used);
        let (namespace, selector) = oldest
            .map(|(namespace, selector, _)| (namespace.to_owned(), selector.clone()))
            .expect("there are tallies");
        let all = self.namespaces.get_mut(&namespace).expect("the tally was found there");
        all.remove(&selector);
        if all.is_empty() {
            self.namespaces.remove(&namespace);
        }
        self.count -= 1;
    }

    /// The tallies with their namespace and selector.
    fn iter(&self) -> impl Iterator<Item = (&str, &LabelSelector, &Tally)> {
        let all = self.namespaces.iter();
        all.flat_map(|(ns, all)| all.iter().map(move |(selector, tally)| (ns.as_str(), selector, tally)))
    }

    /// Counts a pod that is now on a node. Costs the tallies of the pod's namespace.
    pub fn add(&mut self, pod: &PodInfo, at: Location) {
        self.selecting(pod).for_each(|tally| tally.change(at, |count| count + 1));
    }

    /// Counts no longer a pod that was on a node.
    pub fn remove(&mut self, pod: &PodInfo, at: Location) {
        self.selecting(pod).for_each(|tally| tally.change(at, |count| count - 1));
    }

    fn selecting(&mut self, pod: &PodInfo) -> impl Iterator<Item = &mut Tally> {
        let all = self.namespaces.get_mut(pod.key.namespace()).into_iter().flatten();
        all.filter(|(selector, _)| is_selected(pod, selector)).map(|(_, tally)| tally)
    }

    /// Processes a change of the zone of a node; `None` if it did not or does not exist.
    pub fn move_node(&mut self, index: usize, from: Option<usize>, to: Option<usize>) {
        if from != to {
            let all = self.namespaces.values_mut().flat_map(BTreeMap::values_mut);
            all.for_each(|tally| tally.move_node(index, from, to));
        }
    }

    /// Records that the tallies describe this generation of the cache.
    pub fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// The tally of a selector over the nodes of a snapshot of this generation: the kept one, or counted now.
    pub fn tally(
        &self,
        generation: u64,
        nodes: &[NodeState],
        namespace: &str,
        selector: &LabelSelector,
    ) -> Cow<'_, Tally> {
        let all = self.namespaces.get(namespace).filter(|_| self.generation == generation);
        match all.and_then(|all| all.get(selector)) {
            Some(tally) => Cow::Borrowed(tally),
            None => Cow::Owned(Tally::of(nodes.iter(), namespace, selector)),
        }
    }
}

#[cfg(test)]
mod tests;
