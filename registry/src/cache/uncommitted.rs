//! Entries of objects whose commits are under way: the watch cache need not decode what a writer of this process has just encoded.
//!
//! A writer adds the entry before the commit, and removes it if the commit fails. The cache takes it when the change arrives, if key and
//! bytes are the same; changes of other writers, and those whose entries were dropped, are decoded.

use crate::entry::{Entry, UncommittedEntry};
use kstore_api::resource::Resource;
use kstore_storage::limits::{UNCOMMITTED_ENTRIES, UNCOMMITTED_ENTRY_BYTES};
use kstore_storage::storage::Raw;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Entries of objects whose commits are under way, by storage key.
#[derive(Debug, Default)]
pub(super) struct UncommittedEntries(Mutex<BTreeMap<String, UncommittedEntry>>);

impl UncommittedEntries {
    /// Adds an entry of a built-in kind; it replaces that of an earlier write of the key. Drops all others when there are too many:
    /// requests that were cancelled during their commits leave some behind.
    pub(super) fn add(&self, entry: UncommittedEntry) {
        if entry.resource().custom.is_some() || entry.stored().len() > UNCOMMITTED_ENTRY_BYTES {
            return;
        }
        let mut entries = self.0.lock();
        if entries.len() >= UNCOMMITTED_ENTRIES {
            entries.clear();
        }
        entries.insert(entry.key().to_owned(), entry);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Removes an entry whose commit has failed.
    pub(super) fn remove(&self, entry: &UncommittedEntry) {
        let mut entries = self.0.lock();
        if entries.get(entry.key()).is_some_and(|other| other.stored() == entry.stored()) {
            entries.remove(entry.key());
        }
    }

    /// Removes and returns the entry of a stored value, if a writer has added it.
    pub(super) fn take(&self, resource: &'static Resource, key: &str, raw: &Raw) -> Option<Entry> {
        if raw.undecrypted.is_some() {
            return None;
        }
        let mut entries = self.0.lock();
        entries.get(key).filter(|entry| entry.is_entry_of(resource, key, &raw.value))?;
        entries.remove(key).map(|entry| entry.of_stored(raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kstore_api::{kind, object};
    use serde_json::json;

    fn pods() -> &'static Resource {
        kind::lookup("", "v1", "pods").unwrap()
    }

    fn entry(name: &str, node: &str) -> UncommittedEntry {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": "u",
            "labels": {"app": "web"}}, "spec": {"nodeName": node}});
        let stored = object::encode_stored(&pod).into();
        UncommittedEntry::new(pods(), &pods().storage_key("ns", name), &pod, stored).unwrap()
    }

    fn raw(entry: &UncommittedEntry, revision: i64) -> Raw {
        let key = Bytes::from(entry.key().to_owned());
        Raw { key, value: entry.stored().clone(), undecrypted: None, revision, created: 3 }
    }

    fn taken(entries: &UncommittedEntries, raw: &Raw) -> Option<Entry> {
        entries.take(pods(), std::str::from_utf8(&raw.key).unwrap(), raw)
    }

    #[test]
    fn a_change_gets_the_entry_of_its_writer_once() {
        let entries = UncommittedEntries::default();
        let written = entry("a", "n1");
        entries.add(written.clone());
        let found = taken(&entries, &raw(&written, 7)).unwrap();
        let decoded = Entry::from_raw(pods(), &raw(&written, 7)).unwrap();
        assert_eq!(format!("{found:?}"), format!("{decoded:?}"));
        assert_eq!((found.revision, found.created, found.field("spec.nodeName")), (7, 3, "n1"));
        assert!(taken(&entries, &raw(&written, 7)).is_none());
    }

    #[test]
    fn other_values_of_the_key_are_decoded() {
        let entries = UncommittedEntries::default();
        let (first, second) = (entry("a", "n1"), entry("a", "n2"));
        entries.add(first.clone());
        entries.add(second.clone());
        assert!(taken(&entries, &raw(&first, 7)).is_none(), "a later write has replaced it");
        let undecrypted = Raw { undecrypted: Some("no key".into()), ..raw(&second, 8) };
        assert!(taken(&entries, &undecrypted).is_none());
        let config_maps = kind::lookup("", "v1", "configmaps").unwrap();
        assert!(entries.take(config_maps, second.key(), &raw(&second, 8)).is_none(), "of another kind");
        entries.remove(&first);
        assert!(taken(&entries, &raw(&second, 8)).is_some(), "the failed write was not this one");
        entries.add(second.clone());
        entries.remove(&second);
        assert!(taken(&entries, &raw(&second, 8)).is_none());
    }

    #[test]
    fn entries_are_bounded_in_number_and_bytes() {
        let entries = UncommittedEntries::default();
        for number in 0..UNCOMMITTED_ENTRIES + 2 {
            entries.add(entry(&format!("pod-{number}"), "n1"));
            assert!(entries.len() <= UNCOMMITTED_ENTRIES);
        }
        let last = entry(&format!("pod-{}", UNCOMMITTED_ENTRIES + 1), "n1");
        assert!(taken(&entries, &raw(&last, 7)).is_some());
        let large = entry("large", &"n".repeat(UNCOMMITTED_ENTRY_BYTES));
        entries.add(large.clone());
        assert!(taken(&entries, &raw(&large, 7)).is_none());
    }
}
