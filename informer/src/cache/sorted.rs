//! [`Sorted`]: a persistent sorted map. A clone is one reference count, and a writer copies only the parts
//! that a clone still shares.
//!
//! Two levels: a vector of leaves, each a sorted vector of at most [`LEAF`] entries. Without a live clone,
//! writes are in place. With one, the first write copies the top vector and each leaf that it touches.
//! Indexes use it for their values. Suits up to some hundred thousand entries.

use std::{borrow::Borrow, sync::Arc};

/// Entries of a full leaf. Large enough for a short top vector, small enough that a copy costs a microsecond.
const LEAF: usize = 64;
/// A leaf that shrinks below this is merged with its right neighbour when both fit in half a leaf.
const SPARSE: usize = LEAF / 4;

type Leaf<K, V> = Vec<(K, V)>;

/// Persistent sorted map. Leaves are never empty.
pub(crate) struct Sorted<K, V> {
    leaves: Arc<Vec<Arc<Leaf<K, V>>>>,
}

impl<K, V> Clone for Sorted<K, V> {
    fn clone(&self) -> Self {
        Self { leaves: self.leaves.clone() }
    }
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self { leaves: Arc::default() }
    }
}

impl<K: Ord + Clone, V: Clone> Sorted<K, V> {
    /// A map of sorted, unique entries.
    pub(crate) fn from_sorted(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        let mut leaves: Vec<Arc<Leaf<K, V>>> = Vec::new();
        let mut leaf = Vec::new();
        for entry in entries {
            leaf.push(entry);
            if leaf.len() == LEAF * 3 / 4 {
                leaves.push(Arc::new(std::mem::take(&mut leaf)));
            }
        }
        if !leaf.is_empty() {
            leaves.push(Arc::new(leaf));
        }
        Self { leaves: Arc::new(leaves) }
    }

    /// The leaf that may contain `key`, and the position of the key or its insertion point.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(usize, Result<usize, usize>)>
    where
        K: Borrow<Q>,
    {
        let after = self.leaves.partition_point(|leaf| leaf[0].0.borrow() <= key);
        let at = after.saturating_sub(1);
        let leaf = self.leaves.get(at)?;
        Some((at, leaf.binary_search_by(|(k, _)| k.borrow().cmp(key))))
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (leaf, place) = self.find(key)?;
        Some(&self.leaves[leaf][place.ok()?].1)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (leaf, place) = self.find(key)?;
        let place = place.ok()?;
        let leaf = Arc::make_mut(&mut Arc::make_mut(&mut self.leaves)[leaf]);
        Some(&mut leaf[place].1)
    }

    /// Inserts `value` and returns the replaced one. The key of an existing entry stays.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some((at, place)) = self.find(&key) else {
            *self = Self::from_sorted([(key, value)]);
            return None;
        };
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = Arc::make_mut(&mut leaves[at]);
        match place {
            Ok(place) => Some(std::mem::replace(&mut leaf[place].1, value)),
            Err(place) => {
                leaf.insert(place, (key, value));
                if leaf.len() > LEAF {
                    // Keys often arrive in ascending order: leave the left leaf fuller.
                    let right = leaf.split_off(LEAF * 3 / 4);
                    leaves.insert(at + 1, Arc::new(right));
                }
                None
            }
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let (at, place) = self.find(key)?;
        let place = place.ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = Arc::make_mut(&mut leaves[at]);
        let entry = leaf.remove(place);
        let left = leaf.len();
        if left == 0 {
            leaves.remove(at);
        } else if left < SPARSE && leaves.get(at + 1).is_some_and(|next| next.len() + left <= LEAF / 2) {
            let next = leaves.remove(at + 1);
            Arc::make_mut(&mut leaves[at]).extend(next.iter().cloned());
        }
        Some(entry)
    }

    /// Entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.leaves.iter().flat_map(|leaf| leaf.iter().map(|(k, v)| (k, v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_behaves_as_a_btree_map_and_clones_never_change(
            ops in prop::collection::vec((0u16..400, any::<Option<u8>>(), prop::bool::weighted(0.02)), 0..1500)
        ) {
            let (mut ours, mut model) = (Sorted::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for (key, value, keep) in ops {
                match value {
                    Some(value) => prop_assert_eq!(ours.insert(key, value), model.insert(key, value)),
                    None => prop_assert_eq!(ours.remove(&key), model.remove_entry(&key)),
                }
                if keep {
                    clones.push((ours.clone(), model.clone()));
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                prop_assert!(ours.iter().eq(model.iter()));
                for key in (0..400).step_by(7) {
                    prop_assert_eq!(ours.get(&key), model.get(&key));
                }
                prop_assert!(Sorted::from_sorted(model.clone()).iter().eq(model.iter()));
            }
        }
    }
}
