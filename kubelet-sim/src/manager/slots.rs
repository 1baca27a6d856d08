//! Numbers that are given out, the smallest free one first.

use std::collections::BTreeSet;

/// Numbers from 0 on, each given to at most one holder. Both operations cost the logarithm of the numbers that were given back.
#[derive(Default)]
pub(super) struct Slots {
    /// Those below have been given out.
    next: usize,
    /// Those below `next` that were given back.
    free: BTreeSet<usize>,
}

impl Slots {
    /// The number that [`Self::take`] gives.
    pub(super) fn first_free(&self) -> usize {
        self.free.first().copied().unwrap_or(self.next)
    }

    /// Gives out the smallest free number.
    pub(super) fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Frees a number: the next [`Self::take`] may return it. A number that was never taken, or is free already, changes nothing.
    pub(super) fn give_back(&mut self, number: usize) {
        if number < self.next {
            self.free.insert(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_smallest_number_without_a_holder_is_given(operations in prop::collection::vec(prop::option::of(0_usize..20), 0..200)) {
            let (mut slots, mut held) = (Slots::default(), BTreeSet::new());
            for operation in operations {
                match operation {
                    Some(number) => {
                        slots.give_back(number);
                        held.remove(&number);
                    }
                    None => {
                        let smallest = (0..).find(|number| !held.contains(number)).unwrap();
                        prop_assert_eq!(slots.first_free(), smallest);
                        prop_assert_eq!(slots.take(), smallest);
                        held.insert(smallest);
                    }
                }
            }
        }
    }
}
