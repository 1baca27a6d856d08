//! Expiry of a DisruptionTarget condition on a pod that is not removed. Pure.

use crate::disruption_target::marked_since;
use crate::limits::STALE_DISRUPTION;
use crate::view::{Pod, elapsed};
use jiff::Timestamp;
use std::time::Duration;

/// Time until the pod's DisruptionTarget condition is stale, zero if it is stale now. `None` without the
/// condition, or if the pod is terminating or has ended.
pub(crate) fn expires_in(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let since = marked_since(pod).filter(|_| pod.active())?;
    Some(STALE_DISRUPTION.saturating_sub(elapsed(since, now)))
}
