//! Which containers may begin now, and which must end: the order of init containers, sidecars and regular ones. Pure.
//!
//! Init containers begin one at a time in their order, each when all before it are through: an init container when it
//! ended with code zero, a sidecar when it has started up. Regular containers begin together after the last. Once every
//! regular container has ended for good, sidecars end, the last one first. Ephemeral containers wait for nobody, and nobody for
//! them.

use crate::pod::container::{Container, Kind, Phase};

/// The containers that may begin, in order.
pub fn startable(containers: &[Container]) -> Vec<usize> {
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
        // After the regular containers began, an earlier sidecar's restart holds nothing up.
        let begun = containers.iter().any(|c| c.kind == Kind::Regular && c.ever_started);
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

/// How a pod's containers ended among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something may still run.
    Open,
    /// Every regular container ended for good.
    Complete,
    /// An init container failed for good.
    InitFailed,
}

/// Whether the pod's work is over.
pub fn outcome(containers: &[Container]) -> Outcome {
    if containers.iter().any(|c| c.kind == Kind::Init && c.failed()) {
        return Outcome::InitFailed;
    }
    let mut regular = containers.iter().filter(|c| c.kind == Kind::Regular);
    if regular.all(|c| c.phase == Phase::Exited) { Outcome::Complete } else { Outcome::Open }
}

/// The running containers to stop next when the pod must end: all others before any sidecar, then sidecars one by one
/// from the last.
pub fn stoppable(containers: &[Container]) -> Vec<usize> {
    let running = |index: &usize| matches!(containers[*index].phase, Phase::Running(_));
    let others = containers.iter().any(|c| c.kind != Kind::Sidecar && c.active());
    if others {
        let plain = (0..containers.len()).filter(|index| containers[*index].kind != Kind::Sidecar);
        return plain.filter(running).collect();
    }
    let last = (0..containers.len()).rev().find(|index| containers[*index].active());
    last.filter(running).into_iter().collect()
}
