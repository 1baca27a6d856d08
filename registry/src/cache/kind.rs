//! The objects of one kind, indexed by key and by the kind's indexed field, with their newest changes and
//! their watchers.

use super::change::Change;
use super::filter::{Filter, indexed_field};
use super::objects::Objects;
use super::recent::Recent;
use super::watchers::Watchers;
use crate::entry::Entry;
use kstore_api::resource::Resource;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects of one kind, their newest changes, and the watchers of the kind.
pub(super) struct Kind {
    objects: Objects,
    /// Objects by the value of the indexed field; empty for kinds without an index.
    indexed: BTreeMap<Box<str>, Objects>,
    /// The revision of the newest change.
    pub(super) changed: i64,
    pub(super) watchers: Watchers,
    pub(super) recent: Recent,
}

impl Kind {
    /// A kind with these objects, in key order. Deletions before `revision` are unknown, so `revision` counts
    /// as the newest change.
    pub(super) fn of(entries: &[Arc<Entry>], revision: i64) -> Self {
        let mut found: BTreeMap<&str, Vec<Arc<Entry>>> = BTreeMap::new();
        if let Some(field) = entries.first().and_then(|entry| indexed_field(entry.resource)) {
            for entry in entries {
                found.entry(entry.field(field)).or_default().push(entry.clone());
            }
        }
        let indexed = found.iter().map(|(value, entries)| ((*value).into(), Objects::of(entries))).collect();
        Self {
            objects: Objects::of(entries),
            indexed,
            changed: revision,
            watchers: Watchers::default(),
            recent: Recent::starting_at(revision),
        }
    }

    /// A copy that shares the objects until either changes; without watchers, and without earlier changes.
    pub(super) fn forked(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            indexed: self.indexed.clone(),
            changed: self.changed,
            watchers: Watchers::default(),
            recent: Recent::starting_at(self.changed.max(self.recent.start())),
        }
    }

    /// All objects of the kind.
    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// A superset of the matching objects: all of the kind, or those that the index finds.
    pub(super) fn candidates(&self, filter: &Filter) -> Objects {
        match filter.indexed() {
            Some(value) => self.indexed.get(value).cloned().unwrap_or_default(),
            None => self.objects.clone(),
        }
    }

    /// Applies the new state of a key and returns the change; `None` if the objects do not change. Without a
    /// new state (deleted, or no longer readable) the object is removed.
    pub(super) fn change(
        &mut self,
        key: &str,
        revision: i64,
        new: Option<Arc<Entry>>,
    ) -> Option<Arc<Change>> {
        let old = match &new {
            Some(entry) => self.insert(entry),
            None => self.remove(key),
        };
        self.changed = revision;
        (new.is_some() || old.is_some()).then(|| Arc::new(Change::new(revision, new, old)))
    }

    /// Inserts an entry and returns the one that it replaces.
    pub(super) fn insert(&mut self, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        let old = self.objects.insert(entry.clone());
        if let Some(field) = indexed_field(entry.resource) {
            if let Some(old) = old.as_ref().filter(|old| old.field(field) != entry.field(field)) {
                self.forget(old, field);
            }
            match self.indexed.get_mut(entry.field(field)) {
                Some(objects) => drop(objects.insert(entry.clone())),
                None => {
                    let mut objects = Objects::default();
                    objects.insert(entry.clone());
                    self.indexed.insert(entry.field(field).into(), objects);
                }
            }
        }
        old
    }

    /// Makes all entries again for another row of the kind, which parses each. Their bytes and revisions
    /// stay.
    pub(super) fn rebuild(&mut self, row: &'static Resource) {
        let entries: Vec<_> = self.objects.from("").map(|entry| Arc::new(entry.for_row(row))).collect();
        self.objects = Objects::of(&entries);
    }

    /// Removes the entry with this key.
    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<Entry>> {
        let old = self.objects.remove(key)?;
        if let Some(field) = indexed_field(old.resource) {
            self.forget(&old, field);
        }
        Some(old)
    }

    fn forget(&mut self, old: &Entry, field: &str) {
        if let Some(objects) = self.indexed.get_mut(old.field(field)) {
            objects.remove(old.key());
            if objects.is_empty() {
                self.indexed.remove(old.field(field));
            }
        }
    }
}
