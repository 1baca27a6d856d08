//! [`Causes`]: the revisions that made something happen. Not a trace: the server builds chains from them.

use std::fmt;

use crate::{Revision, limits::MAX_CAUSES};

/// A small set of revisions that led to a run of a controller. Writes of the run carry it to the server, which stores it
/// with the revision they make. Holds the newest [`MAX_CAUSES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes(Vec<Revision>);

impl Causes {
    /// No known cause: a timer, a start.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// One revision.
    pub fn one(revision: Revision) -> Self {
        match revision {
            Revision(0) => Self::none(),
            _ => Self(vec![revision]),
        }
    }

    /// Adds the causes of `other`; of too many, the newest stay.
    pub fn merge(&mut self, other: &Self) {
        for revision in &other.0 {
            if let Err(place) = self.0.binary_search(revision) {
                self.0.insert(place, *revision);
            }
        }
        let excess = self.0.len().saturating_sub(MAX_CAUSES);
        self.0.drain(..excess);
    }

    /// The revisions, oldest first.
    pub fn revisions(&self) -> &[Revision] {
        &self.0
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Revision> for Causes {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> Self {
        let mut all = Self::none();
        revisions.into_iter().for_each(|r| all.merge(&Self::one(r)));
        all
    }
}

/// Decimal revisions with commas between, as the `kstore-cause` header has them.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, revision) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{revision}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_the_newest_sixteen_once_each() {
        let mut causes: Causes = (1..=10).map(Revision).collect();
        causes.merge(&(5..=20).map(Revision).collect());
        assert_eq!(causes.revisions(), (5..=20).map(Revision).collect::<Vec<_>>());
        assert_eq!(Causes::from_iter([Revision(7), Revision(3)]).to_string(), "3,7");
        assert_eq!(Causes::one(Revision(0)), Causes::none());
    }
}
