//! Writes the condition of PodGroups: PodGroupScheduled until Kubernetes 1.36, PodGroupInitiallyScheduled since 1.37.

use super::FinishedWrite;
use crate::action::{GangReport, GangResult};
use crate::pod::Uid;
use crate::pod_groups::PodGroupVersion;
use jiff::Timestamp;
use kstore_client::{Client, Gvr, Patch};
use kstore_informer::Key;
use serde_json::{Value, json};

/// The resource of PodGroups. The scheduler reads and writes it without a type: not every server has it.
pub(crate) fn resource(version: PodGroupVersion) -> Gvr {
    Gvr::new("scheduling.k8s.io", version.name(), "podgroups")
}

/// The patch that makes the condition of a PodGroup say `report`. `None` if it already does, if the PodGroup is gone, or if it had its
/// nodes before: later pods of the group do not change that. The uid in the patch excludes a new PodGroup of the same name.
pub(super) fn condition(report: &GangReport, now: Timestamp) -> Option<Patch> {
    let group = report.group.as_ref()?;
    let (status, reason) = match report.result {
        GangResult::Scheduled => ("True", "Scheduled"),
        GangResult::Unschedulable => ("False", "Unschedulable"),
        GangResult::Error => ("False", "SchedulerError"),
    };
    let before = group.scheduled();
    if before.0 == "True" && status != "True" || before == (status, reason, &report.message) {
        return None;
    }
    let own = group.version.condition();
    let is_ours = |condition: &&Value| condition["type"] == own;
    let since = group.conditions.iter().find(is_ours).filter(|_| before.0 == status);
    let since = since.map_or_else(|| json!(now.to_string()), |old| old["lastTransitionTime"].clone());
    let mut conditions: Vec<Value> =
        group.conditions.iter().filter(|condition| !is_ours(condition)).cloned().collect();
    let mut condition = json!({
        "type": own, "status": status, "reason": reason, "message": report.message, "lastTransitionTime": since,
    });
    if group.generation != 0 {
        condition["observedGeneration"] = group.generation.into();
    }
    conditions.push(condition);
    Some(Patch::Merge(json!({ "metadata": { "uid": group.uid }, "status": { "conditions": conditions } })))
}

/// Writes the status of a PodGroup. A failure is not reported: the next cycle writes the condition again if it is still another.
pub(super) async fn write(
    client: Client,
    (version, group, uid): (PodGroupVersion, Key, Uid),
    patch: Patch,
) -> FinishedWrite {
    let api = client.dynamic(resource(version));
    if let Err(error) = api.write_status_patch(group.namespace(), group.name(), &patch).await {
        tracing::debug!(%group, %error, "failed to update the condition of the PodGroup");
    }
    FinishedWrite::PodGroup(uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_groups::{self, PodGroup};
    use crate::storage::Record;
    use crate::testing::{at, cpu_pod};
    use PodGroupVersion::{V1Alpha2, V1Beta1};
    use std::sync::Arc;

    fn written(conditions: &Value, result: GangResult, message: &str) -> Option<Value> {
        written_in(V1Alpha2, conditions, result, message)
    }

    fn written_in(
        version: PodGroupVersion,
        conditions: &Value,
        result: GangResult,
        message: &str,
    ) -> Option<Value> {
        let group = json!({
            "metadata": { "namespace": "ns", "name": "g", "uid": "u", "generation": 3 },
            "status": { "conditions": conditions },
        });
        let group: Record<PodGroup> = pod_groups::decode(group.to_string().as_bytes(), version).unwrap();
        let (pod, group) = (cpu_pod("a", "1"), Some(Arc::new(group)));
        let report = GangReport { pod, group, began: at(0), result, message: message.to_owned() };
        match condition(&report, at(5))? {
            Patch::Merge(patch) => Some(patch["status"]["conditions"].clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_condition_keeps_others_and_its_time_and_never_leaves_true() {
        let other = json!({ "type": "DisruptionTarget", "status": "True" });
        let ours = |status: &str, reason: &str, message: &str, since: &str| {
            json!({
                "type": "PodGroupScheduled", "status": status, "reason": reason, "message": message,
                "observedGeneration": 3, "lastTransitionTime": since,
            })
        };
        let now = at(5).to_string();
        let refused = ours("False", "Unschedulable", "why", &now);
        let first = written(&json!([other]), GangResult::Unschedulable, "why").unwrap();
        assert_eq!(first, json!([other, refused]));
        assert_eq!(written(&first, GangResult::Unschedulable, "why"), None, "it says so already");
        let old = json!([ours("False", "Unschedulable", "why", "before")]);
        let failed = json!([ours("False", "SchedulerError", "bad", "before")]);
        assert_eq!(written(&old, GangResult::Error, "bad"), Some(failed));
        let scheduled = json!([ours("True", "Scheduled", "", &now)]);
        assert_eq!(written(&old, GangResult::Scheduled, ""), Some(scheduled.clone()));
        assert_eq!(written(&scheduled, GangResult::Unschedulable, "why"), None);
    }

    #[test]
    fn the_condition_of_1_37_has_its_own_type_and_leaves_that_of_1_36_alone() {
        let former = written(&json!([]), GangResult::Scheduled, "").unwrap();
        assert_eq!(former[0]["type"], "PodGroupScheduled");
        let both = written_in(V1Beta1, &former, GangResult::Unschedulable, "why").unwrap();
        assert_eq!((&both[0], &both[1]["type"]), (&former[0], &json!("PodGroupInitiallyScheduled")));
        assert_eq!((&both[1]["status"], &both[1]["reason"]), (&json!("False"), &json!("Unschedulable")));
        let scheduled = written_in(V1Beta1, &both, GangResult::Scheduled, "").unwrap();
        assert_eq!(written_in(V1Beta1, &scheduled, GangResult::Error, "why"), None, "it stays true");
    }
}
