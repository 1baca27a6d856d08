//! The granted leases with their times to live: those of the published state, for copies of it, and those that the
//! engine covers, for the manifest. `txn::lease_table` has the attached keys, `lease_clock` the deadlines.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::LeaseId;
use crate::types::commit::LeaseChange;

/// The leases that exist after some commit, with their times to live in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrantedLeases(BTreeMap<LeaseId, i64>);

impl GrantedLeases {
    /// Applies the lease changes of the next commit.
    pub(crate) fn apply(&mut self, changes: &[LeaseChange]) {
        for change in changes {
            match *change {
                LeaseChange::Granted(id, ttl) => self.0.insert(id, ttl),
                LeaseChange::Gone(id) => self.0.remove(&id),
            };
        }
    }

    /// All leases, ascending by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, i64)> + '_ {
        self.0.iter().map(|(id, ttl)| (*id, *ttl))
    }
}

impl FromIterator<(LeaseId, i64)> for GrantedLeases {
    fn from_iter<I: IntoIterator<Item = (LeaseId, i64)>>(leases: I) -> Self {
        Self(leases.into_iter().collect())
    }
}

/// The leases of the published state. Changed only while that state is locked, so that both are consistent for a
/// thread that holds the lock.
#[derive(Debug, Default)]
pub(crate) struct PublishedLeases(Mutex<GrantedLeases>);

impl PublishedLeases {
    /// Sets the leases that recovery found.
    pub(crate) fn seed(&self, leases: impl Iterator<Item = (LeaseId, i64)>) {
        *self.0.lock() = leases.collect();
    }

    /// Applies the lease changes of a commit.
    pub(crate) fn apply(&self, changes: &[LeaseChange]) {
        if !changes.is_empty() {
            self.0.lock().apply(changes);
        }
    }

    /// All leases, ascending by id.
    pub(crate) fn list(&self) -> Vec<(LeaseId, i64)> {
        self.0.lock().iter().collect()
    }
}
