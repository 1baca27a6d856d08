//! Containers whose command ran when an earlier process of the simulation ended: their run ended with the process. The count of
//! such ends in a row is kept in the pod's status, so that a command that ends the process is not started for ever. Pure.

use super::container::{Container, Ended, Phase};
use super::object::{ContainerSpec, PodObject};
use crate::limits::{PROCESS_END_WINDOW, PROCESS_ENDS};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStateTerminated;
use kstore_container_sim::time::between;

/// The reason of such an end: a kubelet's for a container of which it does not know how it ended.
const REASON: &str = "ContainerStatusUnknown";
const MESSAGE: &str = "The container ended with the process that simulated it; times in a row: ";
/// The exit code of SIGKILL.
const CODE: i32 = 137;

/// Number of such ends in a row up to this one; zero for another end.
fn count(reason: &str, message: &str) -> u32 {
    let count = message.strip_prefix(MESSAGE).filter(|_| reason == REASON);
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Ends the run that the status of an earlier process shows.
pub(super) fn end(container: &mut Container, spec: &ContainerSpec, object: &PodObject, now: Timestamp) {
    let Phase::Running(run) = &container.phase else { return };
    let is_short = between(run.started_at, now) <= PROCESS_END_WINDOW;
    let before =
        container.last.as_ref().filter(|_| is_short).map_or(0, |last| count(&last.reason, &last.message));
    let ended = Ended {
        id: run.id.clone(),
        code: CODE,
        reason: REASON.to_owned(),
        message: format!("{MESSAGE}{}", before.saturating_add(1)),
        started_at: run.started_at,
        finished_at: now.max(run.started_at),
    };
    container.ended = Some(ended);
    container.phase =
        if container.restarts_after(CODE, spec, object.spec.restart_policy) && !object.terminal() {
            // There is always a wait, in which the status with the count is written.
            container.crashes.tried(now);
            let (until, delay) = container.crashes.wait(now);
            Phase::CrashLoop { until, delay }
        } else {
            Phase::Exited
        };
}

/// Whether the command of this container ended the process so often that it is not run again.
pub(crate) fn is_barred(object: &PodObject, name: &str) -> bool {
    let status = &object.status;
    let all = status.init_container_statuses.iter().chain(&status.container_statuses);
    let all = all.chain(&status.ephemeral_container_statuses).flatten();
    let states = all.filter(|one| one.name == name).flat_map(|one| [&one.state, &one.last_state]);
    let mut ends = states.flatten().filter_map(|state| state.terminated.as_ref());
    let ends_of = |end: &ContainerStateTerminated| {
        count(end.reason.as_deref().unwrap_or_default(), end.message.as_deref().unwrap_or_default())
    };
    ends.any(|end| ends_of(end) >= PROCESS_ENDS)
}
