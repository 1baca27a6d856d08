//! The leases and the keys that hang on them, as the writer sees them. Knows no time: `clock` does.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::LeaseId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    leases: BTreeMap<LeaseId, Lease>,
}

#[derive(Debug)]
struct Lease {
    ttl: i64,
    keys: BTreeSet<Bytes>,
}

impl LeaseTable {
    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(crate) fn grant(&mut self, id: LeaseId, ttl: i64) {
        self.leases.entry(id).or_insert_with(|| Lease { ttl, keys: BTreeSet::new() }).ttl = ttl;
    }

    pub(crate) fn remove(&mut self, id: LeaseId) {
        self.leases.remove(&id);
    }

    /// The time to live a lease was granted with, in seconds.
    pub(crate) fn ttl(&self, id: LeaseId) -> Option<i64> {
        self.leases.get(&id).map(|lease| lease.ttl)
    }

    /// The keys of a lease, in order.
    pub(crate) fn keys(&self, id: LeaseId) -> Vec<Bytes> {
        self.leases.get(&id).map_or_else(Vec::new, |lease| lease.keys.iter().cloned().collect())
    }

    /// All leases with their times to live.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, i64)> + '_ {
        self.leases.iter().map(|(id, lease)| (*id, lease.ttl))
    }

    /// A key's lease went from one to another (or none).
    pub(crate) fn moved(&mut self, key: &[u8], from: LeaseId, to: LeaseId) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            lease.keys.insert(Bytes::copy_from_slice(key));
        }
    }
}
