//! When NoExecute taints of allocated devices evict the pods that use them. Pure.

use super::slices::Slice;
use crate::eviction::{EvictionTexts, Verdict};
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, DeviceTaint, DeviceToleration};

/// Texts of this controller's events and conditions.
pub(super) const TEXTS: &EvictionTexts = &EvictionTexts {
    event: "DeviceTaintManagerEviction",
    names_pod: false,
    condition: ("DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"),
};

/// Effect of the taints that evict pods.
pub(super) const NO_EXECUTE: &str = "NoExecute";

/// The slices of a pool that count: those of its newest generation.
pub(super) fn newest<'s>(slices: impl Iterator<Item = &'s Slice> + Clone) -> impl Iterator<Item = &'s Slice> {
    let generation = slices.clone().map(|slice| slice.spec.pool.generation).max();
    slices.filter(move |slice| Some(slice.spec.pool.generation) == generation)
}

/// When these taints of a device evict the pods that hold it by this allocation; `None` if it tolerates them.
///
/// A toleration counts only if its effect is NoExecute, as upstream, although one without effect lets the scheduler
/// allocate the device. Of the tolerations with a time, the shortest counts. A taint without a time counts as old.
pub(super) fn eviction_time(
    allocated: &DeviceRequestAllocationResult,
    taints: &[DeviceTaint],
) -> Option<Timestamp> {
    let tolerations = allocated.tolerations.as_deref().unwrap_or_default();
    taints.iter().filter_map(|taint| tolerated_until(taint, tolerations)).min()
}

/// When a taint evicts pods with these tolerations; `None` if they tolerate it without a limit.
pub(super) fn tolerated_until(taint: &DeviceTaint, tolerations: &[DeviceToleration]) -> Option<Timestamp> {
    let since = taint.time_added.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let mut shortest: Option<i64> = None;
    for toleration in tolerations.iter().filter(|toleration| tolerates(toleration, taint)) {
        let seconds = toleration.toleration_seconds?.max(0);
        shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
    }
    let grace = SignedDuration::from_secs(shortest.unwrap_or(0));
    Some(since.checked_add(grace).unwrap_or(Timestamp::MAX))
}

fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    if toleration.effect.as_deref() != Some(NO_EXECUTE) || !key.is_empty() && key != taint.key {
        return false;
    }
    let value = |value: &Option<String>| value.clone().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => value(&toleration.value) == value(&taint.value),
        _ => false,
    }
}

/// The decision about a pod whose devices evict it at a time, if at all. A pod without a node has no devices yet.
pub(super) fn evaluate(pod: &Pod, eviction: Option<Timestamp>, now: Timestamp) -> Verdict {
    match eviction {
        Some(time) if pod.active() && !pod.spec.node_name.is_empty() => {
            match time.duration_since(now).unsigned_abs() {
                left if time > now => Verdict::StayFor(left),
                _ => Verdict::Leave,
            }
        }
        _ => Verdict::Stay,
    }
}
