//! When NoExecute taints evict a pod from its node. Pure.

use crate::eviction::{EvictionTexts, Verdict};
use crate::view::{Pod, elapsed};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};
use std::time::Duration;

/// Texts of this controller's events and conditions.
pub(super) const TEXTS: &EvictionTexts = &EvictionTexts {
    event: "TaintManagerEviction",
    names_pod: true,
    condition: ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
};

/// A NoExecute taint of the pod's node, and its start.
#[derive(Clone, Debug)]
pub(crate) struct TimedTaint {
    /// The taint.
    pub taint: Taint,
    /// When it was added, or first seen if it has no time.
    pub at: Timestamp,
}

/// Without a toleration for every taint the pod is evicted at once. The first matching toleration of each
/// taint allows a time from when the taint was added, or unlimited time; the shortest counts.
pub(crate) fn evaluate(pod: &Pod, taints: &[TimedTaint], now: Timestamp) -> Verdict {
    if taints.is_empty() || pod.metadata.is_deleting() || pod.status.phase.is_terminal() {
        return Verdict::Stay;
    }
    let mut shortest: Option<Duration> = None;
    for TimedTaint { taint, at } in taints {
        let Some(toleration) = pod.spec.tolerations.iter().find(|t| tolerates(t, taint)) else {
            return Verdict::Leave;
        };
        if let Some(seconds) = toleration.toleration_seconds {
            let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            let left = time.saturating_sub(elapsed(*at, now));
            shortest = Some(shortest.map_or(left, |s| s.min(left)));
        }
    }
    match shortest {
        None => Verdict::Stay,
        Some(left) if left.is_zero() => Verdict::Leave,
        Some(left) => Verdict::StayFor(left),
    }
}

/// Whether a toleration matches a taint: no key or the same; no effect or the same; `Exists` or the same
/// value.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}
