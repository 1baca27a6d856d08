//! The pod condition DisruptionTarget: how controllers set and remove it. Pure.

use crate::action::{Action, PatchKind};
use crate::view::{Pod, seconds};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use serde_json::json;

/// Type of the condition.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether the pod is also marked as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The phase stays: the kubelet reports it.
    Keep,
    /// The phase becomes Failed, because no kubelet will report the end.
    Failed,
}

/// The patch that sets the phase and the condition DisruptionTarget (reason and message). Conditions that
/// were added meanwhile stay.
pub(crate) fn mark(pod: &Pod, phase: Phase, why: Option<(&str, &str)>, now: Timestamp) -> Action {
    let mut status = json!({});
    if phase == Phase::Failed {
        status["phase"] = json!("Failed");
    }
    if let Some((reason, message)) = why {
        let condition = PodCondition {
            type_: DISRUPTION_TARGET.into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_transition_time: Some(seconds(now)),
            observed_generation: observed_generation(pod),
            ..PodCondition::default()
        };
        status["conditions"] = json!([condition]);
    }
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    Action::Patch { target: pod.target(), status: true, kind: PatchKind::Strategic, patch }
}

/// Since when the pod has the condition DisruptionTarget, unless its kubelet set it, which may take its time.
pub(crate) fn marked_since(pod: &Pod) -> Option<Timestamp> {
    let condition = pod.condition(DISRUPTION_TARGET).filter(|c| c.status == "True")?;
    let by_kubelet = condition.reason.as_deref() == Some("TerminationByKubelet");
    // Without a time the condition counts as old.
    let since = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    (!by_kubelet).then_some(since)
}

/// The patch that removes the condition, unless the pod has changed.
pub(crate) fn unmark(pod: &Pod, now: Timestamp) -> Action {
    let condition = PodCondition {
        type_: DISRUPTION_TARGET.into(),
        status: "False".into(),
        last_transition_time: Some(seconds(now)),
        observed_generation: observed_generation(pod),
        ..PodCondition::default()
    };
    let patch = json!({
        "metadata": { "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version },
        "status": { "conditions": with(pod, condition) },
    });
    Action::Patch { target: pod.target(), status: true, kind: PatchKind::Merge, patch }
}

/// The generation of the pod that the condition is about; `None` for a pod without one.
fn observed_generation(pod: &Pod) -> Option<i64> {
    pod.metadata.generation.filter(|generation| *generation > 0)
}

/// The pod's conditions with this one replacing that of its type.
fn with(pod: &Pod, condition: PodCondition) -> Vec<PodCondition> {
    let mut conditions = pod.status.conditions.clone();
    conditions.retain(|c| c.type_ != condition.type_);
    conditions.push(condition);
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::patch::strategic;
    use kstore_api::schema;
    use serde_json::from_value;

    #[test]
    fn the_disruption_target_patch_keeps_concurrent_conditions() {
        let seen: Pod = from_value(
            json!({"metadata": {"name": "p", "uid": "u", "generation": 3}, "status": {"phase": "Pending"}}),
        )
        .unwrap();
        let stored = json!({"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "False", "message": "of an earlier time"},
        ]}});
        let now = Timestamp::constant(1_767_225_600, 0);
        let why = Some(("DeletionByPodGC", "PodGC: node no longer exists"));
        let Action::Patch { kind: PatchKind::Strategic, patch, status: true, .. } =
            mark(&seen, Phase::Failed, why, now)
        else {
            panic!("no strategic patch of the status")
        };
        let ty = schema::of("", "v1", "Pod").expect("pods are in the table of fields");
        let merged = strategic::apply(&stored, &patch, ty).unwrap();
        let condition = |type_: &str| {
            let all = merged["status"]["conditions"].as_array().unwrap();
            let found: Vec<_> = all.iter().filter(|c| c["type"] == type_).collect();
            assert_eq!(found.len(), 1, "{all:?}");
            found[0].clone()
        };
        assert_eq!(condition("Ready")["status"], "True");
        let marked = condition("DisruptionTarget");
        assert_eq!((&marked["status"], &marked["reason"]), (&json!("True"), &json!("DeletionByPodGC")));
        assert_eq!(marked["observedGeneration"], 3);
        assert_eq!((&merged["status"]["phase"], &merged["metadata"]["uid"]), (&json!("Failed"), &json!("u")));
    }
}
