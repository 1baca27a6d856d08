//! What a power failure of the node does to a pod: its containers are gone when the machine is on again. Pure.

use super::container::{Ended, Phase};
use super::{Pod, Stage};
use crate::pod_object::PodObject;
use jiff::Timestamp;

/// Exit code that a kubelet reports for a container that its runtime has lost in a reboot.
const CODE: i32 = 255;
/// The reason that goes with it.
const REASON: &str = "Unknown";

/// Ends the pod's containers at `off`, when the machine lost power. What was under way begins anew; the pod keeps its address.
pub(crate) fn lose(pod: &mut Pod, object: &PodObject, off: Timestamp) {
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
    if matches!(pod.stage, Stage::Sandbox | Stage::SandboxRetry(_)) {
        pod.stage = Stage::Admitted;
    }
    pod.restarts_all = false;
}
