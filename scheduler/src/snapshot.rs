//! The nodes as one decision sees them: a list in search order, updated from the cache by copying only the
//! changed nodes.
//!
//! The list is in the order that the cache had when a node was last new or gone. As in kube-scheduler, a node that moves to
//! another zone keeps its place until then, and so does one that was replaced between two decisions by one of the same name.

use crate::cache::Cache;
use crate::node_state::NodeState;
use crate::pod_constraints::Namespaces;
use kstore_nondet::HashMap;
use std::sync::Arc;

/// A copy of the cache's nodes in search order.
#[derive(Default)]
pub struct Snapshot {
    nodes: Vec<NodeState>,
    slots: HashMap<Arc<str>, usize>,
    /// The slots by index of the node; `usize::MAX` for an index that no node has.
    by_index: Vec<usize>,
    namespaces: Arc<Namespaces>,
    /// The number of nodes with pods that have required anti-affinity terms.
    anti_affinity_nodes: usize,
    /// The number of nodes with pods that have affinity or anti-affinity terms.
    term_nodes: usize,
    generation: u64,
    order_generation: u64,
}

impl Snapshot {
    /// Updates the snapshot: O(changed nodes), or O(nodes) after nodes were added or removed. A snapshot follows one cache.
    pub fn update(&mut self, cache: &Cache) {
        if self.order_generation == cache.order_generation() {
            for state in cache.changed_since(self.generation) {
                let node = &mut self.nodes[self.by_index[state.location().index]];
                self.anti_affinity_nodes -= usize::from(node.anti_affinity_pods() > 0);
                self.term_nodes -= usize::from(!node.pods_with_terms().is_empty());
                node.copy_from(state);
                self.anti_affinity_nodes += usize::from(node.anti_affinity_pods() > 0);
                self.term_nodes += usize::from(!node.pods_with_terms().is_empty());
            }
        } else {
            let mut nodes: Vec<NodeState> = cache.nodes().cloned().collect();
            let place = |node: &NodeState| self.slots.get(&node.info().name);
            if nodes.len() == self.slots.len() && nodes.iter().all(|node| place(node).is_some()) {
                nodes.sort_by_key(place);
            }
            self.nodes = nodes;
            let names = self.nodes.iter().map(|node| Arc::clone(&node.info().name));
            self.slots = names.enumerate().map(|(slot, name)| (name, slot)).collect();
            self.by_index.clear();
            for (slot, node) in self.nodes.iter().enumerate() {
                let index = node.location().index;
                self.by_index.resize(self.by_index.len().max(index + 1), usize::MAX);
                self.by_index[index] = slot;
            }
            self.anti_affinity_nodes = self.nodes.iter().filter(|node| node.anti_affinity_pods() > 0).count();
            self.term_nodes = self.nodes.iter().filter(|node| !node.pods_with_terms().is_empty()).count();
            self.order_generation = cache.order_generation();
        }
        self.generation = cache.generation();
        self.namespaces = Arc::clone(cache.namespaces());
    }

    /// The nodes in search order.
    pub fn nodes(&self) -> &[NodeState] {
        &self.nodes
    }

    /// The labels of the namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Whether any pod on any node has required anti-affinity terms.
    pub fn has_anti_affinity(&self) -> bool {
        self.anti_affinity_nodes > 0
    }

    /// Whether any pod on any node has pod affinity or anti-affinity terms.
    pub fn has_pod_terms(&self) -> bool {
        self.term_nodes > 0
    }

    /// The node with this index of its [location](crate::zones::Location), if it exists.
    pub fn at_index(&self, index: usize) -> Option<&NodeState> {
        self.nodes.get(*self.by_index.get(index)?)
    }

    /// The index of the node of this name.
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.slots.get(name).copied()
    }

    /// The generation of the cache at the last update.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeInfo;

    fn names(snapshot: &Snapshot) -> String {
        snapshot.nodes().iter().map(|node| node.info().name.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// kube-scheduler makes its list of nodes anew only when a name is new in it or gone.
    #[test]
    fn a_node_that_moves_to_another_zone_keeps_its_place_until_a_node_is_new_or_gone() {
        let node = |name: &str, zone: &str| {
            let labels = [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
            Arc::new(NodeInfo { labels, ..NodeInfo::named(name) })
        };
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            cache.set_node(node(name, zone));
        }
        snapshot.update(&cache);
        assert_eq!(names(&snapshot), "a1 b1 a2");
        // Alone in its zone, which is the last one now.
        cache.set_node(node("a1", "c"));
        snapshot.update(&cache);
        assert_eq!(names(&snapshot), "a1 b1 a2");
        assert_eq!(snapshot.nodes()[0].info().labels.values().next().unwrap(), "c");
        assert_eq!(snapshot.slot("a2"), Some(2));
        // Replaced between two decisions by a node of the same name.
        cache.remove_node("b1");
        cache.set_node(node("b1", "a"));
        snapshot.update(&cache);
        assert_eq!(names(&snapshot), "a1 b1 a2");
        let index = snapshot.nodes()[1].location().index;
        assert_eq!(snapshot.at_index(index).unwrap().info().name, snapshot.nodes()[1].info().name);
        // With a new node the others have the places of their zones.
        cache.set_node(node("c1", "c"));
        snapshot.update(&cache);
        assert_eq!(names(&snapshot), "a2 a1 b1 c1");
        cache.remove_node("a2");
        snapshot.update(&cache);
        assert_eq!(names(&snapshot), "b1 a1 c1");
    }
}
