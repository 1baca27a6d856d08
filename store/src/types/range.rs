//! The range request and its result. `mvcc::view` evaluates it.

use crate::{KeyRange, KeyValue, Revision};
use std::sync::Arc;

/// The field by which a range result is sorted.
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

impl SortTarget {
    /// All targets, in the order of etcd's numbers for them.
    pub const ALL: [Self; 5] = [Self::Key, Self::Version, Self::Create, Self::Mod, Self::Value];
}

/// The sort direction of a range result. Equal fields keep key order.
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
    /// The keys to read.
    pub keys: KeyRange,
    /// The revision to read at; zero or less reads the current one.
    pub revision: Revision,
    /// The most keys to return; zero or less is no limit. Applied after filters and sorting.
    pub limit: i64,
    /// The field to sort by.
    pub sort_target: SortTarget,
    /// The sort direction.
    pub sort_order: SortOrder,
    /// The most bytes of versions to return, in their encoded form; zero is no bound. One version is returned in any case. It is applied
    /// before versions are read from disk, and only in key order without filters.
    pub max_bytes: usize,
    /// Whether to omit values.
    pub keys_only: bool,
    /// Whether to return only the count.
    pub count_only: bool,
    /// Only versions with at least this mod revision; zero is no bound.
    pub min_mod_revision: Revision,
    /// Only versions with at most this mod revision; zero is no bound.
    pub max_mod_revision: Revision,
    /// Only keys with at least this create revision; zero is no bound.
    pub min_create_revision: Revision,
    /// Only keys with at most this create revision; zero is no bound.
    pub max_create_revision: Revision,
}

impl Range {
    /// Reads all of `keys` at the current revision, in key order.
    pub fn new(keys: KeyRange) -> Self {
        Self {
            keys,
            revision: Revision::CURRENT,
            limit: 0,
            max_bytes: 0,
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

    /// Reads one key at the current revision.
    pub fn key(key: impl Into<bytes::Bytes>) -> Self {
        Self::new(KeyRange::single(key))
    }

    /// Sets the revision to read at.
    #[must_use]
    pub fn at(self, revision: Revision) -> Self {
        Self { revision, ..self }
    }

    /// Sets the most keys to return.
    #[must_use]
    pub fn limit(self, limit: i64) -> Self {
        Self { limit, ..self }
    }

    /// Sets the most bytes of versions to return; see [`Range::max_bytes`].
    #[must_use]
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// The bytes of versions at which reading stops.
    pub(crate) fn stops_at_bytes(&self) -> Option<usize> {
        (self.max_bytes > 0 && self.is_natural()).then_some(self.max_bytes)
    }

    /// Whether the result is in key order without filters, so that the evaluation can stop at the limit.
    pub(crate) fn is_natural(&self) -> bool {
        self.sort_target == SortTarget::Key && self.sort_order == SortOrder::Ascending && !self.has_filters()
    }

    /// Whether versions are left out by their revisions. The pattern names all fields, so that a new one is judged here:
    /// an evaluation that stops at the limit in spite of a filter returns too little.
    pub(crate) fn has_filters(&self) -> bool {
        let Self {
            keys: _,
            revision: _,
            limit: _,
            max_bytes: _,
            sort_target: _,
            sort_order: _,
            keys_only: _,
            count_only: _,
            min_mod_revision,
            max_mod_revision,
            min_create_revision,
            max_create_revision,
        } = self;
        [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision]
            .iter()
            .any(|bound| bound.0 != 0)
    }
}

/// The result of a [`Range`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResult {
    /// The store's revision at the time of the read, also for a read of an older revision.
    pub revision: Revision,
    /// The versions found.
    pub kvs: Vec<Arc<KeyValue>>,
    /// Whether [`Range::limit`] or [`Range::max_bytes`] left keys out.
    pub more: bool,
    /// Number of keys in the range at the revision read, regardless of limit and filters.
    pub count: i64,
}
