//! Status of a Deployment: counts, conditions, and rollout progress. Pure.

use super::arith::Bounds;
use crate::view::{elapsed, seconds};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use std::time::Duration;

pub(crate) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// The counts in a ReplicaSet's status; zero without a status.
pub(crate) fn counts(set: &ReplicaSet) -> ReplicaSetStatus {
    let s = set.status.as_ref();
    ReplicaSetStatus {
        replicas: s.map_or(0, |s| s.replicas),
        ready_replicas: s.and_then(|s| s.ready_replicas),
        available_replicas: s.and_then(|s| s.available_replicas),
        terminating_replicas: s.and_then(|s| s.terminating_replicas),
        ..ReplicaSetStatus::default()
    }
}

/// The desired size of a ReplicaSet.
pub(crate) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

/// Sum of the desired sizes.
pub(crate) fn total_size<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i32 {
    sets.into_iter().map(size).fold(0, i32::saturating_add)
}

fn condition<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == type_)
}

/// Sets a condition. With the same status and reason nothing changes; with the same status the transition
/// time stays.
pub(crate) fn set_condition(
    status: &mut DeploymentStatus,
    type_: &str,
    value: &str,
    why: (&str, String),
    now: Timestamp,
) {
    let time = Some(seconds(now));
    let old = condition(status, type_).cloned();
    if old.as_ref().is_some_and(|o| o.status == value && o.reason.as_deref() == Some(why.0)) {
        return;
    }
    let kept = old.filter(|o| o.status == value).and_then(|o| o.last_transition_time);
    let fresh = DeploymentCondition {
        type_: type_.into(),
        status: value.into(),
        reason: Some(why.0.into()),
        message: Some(why.1),
        last_update_time: time.clone(),
        last_transition_time: kept.or(time),
    };
    drop_condition(status, type_);
    status.conditions.get_or_insert_default().push(fresh);
}

fn drop_condition(status: &mut DeploymentStatus, type_: &str) {
    if let Some(all) = &mut status.conditions {
        all.retain(|c| c.type_ != type_);
    }
}

/// The progress deadline of a rollout; `None` means no limit.
pub(crate) fn deadline(d: &Deployment) -> Option<Duration> {
    let seconds = d.spec.as_ref()?.progress_deadline_seconds.filter(|s| *s != i32::MAX)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Whether all pods have the newest template and are available, without old pods.
pub(crate) fn complete(d: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = Bounds::of(d).wanted;
    let is = |n: Option<i32>| n.unwrap_or(0) == wanted;
    is(status.updated_replicas)
        && is(status.replicas)
        && is(status.available_replicas)
        && status.observed_generation.unwrap_or(0) >= d.metadata.generation.unwrap_or(0)
}

/// The current status, with the Progressing condition updated for pausing and resuming.
pub(crate) fn with_pause(d: &Deployment, now: Timestamp) -> DeploymentStatus {
    let mut status = d.status.clone().unwrap_or_default();
    if deadline(d).is_none() {
        return status;
    }
    let reason = condition(&status, PROGRESSING).and_then(|c| c.reason.clone());
    let paused = d.spec.as_ref().and_then(|s| s.paused).unwrap_or(false);
    match (paused, reason.as_deref()) {
        (_, Some(DEADLINE_EXCEEDED)) | (true, Some(PAUSED)) => {}
        (true, _) => {
            let why = (PAUSED, "Deployment is paused".into());
            set_condition(&mut status, PROGRESSING, "Unknown", why, now);
        }
        (false, Some(PAUSED)) => {
            let why = ("DeploymentResumed", "Deployment is resumed".into());
            set_condition(&mut status, PROGRESSING, "Unknown", why, now);
        }
        (false, _) => {}
    }
    status
}

/// The counts and the Available condition, added to the conditions of `before`.
pub(crate) fn counted(
    d: &Deployment,
    before: &DeploymentStatus,
    new: Option<&ReplicaSet>,
    all: &[&ReplicaSet],
    now: Timestamp,
) -> DeploymentStatus {
    let sum =
        |f: fn(&ReplicaSetStatus) -> i32| all.iter().map(|s| f(&counts(s))).fold(0, i32::saturating_add);
    let some = |n: i32| (n > 0).then_some(n);
    let available = sum(|s| s.available_replicas.unwrap_or(0));
    let mut status = DeploymentStatus {
        observed_generation: d.metadata.generation,
        replicas: some(sum(|s| s.replicas)),
        updated_replicas: some(new.map_or(0, |s| counts(s).replicas)),
        ready_replicas: some(sum(|s| s.ready_replicas.unwrap_or(0))),
        available_replicas: some(available),
        unavailable_replicas: some(total_size(all.iter().copied()).saturating_sub(available)),
        terminating_replicas: Some(sum(|s| s.terminating_replicas.unwrap_or(0))),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    };
    if available >= Bounds::of(d).least() {
        let why = ("MinimumReplicasAvailable", "Deployment has minimum availability.".into());
        set_condition(&mut status, AVAILABLE, "True", why, now);
    } else {
        let why = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.".into());
        set_condition(&mut status, AVAILABLE, "False", why, now);
    }
    status
}

/// Updates the Progressing condition: complete, progressing, or deadline exceeded. Without a deadline there
/// is no such condition.
pub(crate) fn evaluate(
    d: &Deployment,
    before: &DeploymentStatus,
    status: &mut DeploymentStatus,
    new: Option<&ReplicaSet>,
    now: Timestamp,
) {
    let Some(limit) = deadline(d) else {
        drop_condition(status, PROGRESSING);
        return;
    };
    let current = condition(before, PROGRESSING).cloned();
    let reason = current.as_ref().and_then(|c| c.reason.as_deref());
    // Between rollouts there is no progress to estimate.
    if reason == Some(NEW_SET_AVAILABLE) && status.replicas == status.updated_replicas {
        return;
    }
    let subject = new.and_then(|s| s.metadata.name.as_ref()).map_or_else(
        || format!("Deployment {:?}", d.metadata.name.as_deref().unwrap_or_default()),
        |name| format!("ReplicaSet {name:?}"),
    );
    if complete(d, status) {
        let why = (NEW_SET_AVAILABLE, format!("{subject} has successfully progressed."));
        set_condition(status, PROGRESSING, "True", why, now);
    } else if moved(before, status) {
        // Each progress restarts the deadline, so the update time changes even if the reason stays.
        let since = current.filter(|c| c.status == "True").and_then(|c| c.last_transition_time);
        drop_condition(status, PROGRESSING);
        let why = ("ReplicaSetUpdated", format!("{subject} is progressing."));
        set_condition(status, PROGRESSING, "True", why, now);
        let last = status.conditions.as_mut().and_then(|c| c.last_mut());
        if let (Some(last), Some(since)) = (last, since) {
            last.last_transition_time = Some(since);
        }
    } else if current.as_ref().is_some_and(|c| timed_out(c, limit, now)) {
        let why = (DEADLINE_EXCEEDED, format!("{subject} has timed out progressing."));
        set_condition(status, PROGRESSING, "False", why, now);
    }
}

fn moved(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let n = |v: Option<i32>| v.unwrap_or(0);
    let old = |s: &DeploymentStatus| n(s.replicas).saturating_sub(n(s.updated_replicas));
    n(after.updated_replicas) > n(before.updated_replicas)
        || old(after) < old(before)
        || n(after.ready_replicas) > n(before.ready_replicas)
        || n(after.available_replicas) > n(before.available_replicas)
}

fn timed_out(progressing: &DeploymentCondition, limit: Duration, now: Timestamp) -> bool {
    match progressing.reason.as_deref() {
        Some(NEW_SET_AVAILABLE) => false,
        Some(DEADLINE_EXCEEDED) => true,
        _ => progressing.last_update_time.as_ref().is_some_and(|since| elapsed(since.0, now) > limit),
    }
}

/// Time until the deadline of the current rollout.
pub(crate) fn deadline_in(d: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let limit = deadline(d)?;
    let progressing = condition(status, PROGRESSING)?;
    let settled =
        [NEW_SET_AVAILABLE, DEADLINE_EXCEEDED, PAUSED].map(Some).contains(&progressing.reason.as_deref());
    if settled || complete(d, status) {
        return None;
    }
    let since = progressing.last_update_time.as_ref()?.0;
    Some(limit.saturating_sub(elapsed(since, now)) + Duration::from_secs(1))
}

/// Copies a ReplicaFailure condition from a ReplicaSet (the new one first), or removes it.
pub(crate) fn carry_failure(
    status: &mut DeploymentStatus,
    new: Option<&ReplicaSet>,
    all: &[&ReplicaSet],
    now: Timestamp,
) {
    let failure = new.into_iter().chain(all.iter().copied()).find_map(|set| {
        set.status
            .as_ref()?
            .conditions
            .iter()
            .flatten()
            .find(|c| c.type_ == REPLICA_FAILURE && c.status == "True")
    });
    match failure {
        Some(f) => {
            let why = (f.reason.as_deref().unwrap_or_default(), f.message.clone().unwrap_or_default());
            set_condition(status, REPLICA_FAILURE, "True", why, now);
        }
        None => drop_condition(status, REPLICA_FAILURE),
    }
}
