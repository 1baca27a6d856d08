//! A snapshot of a kind at one revision, and the selection of its matching entries, without a lock. Entries
//! are shared, never copied.

use super::entry::Entry;
use super::filter::Filter;
use super::objects::Objects;
use std::sync::Arc;

/// The objects of a kind at a revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// A superset of the objects that match the filter of the snapshot.
    pub(super) objects: Objects,
    /// The revision of the snapshot.
    pub revision: i64,
    /// The revision of the kind's newest change: the snapshot is complete from then on.
    pub changed: i64,
}

/// One page of matching entries.
#[derive(Debug)]
pub struct Selected {
    /// Entries in key order.
    pub entries: Vec<Arc<Entry>>,
    /// Whether more entries match.
    pub more: bool,
    /// The number of entries after the page, if it is known without evaluating selectors.
    pub remaining: Option<usize>,
}

impl Snapshot {
    /// The snapshot at another revision; the kind must not have changed in between.
    pub fn at(self, revision: i64) -> Self {
        Self { revision, ..self }
    }

    /// The entry with this key, if it is in the snapshot.
    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.objects.get(key)
    }

    /// The entries that match `filter` and whose keys are not smaller than `start`; at most `limit`, if it is
    /// positive.
    pub fn select(&self, filter: &Filter, start: &str, limit: usize) -> Selected {
        if let Some(key) = filter.only_key() {
            let found = self.objects.get(&key).filter(|entry| entry.key() >= start && filter.matches(entry));
            return Selected { entries: found.cloned().into_iter().collect(), more: false, remaining: None };
        }
        let prefix = filter.resource.storage_prefix(&filter.namespace);
        let start = if start > prefix.as_str() { start } else { &prefix };
        let mut found = self
            .objects
            .from(start)
            .take_while(|entry| entry.key().starts_with(&prefix))
            .filter(|entry| filter.matches(entry));
        let limit = if limit == 0 { usize::MAX } else { limit };
        let entries: Vec<Arc<Entry>> = found.by_ref().take(limit).cloned().collect();
        let next = if entries.len() < limit { None } else { found.next() };
        let counted = next.filter(|_| !filter.selects() && filter.name.is_empty());
        let remaining = counted.map(|next| self.end(&prefix) - self.objects.rank(next.key()));
        Selected { entries, more: next.is_some(), remaining }
    }

    /// The rank after the last key with this prefix.
    fn end(&self, prefix: &str) -> usize {
        self.objects.rank(&crate::storage::prefix_end(prefix))
    }
}
