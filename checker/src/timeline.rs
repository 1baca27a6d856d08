//! [`Timeline`]: the changes of every revision, from replaying an order of operations. It is the reference for reads of
//! old revisions and for watches.

use crate::history::{Blob, InitialState, KeyValue, Keys, Operation, Range, RangeReply};
use crate::linearize::Order;
use crate::model::{self, Change, StoreState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One revision of the timeline.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    /// The changes in order.
    pub(crate) changes: Vec<Change>,
    /// The revision cannot have existed before this time.
    pub(crate) not_before: u64,
    /// The lease whose expiry made the revision.
    pub(crate) expired: Option<i64>,
}

/// The versions of a key, by the revision from which each is current.
type Versions = BTreeMap<i64, Option<Arc<KeyValue>>>;

/// All revisions after the start of a history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    first: i64,
    last: i64,
    revisions: BTreeMap<i64, Revision>,
    keys: BTreeMap<Blob, Versions>,
}

impl Timeline {
    pub(crate) fn replay(start: &InitialState, order: &Order) -> Self {
        let mut state = StoreState::new(start);
        let first = start.revision;
        let mut timeline = Self { first, last: first, ..Self::default() };
        for kv in state.kvs() {
            timeline.keys.entry(kv.key.clone()).or_default().insert(i64::MIN, Some(kv.clone()));
        }
        for done in &order.done {
            let (_, effect) = state.apply(&done.operation);
            if !effect.changes.is_empty() {
                let expired = match done.operation {
                    Operation::LeaseRevoke { id } if done.is_expiry => Some(id),
                    _ => None,
                };
                // A guessed operation does not prove when the revision was made.
                let not_before = if done.is_guess { 0 } else { done.call };
                let changes = effect.changes;
                timeline.push(state.revision(), Revision { changes, not_before, expired });
            }
        }
        timeline
    }

    fn push(&mut self, number: i64, revision: Revision) {
        for change in &revision.changes {
            let kv = (change.kv.version > 0).then(|| change.kv.clone());
            self.keys.entry(change.kv.key.clone()).or_default().insert(number, kv);
        }
        self.revisions.insert(number, revision);
        self.last = number;
    }

    /// The revision before the first change.
    pub(crate) fn first(&self) -> i64 {
        self.first
    }

    /// The last revision.
    pub(crate) fn last(&self) -> i64 {
        self.last
    }

    /// A revision, if it is after the start and exists.
    pub(crate) fn get(&self, revision: i64) -> Option<&Revision> {
        self.revisions.get(&revision)
    }

    /// The revisions that lease expiries made, with the leases.
    pub(crate) fn expired(&self) -> impl Iterator<Item = (i64, i64)> {
        self.revisions.iter().filter_map(|(number, revision)| Some((*number, revision.expired?)))
    }

    /// The changes of the revisions from `from` to `to`.
    pub(crate) fn changes(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, &Change)> {
        let revisions = (from <= to).then(|| self.revisions.range(from..=to)).into_iter().flatten();
        revisions.flat_map(|(number, revision)| revision.changes.iter().map(|change| (*number, change)))
    }

    /// The reply to a read at that revision, with unknown header.
    pub(crate) fn range(&self, range: &Range, revision: i64) -> RangeReply {
        let found = self
            .select(&range.keys)
            .filter_map(|versions| versions.range(..=revision).next_back().and_then(|(_, kv)| kv.as_deref()));
        model::answer(range, revision, found)
    }

    fn select<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = &'a Versions> {
        let from = self.keys.range(keys.key.clone()..);
        from.filter(|(key, _)| keys.contains(key.as_bytes())).map(|(_, versions)| versions)
    }
}
