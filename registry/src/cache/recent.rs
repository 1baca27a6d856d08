//! The newest changes of one kind, so that a watch that resumes rarely needs the storage's history; and the
//! bound on all kinds together. The kind that keeps the most evicts its own changes first: leases that
//! thousands of nodes renew do not evict changes of pods. Old changes are released, so that memory shrinks
//! again after a busy time.

use super::change::Change;
use super::kind::Kind;
use kstore_storage::limits;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Changes of one kind in revision order. Complete for every revision after [`Recent::start`].
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Changes with their sequence numbers across all kinds.
    changes: VecDeque<(u64, Arc<Change>)>,
    start: i64,
    bytes: usize,
}

impl Recent {
    /// An empty ring that is complete after `revision`.
    pub(super) fn starting_at(revision: i64) -> Self {
        Self { changes: VecDeque::new(), start: revision, bytes: 0 }
    }

    /// The revision after which every change of the kind is kept.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// The changes after `revision` in order, with their sequence numbers. Complete only if `revision >=
    /// self.start()`.
    pub(super) fn after(&self, revision: i64) -> impl Iterator<Item = (u64, &Arc<Change>)> {
        let from = self.changes.partition_point(|(_, change)| change.revision <= revision);
        self.changes.range(from..).map(|(number, change)| (*number, change))
    }

    fn push(&mut self, number: u64, change: Arc<Change>) {
        self.bytes += change.weight();
        self.changes.push_back((number, change));
    }

    /// Removes the oldest change.
    fn pop(&mut self) -> Option<Arc<Change>> {
        let (_, oldest) = self.changes.pop_front()?;
        self.start = oldest.revision;
        self.bytes -= oldest.weight();
        Some(oldest)
    }

    /// Whether the oldest change is at or before `revision`.
    fn reaches_back_to(&self, revision: i64) -> bool {
        self.changes.front().is_some_and(|(_, oldest)| oldest.revision <= revision)
    }
}

/// The totals of all kinds, and the sequence number of the next change.
#[derive(Debug, Default)]
pub(super) struct Retained {
    next: u64,
    changes: usize,
    bytes: usize,
}

impl Retained {
    /// Keeps a change in the ring of its kind, whose prefix is `root`. At the bounds, the kind that keeps the
    /// most drops its oldest change.
    pub(super) fn push(&mut self, kinds: &mut BTreeMap<&'static str, Kind>, root: &str, change: Arc<Change>) {
        let Some(kind) = kinds.get_mut(root) else { return };
        self.changes += 1;
        self.bytes += change.weight();
        kind.recent.push(self.next, change);
        self.next += 1;
        while self.bytes > limits::RECENT_BYTES || self.changes > limits::RECENT_CHANGES {
            let heaviest = kinds.values_mut().max_by_key(|kind| kind.recent.bytes);
            let Some(oldest) = heaviest.and_then(|kind| kind.recent.pop()) else { break };
            self.count_out(&oldest);
        }
    }

    /// Removes changes up to `revision`, at most `most` of them, while all kinds together keep more than
    /// `keep` bytes; first of the kinds that keep the most. Returns them, so that they are freed without the
    /// lock on the rings.
    pub(super) fn release(
        &mut self,
        kinds: &mut BTreeMap<&'static str, Kind>,
        revision: i64,
        keep: usize,
        most: usize,
    ) -> Vec<Arc<Change>> {
        let mut released = Vec::new();
        while self.bytes > keep && released.len() < most {
            let old = kinds.values_mut().filter(|kind| kind.recent.reaches_back_to(revision));
            let heaviest = old.max_by_key(|kind| kind.recent.bytes);
            let Some(oldest) = heaviest.and_then(|kind| kind.recent.pop()) else { break };
            self.count_out(&oldest);
            released.push(oldest);
        }
        if released.len() < most {
            kinds.values_mut().for_each(|kind| kind.recent.changes.shrink_to(2 * kind.recent.changes.len()));
        }
        released
    }

    /// Bytes of the changes of all kinds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn count_out(&mut self, change: &Change) {
        self.changes -= 1;
        self.bytes -= change.weight();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config_map;

    /// Prefixes of two kinds; the kind of the entries does not matter here.
    const BUSY: &str = "/registry/leases";
    const QUIET: &str = "/registry/pods";

    fn change(revision: i64) -> Arc<Change> {
        Arc::new(Change::new(revision, Some(config_map("a", revision)), None))
    }

    fn revisions(kind: &Kind, after: i64) -> Vec<i64> {
        kind.recent.after(after).map(|(_, change)| change.revision).collect()
    }

    #[test]
    fn a_busy_kind_evicts_its_own_changes_and_not_those_of_a_quiet_one() {
        let mut kinds: BTreeMap<&'static str, Kind> =
            [BUSY, QUIET].map(|root| (root, Kind::of(&[], 1))).into_iter().collect();
        let mut retained = Retained::default();
        retained.push(&mut kinds, QUIET, change(2));
        let last = 3 + i64::try_from(limits::RECENT_CHANGES).unwrap() * 2;
        for revision in 3..=last {
            retained.push(&mut kinds, BUSY, change(revision));
        }
        let (busy, quiet) = (&kinds[BUSY], &kinds[QUIET]);
        assert_eq!((quiet.recent.start(), revisions(quiet, 1)), (1, vec![2]), "a quiet kind is complete");
        assert!(busy.recent.start() > 2, "the busy one is not");
        let kept = revisions(busy, busy.recent.start());
        assert_eq!((kept[0], kept[kept.len() - 1]), (busy.recent.start() + 1, last));
        assert_eq!(retained.changes, kept.len() + 1);
        assert!(retained.changes <= limits::RECENT_CHANGES);
        assert!(retained.bytes <= limits::RECENT_BYTES);
        assert_eq!(retained.bytes, busy.recent.bytes + quiet.recent.bytes);
    }

    #[test]
    fn old_changes_are_released_down_to_the_kept_amount_and_young_ones_stay() {
        let mut kinds: BTreeMap<&'static str, Kind> =
            [BUSY, QUIET].map(|root| (root, Kind::of(&[], 1))).into_iter().collect();
        let mut retained = Retained::default();
        retained.push(&mut kinds, QUIET, change(2));
        (3..103).for_each(|revision| retained.push(&mut kinds, BUSY, change(revision)));
        let (all, one) = (retained.bytes(), kinds[QUIET].recent.bytes);
        let newest = |released: Vec<Arc<Change>>| released.last().map(|change| change.revision);
        assert_eq!(newest(retained.release(&mut kinds, 52, 0, 30)), Some(32));
        assert_eq!(newest(retained.release(&mut kinds, 52, 0, 30)), Some(2), "the quiet kind's is the last");
        assert_eq!(kinds[BUSY].recent.start(), 52, "nothing after the revision is released");
        assert_eq!(retained.changes, 50);
        assert!(
            retained.release(&mut kinds, i64::MAX, retained.bytes(), usize::MAX).is_empty(),
            "enough is kept"
        );
        retained.release(&mut kinds, i64::MAX, 0, usize::MAX);
        assert_eq!((retained.changes, retained.bytes()), (0, 0));
        assert!(all > 100 * one / 2);
    }

    #[test]
    fn deletions_count_with_the_size_of_the_deleted_object() {
        let created = Change::new(2, Some(config_map("a", 2)), None);
        let deleted = Change::new(3, None, Some(config_map("a", 2)));
        assert_eq!(deleted.weight(), created.weight());
    }
}
