//! [`Location`]: a node's place in the topology as small numbers, so that scores compare no strings for each node.
//! `Zones` numbers the zones.

use crate::node::{NodeInfo, ZONE};
use kstore_nondet::HashMap;

/// The label whose values name nodes: each node is a domain.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node's place in the topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The number of the node: unique among the nodes of a cache, and below the largest number of nodes so far.
    pub index: usize,
    /// The number of the node's zone, by the value of its label; `None` if the node object does not exist. Nodes
    /// without the label are in the zone with the empty name.
    pub zone: Option<usize>,
    /// Whether the node has the label of a zone.
    pub is_zoned: bool,
    /// Whether the node has the label of a host name.
    pub has_hostname: bool,
}

impl Location {
    /// Whether `node`, which is here, has the label.
    pub fn has_label(&self, node: &NodeInfo, key: &str) -> bool {
        match key {
            HOSTNAME => self.has_hostname,
            ZONE => self.is_zoned,
            _ => node.labels.contains_key(key),
        }
    }
}

/// The zones with nodes, numbered. A number is used again when the last node has left its zone.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    numbers: HashMap<String, usize>,
    /// The number of nodes by number of the zone.
    nodes: Vec<usize>,
    free: Vec<usize>,
}

impl Zones {
    /// The location of a node that is now in its zone.
    pub(crate) fn enter(&mut self, node: &NodeInfo, index: usize) -> Location {
        let label = node.labels.get(ZONE);
        let name = label.map_or("", String::as_str);
        let zone = match self.numbers.get(name) {
            Some(zone) => *zone,
            None => {
                let zone = self.free.pop().unwrap_or(self.nodes.len());
                self.nodes.resize(self.nodes.len().max(zone + 1), 0);
                self.numbers.insert(name.to_owned(), zone);
                zone
            }
        };
        self.nodes[zone] += 1;
        let has_hostname = node.labels.contains_key(HOSTNAME);
        Location { index, zone: Some(zone), is_zoned: label.is_some(), has_hostname }
    }

    /// Removes a node from its zone. The node must have the labels that it entered with.
    pub(crate) fn leave(&mut self, node: &NodeInfo) {
        let name = node.labels.get(ZONE).map_or("", String::as_str);
        let zone = self.numbers[name];
        self.nodes[zone] -= 1;
        if self.nodes[zone] == 0 {
            self.numbers.remove(name);
            self.free.push(zone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_zone_without_nodes_is_used_again() {
        let node = |zone: &str| {
            let labels = [(ZONE.to_owned(), zone.to_owned())].into();
            NodeInfo { labels, ..NodeInfo::named("n") }
        };
        let mut zones = Zones::default();
        let enter = |zones: &mut Zones, name: &str| zones.enter(&node(name), 0).zone.unwrap();
        assert_eq!(["a", "b", "a"].map(|name| enter(&mut zones, name)), [0, 1, 0]);
        zones.leave(&node("a"));
        assert_eq!(enter(&mut zones, "c"), 2, "a node is left in zone a");
        zones.leave(&node("a"));
        assert_eq!(["d", "b"].map(|name| enter(&mut zones, name)), [0, 1]);
        let unlabelled = zones.enter(&NodeInfo::named("n"), 7);
        assert_eq!(unlabelled, Location { index: 7, zone: Some(3), is_zoned: false, has_hostname: false });
    }
}
