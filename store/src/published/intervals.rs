//! An interval tree of key ranges that finds the intervals containing a key; the cost depends on the number of matches.
//! Not for single keys.
//!
//! It is a search tree ordered by start, and every node has the furthest end in its subtree. A lookup skips a subtree
//! that does not reach the key. The tree stays shallow because a node's rank is pseudorandom (a treap).

use crate::End;
use bytes::Bytes;

/// A set of intervals with values. The id distinguishes equal intervals.
#[derive(Debug)]
pub(super) struct Intervals<T> {
    root: Tree<T>,
}

type Tree<T> = Option<Box<Node<T>>>;

#[derive(Debug)]
struct Node<T> {
    start: Bytes,
    id: u64,
    end: End,
    value: T,
    /// The furthest end in this subtree.
    reach: End,
    left: Tree<T>,
    right: Tree<T>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { root: None }
    }
}

/// Whether an interval that ends at `end` may contain `key`.
fn reaches(end: &End, key: &[u8]) -> bool {
    match end {
        End::Before(end) => key < end.as_ref(),
        End::Unbounded => true,
        End::Single => false,
    }
}

/// The treap rank of an id; no child ranks above its parent. Ids are consecutive, so they are mixed (SplitMix64's
/// finalizer).
fn rank(id: u64) -> u64 {
    let mixed = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl<T> Intervals<T> {
    pub(super) fn insert(&mut self, start: Bytes, end: End, id: u64, value: T) {
        let (lower, upper) = split(self.root.take(), &start, id);
        let node = Node { start, id, reach: end.clone(), end, value, left: None, right: None };
        self.root = join(join(lower, Some(Box::new(node))), upper);
    }

    pub(super) fn remove(&mut self, start: &[u8], id: u64) {
        remove(&mut self.root, start, id);
    }

    /// Visits the intervals that contain `key`, ordered by start.
    pub(super) fn visit<'a>(&'a self, key: &[u8], visit: &mut impl FnMut(&'a T)) {
        visit_holding(&self.root, key, visit);
    }

    /// Visits all intervals, ordered by start.
    pub(super) fn visit_all<'a>(&'a self, visit: &mut impl FnMut(&'a T)) {
        visit_below(&self.root, visit);
    }
}

impl<T> Node<T> {
    fn measure(&mut self) {
        let below = [&self.left, &self.right].into_iter().flatten().map(|node| &node.reach);
        self.reach = below.fold(&self.end, Ord::max).clone();
    }

    fn is_before(&self, start: &[u8], id: u64) -> bool {
        (&self.start[..], self.id) < (start, id)
    }
}

/// Splits a tree into the part before an interval and the rest.
fn split<T>(tree: Tree<T>, start: &[u8], id: u64) -> (Tree<T>, Tree<T>) {
    let Some(mut node) = tree else { return (None, None) };
    if node.is_before(start, id) {
        let (lower, upper) = split(node.right.take(), start, id);
        node.right = lower;
        node.measure();
        (Some(node), upper)
    } else {
        let (lower, upper) = split(node.left.take(), start, id);
        node.left = upper;
        node.measure();
        (lower, Some(node))
    }
}

/// Joins two trees; all intervals of the first are before those of the second.
fn join<T>(lower: Tree<T>, upper: Tree<T>) -> Tree<T> {
    let (mut lower, mut upper) = match (lower, upper) {
        (tree, None) | (None, tree) => return tree,
        (Some(lower), Some(upper)) => (lower, upper),
    };
    if rank(lower.id) > rank(upper.id) {
        lower.right = join(lower.right.take(), Some(upper));
        lower.measure();
        Some(lower)
    } else {
        upper.left = join(Some(lower), upper.left.take());
        upper.measure();
        Some(upper)
    }
}

fn remove<T>(tree: &mut Tree<T>, start: &[u8], id: u64) {
    let Some(node) = tree else { return };
    if node.id == id && node.start == start {
        let node = tree.take().expect("it was just there");
        *tree = join(node.left, node.right);
        return;
    }
    let below = if node.is_before(start, id) { &mut node.right } else { &mut node.left };
    remove(below, start, id);
    node.measure();
}

fn visit_holding<'a, T>(tree: &'a Tree<T>, key: &[u8], visit: &mut impl FnMut(&'a T)) {
    let Some(node) = tree.as_ref().filter(|node| reaches(&node.reach, key)) else { return };
    visit_holding(&node.left, key, visit);
    if node.start.as_ref() <= key {
        if reaches(&node.end, key) {
            visit(&node.value);
        }
        visit_holding(&node.right, key, visit);
    }
}

fn visit_below<'a, T>(tree: &'a Tree<T>, visit: &mut impl FnMut(&'a T)) {
    let Some(node) = tree else { return };
    visit_below(&node.left, visit);
    visit(&node.value);
    visit_below(&node.right, visit);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> Bytes {
        Bytes::copy_from_slice(&n.to_be_bytes())
    }

    /// Depth of the tree.
    fn depth<T>(tree: &Tree<T>) -> usize {
        tree.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }

    /// Number of nodes that a lookup visits.
    fn looked_at<T>(tree: &Tree<T>, key: &[u8]) -> usize {
        let Some(node) = tree else { return 0 };
        if !reaches(&node.reach, key) {
            return 1;
        }
        let right = if node.start.as_ref() <= key { looked_at(&node.right, key) } else { 0 };
        1 + looked_at(&node.left, key) + right
    }

    #[test]
    fn the_cost_of_a_lookup_depends_on_matches_and_not_on_all_intervals() {
        const COUNT: u32 = 100_000;
        let mut intervals = Intervals::default();
        // Overlapping neighbours, and one interval that spans half of them.
        for n in 0..COUNT {
            intervals.insert(name(n * 10), End::Before(name(n * 10 + 25)), u64::from(n), n);
        }
        intervals.insert(name(0), End::Before(name(COUNT * 5)), u64::from(COUNT), COUNT);
        assert!(depth(&intervals.root) < 60, "{} deep", depth(&intervals.root));
        for key in (0..COUNT * 10).step_by(9_973).map(name) {
            let mut found = 0;
            intervals.visit(&key, &mut |_| found += 1);
            let looked_at = looked_at(&intervals.root, &key);
            assert!((1..=4).contains(&found) && looked_at < 200, "{looked_at} for {found}");
        }
        for n in 0..COUNT {
            intervals.remove(&name(n * 10), u64::from(n));
        }
        assert_eq!(depth(&intervals.root), 1, "the long one is left");
    }
}
