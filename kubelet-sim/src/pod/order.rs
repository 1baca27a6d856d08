//! The order in which init containers, sidecars and regular containers start and stop. Pure.
//!
//! Init containers start one at a time in order, each after the ones before it: an init container counts when
//! it ended with code zero, a sidecar when it has started up. Regular containers start together after the
//! last one. Once every regular container has ended without a restart, sidecars stop, the last one first.
//! Ephemeral containers do not take part in this order.

use crate::pod::container::{Container, Phase};
use crate::pod_object::Kind;

/// The containers that may start, in order. A kubelet starts regular containers one after another, and one whose `index` has a postStart
/// hook (`has_hook`) only lets the next one start when the hook is over.
pub fn startable(containers: &[Container], has_hook: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut found = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        if container.phase == Phase::Waiting {
            found.push(index);
        }
        let through = match container.kind {
            Kind::Init => container.succeeded(),
            Kind::Sidecar => container.started(),
            Kind::Regular | Kind::Ephemeral => true,
        };
        let is_starting =
            matches!(container.phase, Phase::Waiting | Phase::Image | Phase::Starting | Phase::PostStart(..));
        if container.kind == Kind::Regular && is_starting && has_hook(index) {
            break;
        }
        // After the regular containers started, an earlier sidecar's restart does not delay others.
        let begun = containers.iter().any(|c| c.kind == Kind::Regular && c.ever_started && !c.starts_anew);
        if !through && !begun {
            break;
        }
    }
    let waits = |index: &usize| {
        let container = &containers[*index];
        container.kind == Kind::Ephemeral && container.phase == Phase::Waiting && !found.contains(index)
    };
    let ephemeral: Vec<usize> = (0..containers.len()).filter(waits).collect();
    found.extend(ephemeral);
    found
}

/// The combined outcome of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Containers may still run.
    Open,
    /// Every regular container ended and will not restart.
    Complete,
    /// An init container failed and will not restart.
    InitFailed,
}

/// The combined outcome of the containers.
pub fn outcome(containers: &[Container]) -> Outcome {
    if containers.iter().any(|c| c.kind == Kind::Init && c.failed()) {
        return Outcome::InitFailed;
    }
    let mut regular = containers.iter().filter(|c| c.kind == Kind::Regular);
    if regular.all(|c| c.phase == Phase::Exited) { Outcome::Complete } else { Outcome::Open }
}

/// The running containers to stop next, or to send SIGTERM after their preStop hook, when the pod must end: first all that are not
/// sidecars, then sidecars one by one from the last.
pub fn stoppable(containers: &[Container]) -> Vec<usize> {
    let running = |index: &usize| match &containers[*index].phase {
        Phase::Running(_) | Phase::PostStart(..) => true,
        Phase::PreStop(_, hook) => hook.is_over,
        _ => false,
    };
    let others = containers.iter().any(|c| c.kind != Kind::Sidecar && c.active());
    if others {
        let plain = (0..containers.len()).filter(|index| containers[*index].kind != Kind::Sidecar);
        return plain.filter(running).collect();
    }
    let last = (0..containers.len()).rev().find(|index| containers[*index].active());
    last.filter(running).into_iter().collect()
}
