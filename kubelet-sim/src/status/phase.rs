//! The phase of a pod, by upstream's rules in upstream's order.

use crate::pod::container::{Container, Kind, Phase};
use crate::pod::object::{PodObject, RestartPolicy};
use crate::pod::{Pod, Stage, Why};

/// The phase; the first rule that applies:
///
/// 1. A terminal phase stays. 2. A pod past its deadline is `Failed`, once nothing runs. 3. An init container failed for
///    good: `Failed`. 4. Init containers are not through and no regular one has ever started: `Pending`. 5. A regular
///    container has never run: `Pending`. 6. One runs: `Running`. 7. All are over for good: `Succeeded` if all ended with
///    code zero, else `Failed`. 8. All have ended and some will start again: `Running`.
pub(super) fn phase(pod: &Pod, object: &PodObject, previous: Option<&str>) -> &'static str {
    match previous {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        _ => {}
    }
    let ended = match pod.stage {
        Stage::Ended(Why::DeadlineExceeded) => return "Failed",
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
    if !initialized && !regular().any(|c| c.ever_started) {
        return "Pending";
    }
    if regular().any(|c| !c.ever_started) {
        return "Pending";
    }
    if regular().any(|c| c.run().is_some()) {
        return "Running";
    }
    if !regular().all(|c| c.phase == Phase::Exited) {
        return "Running";
    }
    // Sidecars may still be stopping; the phase waits for them, since nothing may run in a terminal pod.
    if !ended {
        return "Running";
    }
    match (regular().all(Container::succeeded), object.spec.restart_policy) {
        (true, _) => "Succeeded",
        (false, RestartPolicy::Always | RestartPolicy::OnFailure | RestartPolicy::Never) => "Failed",
    }
}

/// An init container or sidecar that no longer holds up the ones after it.
pub(super) fn initialized(container: &Container) -> bool {
    match container.kind {
        Kind::Init => container.succeeded(),
        Kind::Sidecar => container.started(),
        Kind::Regular | Kind::Ephemeral => true,
    }
}
