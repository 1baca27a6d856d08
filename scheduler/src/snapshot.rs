//! The nodes as one decision sees them: a list in order of search, brought up to date from the cache by copying only the
//! nodes that changed.

use std::sync::Arc;

use kstore_nondet::HashMap;

use crate::cache::{Cache, NodeState};
use crate::companions::Namespaces;

/// See the module.
#[derive(Default)]
pub struct Snapshot {
    nodes: Vec<NodeState>,
    slots: HashMap<Arc<str>, usize>,
    namespaces: Arc<Namespaces>,
    /// How many nodes have pods with required anti-affinity terms.
    shunning_nodes: usize,
    generation: u64,
    order_generation: u64,
}

impl Snapshot {
    /// Brings the snapshot up to date: O(nodes changed), or O(nodes) when nodes came, went or moved between zones. A
    /// snapshot follows one cache.
    pub fn update(&mut self, cache: &Cache) {
        if self.order_generation == cache.order_generation() {
            for state in cache.changed_since(self.generation) {
                let slot = self.slots[&state.info().name];
                let node = &mut self.nodes[slot];
                self.shunning_nodes -= usize::from(node.shunning_pods() > 0);
                node.clone_from(state);
                self.shunning_nodes += usize::from(node.shunning_pods() > 0);
            }
        } else {
            self.nodes = cache.nodes().cloned().collect();
            let names = self.nodes.iter().map(|node| Arc::clone(&node.info().name));
            self.slots = names.enumerate().map(|(slot, name)| (name, slot)).collect();
            self.shunning_nodes = self.nodes.iter().filter(|node| node.shunning_pods() > 0).count();
            self.order_generation = cache.order_generation();
        }
        self.generation = cache.generation();
        self.namespaces = Arc::clone(cache.namespaces());
    }

    /// The nodes, in order of search.
    pub fn nodes(&self) -> &[NodeState] {
        &self.nodes
    }

    /// The labels of the namespaces.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Whether any pod on any node has required anti-affinity terms.
    pub fn anyone_shuns(&self) -> bool {
        self.shunning_nodes > 0
    }

    /// The place of the node of this name.
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.slots.get(name).copied()
    }

    /// The cache's generation that the snapshot shows.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
