//! Leases of keys with a time to live. As in Kubernetes, keys that are written within [`lease_share`] share one
//! lease, so that thousands of events do not need thousands of leases. Keys live that much longer than requested.

use super::call_error::CallError;
use super::link::{Link, Member};
use crate::limits::LEASE_KEYS;
use crate::storage::lease_share;
use kstore_proto::etcd::etcdserverpb::LeaseGrantRequest;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The leases that new keys join, by time to live in seconds.
#[derive(Default)]
pub(super) struct Leases(Mutex<BTreeMap<u64, SharedLease>>);

struct SharedLease {
    id: i64,
    until: Instant,
    keys: usize,
}

impl Leases {
    /// The lease for one more key with this time to live; 0 if the key does not expire.
    pub(super) async fn join(&self, link: &Link, ttl_seconds: u64) -> Result<i64, CallError> {
        if ttl_seconds == 0 {
            return Ok(0);
        }
        if let Some(id) = self.joined(ttl_seconds) {
            return Ok(id);
        }
        let share = lease_share(ttl_seconds);
        let ttl = i64::try_from(ttl_seconds.saturating_add(share.as_secs())).unwrap_or(i64::MAX);
        let request = LeaseGrantRequest { ttl, id: 0 };
        // A lost reply leaves a lease without keys, which expires.
        let grant = |member: Member| async move { member.lease().lease_grant(member.request(request)).await };
        let id = link.call(grant).await?.id;
        let shared = SharedLease { id, until: Instant::now() + share, keys: 1 };
        self.0.lock().insert(ttl_seconds, shared);
        Ok(id)
    }

    fn joined(&self, ttl_seconds: u64) -> Option<i64> {
        let mut leases = self.0.lock();
        let shared = leases.get_mut(&ttl_seconds)?;
        if shared.keys >= LEASE_KEYS || Instant::now() >= shared.until {
            return None;
        }
        shared.keys += 1;
        Some(shared.id)
    }

    /// Forgets all leases, because some were revoked by another client.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }
}
