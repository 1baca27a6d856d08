//! Leases: attached keys are deleted when a lease expires. `txn::lease_table` is the writer's state,
//! `published::lease_clock` has the deadlines.

use crate::{LeaseId, Revision};
use bytes::Bytes;

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGranted {
    /// The id of the lease.
    pub id: LeaseId,
    /// The granted time to live in seconds; may be more than requested.
    pub ttl: i64,
    /// The store's revision at the grant, which takes no revision itself.
    pub revision: Revision,
}

/// A renewed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRenewed {
    /// The time to live in seconds, counted from the renewal.
    pub ttl: i64,
    /// The store's revision before the renewal.
    pub revision: Revision,
}

/// The remaining time and the keys of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Remaining time in whole seconds.
    pub ttl: i64,
    /// The granted time to live in seconds.
    pub granted_ttl: i64,
    /// The attached keys in order, if requested.
    pub keys: Vec<Bytes>,
    /// The store's revision.
    pub revision: Revision,
}
