//! The search order of nodes: zones take turns in the order of their first node, and the nodes of a zone come
//! in order of arrival. Neighbours are therefore in different zones where possible, and sampling stays fair.

use crate::node::NodeInfo;
use std::sync::Arc;

type Zone = Option<(String, String)>;

/// The node names in search order, grouped by zone.
#[derive(Debug, Default)]
pub(crate) struct NodeOrder {
    zones: Vec<(Zone, Vec<Arc<str>>)>,
}

impl NodeOrder {
    /// Appends a node to its zone. The caller ensures that the node is not in the order yet.
    pub(crate) fn add(&mut self, node: &NodeInfo) {
        let zone = zone(node);
        let name = Arc::clone(&node.name);
        match self.zones.iter_mut().find(|(z, _)| *z == zone) {
            Some((_, names)) => names.push(name),
            None => self.zones.push((zone, vec![name])),
        }
    }

    /// Removes a node; a zone without nodes loses its turn. The node must have the labels that it had when it
    /// was added.
    pub(crate) fn remove(&mut self, node: &NodeInfo) {
        let zone = zone(node);
        if let Some((_, names)) = self.zones.iter_mut().find(|(z, _)| *z == zone) {
            names.retain(|name| *name != node.name);
        }
        self.zones.retain(|(_, names)| !names.is_empty());
    }

    /// The names in search order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<str>> {
        let rounds = self.zones.iter().map(|(_, names)| names.len()).max().unwrap_or(0);
        (0..rounds)
            .flat_map(|round| self.zones.iter().filter_map(move |(_, names)| names.get(round).cloned()))
    }
}

fn zone(node: &NodeInfo) -> Zone {
    node.zone().map(|(region, zone)| (region.to_owned(), zone.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_take_turns() {
        let node = |name: &str, zone: &str| {
            let labels = [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
            NodeInfo { labels, ..NodeInfo::named(name) }
        };
        let mut order = NodeOrder::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")] {
            order.add(&node(name, zone));
        }
        let names = |order: &NodeOrder| order.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&order), "a1 b1 c1 a2 b2 a3");
        order.remove(&node("c1", "c"));
        order.remove(&node("a1", "a"));
        assert_eq!(names(&order), "a2 b1 a3 b2");
    }
}
