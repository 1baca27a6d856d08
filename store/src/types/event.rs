//! Events: one per changed key, shared by all its watchers. `published::hub` delivers them.

use crate::{KeyValue, Revision};
use bytes::Bytes;
use std::sync::Arc;

/// The kind of a change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The key was created or changed.
    Put,
    /// The key was deleted.
    Delete,
}

/// One change of one key. The store makes it once, and all watchers share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The new version; in a deletion only key and `mod_revision` are set.
    pub kv: Arc<KeyValue>,
    /// The previous version, if there was one and it is still known. The store always looks it up for a watcher that
    /// requested it. Other watchers may find it set too, because events are shared.
    pub prev_kv: Option<Arc<KeyValue>>,
    /// The note of the writing transaction (`Txn::note`).
    pub note: Option<Bytes>,
}

impl Event {
    /// Approximate bytes that an event takes in addition to its version.
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

    /// Approximate bytes that holding the event takes.
    pub(crate) fn cost(&self) -> usize {
        self.kv.encoded().len() + self.note.as_ref().map_or(0, Bytes::len) + Self::COST
    }
}

/// The events of one revision, in the order of their operations.
pub type Events = Arc<[Arc<Event>]>;
