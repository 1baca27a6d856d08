//! A snapshot of a kind at one revision, and the selection of its matching entries, without a lock. Entries
//! are shared, never copied.

use super::filter::Filter;
use super::objects::Objects;
use crate::entry::Entry;
use kstore_storage::limits;
use std::sync::Arc;

/// The objects of a kind at a revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// A superset of the objects that match the filter of the snapshot.
    pub objects: Objects,
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
        let mut selection = Selection::new(filter, start, limit);
        self.go_on(&mut selection, usize::MAX);
        self.selected(selection)
    }

    /// Selects like [`Snapshot::select`], and lets other tasks run after every [`limits::SELECTION_CHECKS`] requirements
    /// that were checked.
    pub async fn select_in_steps(&self, filter: &Filter, start: &str, limit: usize) -> Selected {
        let mut selection = Selection::new(filter, start, limit);
        let objects = (limits::SELECTION_CHECKS / (1 + filter.requirements())).max(1);
        while self.go_on(&mut selection, objects) {
            tokio::task::yield_now().await;
        }
        self.selected(selection)
    }

    /// Looks at the next objects, at most `most`; whether there are further ones to look at.
    fn go_on(&self, selection: &mut Selection<'_>, most: usize) -> bool {
        let filter = selection.filter;
        if let Some(key) = filter.only_key() {
            let found = self
                .objects
                .get(&key)
                .filter(|entry| *entry.key() >= *selection.next && filter.matches(entry));
            selection.entries.extend(found.cloned());
            selection.is_single = true;
            return false;
        }
        let objects = self.objects.from(&selection.next);
        let objects = objects.take_while(|entry| entry.key().starts_with(&selection.prefix));
        for (number, entry) in objects.enumerate() {
            if number == most {
                entry.key().clone_into(&mut selection.next);
                return true;
            }
            if !filter.matches(entry) {
                continue;
            }
            if selection.entries.len() == selection.limit {
                selection.behind = Some(entry.clone());
                return false;
            }
            selection.entries.push(entry.clone());
        }
        false
    }

    fn selected(&self, selection: Selection<'_>) -> Selected {
        let Selection { filter, prefix, entries, behind, is_single, .. } = selection;
        if is_single {
            return Selected { entries, more: false, remaining: None };
        }
        let counted = behind.as_ref().filter(|_| !filter.selects() && filter.name.is_empty());
        let remaining = counted.map(|next| self.end(&prefix) - self.objects.rank(next.key()));
        Selected { entries, more: behind.is_some(), remaining }
    }

    /// The rank after the last key with this prefix.
    fn end(&self, prefix: &str) -> usize {
        self.objects.rank(&kstore_storage::storage::prefix_end(prefix))
    }
}

/// A selection that may pause.
struct Selection<'f> {
    filter: &'f Filter,
    prefix: String,
    limit: usize,
    /// The key from which on objects are still to be looked at.
    next: String,
    entries: Vec<Arc<Entry>>,
    /// The first match after the page.
    behind: Option<Arc<Entry>>,
    /// Whether the filter names one object.
    is_single: bool,
}

impl<'f> Selection<'f> {
    fn new(filter: &'f Filter, start: &str, limit: usize) -> Self {
        let prefix = filter.resource.storage_prefix(&filter.namespace);
        let is_later = filter.only_key().is_some() || start > prefix.as_str();
        let next = if is_later { start.to_owned() } else { prefix.clone() };
        let limit = if limit == 0 { usize::MAX } else { limit };
        Self { filter, prefix, limit, next, entries: Vec::new(), behind: None, is_single: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use kstore_api::kind;
    use kstore_api::selector::label;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_storage::storage::{Commit, Storage as _, Write};
    use kstore_store::{Config, Store};
    use serde_json::json;

    #[tokio::test]
    async fn a_selection_in_steps_finds_the_same_as_one_without_and_lets_other_tasks_run() {
        let storage = Embedded::new(Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap());
        let maps = kind::lookup("", "v1", "configmaps").unwrap();
        let put = |number: usize| {
            let name = format!("m-{number:03}");
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns",
                "labels": {"n": number.to_string(), "half": if number.is_multiple_of(2) { "a" } else { "b" }}}});
            let value = kstore_api::object::encode_stored(&object).into();
            Write::Put { key: maps.storage_key("ns", &name), value, ttl_seconds: 0 }
        };
        for numbers in [0..60, 60..120] {
            let writes = numbers.map(put).collect();
            storage.commit(Commit { writes, ..Commit::default() }).await.unwrap();
        }
        let (cache, _) = Cache::fill(Arc::new(storage), |_| {}).await.unwrap();
        let others: Vec<String> = (1..limits::SELECTOR_REQUIREMENTS).map(|n| format!("x{n}!=y")).collect();
        let heavy = format!("half=a,{}", others.join(","));
        for (labels, start, limit) in
            [("", "", 0), ("", "m-050", 7), ("half=a", "", 10), (&heavy, "", 0), (&heavy, "m-013", 3)]
        {
            let labels = label::Selector::parse(labels).unwrap();
            let filter = Filter { namespace: "ns".to_owned(), labels, ..Filter::all(maps) };
            let snapshot = cache.snapshot(&filter);
            let start = maps.storage_key("ns", start);
            let whole = snapshot.select(&filter, &start, limit);
            let steps = async {
                let found = snapshot.select_in_steps(&filter, &start, limit).await;
                (found, limits::SELECTION_CHECKS / (1 + filter.requirements()))
            };
            let mut others = 0;
            let mut steps = std::pin::pin!(steps);
            let (found, objects) = loop {
                tokio::select! {
                    biased;
                    found = &mut steps => break found,
                    () = std::future::ready(()) => others += 1,
                }
            };
            let keys = |selected: &Selected| -> Vec<String> {
                selected.entries.iter().map(|entry| entry.key().to_owned()).collect()
            };
            assert_eq!(keys(&found), keys(&whole));
            assert_eq!((found.more, found.remaining), (whole.more, whole.remaining));
            assert!(!keys(&found).is_empty());
            if limit == 0 {
                assert_eq!(others > 0, objects < 120, "{objects} objects at a time");
            }
        }
    }
}
