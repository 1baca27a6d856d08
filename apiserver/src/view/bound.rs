//! [`ViewBound`]: a watch in a view shows the changes up to its last revision, and is silent then.

use super::range::ViewRange;
use kstore_registry::cache::{Delivery, ReadBound, Verdict, WatchEnd};
use kstore_registry::kinds::Kinds;
use std::sync::Arc;
use tokio::sync::Notify;

/// The bound of the watches of a view.
#[derive(Debug)]
pub(super) struct ViewBound {
    range: ViewRange,
    kinds: Arc<Kinds>,
    /// Never notified: the bound does not move.
    changed: Notify,
}

impl ViewBound {
    pub(super) fn new(range: ViewRange, kinds: Arc<Kinds>) -> Self {
        Self { range, kinds, changed: Notify::new() }
    }
}

impl ReadBound for ViewBound {
    fn state(&self) -> Option<i64> {
        Some(self.range.from)
    }

    fn refusal(&self) -> Option<WatchEnd> {
        None
    }

    fn limit(&self) -> i64 {
        self.range.upto
    }

    fn due(&self, _: &Delivery) -> Verdict {
        Verdict::Show
    }

    fn changed(&self) -> &Notify {
        &self.changed
    }

    fn is_final(&self) -> bool {
        true
    }

    fn kinds(&self) -> Option<Arc<Kinds>> {
        Some(self.kinds.clone())
    }
}
