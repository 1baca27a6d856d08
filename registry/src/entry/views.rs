//! The computed views of an entry of a custom kind. `kinds` computes them.

use super::Entry;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// Most views that an entry keeps: two for each version, one of the current definition and one of the definition
/// that it replaces.
const VIEWS: usize = 8;

/// The computed views of an entry. Empty, and a pointer in size, for nearly all entries.
#[derive(Debug, Default)]
pub(crate) struct Views(OnceLock<Box<Mutex<Vec<Remembered>>>>);

/// The definition and version that made a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewKey {
    /// The hash of the definition.
    pub(crate) spec_hash: [u8; 32],
    /// The address of the version's row: a row that was made again has other names.
    pub(crate) row: usize,
}

#[derive(Debug)]
struct Remembered {
    key: ViewKey,
    /// `None` if the view equals the stored bytes.
    view: Option<Arc<Entry>>,
}

impl Views {
    /// The view that was computed for this key; `Some(None)` if it equals the stored bytes.
    pub(crate) fn get(&self, key: &ViewKey) -> Option<Option<Arc<Entry>>> {
        let views = self.0.get()?.lock();
        views.iter().find(|made| made.key == *key).map(|made| made.view.clone())
    }

    pub(crate) fn put(&self, key: ViewKey, view: Option<Arc<Entry>>) {
        let mut views = self.0.get_or_init(Box::default).lock();
        if views.len() >= VIEWS {
            views.remove(0);
        }
        views.push(Remembered { key, view });
    }
}
