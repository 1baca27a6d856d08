//! [`DevicePlan`]: the writes to claims that a pod's bind needs with it. [`Deallocation`]: the write that takes devices away.

use super::claim::{Allocation, Claim};
use crate::storage::Record;
use jiff::SignedDuration;
use kstore_informer::{Key, Revision};
use std::sync::Arc;

/// The writes to the claims of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevicePlan {
    /// The claims that are allocated, and reserved for the pod.
    pub allocate: Vec<(Arc<Record<Claim>>, Arc<Allocation>)>,
    /// The allocated claims that are reserved for the pod.
    pub reserve: Vec<Arc<Record<Claim>>>,
    /// The claims whose devices must be prepared before the pod is bound.
    pub unprepared: Vec<Key>,
    /// The time that this may take.
    pub binding_timeout: SignedDuration,
}

impl DevicePlan {
    /// Whether there is nothing to write and nothing to wait for.
    pub fn is_empty(&self) -> bool {
        !self.has_writes() && self.unprepared.is_empty()
    }

    /// Whether a claim is written.
    pub(crate) fn has_writes(&self) -> bool {
        !self.allocate.is_empty() || !self.reserve.is_empty()
    }
}

/// An allocated claim without users that keeps a pod away from all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deallocation {
    /// Namespace and name of the claim.
    pub claim: Key,
    /// The uid of the claim.
    pub uid: String,
    /// The revision at which the claim has no users.
    pub revision: Revision,
}
