//! The phase of a pod, by the kubelet's rules in the kubelet's order.

use crate::pod::container::{Container, Phase};
use crate::pod::{Pod, Stage, Why};
use crate::pod_object::{Kind, PodObject, RestartPolicy};

/// The phase of a pod. The first rule that applies decides:
///
/// 1. A terminal phase stays. 2. A pod past its deadline is `Failed` once no container runs. 3. An init container failed without a restart:
///    `Failed`. 4. Init containers are not complete and no regular container has ever started: `Pending`. 5. A regular container has
///    never started: `Pending`. 6. A regular container runs: `Running`. 7. All have ended without a restart: `Succeeded` if all ended with
///    code zero, else `Failed`. 8. All have ended and some will restart: `Running`.
pub(super) fn phase(pod: &Pod, object: &PodObject, previous: Option<&str>) -> &'static str {
    match previous {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        _ => {}
    }
    let ended = match pod.stage {
        Stage::Ended(Why::DeadlineExceeded | Why::Rejected | Why::Evicted) => return "Failed",
        Stage::Ended(Why::Finished | Why::Deleted) => true,
        Stage::Admitted
        | Stage::Mounting(_)
        | Stage::Sandbox
        | Stage::SandboxRetry(_)
        | Stage::Active
        | Stage::Stopping { .. } => false,
    };
    let regular = || pod.containers.iter().filter(|c| c.kind == Kind::Regular);
    if ended && pod.containers.iter().any(|c| c.kind == Kind::Init && c.failed()) {
        return "Failed";
    }
    let initialized = pod.containers.iter().all(initialized);
    if !initialized && !regular().any(Container::is_begun) {
        return "Pending";
    }
    if regular().any(|c| !c.is_begun()) {
        return "Pending";
    }
    if regular().any(|c| c.shown_run().is_some()) {
        return "Running";
    }
    if !regular().all(|c| c.phase == Phase::Exited) || pod.restarts_all {
        return "Running";
    }
    // Sidecars may still be stopping; the phase waits for them, since no container may run in a terminal pod.
    if !ended {
        return "Running";
    }
    match (regular().all(Container::succeeded), object.spec.restart_policy) {
        (true, _) => "Succeeded",
        (false, RestartPolicy::Always | RestartPolicy::OnFailure | RestartPolicy::Never) => "Failed",
    }
}

/// Whether the containers after this one may start, as far as it is concerned.
pub(super) fn initialized(container: &Container) -> bool {
    match container.kind {
        Kind::Init => container.succeeded(),
        Kind::Sidecar => container.started(),
        Kind::Regular | Kind::Ephemeral => true,
    }
}
