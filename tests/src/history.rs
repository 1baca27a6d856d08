//! What a store has been through, as comparable data.

use crate::Cluster;
use bytes::Bytes;
use kstore_apiserver::cache::ROOT;
use kstore_apiserver::provenance::Note;
use kstore_store::{EventKind, KeyRange, Revision, WatchRequest};
use std::fmt;

/// One change of one key.
#[derive(Clone, PartialEq, Eq)]
pub struct Change {
    /// The revision.
    pub revision: i64,
    /// The storage key.
    pub key: String,
    /// The stored bytes; `None`: deleted.
    pub value: Option<Bytes>,
    /// Who did it and why, as the storage keeps it.
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
    /// Everything that was ever written to objects, in order. The key beside them in which an etcd keeps notes is none.
    pub fn history(&self) -> Vec<Change> {
        let everything = WatchRequest::new(KeyRange::all()).from(Revision(1));
        let mut watcher = self.store.watch(everything).expect("an open store can be watched");
        let mut changes = Vec::new();
        while let Some(batch) = watcher.try_next() {
            let batch = batch.expect("nothing was compacted");
            let (objects, beside): (Vec<_>, Vec<_>) =
                batch.events.iter().partition(|event| event.key().starts_with(ROOT.as_bytes()));
            let beside = beside.first().map(|event| event.kv.value_bytes());
            changes.extend(objects.iter().map(|event| Change {
                revision: batch.revision.0,
                key: String::from_utf8_lossy(event.key()).into_owned(),
                value: (event.kind == EventKind::Put).then(|| event.kv.value_bytes()),
                note: event.note.clone().or_else(|| beside.clone()),
            }));
        }
        changes
    }
}
