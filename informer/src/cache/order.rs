//! [`Order`]: a persistent sorted list of numbers. The caller compares a number with the searched one, so the
//! list does not store the sort keys. A clone is one reference count.
//!
//! Two levels: a vector of runs, each a sorted vector of at most [`RUN`] numbers. Suits up to a million
//! numbers.

use std::{cmp::Ordering, sync::Arc};

/// Numbers in a full run: 512 bytes, cheap to copy.
const RUN: usize = 128;
/// A run that shrinks below this is merged with its right neighbour when both fit in half a run.
const SPARSE: usize = RUN / 4;

/// Persistent sorted list of numbers. Runs are never empty.
#[derive(Clone, Default)]
pub(crate) struct Order {
    runs: Arc<Vec<Arc<Vec<u32>>>>,
    len: usize,
}

/// Position of a number in the list.
#[derive(Clone, Copy)]
pub(crate) struct OrderPosition {
    run: usize,
    at: usize,
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first position whose number is not less than the searched one. `against` compares a number with
    /// the searched one.
    pub(crate) fn find(&self, against: &impl Fn(u32) -> Ordering) -> OrderPosition {
        let run = self.runs.partition_point(|run| against(run[0]).is_lt());
        // The position is in the run before, or at the start of this one.
        let Some(before) = run.checked_sub(1) else { return OrderPosition { run: 0, at: 0 } };
        let at = self.runs[before].partition_point(|number| against(*number).is_lt());
        match at == self.runs[before].len() && run < self.runs.len() {
            true => OrderPosition { run, at: 0 },
            false => OrderPosition { run: before, at },
        }
    }

    /// Adds a number. `against` compares other numbers with it; none is equal.
    pub(crate) fn insert(&mut self, number: u32, against: impl Fn(u32) -> Ordering) {
        let last = self.runs.last().and_then(|run| run.last());
        // Most lists arrive sorted.
        let place = match last {
            Some(last) if against(*last).is_lt() => {
                let run = self.runs.len() - 1;
                OrderPosition { run, at: self.runs[run].len() }
            }
            _ => self.find(&against),
        };
        self.len += 1;
        let runs = Arc::make_mut(&mut self.runs);
        let Some(run) = runs.get_mut(place.run) else {
            runs.push(Arc::new(vec![number]));
            return;
        };
        let run = Arc::make_mut(run);
        run.insert(place.at, number);
        if run.len() > RUN {
            // Numbers often arrive in ascending order: leave the left run fuller.
            let right = run.split_off(RUN * 7 / 8);
            run.shrink_to_fit();
            runs.insert(place.run + 1, Arc::new(right));
        }
    }

    /// Removes the number that `against` reports as equal.
    pub(crate) fn remove(&mut self, against: impl Fn(u32) -> Ordering) {
        let place = self.find(&against);
        let found = self.runs.get(place.run).and_then(|run| run.get(place.at));
        if !found.is_some_and(|number| against(*number).is_eq()) {
            return;
        }
        let runs = Arc::make_mut(&mut self.runs);
        let run = Arc::make_mut(&mut runs[place.run]);
        run.remove(place.at);
        let left = run.len();
        self.len -= 1;
        if left == 0 {
            runs.remove(place.run);
        } else if left < SPARSE && runs.get(place.run + 1).is_some_and(|next| next.len() + left <= RUN / 2) {
            let next = runs.remove(place.run + 1);
            Arc::make_mut(&mut runs[place.run]).extend(next.iter());
        }
    }

    /// All numbers in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|run| run.iter().copied())
    }

    /// The position after the last number.
    pub(crate) fn end(&self) -> OrderPosition {
        OrderPosition { run: self.runs.len(), at: 0 }
    }

    /// The numbers from position `from` up to and excluding `to`.
    pub(crate) fn between(&self, from: OrderPosition, to: OrderPosition) -> impl Iterator<Item = u32> {
        let last = (to.run + 1).min(self.runs.len());
        let runs = self.runs.get(from.run..last).unwrap_or_default().iter().enumerate();
        runs.flat_map(move |(n, run)| {
            let start = if n == 0 { from.at } else { 0 };
            let end = if from.run + n == to.run { to.at } else { run.len() };
            run.get(start..end).unwrap_or_default().iter().copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_behaves_as_a_sorted_set_and_clones_never_change(
            ops in prop::collection::vec((0u32..900, prop::bool::weighted(0.7), prop::bool::weighted(0.01)), 0..2000),
            bounds in prop::collection::vec((0u32..900, 0u32..900), 5),
        ) {
            let (mut ours, mut model) = (Order::default(), BTreeSet::new());
            let mut clones = Vec::new();
            for (number, add, keep) in ops {
                match add {
                    true if model.insert(number) => ours.insert(number, |other| other.cmp(&number)),
                    true => {}
                    false => {
                        model.remove(&number);
                        ours.remove(|other| other.cmp(&number));
                    }
                }
                if keep {
                    clones.push((ours.clone(), model.clone()));
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                prop_assert_eq!(ours.len(), model.len());
                prop_assert!(ours.iter().eq(model.iter().copied()));
                let all = ours.between(ours.find(&|_| Ordering::Greater), ours.end());
                prop_assert!(all.eq(model.iter().copied()));
                for (a, b) in &bounds {
                    let (from, to) = (a.min(b), a.max(b));
                    let find = |bound: &u32| ours.find(&|other: u32| other.cmp(bound));
                    let range = ours.between(find(from), find(to));
                    prop_assert!(range.eq(model.range(from..to).copied()));
                }
            }
        }
    }
}
