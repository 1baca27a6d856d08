//! How controllers mark a pod that they are about to remove. Pure.

use crate::action::Action;
use crate::view::{Pod, seconds};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use serde_json::json;

/// Whether the pod is also to count as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It ends by itself, or its kubelet says how.
    Keep,
    /// Nobody else will say that it ended.
    Failed,
}

/// The patch that sets the phase and the condition DisruptionTarget (reason and message).
pub(crate) fn mark(pod: &Pod, phase: Phase, why: Option<(&str, &str)>, now: Timestamp) -> Action {
    let mut status = json!({});
    if phase == Phase::Failed {
        status["phase"] = json!("Failed");
    }
    if let Some((reason, message)) = why {
        let mut conditions = pod.status.conditions.clone();
        conditions.retain(|c| c.type_ != "DisruptionTarget");
        conditions.push(PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_transition_time: Some(seconds(now)),
            ..PodCondition::default()
        });
        status["conditions"] = json!(conditions);
    }
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    Action::Patch { target: pod.target(), status: true, patch }
}
