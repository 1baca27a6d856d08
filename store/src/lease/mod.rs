//! Leases: keys that go when nobody renews them. What callers get to see; `table` is what the writer owns, `clock` knows
//! when each ends.

pub(crate) mod clock;
pub(crate) mod expire;
pub(crate) mod granted;
pub(crate) mod table;

use bytes::Bytes;

use crate::{LeaseId, Revision};

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGranted {
    /// Its name.
    pub id: LeaseId,
    /// Its time to live in seconds; may be more than asked for.
    pub ttl: i64,
    /// The store's revision then. A grant takes none.
    pub revision: Revision,
}

/// A lease that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRenewed {
    /// Its time to live in seconds, counted anew from now.
    pub ttl: i64,
    /// The store's revision before the renewal.
    pub revision: Revision,
}

/// What is known of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Whole seconds that remain.
    pub ttl: i64,
    /// The time to live it was granted with, in seconds.
    pub granted_ttl: i64,
    /// The keys that hang on it, in order, if asked for.
    pub keys: Vec<Bytes>,
    /// The store's revision.
    pub revision: Revision,
}
