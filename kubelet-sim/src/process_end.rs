//! Containers whose command ran when an earlier process of the simulation ended: their run ended with the process. The count of
//! such ends in a row is kept in the pod's status, so that a command that ends the process is not started for ever. Pure.

use crate::limits::PROCESS_ENDS;
use crate::pod_object::PodObject;
use k8s_openapi::api::core::v1::ContainerStateTerminated;

/// Reason in the status of a container whose process ended with the simulation: a kubelet writes it if it does not know how a container
/// ended.
pub(crate) const REASON: &str = "ContainerStatusUnknown";
pub(crate) const MESSAGE: &str = "The container ended with the process that simulated it; times in a row: ";
/// The exit code of SIGKILL.
pub(crate) const CODE: i32 = 137;

/// Number of such ends in a row up to this one; zero for another end.
pub(crate) fn count(reason: &str, message: &str) -> u32 {
    let count = message.strip_prefix(MESSAGE).filter(|_| reason == REASON);
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
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
