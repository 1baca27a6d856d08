//! [`Indexes`]: a set of completion indexes of an Indexed Job, as ascending intervals. Parses and formats
//! `status.completedIndexes`, such as `1,3-5,7`. Pure.

use std::collections::BTreeSet;
use std::fmt;

/// Set of completion indexes. The intervals ascend, with a gap of at least one index between two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Indexes(Vec<Interval>);

/// Indexes from `first` to `last`, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    first: i32,
    last: i32,
}

impl Indexes {
    /// Parses the indexes below `completions` from a status or a success policy. Skips invalid intervals,
    /// which validation refuses.
    pub(crate) fn parse(text: &str, completions: i32) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
            let interval = Interval { first: first.max(0), last: last.min(completions - 1) };
            (interval.first <= interval.last).then_some(interval)
        };
        Self::of_intervals(text.split(',').filter_map(interval).collect())
    }

    /// The union with single indexes.
    #[must_use]
    pub(crate) fn with(&self, more: &BTreeSet<i32>) -> Self {
        let single = |index: &i32| Interval { first: *index, last: *index };
        Self::of_intervals(self.0.iter().copied().chain(more.iter().map(single)).collect())
    }

    /// The union of two sets.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self::of_intervals(self.0.iter().chain(&other.0).copied().collect())
    }

    fn of_intervals(mut all: Vec<Interval>) -> Self {
        all.sort_unstable();
        let mut merged: Vec<Interval> = Vec::with_capacity(all.len());
        for interval in all {
            match merged.last_mut() {
                Some(before) if i64::from(interval.first) <= i64::from(before.last) + 1 => {
                    before.last = before.last.max(interval.last);
                }
                Some(_) | None => merged.push(interval),
            }
        }
        Self(merged)
    }

    /// Number of indexes in the set.
    pub(crate) fn len(&self) -> i32 {
        self.0.iter().map(Interval::len).sum()
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains this index.
    pub(crate) fn contains(&self, index: i32) -> bool {
        let at = self.0.partition_point(|interval| interval.last < index);
        self.0.get(at).is_some_and(|interval| interval.first <= index)
    }

    /// Number of indexes in both sets.
    pub(crate) fn common(&self, other: &Self) -> i32 {
        let (mut i, mut j, mut count) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            count += (a.last.min(b.last) - a.first.max(b.first) + 1).max(0);
            if a.last <= b.last {
                i += 1;
            } else {
                j += 1;
            }
        }
        count
    }

    /// The lowest `count` indexes below `completions` that are not in the set. The cost is bounded by the
    /// number of intervals and `count`.
    pub(crate) fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let end = Interval { first: completions, last: completions };
        let mut missing = Vec::new();
        let mut candidate = 0;
        for taken in self.0.iter().chain([&end]) {
            while candidate < taken.first.min(completions) && missing.len() < count {
                missing.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(taken.last.saturating_add(1));
        }
        missing
    }
}

impl Interval {
    fn len(&self) -> i32 {
        self.last - self.first + 1
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, interval) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match interval.len() {
                1 => write!(f, "{comma}{}", interval.first)?,
                // Two adjacent indexes are formatted as a list, not as an interval, as upstream.
                2 => write!(f, "{comma}{},{}", interval.first, interval.last)?,
                _ => write!(f, "{comma}{}-{}", interval.first, interval.last)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str, completions: i32) -> String {
        Indexes::parse(text, completions).to_string()
    }

    #[test]
    fn completed_indexes_are_parsed_and_formatted() {
        let table = [
            ("", ""),
            ("0", "0"),
            ("0,1", "0,1"),
            ("0-1", "0,1"),
            ("0-2", "0-2"),
            ("0,1,2", "0-2"),
            ("1,3-5,7", "1,3-5,7"),
            ("0-4,5-9", "0-9"),
            ("3,x,5", "3,5"),
            ("8-12", "8,9"),
            ("10,11", ""),
        ];
        for (read, written) in table {
            assert_eq!(text(read, 10), written, "{read}");
        }
    }

    #[test]
    fn the_lowest_missing_indexes_come_first() {
        let table: [(&str, usize, i32, &[i32]); 6] = [
            ("", 3, 10, &[0, 1, 2]),
            ("0-1,3", 3, 10, &[2, 4, 5]),
            ("0-9", 3, 10, &[]),
            ("1-9", 3, 10, &[0]),
            ("", 3, 2, &[0, 1]),
            ("5", 0, 10, &[]),
        ];
        for (taken, count, completions, missing) in table {
            let found = Indexes::parse(taken, 100).first_missing(count, completions);
            assert_eq!(found, missing, "{taken}");
        }
    }

    fn set() -> impl Strategy<Value = BTreeSet<i32>> {
        proptest::collection::btree_set(0..40, 0..30)
    }

    proptest! {
        #[test]
        fn intervals_behave_like_a_set(one in set(), other in set(), count in 0usize..20, completions in 1..45) {
            let none = Indexes::default();
            let (a, b) = (none.with(&one), none.with(&other));
            let both: BTreeSet<i32> = one.union(&other).copied().collect();
            prop_assert_eq!(&a.union(&b), &none.with(&both));
            prop_assert_eq!(&a.with(&other), &none.with(&both));
            prop_assert_eq!(a.len() as usize, one.len());
            prop_assert_eq!(a.is_empty(), one.is_empty());
            prop_assert_eq!(a.common(&b) as usize, one.intersection(&other).count());
            for index in -1..45 {
                prop_assert_eq!(a.contains(index), one.contains(&index));
            }
            let missing: Vec<i32> = (0..completions).filter(|i| !one.contains(i)).take(count).collect();
            prop_assert_eq!(a.first_missing(count, completions), missing);
            let below: BTreeSet<i32> = one.iter().copied().filter(|i| *i < completions).collect();
            prop_assert_eq!(Indexes::parse(&a.to_string(), completions), none.with(&below));
        }
    }
}
