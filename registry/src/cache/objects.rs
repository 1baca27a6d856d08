//! The objects of one kind in key order.

use crate::entry::Entry;
use crate::persistent_map::{Keyed, PersistentMap};

/// Entries by storage key. Cheap to clone.
pub type Objects = PersistentMap<Entry>;

impl Keyed for Entry {
    fn key(&self) -> &str {
        Entry::key(self)
    }
}
