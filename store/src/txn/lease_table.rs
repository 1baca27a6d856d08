//! The writer's table of leases and attached keys. It has no deadlines; `published::lease_clock` has them.

use crate::LeaseId;
use crate::types::event::Event;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The leases and their attached keys in staged state.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseTable {
    leases: BTreeMap<LeaseId, Lease>,
    /// The lease of each attached key.
    attached: BTreeMap<Bytes, LeaseId>,
}

#[derive(Clone, Debug)]
struct Lease {
    ttl: i64,
    keys: BTreeSet<Bytes>,
    /// Whether the revocation has started and some of its keys are deleted already.
    ending: bool,
}

impl LeaseTable {
    /// Whether the lease exists and is not being revoked, so that keys may be attached to it.
    pub(crate) fn lives(&self, id: LeaseId) -> bool {
        self.leases.get(&id).is_some_and(|lease| !lease.ending)
    }

    /// Whether the lease exists, possibly while it is being revoked.
    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    /// Starts the revocation of a lease: no key can be attached to it any more.
    pub(crate) fn begin_end(&mut self, id: LeaseId) {
        self.leases.entry(id).and_modify(|lease| lease.ending = true);
    }

    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(crate) fn grant(&mut self, id: LeaseId, ttl: i64) {
        self.leases.entry(id).or_insert_with(|| Lease { ttl, keys: BTreeSet::new(), ending: false }).ttl =
            ttl;
    }

    /// Removes a lease and detaches its remaining keys.
    pub(crate) fn remove(&mut self, id: LeaseId) {
        for key in self.leases.remove(&id).into_iter().flat_map(|lease| lease.keys) {
            self.attached.remove(&key);
        }
    }

    /// The granted time to live in seconds.
    pub(crate) fn ttl(&self, id: LeaseId) -> Option<i64> {
        self.leases.get(&id).map(|lease| lease.ttl)
    }

    /// The keys of a lease, in order.
    pub(crate) fn keys(&self, id: LeaseId) -> Vec<Bytes> {
        self.leases.get(&id).map_or_else(Vec::new, |lease| lease.keys.iter().cloned().collect())
    }

    /// The first keys of a lease whose deletions make changes of about `most` bytes, at least one key; and whether
    /// these are all.
    pub(crate) fn keys_within(&self, id: LeaseId, most: usize) -> (Vec<Bytes>, bool) {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for key in self.leases.get(&id).into_iter().flat_map(|lease| &lease.keys) {
            bytes += key.len() + Event::COST;
            if bytes > most && !keys.is_empty() {
                return (keys, false);
            }
            keys.push(key.clone());
        }
        (keys, true)
    }

    /// All leases with their times to live.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, i64)> + '_ {
        self.leases.iter().map(|(id, lease)| (*id, lease.ttl))
    }

    /// Attaches a key to a lease, or detaches it.
    pub(crate) fn attach(&mut self, key: &[u8], to: LeaseId) {
        if to.is_none() && self.attached.is_empty() {
            return;
        }
        let from = self.attached.get(key).copied().unwrap_or_default();
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.keys.remove(key);
            self.attached.remove(key);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            let key = Bytes::copy_from_slice(key);
            lease.keys.insert(key.clone());
            self.attached.insert(key, to);
        }
    }
}
