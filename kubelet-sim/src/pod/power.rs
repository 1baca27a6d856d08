//! What a power failure of the node does to a pod: its containers and its network are gone when the machine is on again. Pure.

use super::container::{Ended, Phase};
use super::mounts::MountWait;
use super::order::{self, Outcome};
use super::{Pod, Stage};
use crate::pod_object::{Kind, PodObject};
use jiff::Timestamp;

/// Exit code that a kubelet reports for a container that its runtime has lost in a reboot.
const CODE: i32 = 255;
/// The reason that goes with it.
const REASON: &str = "Unknown";

/// Ends the pod's containers at `off`, when the machine lost power. What was under way begins anew. A pod whose containers run again gets a
/// new network, and so another address; its init containers run again, too. Returns whether it does.
pub(crate) fn lose(pod: &mut Pod, object: &PodObject, off: Timestamp) -> bool {
    let is_ending = matches!(pod.stage, Stage::Stopping { .. } | Stage::Ended(_));
    for (index, container) in pod.containers.iter_mut().enumerate() {
        let Some(spec) = object.container(index) else { continue };
        if let Some(run) = container.run() {
            container.ended = Some(Ended {
                id: run.id.clone(),
                code: CODE,
                reason: REASON.to_owned(),
                message: String::new(),
                started_at: run.started_at,
                finished_at: off.max(run.started_at),
            });
            let again = !is_ending && container.restarts_after(CODE, spec, object.spec.restart_policy);
            container.phase = if again { Phase::Waiting } else { Phase::Exited };
            continue;
        }
        match container.phase {
            Phase::Image | Phase::Starting | Phase::ImageError(_) | Phase::ConfigError(_) => {
                container.phase = Phase::Waiting;
            }
            _ => {}
        }
    }
    pod.restarts_all = false;
    match pod.stage {
        Stage::Sandbox | Stage::SandboxRetry(_) => {
            (pod.stage, pod.mount) = (Stage::Admitted, MountWait::Idle);
            false
        }
        Stage::Active if order::outcome(&pod.containers) == Outcome::Open && runs_again(pod) => {
            begin_anew(pod);
            true
        }
        Stage::Admitted | Stage::Mounting(_) | Stage::Active => false,
        Stage::Stopping { .. } | Stage::Ended(_) => false,
    }
}

/// Whether a container that the pod is for will run.
fn runs_again(pod: &Pod) -> bool {
    let is_due = |phase: &Phase| matches!(phase, Phase::Waiting | Phase::CrashLoop { .. });
    let mut containers = pod.containers.iter().filter(|container| container.kind != Kind::Ephemeral);
    containers.any(|container| is_due(&container.phase))
}

/// Lets the pod begin with its volumes and its network.
fn begin_anew(pod: &mut Pod) {
    (pod.stage, pod.mount, pod.ip) = (Stage::Admitted, MountWait::Idle, None);
    for container in &mut pod.containers {
        if container.kind == Kind::Ephemeral {
            continue;
        }
        container.starts_anew = true;
        // One that has succeeded stays so, unless the others need that it runs before them.
        if container.kind == Kind::Init && container.phase == Phase::Exited {
            container.phase = Phase::Waiting;
        }
    }
}
