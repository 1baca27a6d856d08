//! What a filter selects of a kind at one revision, without a lock: a state of the objects that does not change, and the walk
//! through it. Entries are shared, never copied.

use super::entry::Entry;
use super::filter::Filter;
use super::objects::Objects;
use std::sync::Arc;

/// The state of a kind at a revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Among these are all that match the filter that it was taken for.
    pub(super) objects: Objects,
    /// The revision at which this is the whole truth.
    pub revision: i64,
    /// The revision of the kind's newest change: from then on this is the whole truth.
    pub changed: i64,
}

/// One page of what matches.
#[derive(Debug)]
pub struct Selected {
    /// In key order.
    pub entries: Vec<Arc<Entry>>,
    /// Whether more match.
    pub more: bool,
    /// How many follow, where that is known without looking at them: nothing but the place of an object was asked for.
    pub remaining: Option<usize>,
}

impl Snapshot {
    /// The same state at another revision, since which nothing of this kind has changed.
    pub fn at(self, revision: i64) -> Self {
        Self { revision, ..self }
    }

    /// The entry with this key, if it is one of the candidates.
    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.objects.get(key)
    }

    /// All that match `filter` and whose keys are not smaller than `start`; at most `limit` of them, if it is positive.
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

    /// The rank behind the last key with this prefix.
    fn end(&self, prefix: &str) -> usize {
        self.objects.rank(&crate::storage::prefix_end(prefix))
    }
}
