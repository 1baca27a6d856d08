//! [`PersistentMap`]: shared values in the order of the keys that they contain. A clone costs one reference
//! count, does not change and blocks no writer, so that a list of a hundred thousand objects holds no lock
//! while it filters and encodes. A change copies its leaf, and only while a clone shares it.

use std::fmt;
use std::sync::{Arc, Weak};

/// Most entries of a leaf. A change copies a leaf that a clone shares, at one reference count per entry.
const LEAF: usize = 256;

/// A leaf with fewer entries is joined with a neighbour if both together are at most half full.
const SPARSE: usize = LEAF / 4;

/// A value that contains its key. The key must not change.
pub trait Keyed {
    /// The key of the value.
    fn key(&self) -> &str;
}

/// Values by key. Cheap to clone.
pub struct PersistentMap<T> {
    leaves: Arc<Vec<Leaf<T>>>,
    len: usize,
}

impl<T> Clone for PersistentMap<T> {
    fn clone(&self) -> Self {
        Self { leaves: self.leaves.clone(), len: self.len }
    }
}

impl<T> Default for PersistentMap<T> {
    fn default() -> Self {
        Self { leaves: Arc::default(), len: 0 }
    }
}

impl<T> fmt::Debug for PersistentMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentMap").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The identity of one state of a map. Does not keep its values.
pub struct Identity<T>(Weak<Vec<Leaf<T>>>);

impl<T> Identity<T> {
    /// Whether the map still is in this state. A change moves the leaves, because the weak reference shares
    /// them, and their former address is not used again while it exists.
    pub fn is_of(&self, map: &PersistentMap<T>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&map.leaves))
    }
}

impl<T> fmt::Debug for Identity<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").finish()
    }
}

/// Neighbours in key order; never empty.
struct Leaf<T> {
    /// A lower bound of the leaf's keys (except in the first leaf), greater than every key of the leaf
    /// before.
    from: Arc<str>,
    entries: Arc<Vec<Arc<T>>>,
}

impl<T> Clone for Leaf<T> {
    fn clone(&self) -> Self {
        Self { from: self.from.clone(), entries: self.entries.clone() }
    }
}

impl<T: Keyed> Leaf<T> {
    fn of(entries: Vec<Arc<T>>) -> Self {
        Self { from: entries[0].key().into(), entries: Arc::new(entries) }
    }
}

impl<T: Keyed> PersistentMap<T> {
    /// Builds the map from entries in key order, with the same result as single inserts.
    pub fn of(entries: &[Arc<T>]) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.key() < b.key()), "a key occurs once, and in its place");
        let leaves = entries.chunks(LEAF).map(|leaf| Leaf::of(leaf.to_vec())).collect();
        Self { leaves: Arc::new(leaves), len: entries.len() }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry with this key.
    pub fn get(&self, key: &str) -> Option<&Arc<T>> {
        let entries = &self.leaves.get(self.leaf_of(key))?.entries;
        entries.binary_search_by(|entry| entry.key().cmp(key)).ok().map(|at| &entries[at])
    }

    /// Inserts an entry and returns the one that it replaces.
    pub fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
        let at = self.leaf_of(entry.key());
        let leaves = Arc::make_mut(&mut self.leaves);
        let Some(leaf) = leaves.get_mut(at) else {
            leaves.push(Leaf::of(vec![entry]));
            self.len += 1;
            return None;
        };
        let entries = Arc::make_mut(&mut leaf.entries);
        match entries.binary_search_by(|other| other.key().cmp(entry.key())) {
            Ok(index) => return Some(std::mem::replace(&mut entries[index], entry)),
            Err(index) => entries.insert(index, entry),
        }
        self.len += 1;
        if entries.len() > LEAF {
            // Ascending inserts leave full leaves behind, others half-full ones.
            let appended = entries.len() - 1;
            let last = at + 1 == leaves.len()
                && leaves[at].entries[appended].key() > leaves[at].entries[appended - 1].key();
            split(leaves, at, if last { LEAF } else { LEAF / 2 });
        }
        None
    }

    /// Removes the entry with this key.
    pub fn remove(&mut self, key: &str) -> Option<Arc<T>> {
        self.get(key)?;
        let at = self.leaf_of(key);
        let leaves = Arc::make_mut(&mut self.leaves);
        let entries = Arc::make_mut(&mut leaves[at].entries);
        let index = entries.binary_search_by(|entry| entry.key().cmp(key)).ok()?;
        let removed = entries.remove(index);
        self.len -= 1;
        match entries.len() {
            0 => drop(leaves.remove(at)),
            1..SPARSE => join(leaves, at),
            _ => {}
        }
        Some(removed)
    }

    /// The entries whose keys are not smaller than `start`, in order.
    pub fn from<'m>(&'m self, start: &str) -> impl Iterator<Item = &'m Arc<T>> + use<'m, T> {
        let at = self.leaf_of(start);
        let skipped =
            self.leaves.get(at).map_or(0, |leaf| leaf.entries.partition_point(|entry| entry.key() < start));
        let leaves = self.leaves.get(at..).unwrap_or_default();
        leaves.iter().flat_map(|leaf| leaf.entries.iter()).skip(skipped)
    }

    /// The entries whose keys begin with `prefix`, in order.
    pub fn with_prefix(&self, prefix: String) -> impl Iterator<Item = &Arc<T>> {
        self.from(&prefix).take_while(move |entry| entry.key().starts_with(&prefix))
    }

    /// The identity of the current state.
    pub fn identity(&self) -> Identity<T> {
        Identity(Arc::downgrade(&self.leaves))
    }

    /// The number of entries with smaller keys.
    pub fn rank(&self, key: &str) -> usize {
        let at = self.leaf_of(key);
        let before: usize = self.leaves.iter().take(at).map(|leaf| leaf.entries.len()).sum();
        before + self.leaves.get(at).map_or(0, |leaf| leaf.entries.partition_point(|entry| entry.key() < key))
    }

    /// The index of the leaf that has a key, or would have it; 0 if there is no leaf.
    fn leaf_of(&self, key: &str) -> usize {
        self.leaves.partition_point(|leaf| &*leaf.from <= key).saturating_sub(1)
    }
}

/// Splits the leaf `at` before its entry `index`.
fn split<T: Keyed>(leaves: &mut Vec<Leaf<T>>, at: usize, index: usize) {
    let upper = Arc::make_mut(&mut leaves[at].entries).split_off(index);
    leaves.insert(at + 1, Leaf::of(upper));
}

/// Joins a sparse leaf with a neighbour if the result is at most half full, so that it does not split again
/// soon.
fn join<T: Keyed>(leaves: &mut Vec<Leaf<T>>, at: usize) {
    let lower = if at + 1 < leaves.len() { at } else { at.saturating_sub(1) };
    let Some(upper) = leaves.get(lower + 1) else { return };
    if leaves[lower].entries.len() + upper.entries.len() <= LEAF / 2 {
        let upper = leaves.remove(lower + 1);
        Arc::make_mut(&mut leaves[lower].entries).extend(upper.entries.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Item {
        key: String,
        revision: i64,
    }

    impl Keyed for Item {
        fn key(&self) -> &str {
            &self.key
        }
    }

    type Objects = PersistentMap<Item>;

    fn config_map(name: &str, revision: i64) -> Arc<Item> {
        Arc::new(Item { key: format!("/registry/configmaps/ns/{name}"), revision })
    }

    fn keys(objects: &Objects, start: &str) -> Vec<String> {
        objects.from(start).map(|entry| entry.key.clone()).collect()
    }

    #[test]
    fn ascending_inserts_fill_their_leaves() {
        let mut objects = Objects::default();
        for n in 0..LEAF * 4 {
            objects.insert(config_map(&format!("{n:05}"), 1));
        }
        assert!(objects.leaves.len() <= 5, "{} leaves", objects.leaves.len());
    }

    #[test]
    fn building_from_sorted_entries_equals_single_inserts() {
        let all: Vec<_> = (0..LEAF * 2 + 7).map(|n| config_map(&format!("{n:05}"), 1)).collect();
        for count in [0, 1, LEAF - 1, LEAF, LEAF + 1, all.len()] {
            let (at_once, mut one_by_one) = (Objects::of(&all[..count]), Objects::default());
            all[..count].iter().for_each(|entry| drop(one_by_one.insert(entry.clone())));
            assert_eq!(keys(&at_once, ""), keys(&one_by_one, ""));
            let sizes =
                |objects: &Objects| objects.leaves.iter().map(|leaf| leaf.entries.len()).collect::<Vec<_>>();
            assert_eq!((at_once.len(), sizes(&at_once)), (one_by_one.len(), sizes(&one_by_one)));
        }
    }

    #[test]
    fn a_clone_does_not_see_later_changes() {
        let mut objects = Objects::default();
        objects.insert(config_map("a", 1));
        let before = objects.clone();
        objects.insert(config_map("a", 2));
        objects.insert(config_map("b", 3));
        objects.remove("/registry/configmaps/ns/a");
        assert_eq!((before.len(), objects.len()), (1, 1));
        assert_eq!(before.get("/registry/configmaps/ns/a").map(|entry| entry.revision), Some(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec((0u16..900, any::<bool>(), 0u8..4), 0..3000)) {
            let (mut objects, mut model) = (Objects::default(), BTreeMap::new());
            for (revision, (number, put, bias)) in (1i64..).zip(steps) {
                let name = format!("{number:03}");
                let key = format!("/registry/configmaps/ns/{name}");
                if put || bias > 0 {
                    let was = objects.insert(config_map(&name, revision)).map(|entry| entry.revision);
                    prop_assert_eq!(was, model.insert(key, revision));
                } else {
                    prop_assert_eq!(objects.remove(&key).map(|entry| entry.revision), model.remove(&key));
                }
            }
            prop_assert_eq!(objects.len(), model.len());
            for start in ["", "/registry/configmaps/ns/3", "/registry/configmaps/ns/450", "/z"] {
                let want: Vec<String> = model.range(start.to_owned()..).map(|(key, _)| key.clone()).collect();
                prop_assert_eq!(objects.rank(start), model.len() - want.len());
                prop_assert_eq!(keys(&objects, start), want);
            }
            for (key, revision) in &model {
                prop_assert_eq!(objects.get(key).map(|entry| entry.revision), Some(*revision));
            }
        }
    }
}
