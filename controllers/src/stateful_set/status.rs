//! Status of a StatefulSet: pod counts, and current and update revision. Pure.

use super::plan::Observed;
use crate::action::Action;
use crate::object::Object;
use crate::revision::POD_LABEL;
use crate::view::{Phase, Pod};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use std::time::Duration;

/// The two revisions from which pods are created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revisions<'a> {
    /// Revision of the pods before the current update.
    pub current: &'a ControllerRevision,
    /// Revision of the current template.
    pub update: &'a ControllerRevision,
}

/// The status update if it changed, and the delay until the next pod becomes available.
pub(crate) fn report(
    seen: Observed<'_>,
    spec: &StatefulSetSpec,
    revisions: Revisions<'_>,
    now: Timestamp,
) -> (Option<Action>, Option<Duration>) {
    let empty = StatefulSetStatus::default();
    let before = seen.set.status.as_ref().unwrap_or(&empty);
    let (mut status, wake) = count(seen, spec, revisions, now);
    status.conditions.clone_from(&before.conditions);
    complete(spec, &mut status);
    if !differs(before, &status) {
        return (None, wake);
    }
    let set = StatefulSet { status: Some(status), ..seen.set.clone() };
    (Some(Action::UpdateStatus(Object::of(&set))), wake)
}

fn count(
    seen: Observed<'_>,
    spec: &StatefulSetSpec,
    revisions: Revisions<'_>,
    now: Timestamp,
) -> (StatefulSetStatus, Option<Duration>) {
    let (mut ready, mut available, mut current, mut updated) = (0, 0, 0, 0);
    let mut wake: Option<Duration> = None;
    for pod in seen.pods {
        if pod.status.phase == Phase::Running && pod.ready() {
            ready += 1;
            match pod.available_in(spec.min_ready_seconds.unwrap_or(0), now) {
                Some(wait) if wait.is_zero() => available += 1,
                Some(wait) => wake = Some(wake.map_or(wait, |w| w.min(wait))),
                None => {}
            }
        }
        if !pod.metadata.is_deleting() {
            current += i32::from(has_revision(pod, revisions.current));
            updated += i32::from(has_revision(pod, revisions.update));
        }
    }
    let some = |n: i32| (n > 0).then_some(n);
    let status = StatefulSetStatus {
        observed_generation: seen.set.metadata.generation,
        replicas: i32::try_from(seen.pods.len()).unwrap_or(i32::MAX),
        ready_replicas: some(ready),
        available_replicas: Some(available),
        current_replicas: some(current),
        updated_replicas: some(updated),
        current_revision: revisions.current.metadata.name.clone(),
        update_revision: revisions.update.metadata.name.clone(),
        collision_count: seen.set.status.as_ref().and_then(|s| s.collision_count).or(Some(0)),
        conditions: None,
    };
    (status, wake)
}

fn has_revision(pod: &Pod, revision: &ControllerRevision) -> bool {
    pod.metadata.labels.get(POD_LABEL) == revision.metadata.name.as_ref()
}

/// Makes the update revision current when all pods have it and are ready.
fn complete(spec: &StatefulSetSpec, status: &mut StatefulSetStatus) {
    let wanted = spec.replicas.unwrap_or(1);
    let is_rolling =
        spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref()).unwrap_or("RollingUpdate")
            == "RollingUpdate";
    let all = |n: Option<i32>| n.unwrap_or(0) == wanted;
    if is_rolling && status.replicas == wanted && all(status.updated_replicas) && all(status.ready_replicas) {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

fn differs(before: &StatefulSetStatus, now: &StatefulSetStatus) -> bool {
    let counts = |s: &StatefulSetStatus| {
        [s.ready_replicas, s.available_replicas, s.current_replicas, s.updated_replicas, s.collision_count]
            .map(|n| n.unwrap_or(0))
    };
    before.observed_generation < now.observed_generation
        || before.replicas != now.replicas
        || counts(before) != counts(now)
        || before.current_revision != now.current_revision
        || before.update_revision != now.update_revision
}
