//! The history of a storage as comparable data.

use crate::Cluster;
use bytes::Bytes;
use kstore_proto::etcd::mvccpb::Event;
use kstore_proto::etcd::mvccpb::event::EventType;
use kstore_registry::provenance::Note;
use kstore_storage::storage_key::ROOT;
use kstore_store::{EventKind, KeyRange, Revision, Store, WatchRequest};
use std::collections::BTreeMap;
use std::fmt;

/// One change of one key.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    /// Revision of the change.
    pub revision: i64,
    /// Key in the storage, such as `/registry/pods/default/web`.
    pub key: String,
    /// The stored bytes; `None` after a deletion.
    pub value: Option<Bytes>,
    /// The provenance of the change, as the storage keeps it.
    pub note: Option<Bytes>,
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = self.note.as_deref().and_then(Note::decode);
        let value = self.value.as_deref().map_or("deleted".into(), String::from_utf8_lossy);
        write!(f, "{} {} {value} {note:?}", self.revision, self.key)
    }
}

impl Cluster {
    /// All changes of objects, in order. The key in which an etcd keeps notes is left out.
    pub fn history(&self) -> Vec<Change> {
        self.store().history()
    }
}

impl Change {
    /// All changes that a store retains.
    pub(crate) fn of_store(store: &Store) -> Vec<Self> {
        let everything = WatchRequest::new(KeyRange::all()).from(Revision(1));
        let mut watcher = store.watch(everything).expect("an open store can be watched");
        let mut changes = Vec::new();
        while let Some(batch) = watcher.try_next() {
            let batch = batch.expect("nothing was compacted");
            let (objects, beside): (Vec<_>, Vec<_>) =
                batch.events.iter().partition(|event| event.key().starts_with(ROOT.as_bytes()));
            let beside = beside.first().map(|event| event.kv.value_bytes());
            changes.extend(objects.iter().map(|event| Self {
                revision: batch.revision.0,
                key: String::from_utf8_lossy(event.key()).into_owned(),
                value: (event.kind == EventKind::Put).then(|| event.kv.value_bytes()),
                note: event.note.clone().or_else(|| beside.clone()),
            }));
        }
        changes
    }

    /// The changes in one watch response of an etcd, for objects below `prefix`.
    pub(crate) fn of_events(prefix: &str, events: Vec<Event>) -> Vec<Self> {
        let (mut changes, mut notes) = (Vec::new(), BTreeMap::new());
        for event in events {
            let deleted = event.r#type() == EventType::Delete;
            let kv = event.kv.unwrap_or_default();
            let key = String::from_utf8_lossy(&kv.key).into_owned();
            let revision = kv.mod_revision;
            let Some(rest) = key.strip_prefix(prefix).filter(|rest| rest.starts_with('/')) else {
                notes.insert(revision, kv.value);
                continue;
            };
            let key = format!("{}{rest}", ROOT.trim_end_matches('/'));
            changes.push(Self { revision, key, value: (!deleted).then_some(kv.value), note: None });
        }
        for change in &mut changes {
            change.note = notes.get(&change.revision).cloned();
        }
        changes
    }
}
