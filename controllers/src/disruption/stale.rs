//! How long a pod may say that it is about to be removed without being removed. Pure.

use crate::disruption_target::marked_since;
use crate::limits::STALE_DISRUPTION;
use crate::view::{Pod, elapsed};
use jiff::Timestamp;
use std::time::Duration;

/// The time after which the pod's mark means nothing any more; zero if it does not now. None if there is no mark, or if the pod
/// goes or has ended, as was said.
pub(crate) fn expires_in(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let since = marked_since(pod).filter(|_| pod.active())?;
    Some(STALE_DISRUPTION.saturating_sub(elapsed(since, now)))
}
