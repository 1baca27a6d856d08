//! [`Causes`]: the revisions that triggered a reconcile run. The server links writes to these revisions; this
//! is no trace.

use crate::Revision;
use crate::limits::MAX_CAUSES;
use std::fmt;
use std::ops::RangeInclusive;

/// A bounded set of the revisions that triggered a reconcile run. Writes of the run send the set to the
/// server, which stores it with the new revision.
///
/// The set holds the newest [`MAX_CAUSES`] revisions exactly. Of older revisions it keeps only their range
/// ([`Causes::dropped`]). One or two causes need no allocation, more need one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes(CauseSet);

/// Representation of [`Causes`]. Revision zero is never a cause and marks an empty slot. Equal sets always
/// have the same variant, so that `Eq` can be derived.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CauseSet {
    /// At most two revisions, ascending; empty slots are at the end.
    Few([Revision; 2]),
    /// More than two revisions.
    ManyCauses(Box<ManyCauses>),
}

const NONE: Revision = Revision(0);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ManyCauses {
    /// The newest revisions, ascending; empty slots are at the end.
    exact: [Revision; MAX_CAUSES],
    len: usize,
    /// Oldest and newest dropped revision. Every dropped revision is older than the exact ones, and `exact`
    /// is full.
    dropped: Option<(Revision, Revision)>,
}

impl Default for Causes {
    fn default() -> Self {
        Self::none()
    }
}

impl Causes {
    /// The empty set: the run has no known cause, for example after a timer or a start.
    pub const fn none() -> Self {
        Self(CauseSet::Few([NONE; 2]))
    }

    /// The set with one revision, or the empty set for revision zero.
    pub const fn one(revision: Revision) -> Self {
        Self(CauseSet::Few([revision, NONE]))
    }

    /// Adds the causes of `other`. If there are more than [`MAX_CAUSES`], the newest stay exact.
    pub fn merge(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        other.revisions().iter().for_each(|revision| self.0.insert(*revision));
        if let (CauseSet::ManyCauses(mine), Some(range)) = (&mut self.0, other.dropped()) {
            mine.drop_range(*range.start(), *range.end());
        }
    }

    /// Like [`Causes::merge`], but moves `other` instead of copying it if this set is empty.
    pub(crate) fn absorb(&mut self, other: Self) {
        match self.is_empty() {
            true => *self = other,
            false => self.merge(&other),
        }
    }

    /// The exactly known revisions, oldest first.
    pub fn revisions(&self) -> &[Revision] {
        match &self.0 {
            CauseSet::Few(few) => &few[..few.iter().filter(|revision| **revision != NONE).count()],
            CauseSet::ManyCauses(many) => &many.exact[..many.len],
        }
    }

    /// The oldest and the newest of the dropped causes, or `None` if none was dropped. Dropped causes are
    /// older than all [`Causes::revisions`].
    pub fn dropped(&self) -> Option<RangeInclusive<Revision>> {
        match &self.0 {
            CauseSet::Few(_) => None,
            CauseSet::ManyCauses(many) => many.dropped.map(|(oldest, newest)| oldest..=newest),
        }
    }

    /// Whether no cause is known.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, CauseSet::Few([NONE, _]))
    }
}

impl CauseSet {
    /// Adds a revision, which must not be zero, to a non-empty set.
    fn insert(&mut self, revision: Revision) {
        match self {
            Self::ManyCauses(many) => many.insert(revision),
            Self::Few(few) if few.contains(&revision) => {}
            Self::Few([first, second @ NONE]) => {
                (*first, *second) = (revision.min(*first), revision.max(*first));
            }
            Self::Few([first, second]) => {
                let mut many = ManyCauses { exact: [NONE; MAX_CAUSES], len: 2, dropped: None };
                (many.exact[0], many.exact[1]) = (*first, *second);
                many.insert(revision);
                *self = Self::ManyCauses(Box::new(many));
            }
        }
    }
}

impl ManyCauses {
    fn insert(&mut self, revision: Revision) {
        let Err(index) = self.exact[..self.len].binary_search(&revision) else { return };
        if self.len < MAX_CAUSES {
            self.exact.copy_within(index..self.len, index + 1);
            self.exact[index] = revision;
            self.len += 1;
        } else if let Some(index) = index.checked_sub(1) {
            let oldest = self.exact[0];
            self.drop_range(oldest, oldest);
            self.exact.copy_within(1..=index, 0);
            self.exact[index] = revision;
        } else {
            self.drop_range(revision, revision);
        }
    }

    fn drop_range(&mut self, oldest: Revision, newest: Revision) {
        let (low, high) = self.dropped.unwrap_or((oldest, newest));
        self.dropped = Some((low.min(oldest), high.max(newest)));
    }
}

impl FromIterator<Revision> for Causes {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> Self {
        let mut all = Self::none();
        revisions.into_iter().for_each(|r| all.merge(&Self::one(r)));
        all
    }
}

/// Comma-separated decimal revisions, as in the `kstore-cause` header. Dropped causes are not shown.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, revision) in self.revisions().iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{revision}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn merging_keeps_the_newest_sixteen_distinct_causes() {
        let mut causes: Causes = (1..=10).map(Revision).collect();
        causes.merge(&(5..=20).map(Revision).collect());
        assert_eq!(causes.revisions(), (5..=20).map(Revision).collect::<Vec<_>>());
        assert_eq!(causes.dropped(), Some(Revision(1)..=Revision(4)));
        assert_eq!(Causes::from_iter([Revision(7), Revision(3)]).to_string(), "3,7");
        assert_eq!(Causes::one(Revision(0)), Causes::none());
        assert_eq!(size_of::<Causes>(), 24);
    }

    proptest! {
        /// Q15: the set is bounded, and its range covers the dropped causes, in every order of merging.
        #[test]
        fn every_cause_is_exact_or_in_the_dropped_range(
            groups in prop::collection::vec(prop::collection::vec(0u64..200, 0..40), 0..6)
        ) {
            let mut all = Causes::none();
            for group in &groups {
                all.absorb(group.iter().copied().map(Revision).collect());
            }
            let mut added: BTreeSet<u64> = groups.into_iter().flatten().collect();
            added.remove(&0);
            let newest: Vec<_> = added.iter().rev().take(MAX_CAUSES).rev().copied().map(Revision).collect();
            prop_assert_eq!(all.revisions(), newest);
            let mut dropped = added.iter().rev().skip(MAX_CAUSES);
            let newest_dropped = dropped.next().copied();
            let oldest_dropped = dropped.last().copied().or(newest_dropped);
            let range = oldest_dropped.zip(newest_dropped).map(|(low, high)| Revision(low)..=Revision(high));
            prop_assert_eq!(all.dropped(), range);
            prop_assert_eq!(all.is_empty(), added.is_empty());
        }
    }
}
