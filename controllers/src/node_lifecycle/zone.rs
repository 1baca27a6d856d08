//! How fast nodes may be emptied: the health of zones, and a token bucket per zone. Pure.

use super::plan::{Readiness, readiness};
use crate::view::elapsed;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes per second that are emptied in a zone in normal state.
const NORMAL_RATE: f64 = 0.1;
/// The same while much of a large zone is down.
const CAREFUL_RATE: f64 = 0.01;
/// A zone of more nodes than this is large.
const LARGE: usize = 50;
/// Much of a zone is down from this share on, if it is more than two nodes.
const MUCH_PERCENT: usize = 55;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    ready: usize,
    down: usize,
}

/// How many nodes are ready and down, per zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zones(BTreeMap<String, Count>);

/// The name of a node's zone; empty without labels.
pub(crate) fn zone_of(node: &Node) -> String {
    let label = |key| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map_or("", String::as_str);
    match (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone")) {
        ("", "") => String::new(),
        (region, zone) => format!("{region}:{zone}"),
    }
}

impl Zones {
    /// Counts. Nodes labeled to be left out are.
    pub(crate) fn count<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut zones = Self::default();
        let excluded = |n: &Node| {
            n.metadata
                .labels
                .as_ref()
                .is_some_and(|l| l.contains_key("node.kubernetes.io/exclude-disruption"))
        };
        for node in nodes.into_iter().filter(|n| !excluded(n)) {
            let count = zones.0.entry(zone_of(node)).or_default();
            match readiness(node) {
                Readiness::Ready => count.ready += 1,
                Readiness::NotReady | Readiness::Unknown => count.down += 1,
            }
        }
        zones
    }

    /// No node anywhere is ready: more likely it is us who cannot see.
    pub(crate) fn all_down(&self) -> bool {
        self.0.values().all(|c| c.ready == 0)
    }

    /// Nodes per second that may be emptied in the zone of `node`.
    pub(crate) fn rate_of(&self, node: &Node) -> f64 {
        let Count { ready, down } = self.0.get(&zone_of(node)).copied().unwrap_or_default();
        let partial = ready > 0 && down > 2 && down * 100 >= (ready + down) * MUCH_PERCENT;
        match partial {
            false => NORMAL_RATE,
            true if ready + down > LARGE => CAREFUL_RATE,
            true => 0.0,
        }
    }
}

/// A token bucket of size one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter {
    last: Option<Timestamp>,
}

impl Limiter {
    /// Takes the token, or says how long until there is one (`None`: not at this rate).
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
