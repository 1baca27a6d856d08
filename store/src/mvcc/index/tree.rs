//! The tree of the index: inner nodes over leaves of entries. Every node has sums over its subtree, so that counting
//! and compaction skip subtrees instead of visiting keys. Clones of the tree share nodes, and a node is copied before
//! its first change.

use super::leaf::Leaf;
use super::{CompactionBound, KeyEntry, Version};
use crate::Revision;
use crate::types::record::RecordKey;
use std::sync::Arc;

/// Entries at which a leaf splits. Large enough that a scan reads dense memory, small enough that an insert moves few
/// entries. Tests use deep trees with few keys.
pub(super) const LEAF: usize = if cfg!(test) { 8 } else { 128 };

/// Children at which an inner node splits.
const FANOUT: usize = if cfg!(test) { 6 } else { 64 };

/// Capacity by which vectors grow, instead of doubling: memory per key matters more than a few copies.
pub(super) const GROW: usize = 16;

/// A subtree; all leaves have the same depth.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Arc<Leaf>),
    /// An inner node: not empty, ascending by `from`.
    Inner(Arc<Vec<Child>>),
}

/// A child of an inner node with its sums.
#[derive(Clone, Debug)]
pub(super) struct Child {
    /// Lower bound of the subtree's keys, and upper bound of the previous subtree's. Without meaning in the leftmost
    /// child, which takes all lower keys.
    pub(super) from: Box<[u8]>,
    pub(super) sum: SubtreeSum,
    pub(super) node: Node,
}

/// Sums over a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubtreeSum {
    /// Number of keys whose newest version is not a tombstone.
    pub(super) live: usize,
    /// The newest revision of any key.
    pub(super) newest: Revision,
    /// The lowest revision at which a compaction removes something.
    pub(super) garbage_at: Revision,
}

/// The effect of an insertion on a subtree.
pub(super) struct InsertEffect {
    gained: bool,
    lost: bool,
    /// A later compaction has something to remove.
    garbage: bool,
    /// The upper part of the subtree, if it was split.
    split: Option<Child>,
}

impl InsertEffect {
    pub(super) fn split(self) -> Option<Child> {
        self.split
    }
}

/// Result of one compaction step.
pub(super) enum CompactStep {
    /// Nothing was removed.
    Nothing,
    /// A leaf was compacted; the next leaf of this subtree, if there is one, starts here.
    Leaf(Option<Box<[u8]>>),
}

impl SubtreeSum {
    pub(super) const EMPTY: Self = Self { live: 0, newest: Revision(0), garbage_at: Revision(i64::MAX) };

    fn merge(self, other: Self) -> Self {
        Self {
            live: self.live + other.live,
            newest: self.newest.max(other.newest),
            garbage_at: self.garbage_at.min(other.garbage_at),
        }
    }

    fn of(entry: &KeyEntry) -> Self {
        Self {
            live: usize::from(entry.is_live()),
            newest: entry.newest_revision(),
            garbage_at: entry.garbage_at().unwrap_or(Self::EMPTY.garbage_at),
        }
    }

    fn apply(&mut self, revision: Revision, applied: &InsertEffect) {
        self.live += usize::from(applied.gained);
        self.live -= usize::from(applied.lost);
        self.newest = self.newest.max(revision);
        if applied.garbage {
            self.garbage_at = self.garbage_at.min(revision.next());
        }
    }
}

/// The index of the child that contains `key`, or would contain it.
pub(super) fn child_of(children: &[Child], key: &[u8]) -> usize {
    children.partition_point(|child| *child.from <= *key).saturating_sub(1)
}

/// Splits off the upper part of a full vector.
pub(super) fn split_off<T>(items: &mut Vec<T>, most: usize, last: bool) -> Option<Vec<T>> {
    (items.len() >= most).then(|| {
        // Keys often arrive in ascending order; then few keys will be added to the lower part.
        let middle = if last { most - most.div_ceil(8) } else { most / 2 };
        let upper = items.split_off(middle);
        items.shrink_to(middle + GROW);
        upper
    })
}

/// Reserves space for one more item.
pub(super) fn grow<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(GROW);
    }
}

/// Inserts a child at `at`. A full node is split first; returns its upper part.
fn insert(children: &mut Vec<Child>, at: usize, child: Child, last: bool) -> Option<Vec<Child>> {
    let mut split = split_off(children, FANOUT, last);
    let lower = children.len();
    match &mut split {
        Some(upper) if at > lower => {
            grow(upper);
            upper.insert(at - lower, child);
        }
        Some(_) | None => {
            grow(children);
            children.insert(at, child);
        }
    }
    split
}

impl Child {
    /// Creates a child whose keys start at `from`.
    pub(super) fn new(from: Box<[u8]>, node: Node) -> Self {
        Self { from, sum: node.sum(), node }
    }
}

impl Node {
    pub(super) fn empty() -> Self {
        Self::Leaf(Arc::default())
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.entries().is_empty(),
            Self::Inner(children) => children.is_empty(),
        }
    }

    pub(super) fn sum(&self) -> SubtreeSum {
        match self {
            Self::Leaf(leaf) => {
                leaf.entries().iter().map(SubtreeSum::of).fold(SubtreeSum::EMPTY, SubtreeSum::merge)
            }
            Self::Inner(children) => {
                children.iter().map(|child| child.sum).fold(SubtreeSum::EMPTY, SubtreeSum::merge)
            }
        }
    }

    /// The leaf that contains `key` or would contain it, and the start of the next leaf.
    pub(super) fn leaf(&self, key: &[u8]) -> (&Leaf, Option<&[u8]>) {
        let (mut node, mut next) = (self, None);
        loop {
            match node {
                Self::Leaf(leaf) => return (leaf, next),
                Self::Inner(children) => {
                    let at = child_of(children, key);
                    next = children.get(at + 1).map(|child| &*child.from).or(next);
                    node = &children[at].node;
                }
            }
        }
    }

    /// Adds `version` to its entry with `push`, or creates an entry. `last` tells that no subtree is to the right of
    /// this one.
    pub(super) fn apply(
        &mut self,
        version: Version,
        last: bool,
        push: impl Fn(&mut KeyEntry, Version),
    ) -> InsertEffect {
        match self {
            Self::Leaf(leaf) => apply_to_leaf(Arc::make_mut(leaf), version, last, push),
            Self::Inner(children) => {
                let children = Arc::make_mut(children);
                let at = child_of(children, version.kv.key());
                let below = last && at + 1 == children.len();
                let revision = version.main;
                let mut applied = children[at].node.apply(version, below, push);
                match applied.split.take() {
                    None => children[at].sum.apply(revision, &applied),
                    Some(upper) => {
                        children[at].sum = children[at].node.sum();
                        let split = insert(children, at + 1, upper, last);
                        applied.split = split.map(|mut upper| {
                            // The lower bound of the leftmost child is kept in its parent.
                            let from = std::mem::take(&mut upper[0].from);
                            Child::new(from, Self::Inner(Arc::new(upper)))
                        });
                    }
                }
                applied
            }
        }
    }

    /// Adds a level after the root was split.
    pub(super) fn grow(&mut self, upper: Child) {
        let lower = std::mem::replace(self, Self::empty());
        *self = Self::Inner(Arc::new(vec![Child::new(Box::default(), lower), upper]));
    }

    /// Number of keys of `from..to` that existed at `revision`; `None` is no bound.
    pub(super) fn count(&self, from: Option<&[u8]>, to: Option<&[u8]>, revision: Revision) -> usize {
        match self {
            Self::Leaf(leaf) => {
                let entries = leaf.entries();
                let first = from.map_or(0, |from| leaf.rank(from));
                let behind = to.map_or(entries.len(), |to| leaf.rank(to));
                entries[first..behind].iter().filter(|entry| entry.at(revision).is_some()).count()
            }
            Self::Inner(children) => {
                let first = from.map_or(0, |from| child_of(children, from));
                let last = to.map_or(children.len() - 1, |to| child_of(children, to));
                let inside = children[first..=last].iter().zip(first..);
                let counts = inside.map(|(child, at)| {
                    let (from, to) = (from.filter(|_| at == first), to.filter(|_| at == last));
                    let whole = from.is_none() && to.is_none();
                    if whole && child.sum.newest <= revision {
                        child.sum.live
                    } else {
                        child.node.count(from, to, revision)
                    }
                });
                counts.sum()
            }
        }
    }

    /// Compacts the first leaf at or after `from` with something to remove.
    pub(super) fn sweep(
        &mut self,
        from: Option<&[u8]>,
        cut: CompactionBound,
        removed: &mut Vec<RecordKey>,
    ) -> CompactStep {
        match self {
            Self::Leaf(leaf) => {
                Arc::make_mut(leaf).retain(|entry| entry.compact(cut, removed));
                CompactStep::Leaf(None)
            }
            Self::Inner(children) => {
                let first = from.map_or(0, |from| child_of(children, from));
                // Nodes without garbage stay shared.
                let has_garbage = |child: &Child| child.sum.garbage_at <= cut.reach();
                if !children[first..].iter().any(has_garbage) {
                    return CompactStep::Nothing;
                }
                let children = Arc::make_mut(children);
                for at in first..children.len() {
                    let child = &mut children[at];
                    if child.sum.garbage_at > cut.reach() {
                        continue;
                    }
                    let from = from.filter(|_| at == first);
                    if let CompactStep::Leaf(next) = child.node.sweep(from, cut, removed) {
                        let next = next.or_else(|| children.get(at + 1).map(|child| child.from.clone()));
                        rebalance(children, at);
                        return CompactStep::Leaf(next);
                    }
                }
                CompactStep::Nothing
            }
        }
    }

    /// Replaces a root that has one child by that child.
    pub(super) fn shrink(&mut self) {
        loop {
            match self {
                Self::Inner(children) if children.len() <= 1 => {
                    *self = Arc::make_mut(children).pop().map_or(Self::empty(), |child| child.node);
                }
                Self::Leaf(_) | Self::Inner(_) => return,
            }
        }
    }

    /// Visits all entries mutably, in order, then recomputes the sums.
    pub(super) fn visit_mut(&mut self, visit: &mut impl FnMut(&mut KeyEntry)) {
        match self {
            Self::Leaf(leaf) => Arc::make_mut(leaf).entries_mut().iter_mut().for_each(visit),
            Self::Inner(children) => {
                for child in Arc::make_mut(children) {
                    child.node.visit_mut(visit);
                    child.sum = child.node.sum();
                }
            }
        }
    }

    /// Whether two neighbouring nodes are small enough to be merged.
    fn can_merge(&self, right: &Self) -> bool {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => left.entries().len() + right.entries().len() <= LEAF / 2,
            (Self::Inner(left), Self::Inner(right)) => left.len() + right.len() <= FANOUT / 2,
            (Self::Leaf(_), Self::Inner(_)) | (Self::Inner(_), Self::Leaf(_)) => {
                unreachable!("neighbours are equally deep")
            }
        }
    }
}

fn apply_to_leaf(
    leaf: &mut Leaf,
    version: Version,
    last: bool,
    push: impl Fn(&mut KeyEntry, Version),
) -> InsertEffect {
    let dead = version.dead;
    match leaf.find(version.kv.key()) {
        Ok(entry) => {
            let before = entry.is_live();
            push(entry, version);
            let after = entry.is_live();
            InsertEffect { gained: after && !before, lost: before && !after, garbage: true, split: None }
        }
        Err(at) => {
            let split = leaf.insert(at, version, last).map(|upper| {
                let from = upper.entries()[0].key().into();
                Child::new(from, Node::Leaf(Arc::new(upper)))
            });
            InsertEffect { gained: !dead, lost: false, garbage: dead, split }
        }
    }
}

/// Handles a child that has shrunk: recomputes its sum, removes it if it is empty, or merges it with the next one if
/// both are small.
fn rebalance(children: &mut Vec<Child>, at: usize) {
    let child = &mut children[at];
    child.sum = child.node.sum();
    if child.node.is_empty() {
        children.remove(at);
    } else if children.get(at + 1).is_some_and(|right| children[at].node.can_merge(&right.node)) {
        let right = children.remove(at + 1);
        let left = &mut children[at];
        left.sum = left.sum.merge(right.sum);
        match (&mut left.node, right.node) {
            (Node::Leaf(left), Node::Leaf(right)) => Arc::make_mut(left).append(Arc::unwrap_or_clone(right)),
            (Node::Inner(left), Node::Inner(upper)) => {
                let mut upper = Arc::unwrap_or_clone(upper);
                upper[0].from = right.from;
                Arc::make_mut(left).append(&mut upper);
            }
            (Node::Leaf(_), Node::Inner(_)) | (Node::Inner(_), Node::Leaf(_)) => {
                unreachable!("neighbours are equally deep")
            }
        }
    }
}

/// Panics if the tree is inconsistent.
#[cfg(test)]
pub(super) fn check(root: &Node) {
    fn depth(node: &Node, from: Option<&[u8]>, to: Option<&[u8]>) -> usize {
        match node {
            Node::Leaf(leaf) => {
                leaf.check();
                let within = |key: &[u8]| from.is_none_or(|from| from <= key) && to.is_none_or(|to| key < to);
                let mut keys = leaf.entries().iter().map(KeyEntry::key);
                assert!(keys.all(within), "keys lie between what their leaf begins with and the next");
                0
            }
            Node::Inner(children) => {
                assert!((1..=FANOUT).contains(&children.len()), "an inner node is bounded");
                let bounds = children.iter().skip(1).map(|child| Some(&*child.from));
                let lower = [from].into_iter().chain(bounds.clone());
                let depths = children.iter().zip(lower.zip(bounds.chain([to]))).map(|(child, (from, to))| {
                    let (sum, again) = (child.sum, child.node.sum());
                    assert_eq!(
                        (sum.live, sum.newest),
                        (again.live, again.newest),
                        "a node's sums are those below it"
                    );
                    assert!(sum.garbage_at <= again.garbage_at, "no garbage is overlooked");
                    assert!(!child.node.is_empty(), "nothing empty is kept");
                    depth(&child.node, from, to)
                });
                let depths: Vec<_> = depths.collect();
                assert!(depths.iter().all(|depth| *depth == depths[0]), "leaves are equally deep");
                depths[0] + 1
            }
        }
    }
    depth(root, None, None);
}
