//! [`TimeIndex`]: which revision was the newest at a time. Clocks can jump back, so the time of a revision counts as the latest one up to
//! it: its *effective* time. Pure; [`super::history`] reads the times.

/// Samples that an index keeps. Beyond them it keeps every second one.
const SAMPLES: usize = 65_536;

/// The latest time up to a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EffectiveTime {
    /// The revision.
    pub revision: i64,
    /// The latest time of all revisions up to it, in microseconds since 1970; `i64::MIN` if none is known.
    pub micros: i64,
}

/// Effective times of some revisions, ascending. What lies between two of them is read from the history.
#[derive(Clone, Debug)]
pub(crate) struct TimeIndex {
    /// The revision before the first known one, followed by samples that are at least `stride` revisions apart.
    samples: Vec<EffectiveTime>,
    /// The newest known revision.
    newest: EffectiveTime,
    /// Smallest distance of two samples.
    stride: i64,
}

/// Where a searched revision is: after one revision and not after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeBlock {
    /// The revision before the first candidate, with its effective time.
    pub after: EffectiveTime,
    /// The last candidate.
    pub upto: i64,
}

impl TimeIndex {
    /// An index of revisions after `before`, whose effective times are within `stride` revisions of a sample.
    pub(crate) fn new(before: i64, stride: i64) -> Self {
        let none = EffectiveTime { revision: before, micros: i64::MIN };
        Self { samples: vec![none], newest: none, stride: stride.max(1) }
    }

    /// The newest known revision.
    pub(crate) fn newest(&self) -> EffectiveTime {
        self.newest
    }

    /// Adds a revision, which must be newer than all others; `time` is that of its note, if it has one.
    pub(crate) fn push(&mut self, revision: i64, time: Option<i64>) {
        self.newest = self.newest.with(revision, time);
        let last = self.samples.last().map_or(i64::MIN, |sample| sample.revision);
        if revision - last < self.stride {
            return;
        }
        self.samples.push(self.newest);
        if self.samples.len() > SAMPLES {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Where the first revision is whose effective time is later than `micros`; `None` if there is none.
    pub(crate) fn first_later(&self, micros: i64) -> Option<TimeBlock> {
        let at = self.samples.partition_point(|sample| sample.micros <= micros);
        let after = *self.samples.get(at.checked_sub(1)?)?;
        match self.samples.get(at) {
            Some(sample) => Some(TimeBlock { after, upto: sample.revision }),
            None if self.newest.micros > micros => Some(TimeBlock { after, upto: self.newest.revision }),
            None => None,
        }
    }
}

impl EffectiveTime {
    /// The effective time of a later revision with this time.
    pub(crate) fn with(self, revision: i64, time: Option<i64>) -> Self {
        Self { revision, micros: self.micros.max(time.unwrap_or(i64::MIN)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_nondet::Nondet;

    /// The newest revision whose effective time is not later than `micros`, by looking at each one.
    fn linear(times: &[Option<i64>], micros: i64) -> i64 {
        let mut effective = EffectiveTime { revision: 9, micros: i64::MIN };
        for (revision, time) in (10..).zip(times) {
            effective = effective.with(revision, *time);
            if effective.micros > micros {
                return revision - 1;
            }
        }
        9 + times.len() as i64
    }

    /// The same by the index, and by the times of one block.
    fn indexed(index: &TimeIndex, times: &[Option<i64>], micros: i64) -> i64 {
        let Some(TimeBlock { after, upto }) = index.first_later(micros) else {
            return index.newest().revision;
        };
        let mut effective = after;
        for revision in after.revision + 1..=upto {
            effective = effective.with(revision, times[(revision - 10) as usize]);
            if effective.micros > micros {
                return revision - 1;
            }
        }
        panic!("no later revision in the block")
    }

    #[test]
    fn the_state_at_a_time_is_monotone_and_equals_a_linear_search_for_clocks_that_jump() {
        let rng = Nondet::simulated(7).rng;
        for round in 0..60 {
            let mut clock = 1_000_i64;
            let times: Vec<Option<i64>> = (0..rng.below(300))
                .map(|_| {
                    // Mostly forward, sometimes far back; one in eight revisions has no note.
                    clock += if rng.below(10) == 0 { -(rng.below(400) as i64) } else { rng.below(30) as i64 };
                    (rng.below(8) > 0).then_some(clock)
                })
                .collect();
            let mut index = TimeIndex::new(9, 1 + round % 7);
            (10..).zip(&times).for_each(|(revision, time)| index.push(revision, *time));
            let mut last = 0;
            for micros in (0..6_000).step_by(37) {
                let found = indexed(&index, &times, micros);
                assert_eq!(found, linear(&times, micros), "round {round}, {micros}");
                assert!(found >= last, "round {round}, {micros}");
                last = found;
            }
        }
    }

    #[test]
    fn a_long_history_keeps_a_bounded_number_of_samples() {
        let mut index = TimeIndex::new(0, 1);
        let newest = 3 * SAMPLES as i64;
        (1..=newest).for_each(|revision| index.push(revision, Some(revision)));
        assert!(index.samples.len() <= SAMPLES && index.stride == 4, "{}", index.samples.len());
        let block = index.first_later(100_000).unwrap();
        assert!(
            block.after.revision <= 100_000 && block.upto > 100_000 && block.upto - block.after.revision <= 8
        );
    }
}
