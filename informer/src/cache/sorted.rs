//! [`Sorted`]: a persistent sorted list. A clone is one reference count, and a writer copies only the parts
//! that a clone still shares.
//!
//! Two levels: a vector of runs, each a sorted vector of at most `RUN` entries. Without a live clone, writes
//! are in place. With one, the first write copies the top vector and each run that it touches. The list does
//! not know what it is sorted by: the caller compares an entry with the searched one. So a list of slots needs
//! no copy of the keys that its objects have. Suits up to a million entries.

use std::cmp::Ordering;
use std::sync::Arc;

/// Persistent sorted list with runs of at most `RUN` entries: large enough for a short top vector, small
/// enough that a copy costs a microsecond. Runs are never empty.
///
/// Arguments named `against` compare an entry with the searched one, consistently with the order of the list.
pub(crate) struct Sorted<E, const RUN: usize> {
    runs: Arc<Vec<Arc<Vec<E>>>>,
    len: usize,
}

/// Position of an entry in the list.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    run: usize,
    at: usize,
}

impl<E, const RUN: usize> Clone for Sorted<E, RUN> {
    fn clone(&self) -> Self {
        Self { runs: self.runs.clone(), len: self.len }
    }
}

impl<E, const RUN: usize> Default for Sorted<E, RUN> {
    fn default() -> Self {
        Self { runs: Arc::default(), len: 0 }
    }
}

impl<E: Clone, const RUN: usize> Sorted<E, RUN> {
    /// A run that shrinks below this is merged with its right neighbour when both fit in half a run.
    const SPARSE: usize = RUN / 4;

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first position whose entry is not less than the searched one.
    pub(crate) fn find(&self, against: &impl Fn(&E) -> Ordering) -> Position {
        let run = self.runs.partition_point(|run| against(&run[0]).is_lt());
        // The position is in the run before, or at the start of this one.
        let Some(before) = run.checked_sub(1) else { return Position { run: 0, at: 0 } };
        let at = self.runs[before].partition_point(|entry| against(entry).is_lt());
        match at == self.runs[before].len() && run < self.runs.len() {
            true => Position { run, at: 0 },
            false => Position { run: before, at },
        }
    }

    /// The entry that `against` reports as equal.
    pub(crate) fn get(&self, against: impl Fn(&E) -> Ordering) -> Option<&E> {
        let Position { run, at } = self.find(&against);
        self.runs.get(run)?.get(at).filter(|entry| against(entry).is_eq())
    }

    /// The entry that `against` reports as equal, for changes that keep its order.
    pub(crate) fn get_mut(&mut self, against: impl Fn(&E) -> Ordering) -> Option<&mut E> {
        let Position { run, at } = self.find(&against);
        let found = self.runs.get(run)?.get(at)?;
        against(found).is_eq().then(|| &mut Arc::make_mut(&mut Arc::make_mut(&mut self.runs)[run])[at])
    }

    /// Adds an entry that no other equals.
    pub(crate) fn insert(&mut self, entry: E, against: impl Fn(&E) -> Ordering) {
        let last = self.runs.last().and_then(|run| run.last());
        // Most lists arrive sorted.
        let Position { run, at } = match last {
            Some(last) if against(last).is_lt() => self.last_run_end(),
            _ => self.find(&against),
        };
        self.len += 1;
        let runs = Arc::make_mut(&mut self.runs);
        let Some(entries) = runs.get_mut(run) else {
            runs.push(Arc::new(vec![entry]));
            return;
        };
        let entries = Arc::make_mut(entries);
        entries.insert(at, entry);
        if entries.len() > RUN {
            // Entries often arrive in ascending order: leave the left run fuller.
            let right = entries.split_off(RUN * 7 / 8);
            entries.shrink_to_fit();
            runs.insert(run + 1, Arc::new(right));
        }
    }

    fn last_run_end(&self) -> Position {
        let run = self.runs.len() - 1;
        Position { run, at: self.runs[run].len() }
    }

    /// Removes the entry that `against` reports as equal.
    pub(crate) fn remove(&mut self, against: impl Fn(&E) -> Ordering) -> Option<E> {
        let Position { run, at } = self.find(&against);
        self.runs.get(run)?.get(at).filter(|entry| against(entry).is_eq())?;
        let runs = Arc::make_mut(&mut self.runs);
        let entries = Arc::make_mut(&mut runs[run]);
        let entry = entries.remove(at);
        let left = entries.len();
        self.len -= 1;
        if left == 0 {
            runs.remove(run);
        } else if left < Self::SPARSE && runs.get(run + 1).is_some_and(|next| next.len() + left <= RUN / 2) {
            let next = runs.remove(run + 1);
            Arc::make_mut(&mut runs[run]).extend(next.iter().cloned());
        }
        Some(entry)
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// The position after the last entry.
    pub(crate) fn end(&self) -> Position {
        Position { run: self.runs.len(), at: 0 }
    }

    /// The entries from position `from` up to and excluding `to`.
    pub(crate) fn between(&self, from: Position, to: Position) -> impl Iterator<Item = &E> {
        let last = (to.run + 1).min(self.runs.len());
        let runs = self.runs.get(from.run..last).unwrap_or_default().iter().enumerate();
        runs.flat_map(move |(n, run)| {
            let start = if n == 0 { from.at } else { 0 };
            let end = if from.run + n == to.run { to.at } else { run.len() };
            run.get(start..end).unwrap_or_default().iter()
        })
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
            ops in prop::collection::vec((0u16..900, any::<Option<u8>>(), prop::bool::weighted(0.01)), 0..2000),
            bounds in prop::collection::vec((0u16..900, 0u16..900), 5),
        ) {
            let (mut ours, mut model) = (Sorted::<(u16, u8), 32>::default(), BTreeMap::new());
            let by = |key: u16| move |entry: &(u16, u8)| entry.0.cmp(&key);
            let mut clones = Vec::new();
            for (key, value, keep) in ops {
                match (value, ours.get_mut(by(key))) {
                    (Some(value), Some(entry)) => {
                        prop_assert_eq!(Some(std::mem::replace(&mut entry.1, value)), model.insert(key, value));
                    }
                    (Some(value), None) => {
                        prop_assert_eq!(None, model.insert(key, value));
                        ours.insert((key, value), by(key));
                    }
                    (None, _) => prop_assert_eq!(ours.remove(by(key)), model.remove_entry(&key)),
                }
                if keep {
                    clones.push((ours.clone(), model.clone()));
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                let pairs = |(key, value): (&u16, &u8)| (*key, *value);
                prop_assert_eq!(ours.len(), model.len());
                prop_assert!(ours.iter().copied().eq(model.iter().map(pairs)));
                for key in (0..900).step_by(7) {
                    prop_assert_eq!(ours.get(by(key)).map(|entry| entry.1), model.get(&key).copied());
                }
                let all = ours.between(ours.find(&|_| Ordering::Greater), ours.end());
                prop_assert!(all.copied().eq(model.iter().map(pairs)));
                for (a, b) in &bounds {
                    let (from, to) = (*a.min(b), *a.max(b));
                    let range = ours.between(ours.find(&by(from)), ours.find(&by(to)));
                    prop_assert!(range.copied().eq(model.range(from..to).map(pairs)));
                }
            }
        }
    }
}
