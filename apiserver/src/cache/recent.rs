//! The newest changes of all kinds in one bounded ring, so that a watch that resumes rarely needs the storage's history. When it
//! is calm, the ring shrinks.

use super::change::Change;
use crate::limits;
use std::collections::VecDeque;
use std::sync::Arc;

/// A ring of changes in revision order. Complete for every revision after [`Recent::start`].
#[derive(Debug)]
pub(super) struct Recent {
    changes: VecDeque<Arc<Change>>,
    start: i64,
    bytes: usize,
}

impl Recent {
    /// Empty; knows everything after `revision`, which is nothing yet.
    pub(super) fn starting_at(revision: i64) -> Self {
        Self { changes: VecDeque::new(), start: revision, bytes: 0 }
    }

    /// Every change after this revision is here.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// Appends a change; the oldest give way at the bounds.
    pub(super) fn push(&mut self, change: Arc<Change>) {
        self.bytes += change.weight();
        self.changes.push_back(change);
        while self.bytes > limits::RECENT_BYTES || self.changes.len() > limits::RECENT_CHANGES {
            self.drop_oldest();
        }
    }

    /// Takes out the changes up to `revision`, oldest first and at most `most` of them, while there are more than `keep` bytes.
    /// Returned, so that they are freed without the lock under which the ring is.
    pub(super) fn release(&mut self, revision: i64, keep: usize, most: usize) -> Vec<Arc<Change>> {
        let mut released = Vec::new();
        while self.bytes > keep
            && released.len() < most
            && self.changes.front().is_some_and(|change| change.revision <= revision)
        {
            released.extend(self.drop_oldest());
        }
        if released.len() < most {
            self.changes.shrink_to(2 * self.changes.len());
        }
        released
    }

    fn drop_oldest(&mut self) -> Option<Arc<Change>> {
        let oldest = self.changes.pop_front()?;
        self.bytes -= oldest.weight();
        self.start = oldest.revision;
        Some(oldest)
    }

    /// The changes after `revision`, in order. Complete only if `revision >= self.start()`.
    pub(super) fn after(&self, revision: i64) -> impl Iterator<Item = &Arc<Change>> {
        let from = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(from..)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::*;
    use kstore_api::{kind, object};
    use serde_json::json;

    fn entry(revision: i64) -> Arc<Entry> {
        let row = kind::lookup("", "v1", "configmaps").unwrap();
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v".repeat(1000)},
            "metadata": {"name": "c", "namespace": "ns", "uid": "u"}});
        let stored = object::encode_stored(&value).into();
        Arc::new(Entry::new(row, &row.storage_key("ns", "c"), &value, stored, revision, revision).unwrap())
    }

    fn ring(changes: i64) -> Recent {
        let mut ring = Recent::starting_at(1);
        (2..2 + changes).for_each(|revision| {
            ring.push(Arc::new(Change::new(revision, Some(entry(revision)), None)));
        });
        ring
    }

    #[test]
    fn old_changes_are_released_down_to_what_is_kept_and_young_ones_stay() {
        let mut ring = ring(100);
        let (all, one) = (ring.bytes, ring.bytes / 100);
        assert_eq!(ring.release(51, 20 * one, 30).len(), 30);
        assert_eq!(ring.release(51, 20 * one, 30).len(), 20);
        assert_eq!(
            (ring.start(), ring.bytes),
            (51, all - 50 * one),
            "nothing after the revision is released"
        );
        assert_eq!(ring.release(i64::MAX, 20 * one, usize::MAX).len(), 30);
        assert_eq!((ring.changes.len(), ring.bytes), (20, 20 * one));
        assert_eq!(ring.after(ring.start()).count(), 20);
        assert!(ring.release(i64::MAX, 20 * one, usize::MAX).is_empty());
    }

    #[test]
    fn a_deletion_weighs_what_the_deleted_object_weighs() {
        let created = Change::new(2, Some(entry(2)), None);
        let deleted = Change::new(3, None, Some(entry(2)));
        assert_eq!(deleted.weight(), created.weight());
    }
}
