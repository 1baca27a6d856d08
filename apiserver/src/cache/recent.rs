//! The newest changes of one kind, so that a watch that resumes rarely needs the storage's history; and the bound on all kinds
//! together. A busy kind pushes out its own changes first: leases that thousands of nodes renew do not push out those of pods.

use super::change::Change;
use super::kind::Kind;
use crate::limits;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Changes of one kind in revision order. Complete for every revision after [`Recent::start`].
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// With their numbers in the order of all kinds.
    changes: VecDeque<(u64, Arc<Change>)>,
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

    /// The changes after `revision`, in order, with their numbers. Complete only if `revision >= self.start()`.
    pub(super) fn after(&self, revision: i64) -> impl Iterator<Item = (u64, &Arc<Change>)> {
        let from = self.changes.partition_point(|(_, change)| change.revision <= revision);
        self.changes.range(from..).map(|(number, change)| (*number, change))
    }

    fn push(&mut self, number: u64, change: Arc<Change>) {
        self.bytes += change.weight();
        self.changes.push_back((number, change));
    }

    /// Forgets the oldest change; its weight.
    fn pop(&mut self) -> Option<usize> {
        let (_, oldest) = self.changes.pop_front()?;
        self.start = oldest.revision;
        self.bytes -= oldest.weight();
        Some(oldest.weight())
    }
}

/// How much all kinds keep together, and the number of the next change.
#[derive(Debug, Default)]
pub(super) struct Retained {
    next: u64,
    changes: usize,
    bytes: usize,
}

impl Retained {
    /// Keeps a change with its kind, which lives under `root`. At the bounds the kind that keeps the most forgets its oldest.
    pub(super) fn push(&mut self, kinds: &mut BTreeMap<&'static str, Kind>, root: &str, change: Arc<Change>) {
        let Some(kind) = kinds.get_mut(root) else { return };
        self.changes += 1;
        self.bytes += change.weight();
        kind.recent.push(self.next, change);
        self.next += 1;
        while self.bytes > limits::RECENT_BYTES || self.changes > limits::RECENT_CHANGES {
            let heaviest = kinds.values_mut().max_by_key(|kind| kind.recent.bytes);
            let Some(freed) = heaviest.and_then(|kind| kind.recent.pop()) else { break };
            self.changes -= 1;
            self.bytes -= freed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config_map;

    /// The roots of two kinds; what their entries are does not matter here.
    const BUSY: &str = "/registry/leases";
    const QUIET: &str = "/registry/pods";

    fn change(revision: i64) -> Arc<Change> {
        Arc::new(Change::new(revision, Some(config_map("a", revision)), None))
    }

    fn revisions(kind: &Kind, after: i64) -> Vec<i64> {
        kind.recent.after(after).map(|(_, change)| change.revision).collect()
    }

    #[test]
    fn a_busy_kind_pushes_out_its_own_changes_and_not_those_of_a_quiet_one() {
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
}
