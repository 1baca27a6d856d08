//! [`Slots`]: a persistent vector. A clone is one reference count, and a writer copies only the parts that a
//! clone still shares.
//!
//! Three levels: a root of nodes, nodes of [`NODE`] leaves, leaves of `LEAF` values. Without a live clone,
//! writes are in place. With one, the first write to a slot copies one leaf, one node and the root, which has
//! one entry for `NODE * LEAF` values.

use std::sync::Arc;

/// Leaves of a node. Keeps the root short for a million values and the copy of a node cheap.
const NODE: usize = 64;

type Node<V, const LEAF: usize> = [Arc<[V; LEAF]>; NODE];

/// Persistent vector. Every slot has a value, by default `V::default()`; `LEAF` is the number of values that
/// are copied together.
pub(crate) struct Slots<V, const LEAF: usize>(Arc<Vec<Arc<Node<V, LEAF>>>>);

impl<V, const LEAF: usize> Clone for Slots<V, LEAF> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V, const LEAF: usize> Default for Slots<V, LEAF> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V: Clone + Default, const LEAF: usize> Slots<V, LEAF> {
    /// A vector of at least `len` slots, rounded up to whole nodes.
    pub(crate) fn with_len(len: usize) -> Self {
        let mut slots = Self::default();
        slots.reserve(len);
        slots
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&V> {
        let node = self.0.get(slot / (LEAF * NODE))?;
        Some(&node[slot / LEAF % NODE][slot % LEAF])
    }

    /// The value of a slot for writing; the vector grows to contain it.
    pub(crate) fn get_mut(&mut self, slot: usize) -> &mut V {
        self.reserve(slot + 1);
        let nodes = Arc::make_mut(&mut self.0);
        let node = Arc::make_mut(&mut nodes[slot / (LEAF * NODE)]);
        let leaf = Arc::make_mut(&mut node[slot / LEAF % NODE]);
        &mut leaf[slot % LEAF]
    }

    fn reserve(&mut self, len: usize) {
        if self.0.len() * NODE * LEAF >= len {
            return;
        }
        let nodes = Arc::make_mut(&mut self.0);
        while nodes.len() * NODE * LEAF < len {
            // All leaves of a new node are shared until they are written.
            let leaf: Arc<[V; LEAF]> = Arc::new(std::array::from_fn(|_| V::default()));
            nodes.push(Arc::new(std::array::from_fn(|_| leaf.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_vector_and_clones_never_change(
            ops in prop::collection::vec((0usize..3_000, any::<u8>(), prop::bool::weighted(0.05)), 0..300)
        ) {
            let (mut ours, mut model) = (Slots::<u8, 16>::default(), vec![0; 3_000]);
            let mut clones = Vec::new();
            for (slot, value, keep) in ops {
                *ours.get_mut(slot) = value;
                model[slot] = value;
                if keep {
                    clones.push((ours.clone(), model.clone()));
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                for (slot, value) in model.iter().enumerate() {
                    prop_assert_eq!(ours.get(slot).copied().unwrap_or_default(), *value);
                }
            }
        }
    }
}
