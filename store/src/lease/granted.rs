//! The published leases with their times to live, for copies of the published state. `table` has the attached keys,
//! `clock` the deadlines.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::LeaseId;
use crate::mvcc::commit::LeaseChange;

/// The published leases. Changed only while the published state is locked, so that both are consistent for a thread
/// that holds the lock.
#[derive(Debug, Default)]
pub(crate) struct PublishedLeases {
    leases: Mutex<BTreeMap<LeaseId, i64>>,
}

impl PublishedLeases {
    /// Sets the leases that recovery found.
    pub(crate) fn seed(&self, leases: impl Iterator<Item = (LeaseId, i64)>) {
        *self.leases.lock() = leases.collect();
    }

    /// Applies the lease changes of a commit.
    pub(crate) fn apply(&self, changes: &[LeaseChange]) {
        if changes.is_empty() {
            return;
        }
        let mut leases = self.leases.lock();
        for change in changes {
            match *change {
                LeaseChange::Granted(id, ttl) => leases.insert(id, ttl),
                LeaseChange::Gone(id) => leases.remove(&id),
            };
        }
    }

    /// All leases, ascending by id.
    pub(crate) fn list(&self) -> Vec<(LeaseId, i64)> {
        self.leases.lock().iter().map(|(id, ttl)| (*id, *ttl)).collect()
    }
}
