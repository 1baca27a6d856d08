//! Status of a DaemonSet: desired, current, misscheduled and updated nodes. Pure.

use super::placement::Eligibility;
use super::plan::Run;
use crate::action::Action;
use crate::object::Object;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use std::time::Duration;

/// The status update if the status changed, and the delay until the next pod becomes available.
pub(crate) fn report(run: &Run<'_>) -> (Option<Action>, Option<Duration>) {
    let empty = DaemonSetStatus::default();
    let before = run.set.status.as_ref().unwrap_or(&empty);
    let (status, wake) = count(run, before);
    if !differs(before, &status) {
        return (None, wake);
    }
    let set = DaemonSet { status: Some(status), ..run.set.clone() };
    (Some(Action::UpdateStatus(Object::of(&set))), wake)
}

fn count(run: &Run<'_>, before: &DaemonSetStatus) -> (DaemonSetStatus, Option<Duration>) {
    let (mut desired, mut current, mut misscheduled) = (0, 0, 0);
    let (mut ready, mut available, mut updated) = (0, 0, 0);
    let mut wake: Option<Duration> = None;
    for (node, eligibility) in &run.eligible {
        let pod = run.pods.get(node).and_then(|pods| pods.first());
        if *eligibility != Eligibility::Run {
            misscheduled += i32::from(pod.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = pod else { continue };
        current += 1;
        updated += i32::from(run.version.is_of(pod));
        match pod.available_in(run.spec.min_ready_seconds.unwrap_or(0), run.now) {
            None => {}
            Some(wait) if wait.is_zero() => {
                ready += 1;
                available += 1;
            }
            Some(wait) => {
                ready += 1;
                wake = Some(wake.map_or(wait, |w| w.min(wait)));
            }
        }
    }
    let some = |n: i32| (n > 0).then_some(n);
    let status = DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: current,
        number_misscheduled: misscheduled,
        number_ready: ready,
        number_available: some(available),
        number_unavailable: some(desired - available),
        updated_number_scheduled: some(updated),
        observed_generation: run.set.metadata.generation,
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    };
    (status, wake)
}

fn differs(before: &DaemonSetStatus, now: &DaemonSetStatus) -> bool {
    let counts = |s: &DaemonSetStatus| {
        let some = |n: Option<i32>| n.unwrap_or(0);
        [
            s.desired_number_scheduled,
            s.current_number_scheduled,
            s.number_misscheduled,
            s.number_ready,
            some(s.number_available),
            some(s.number_unavailable),
            some(s.updated_number_scheduled),
        ]
    };
    before.observed_generation < now.observed_generation || counts(before) != counts(now)
}
