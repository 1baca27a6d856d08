//! [`DevicePlan`]: the writes to claims that a pod's bind needs with it.

use super::claim::{Allocation, Claim};
use crate::storage::Record;
use std::sync::Arc;

/// The writes to the claims of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevicePlan {
    /// The claims that are allocated, and reserved for the pod.
    pub allocate: Vec<(Arc<Record<Claim>>, Arc<Allocation>)>,
    /// The allocated claims that are reserved for the pod.
    pub reserve: Vec<Arc<Record<Claim>>>,
}

impl DevicePlan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.allocate.is_empty() && self.reserve.is_empty()
    }
}
