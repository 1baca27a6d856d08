//! [`Tally`]: the pods on each node that a selector selects. The scheduler keeps the tallies of recent selectors and
//! counts only changed nodes again, so that the pods of a large Deployment are not all looked at for each new pod.

use std::collections::BTreeMap;

use crate::cache::{Cache, NodeState};
use crate::limits::TALLIES;
use crate::node::{NodeInfo, ZONE};
use crate::pod_constraints::LabelSelector;
use crate::snapshot::Snapshot;

/// The number of selected pods by slot of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of pods and the index of the zone by slot. Slots without selected pods are left out.
    counts: BTreeMap<usize, (i64, usize)>,
    /// The zones by name and their sums; the zone without a name is that of nodes without the label.
    zones: Vec<(String, i64)>,
    generation: u64,
    order_generation: u64,
    /// The number of the last use.
    used: u64,
}

impl Tally {
    /// Counts the pods of the namespace on all nodes.
    pub fn of(snapshot: &Snapshot, namespace: &str, selector: &LabelSelector) -> Self {
        let mut tally = Self {
            generation: snapshot.generation(),
            order_generation: snapshot.order_generation(),
            ..Self::default()
        };
        for (slot, node) in snapshot.nodes().iter().enumerate() {
            tally.set(slot, node, selected(node, namespace, selector));
        }
        tally
    }

    fn set(&mut self, slot: usize, node: &NodeState, count: i64) {
        let before = match count {
            0 => self.counts.remove(&slot),
            count => {
                let zone = self.zone(label(node.info(), ZONE));
                self.zones[zone].1 += count;
                self.counts.insert(slot, (count, zone))
            }
        };
        if let Some((count, zone)) = before {
            self.zones[zone].1 -= count;
        }
    }

    fn zone(&mut self, name: &str) -> usize {
        let known = self.zones.iter().position(|(zone, _)| zone == name);
        known.unwrap_or_else(|| {
            self.zones.push((name.to_owned(), 0));
            self.zones.len() - 1
        })
    }

    /// The number of selected pods on the node at `slot`.
    pub fn on(&self, slot: usize) -> i64 {
        self.counts.get(&slot).map_or(0, |(count, _)| *count)
    }

    /// The slots with selected pods, and their number.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, i64)> {
        self.counts.iter().map(|(slot, (count, _))| (*slot, *count))
    }

    /// The zones with their number of selected pods.
    pub fn zones(&self) -> impl Iterator<Item = (&str, i64)> {
        self.zones.iter().map(|(zone, count)| (zone.as_str(), *count))
    }
}

/// The value of a label; empty without it.
pub fn label<'a>(node: &'a NodeInfo, key: &str) -> &'a str {
    node.labels.get(key).map_or("", String::as_str)
}

/// The number of pods on the node that the selector selects. Pods that are being deleted do not count. The empty
/// selector selects no pod here.
fn selected(node: &NodeState, namespace: &str, selector: &LabelSelector) -> i64 {
    if *selector == LabelSelector::default() {
        return 0;
    }
    let pods = node.pods().iter().filter(|pod| !pod.deleting && pod.key.namespace() == namespace);
    pods.filter(|pod| selector.matches(&pod.labels)).count() as i64
}

/// The tallies of recent selectors.
#[derive(Debug, Default)]
pub struct Tallies {
    all: BTreeMap<(String, LabelSelector), Tally>,
    uses: u64,
}

impl Tallies {
    /// Brings the tally of a selector up to date with `snapshot`, which `cache` has just updated. Costs the pods of the
    /// nodes that changed since the last call for this selector, or all pods at the first call.
    pub fn refresh(&mut self, cache: &Cache, snapshot: &Snapshot, namespace: &str, selector: LabelSelector) {
        self.uses += 1;
        let key = (namespace.to_owned(), selector);
        let known =
            self.all.remove(&key).filter(|tally| tally.order_generation == snapshot.order_generation());
        let mut tally = match known {
            Some(mut tally) => {
                for state in cache.changed_since(tally.generation) {
                    let slot = snapshot.slot(&state.info().name).expect("both have the same nodes");
                    let node = &snapshot.nodes()[slot];
                    tally.set(slot, node, selected(node, namespace, &key.1));
                }
                tally.generation = snapshot.generation();
                tally
            }
            None => Tally::of(snapshot, namespace, &key.1),
        };
        tally.used = self.uses;
        self.all.insert(key, tally);
        if self.all.len() > TALLIES {
            let oldest = self.all.iter().min_by_key(|(_, tally)| tally.used).map(|(key, _)| key.clone());
            self.all.remove(&oldest.expect("there are tallies"));
        }
    }

    /// The tally of a selector, if it was brought up to date with `snapshot`.
    pub fn get(&self, snapshot: &Snapshot, namespace: &str, selector: &LabelSelector) -> Option<&Tally> {
        let tally = self.all.get(&(namespace.to_owned(), selector.clone()))?;
        let stamp = (tally.generation, tally.order_generation);
        (stamp == (snapshot.generation(), snapshot.order_generation())).then_some(tally)
    }
}
