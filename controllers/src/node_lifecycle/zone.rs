//! Eviction rate of nodes: the health of zones, and a token bucket per zone. Pure.

use super::plan::{Readiness, readiness};
use crate::view::elapsed;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Nodes per second that may be evicted in a healthy zone.
const NORMAL_RATE: f64 = 0.1;
/// Nodes per second that may be evicted in a large, mostly unhealthy zone.
const CAREFUL_RATE: f64 = 0.01;
/// Number of nodes above which a zone is large.
const LARGE: usize = 50;
/// Percentage of unready nodes from which a zone is mostly unhealthy, if there are more than two.
const MUCH_PERCENT: usize = 55;

/// The counted nodes of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Zone {
    /// Number of ready nodes.
    ready: usize,
    /// Names of unready nodes.
    down: BTreeSet<String>,
}

/// Ready and unready nodes per zone, updated by node: when a thousand nodes fail, each changes the counts
/// once and reads them many times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zones {
    zones: BTreeMap<String, Zone>,
    /// The zone of each counted node, and whether it counts as ready.
    nodes: BTreeMap<String, (String, bool)>,
    /// Ready nodes of all zones.
    ready: usize,
}

/// Name of a node's zone; empty without labels.
pub(crate) fn zone_of(node: &Node) -> String {
    let label = |key| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map_or("", String::as_str);
    match (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone")) {
        ("", "") => String::new(),
        (region, zone) => format!("{region}:{zone}"),
    }
}

impl Zone {
    fn rate(&self) -> f64 {
        let (ready, down) = (self.ready, self.down.len());
        let partial = ready > 0 && down > 2 && down * 100 >= (ready + down) * MUCH_PERCENT;
        match partial {
            false => NORMAL_RATE,
            true if ready + down > LARGE => CAREFUL_RATE,
            true => 0.0,
        }
    }
}

impl Zones {
    /// Updates the state of a node; `None` for a removed one. A node with the exclusion label is not counted.
    ///
    /// Returns the unready nodes whose eviction rate changed, which few updates cause.
    pub(crate) fn observe(&mut self, name: &str, node: Option<&Node>) -> Vec<String> {
        let excluded = |node: &Node| {
            let labels = node.metadata.labels.as_ref();
            labels.is_some_and(|l| l.contains_key("node.kubernetes.io/exclude-disruption"))
        };
        let new = node.filter(|node| !excluded(node));
        let new = new.map(|node| (zone_of(node), readiness(node) == Readiness::Ready));
        let old = self.nodes.get(name).cloned();
        if old == new {
            return vec![];
        }
        let mut changed: Vec<String> = old.iter().chain(&new).map(|(zone, _)| zone.clone()).collect();
        changed.dedup();
        let before = (self.all_down(), self.rates(&changed));
        self.forget(name, old);
        self.count(name, new);
        let (all_down, rates) = (self.all_down(), self.rates(&changed));
        let turned: Vec<&str> = match before.0 == all_down {
            false => self.zones.keys().map(String::as_str).collect(),
            true => {
                let rates = before.1.iter().zip(&rates);
                changed
                    .iter()
                    .zip(rates)
                    .filter(|(_, (a, b))| a != b)
                    .map(|(zone, _)| zone.as_str())
                    .collect()
            }
        };
        turned
            .into_iter()
            .filter_map(|zone| self.zones.get(zone))
            .flat_map(|zone| &zone.down)
            .cloned()
            .collect()
    }

    fn forget(&mut self, name: &str, old: Option<(String, bool)>) {
        let Some((zone, ready)) = old else { return };
        self.nodes.remove(name);
        self.ready -= usize::from(ready);
        if let Some(counted) = self.zones.get_mut(&zone) {
            counted.ready -= usize::from(ready);
            counted.down.remove(name);
            if *counted == Zone::default() {
                self.zones.remove(&zone);
            }
        }
    }

    fn count(&mut self, name: &str, new: Option<(String, bool)>) {
        let Some((zone, ready)) = new else { return };
        let counted = self.zones.entry(zone.clone()).or_default();
        counted.ready += usize::from(ready);
        if !ready {
            counted.down.insert(name.to_owned());
        }
        self.ready += usize::from(ready);
        self.nodes.insert(name.to_owned(), (zone, ready));
    }

    fn rates(&self, zones: &[String]) -> Vec<f64> {
        zones.iter().map(|zone| self.zones.get(zone).map_or(NORMAL_RATE, Zone::rate)).collect()
    }

    /// Whether no node is ready: more likely the controller is disconnected.
    pub(crate) fn all_down(&self) -> bool {
        self.ready == 0
    }

    /// Nodes per second that may be evicted in the zone of `node`.
    pub(crate) fn rate_of(&self, node: &Node) -> f64 {
        self.zones.get(&zone_of(node)).map_or(NORMAL_RATE, Zone::rate)
    }
}

/// A token bucket with one token.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter {
    last: Option<Timestamp>,
}

impl Limiter {
    /// Takes the token, or returns the wait for the next (`None`: never at this rate).
    pub(crate) fn take(&mut self, rate: f64, now: Timestamp) -> Result<(), Option<Duration>> {
        if rate <= 0.0 {
            return Err(None);
        }
        let period = Duration::from_secs_f64(1.0 / rate);
        match self.last.map(|last| period.saturating_sub(elapsed(last, now))) {
            Some(left) if !left.is_zero() => Err(Some(left)),
            _ => {
                self.last = Some(now);
                Ok(())
            }
        }
    }
}
