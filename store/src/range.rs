//! The request to read keys, and its answer. Not its evaluation (see `view`).

use std::sync::Arc;

use crate::{KeyRange, KeyValue, Revision};

/// By which field an answer is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortTarget {
    /// The key.
    #[default]
    Key,
    /// The number of puts since creation.
    Version,
    /// The create revision.
    Create,
    /// The mod revision.
    Mod,
    /// The value.
    Value,
}

/// In which direction an answer is ordered. Ties keep key order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest first.
    #[default]
    Ascending,
    /// Largest first.
    Descending,
}

/// A read of some keys at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which keys.
    pub keys: KeyRange,
    /// At which revision; zero or less reads the current one.
    pub revision: Revision,
    /// At most this many; zero or less is no limit. Applied after filters and order.
    pub limit: i64,
    /// The field that orders the answer.
    pub sort_target: SortTarget,
    /// The direction.
    pub sort_order: SortOrder,
    /// Leave values out.
    pub keys_only: bool,
    /// Only count.
    pub count_only: bool,
    /// Only versions made at or after this revision; zero is no bound.
    pub min_mod_revision: Revision,
    /// Only versions made at or before this revision; zero is no bound.
    pub max_mod_revision: Revision,
    /// Only keys created at or after this revision; zero is no bound.
    pub min_create_revision: Revision,
    /// Only keys created at or before this revision; zero is no bound.
    pub max_create_revision: Revision,
}

impl Range {
    /// All of `keys`, now, in key order.
    pub fn new(keys: KeyRange) -> Self {
        Self {
            keys,
            revision: Revision::CURRENT,
            limit: 0,
            sort_target: SortTarget::Key,
            sort_order: SortOrder::Ascending,
            keys_only: false,
            count_only: false,
            min_mod_revision: Revision(0),
            max_mod_revision: Revision(0),
            min_create_revision: Revision(0),
            max_create_revision: Revision(0),
        }
    }

    /// One key, now.
    pub fn key(key: impl Into<bytes::Bytes>) -> Self {
        Self::new(KeyRange::single(key))
    }

    /// The same at another revision.
    #[must_use]
    pub fn at(self, revision: Revision) -> Self {
        Self { revision, ..self }
    }

    /// The same with at most `limit` keys.
    #[must_use]
    pub fn limit(self, limit: i64) -> Self {
        Self { limit, ..self }
    }

    /// Whether an answer in key order can stop at the limit.
    pub(crate) fn is_natural(&self) -> bool {
        self.sort_target == SortTarget::Key && self.sort_order == SortOrder::Ascending && !self.has_filters()
    }

    pub(crate) fn has_filters(&self) -> bool {
        [self.min_mod_revision, self.max_mod_revision, self.min_create_revision, self.max_create_revision]
            .iter()
            .any(|bound| bound.0 != 0)
    }
}

/// The answer to a [`Range`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResult {
    /// The store's revision when the answer was made, also for a read of the past.
    pub revision: Revision,
    /// The versions found.
    pub kvs: Vec<Arc<KeyValue>>,
    /// Whether the limit cut something off.
    pub more: bool,
    /// How many keys the range holds at the revision read, whatever limit and filters say.
    pub count: i64,
}
