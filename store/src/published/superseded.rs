//! [`SupersededBytes`]: how many bytes of versions each part of the history superseded, so that a compaction to a size finds its revision
//! without reading the history. Pure.

use crate::Revision;
use std::collections::VecDeque;

/// Marks of a history that is as large as its bound: a compaction finds its revision to this part of the bound.
const MARKS: u64 = 64;
/// Most marks. Compressed versions occupy fewer bytes than they are counted with here, so more of them fit the bound. Above this number
/// every other mark goes.
const MOST_MARKS: usize = 4_096;

/// Bytes of superseded versions and tombstones, by the revision that superseded them. They are counted as they were written: compression
/// shows only in the size of the engine.
#[derive(Debug)]
pub(crate) struct SupersededBytes {
    /// Some revisions, ascending, each with the bytes that the revisions up to it superseded.
    marks: VecDeque<(Revision, u64)>,
    /// Bytes that all revisions superseded.
    total: u64,
    /// Bytes that compaction has removed from them.
    compacted: u64,
    /// The total after the last compaction to a size.
    at_last_bound: u64,
    /// Bytes between two marks.
    step: u64,
}

impl SupersededBytes {
    /// The history of a store that was opened: `bytes` between its oldest and its newest revision, taken as spread evenly.
    pub(crate) fn new(bound: u64, (oldest, newest): (Revision, Revision), bytes: u64) -> Self {
        let span = i128::from(newest.0.saturating_sub(oldest.0).max(0));
        let part = |value: i128, at: u64| value * i128::from(at) / i128::from(MARKS);
        let mark = |at| {
            let revision = i64::try_from(i128::from(oldest.0) + part(span, at)).unwrap_or(newest.0);
            (Revision(revision), u64::try_from(part(bytes.into(), at)).unwrap_or(bytes))
        };
        let marks = if bytes == 0 { VecDeque::new() } else { (1..=MARKS).map(mark).collect() };
        Self { marks, total: bytes, compacted: 0, at_last_bound: 0, step: (bound / MARKS).max(1) }
    }

    /// Adds the bytes that a revision superseded. Revisions arrive in order.
    pub(crate) fn add(&mut self, revision: Revision, bytes: u64) {
        self.total += bytes;
        if self.total - self.marks.back().map_or(self.compacted, |mark| mark.1) < self.step {
            return;
        }
        self.marks.push_back((revision, self.total));
        if self.marks.len() > MOST_MARKS {
            let mut keeps = false;
            self.marks.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
    }

    /// Bytes that are not compacted.
    pub(crate) fn bytes(&self) -> u64 {
        self.total - self.compacted
    }

    /// Records a compaction.
    pub(crate) fn compact(&mut self, revision: Revision) {
        while let Some((_, bytes)) = self.marks.pop_front_if(|mark| mark.0 <= revision) {
            self.compacted = bytes;
        }
    }

    /// Whether a compaction to a size may pay: the history is above the bound, and an eighth of the bound was superseded since the
    /// last one.
    pub(crate) fn is_due(&self, bound: u64) -> bool {
        self.bytes() > bound && (self.at_last_bound == 0 || self.total - self.at_last_bound >= bound / 8)
    }

    /// The oldest revision to compact to so that at most `keep` bytes are left; `None` if no mark is that new. The next compaction to a
    /// size waits for further bytes.
    pub(crate) fn bound_to(&mut self, keep: u64) -> Option<Revision> {
        self.at_last_bound = self.total;
        let total = self.total;
        self.marks.iter().find(|mark| total - mark.1 <= keep).map(|mark| mark.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::conformance::cases;
    use proptest::collection::vec;
    use proptest::prelude::proptest;

    #[test]
    fn the_history_of_an_opened_store_is_spread_evenly() {
        let mut opened = SupersededBytes::new(1_000, (Revision(100), Revision(6_500)), 6_400);
        assert_eq!((opened.bytes(), opened.is_due(1_000), opened.is_due(6_400)), (6_400, true, false));
        assert_eq!(opened.bound_to(3_200), Some(Revision(3_300)));
        assert!(!opened.is_due(1_000), "nothing was superseded since");
        opened.compact(Revision(3_300));
        assert_eq!(opened.bytes(), 3_200);
        let empty = SupersededBytes::new(1_000, (Revision(1), Revision(1)), 0);
        assert_eq!((empty.bytes(), empty.marks.len()), (0, 0));
    }

    proptest! {
        #![proptest_config(cases(128))]

        /// Against the list of all revisions: what is found keeps no more than wanted, and not much less.
        #[test]
        fn a_compaction_to_a_size_keeps_so_many_bytes(sizes in vec(0u64..5_000, 1..600), bound in 64u64..200_000) {
            let mut bytes = SupersededBytes::new(bound, (Revision(1), Revision(1)), 0);
            for (at, size) in sizes.iter().enumerate() {
                bytes.add(Revision(at as i64 + 2), *size);
            }
            let keep = bound / 4 * 3;
            let after = |revision: Revision| sizes[(revision.0 - 1) as usize..].iter().sum::<u64>();
            match bytes.bound_to(keep) {
                Some(revision) => {
                    assert!(after(revision) <= keep);
                    let all: u64 = sizes.iter().sum();
                    let largest = sizes.iter().max().unwrap();
                    assert!(after(revision) + bound / 32 + 2 * largest + 2 >= keep.min(all), "not much less");
                    bytes.compact(revision);
                    assert!(bytes.bytes() <= keep);
                }
                None => assert!(bytes.bytes() < bound / 64 + 5_000 || *sizes.last().unwrap() < bound),
            }
            assert!(bytes.marks.len() <= MOST_MARKS);
        }
    }
}
