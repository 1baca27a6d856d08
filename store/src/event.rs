//! What changed: one event per changed key, shared by every watcher of it. Not its delivery (see `watch`).

use std::sync::Arc;

use bytes::Bytes;

use crate::{KeyValue, Revision};

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The key was created or changed.
    Put,
    /// The key was deleted.
    Delete,
}

/// One change of one key. Made once per change and shared by all watchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The new version; in a deletion only key and `mod_revision` are set.
    pub kv: Arc<KeyValue>,
    /// The version before, when there was one and it is still known. Always looked up for a watcher that asked for it;
    /// another watcher may find it filled in too, because events are shared.
    pub prev_kv: Option<Arc<KeyValue>>,
    /// What the writing transaction carried in `Txn::note`.
    pub note: Option<Bytes>,
}

impl Event {
    /// Roughly what an event costs beside the bytes of its version.
    pub(crate) const COST: usize = 64;

    /// The changed key.
    pub fn key(&self) -> &[u8] {
        self.kv.key()
    }

    /// The revision that made the change.
    pub fn revision(&self) -> Revision {
        self.kv.mod_revision()
    }

    /// Whether this put began a new generation of the key.
    pub fn is_create(&self) -> bool {
        self.kind == EventKind::Put && self.kv.version() == 1
    }

    /// Roughly what holding the event costs.
    pub(crate) fn cost(&self) -> usize {
        self.kv.encoded().len() + self.note.as_ref().map_or(0, Bytes::len) + Self::COST
    }
}

/// The events of one revision, in the order of their operations.
pub type Events = Arc<[Arc<Event>]>;
