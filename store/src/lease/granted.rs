//! Which leases exist in the published state, with their times to live: for whoever copies that state. Not what hangs on
//! them (`table`), nor when they end (`clock`).

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::LeaseId;
use crate::commit::LeaseChange;

/// See the module. Changed only while the published state is; so it belongs to it for whoever holds that.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    leases: Mutex<BTreeMap<LeaseId, i64>>,
}

impl Granted {
    /// Begins with what a recovery found.
    pub(crate) fn seed(&self, leases: impl Iterator<Item = (LeaseId, i64)>) {
        *self.leases.lock() = leases.collect();
    }

    /// Follows a commit.
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

    /// All of them, by id.
    pub(crate) fn list(&self) -> Vec<(LeaseId, i64)> {
        self.leases.lock().iter().map(|(id, ttl)| (*id, *ttl)).collect()
    }
}
