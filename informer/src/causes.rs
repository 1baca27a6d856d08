//! [`Causes`]: the revisions that made something happen. Not a trace: the server builds chains from them.

use std::{fmt, ops::RangeInclusive, slice};

use crate::{Revision, limits::MAX_CAUSES};

/// A small set of revisions that led to a run of a controller. Writes of the run carry it to the server, which stores it
/// with the revision they make.
///
/// Holds the newest [`MAX_CAUSES`] exactly; of older ones it only knows between which two they lie
/// ([`Causes::dropped`]). One cause costs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes(Set);

/// Canonical: the same causes are always the same variant, so that equality is derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Set {
    #[default]
    None,
    One(Revision),
    /// Two or more.
    Many(Box<Many>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Many {
    /// Ascending, without repetition. Full if anything was dropped.
    exact: Vec<Revision>,
    /// Oldest and newest that was dropped; all of it is older than what is held.
    dropped: Option<(Revision, Revision)>,
}

impl Causes {
    /// No known cause: a timer, a start.
    pub const fn none() -> Self {
        Self(Set::None)
    }

    /// One revision. Revision zero is no cause.
    pub const fn one(revision: Revision) -> Self {
        match revision {
            Revision(0) => Self::none(),
            _ => Self(Set::One(revision)),
        }
    }

    /// Adds the causes of `other`; of too many, the newest stay exact.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (_, Set::None) => {}
            (Set::One(mine), Set::One(other)) if mine == other => {}
            (Set::None, _) => self.0 = other.0.clone(),
            (mine, _) => mine.as_many().merge(other),
        }
    }

    /// Like [`Causes::merge`], without a copy if there was nothing before.
    pub(crate) fn absorb(&mut self, other: Self) {
        match self.0 {
            Set::None => self.0 = other.0,
            Set::One(_) | Set::Many(_) => self.merge(&other),
        }
    }

    /// The revisions that are known exactly, oldest first.
    pub fn revisions(&self) -> &[Revision] {
        match &self.0 {
            Set::None => &[],
            Set::One(revision) => slice::from_ref(revision),
            Set::Many(many) => &many.exact,
        }
    }

    /// The oldest and the newest of the causes that were too many to hold, if there were. All of them are older than
    /// [`Causes::revisions`].
    pub fn dropped(&self) -> Option<RangeInclusive<Revision>> {
        match &self.0 {
            Set::None | Set::One(_) => None,
            Set::Many(many) => many.dropped.map(|(oldest, newest)| oldest..=newest),
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Set::None)
    }
}

impl Set {
    fn as_many(&mut self) -> &mut Many {
        let exact = match self {
            Self::Many(many) => return many,
            Self::One(revision) => vec![*revision],
            Self::None => Vec::new(),
        };
        *self = Self::Many(Box::new(Many { exact, dropped: None }));
        self.as_many()
    }
}

impl Many {
    fn merge(&mut self, other: &Causes) {
        for revision in other.revisions() {
            if let Err(place) = self.exact.binary_search(revision) {
                self.exact.insert(place, *revision);
            }
        }
        if let Some(range) = other.dropped() {
            self.drop_range(*range.start(), *range.end());
        }
        let excess = self.exact.len().saturating_sub(MAX_CAUSES);
        if excess > 0 {
            self.drop_range(self.exact[0], self.exact[excess - 1]);
            self.exact.drain(..excess);
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

/// Decimal revisions with commas between, as the `kstore-cause` header has them. What was dropped is not shown.
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn merging_keeps_the_newest_sixteen_once_each() {
        let mut causes: Causes = (1..=10).map(Revision).collect();
        causes.merge(&(5..=20).map(Revision).collect());
        assert_eq!(causes.revisions(), (5..=20).map(Revision).collect::<Vec<_>>());
        assert_eq!(causes.dropped(), Some(Revision(1)..=Revision(4)));
        assert_eq!(Causes::from_iter([Revision(7), Revision(3)]).to_string(), "3,7");
        assert_eq!(Causes::one(Revision(0)), Causes::none());
        assert_eq!(size_of::<Causes>(), 16);
    }

    proptest! {
        /// Q15: the set is bounded, and its range covers what was dropped, however it was put together.
        #[test]
        fn a_cause_is_held_exactly_or_lies_in_the_range_of_the_dropped(
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
