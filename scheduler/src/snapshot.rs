//! The nodes as one decision sees them: a list in order of search, brought up to date from the cache by copying only the
//! nodes that changed.

use std::sync::Arc;

use kstore_nondet::HashMap;

use crate::cache::{Cache, NodeState};

/// See the module.
#[derive(Default)]
pub struct Snapshot {
    nodes: Vec<NodeState>,
    slots: HashMap<Arc<str>, usize>,
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
                self.nodes[slot].clone_from(state);
            }
        } else {
            self.nodes = cache.nodes().cloned().collect();
            let names = self.nodes.iter().map(|node| Arc::clone(&node.info().name));
            self.slots = names.enumerate().map(|(slot, name)| (name, slot)).collect();
            self.order_generation = cache.order_generation();
        }
        self.generation = cache.generation();
    }

    /// The nodes, in order of search.
    pub fn nodes(&self) -> &[NodeState] {
        &self.nodes
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
