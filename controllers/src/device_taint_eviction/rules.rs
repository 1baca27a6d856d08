//! DeviceTaintRules: which devices a rule selects, when it evicts the pods that hold one, and the condition in its status. Pure.

use super::plan::{NO_EXECUTE, tolerated_until};
use crate::action::{Action, PatchKind, Target};
use crate::stable_kinds::DeviceTaintRule;
use jiff::Timestamp;
use k8s_openapi::Resource as _;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, DeviceTaint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use std::time::Duration;

/// Type of the condition that says how far the evictions because of a rule are.
const CONDITION: &str = "EvictionInProgress";

/// Shortest time between two conditions of one generation of a rule, as upstream: evictions of many pods cost few writes.
pub(super) const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// What the condition of a rule counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleCounts {
    /// Devices of published slices that the rule selects.
    pub published: usize,
    /// Allocated devices that the rule selects.
    pub allocated: usize,
    /// Pods that the rule evicts, now or later, or would evict if its effect were NoExecute.
    pub pending: usize,
    /// Namespaces of these pods.
    pub namespaces: usize,
    /// Pods that were evicted because of the rule since the controller started.
    pub evicted: u64,
}

/// Whether a rule selects a device. A rule without a selector selects none; an empty selector selects all.
pub(super) fn selects(rule: &DeviceTaintRule, driver: &str, pool: &str, device: &str) -> bool {
    let is = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
    rule.spec.device_selector.as_ref().is_some_and(|selector| {
        is(&selector.driver, driver) && is(&selector.pool, pool) && is(&selector.device, device)
    })
}

/// Whether a rule selects an allocated device.
pub(super) fn selects_allocated(rule: &DeviceTaintRule, allocated: &DeviceRequestAllocationResult) -> bool {
    selects(rule, &allocated.driver, &allocated.pool, &allocated.device)
}

/// Whether a rule evicts pods.
pub(super) fn is_evicting(rule: &DeviceTaintRule) -> bool {
    rule.spec.taint.effect == NO_EXECUTE
}

/// When the taint of a rule evicts the pods that hold a device by this allocation, if its effect is NoExecute; `None` if the rule does not
/// select the device, or if the allocation tolerates the taint.
pub(super) fn eviction_time(
    rule: &DeviceTaintRule,
    allocated: &DeviceRequestAllocationResult,
) -> Option<Timestamp> {
    if !selects_allocated(rule, allocated) {
        return None;
    }
    let taint = &rule.spec.taint;
    let taint = DeviceTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: NO_EXECUTE.to_owned(),
        time_added: taint.time_added.clone(),
    };
    tolerated_until(&taint, allocated.tolerations.as_deref().unwrap_or_default())
}

fn stored(rule: &DeviceTaintRule) -> Option<&Condition> {
    let conditions = rule.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().find(|condition| condition.type_ == CONDITION)
}

/// How long the condition of a rule has to stay; `None` if it may be computed now.
pub(super) fn wait(rule: &DeviceTaintRule, now: Timestamp) -> Option<Duration> {
    let stored = stored(rule).filter(|stored| stored.observed_generation == rule.metadata.generation)?;
    let age = now.duration_since(stored.last_transition_time.0);
    let age = Duration::try_from(age).unwrap_or_default();
    STATUS_PERIOD.checked_sub(age).filter(|left| !left.is_zero())
}

/// The write of a rule's condition; `None` if it is up to date. Its time is that of the last change of any member.
pub(super) fn condition(rule: &DeviceTaintRule, counts: &RuleCounts, now: Timestamp) -> Option<Action> {
    let (status, reason, message) = texts(rule, counts);
    let generation = rule.metadata.generation;
    let is_current = stored(rule).is_some_and(|stored| {
        (&*stored.status, &*stored.reason, &stored.message, stored.observed_generation)
            == (status, reason, &message, generation)
    });
    if is_current {
        return None;
    }
    let target = Target { resource_version: None, ..Target::of(rule) };
    // Times of conditions have whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let condition = json!({
        "type": CONDITION, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
        "lastTransitionTime": now.to_string(),
    });
    let patch = json!({
        "apiVersion": DeviceTaintRule::API_VERSION, "kind": DeviceTaintRule::KIND,
        "metadata": {"name": target.name, "uid": target.uid},
        "status": {"conditions": [condition]},
    });
    Some(Action::Patch { target, status: true, kind: PatchKind::Apply, patch })
}

/// Status, reason and message of the condition.
fn texts(rule: &DeviceTaintRule, counts: &RuleCounts) -> (&'static str, &'static str, String) {
    let namespaces = match counts.namespaces {
        1 => "1 namespace".to_owned(),
        count => format!("{count} different namespaces"),
    };
    let (status, reason, message) = match &*rule.spec.taint.effect {
        NO_EXECUTE if counts.pending > 0 => {
            let pods = plural(counts.pending, "pod needs", "pods need");
            ("True", "PodsPendingEviction", format!("{pods} to be evicted in {namespaces}."))
        }
        NO_EXECUTE if counts.evicted > 0 => ("False", "Completed", String::new()),
        NO_EXECUTE => ("False", "NotStarted", String::new()),
        "None" => {
            let published = plural(counts.published, "published device", "published devices");
            let allocated = plural(counts.allocated, "allocated device", "allocated devices");
            let pods = plural(counts.pending, "pod", "pods");
            let preview = format!(
                "{published} selected. {allocated} selected. {pods} would be evicted in {namespaces} if the effect was \
                 NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
            );
            ("False", "NoEffect", preview)
        }
        _ => ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.".to_owned()),
    };
    let pods = plural(usize::try_from(counts.evicted).unwrap_or(usize::MAX), "pod", "pods");
    let evicted = format!("{pods} evicted since starting the controller.");
    let message = match (counts.evicted, message.is_empty()) {
        (0, _) => message,
        (_, true) => evicted,
        (_, false) => format!("{message} {evicted}"),
    };
    (status, reason, message)
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
