//! [`DevicePlan`]: the writes to claims that a pod's bind needs with it. [`Deallocation`]: the write that takes devices away.

use super::claim::{Allocation, Claim};
use super::extended::RequestMapping;
use crate::storage::Record;
use jiff::SignedDuration;
use kstore_informer::{Key, Revision};
use std::sync::Arc;

/// The writes to the claims of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevicePlan {
    /// The claims that are allocated, and reserved for the pod.
    pub allocate: Vec<(Arc<Record<Claim>>, Arc<Allocation>)>,
    /// The claim that is created for the extended resources of the pod, allocated, and reserved for it.
    pub create: Option<Arc<CreatedClaim>>,
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

    /// The claims that get devices.
    pub(crate) fn assumed(&self) -> impl Iterator<Item = &Key> {
        let allocated = self.allocate.iter().map(|(claim, _)| &claim.key);
        allocated.chain(self.create.iter().map(|created| &created.claim.key))
    }

    /// Whether a claim is written.
    pub(crate) fn has_writes(&self) -> bool {
        !self.allocate.is_empty() || !self.reserve.is_empty() || self.create.is_some()
    }
}

/// A claim that is created for the extended resources of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct CreatedClaim {
    /// The claim under its name, without a uid.
    pub claim: Arc<Record<Claim>>,
    /// Its devices.
    pub allocation: Arc<Allocation>,
    /// The request that serves each resource of each container.
    pub mappings: Vec<RequestMapping>,
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
    /// Whether the claim is deleted: it was made for the extended resources of the pod.
    pub deletes: bool,
}
