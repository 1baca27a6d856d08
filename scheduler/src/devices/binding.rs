//! Binding conditions: what must be true of allocated devices before a pod that uses them is bound. A driver reports it in the claim's
//! `status.devices`. Pure.

use super::claim::{Allocation, Claim};
use crate::storage::Record;

/// How far the devices of a claim are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindingProgress {
    /// The driver has not reported all conditions.
    Pending,
    /// Every condition is true.
    Ready,
    /// The devices cannot be used, for this reason.
    Failed(String),
}

impl Allocation {
    /// Whether a device must be prepared before a pod is bound.
    pub(crate) fn has_binding_conditions(&self) -> bool {
        self.devices.iter().any(|device| !device.binding_conditions.is_empty())
    }
}

/// How far the devices of an allocated claim are. A failure condition takes precedence.
pub(crate) fn progress(claim: &Record<Claim>) -> BindingProgress {
    let name = claim.key.name();
    let Some(allocation) = &claim.allocation else {
        return BindingProgress::Failed(format!("claim {name} has no allocation any more"));
    };
    let mut is_ready = true;
    for device in allocation.devices.iter().filter(|device| !device.binding_conditions.is_empty()) {
        let reported =
            claim.device_conditions.iter().find(|one| one.id == device.id && one.share == device.share);
        let conditions = reported.map_or(&[][..], |reported| &reported.conditions);
        let find = |kind: &String| {
            conditions.iter().find(|condition| condition.kind == *kind && condition.status == "True")
        };
        if let Some(failed) = device.binding_failure_conditions.iter().find_map(find) {
            let (reason, message) = (&failed.reason, &failed.message);
            return BindingProgress::Failed(format!(
                "device binding failed: claim={name}, reason={reason}, message={message:?}"
            ));
        }
        is_ready &= device.binding_conditions.iter().all(|kind| find(kind).is_some());
    }
    if is_ready { BindingProgress::Ready } else { BindingProgress::Pending }
}
