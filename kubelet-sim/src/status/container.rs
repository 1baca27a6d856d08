//! The statuses of containers.

use crate::image;
use crate::limits::POD_TERMINATION_MESSAGES;
use crate::pod::Pod;
use crate::pod::container::{Container, Ended, Phase};
use crate::pod_object::{ContainerSpec, Kind, PodObject};
use crate::time::NodeClock;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    ResourceRequirements,
};
use kstore_container_sim::time::go_duration;

/// The statuses of all containers, in their order.
pub(super) fn statuses(pod: &Pod, object: &PodObject, clock: &NodeClock) -> Vec<ContainerStatus> {
    let pairs = object.containers().zip(&pod.containers).enumerate();
    let statuses = pairs.map(|(index, (spec, container))| {
        let resources = (pod.allocated(object, index), pod.actual(object, index));
        status(container, spec, object, resources, clock)
    });
    statuses.collect()
}

fn status(
    container: &Container,
    spec: &ContainerSpec,
    object: &PodObject,
    (allocated, actual): (Option<&ResourceRequirements>, Option<&ResourceRequirements>),
    clock: &NodeClock,
) -> ContainerStatus {
    let (state, last) = states(container, spec, object, clock);
    let ended =
        container.ended.as_ref().or_else(|| container.last.as_ref().filter(|_| container.run().is_some()));
    let id = match (container.shown_run(), ended) {
        (Some(run), _) => Some(run.id.clone()),
        (None, Some(ended)) => Some(ended.id.clone()),
        (None, None) => None,
    };
    let created = id.is_some();
    let has_any =
        |resources: &&ResourceRequirements| resources.requests.is_some() || resources.limits.is_some();
    let in_effect = |resources: Option<&ResourceRequirements>| -> Option<ResourceRequirements> {
        resources.filter(|_| container.shown_run().is_some()).filter(has_any).cloned()
    };
    ContainerStatus {
        name: spec.name.clone(),
        image: if created { image::full_name(&spec.image) } else { spec.image.clone() },
        image_id: if created { super::image_id(&spec.image) } else { String::new() },
        container_id: id,
        ready: container.ready(),
        started: Some(container.started()),
        restart_count: i32::try_from(container.restarts).unwrap_or(i32::MAX),
        state: Some(state),
        last_state: Some(last.map_or_else(ContainerState::default, |ended| terminated(ended, object, clock))),
        allocated_resources: in_effect(allocated).and_then(|allocated| allocated.requests),
        resources: in_effect(actual),
        ..ContainerStatus::default()
    }
}

/// The state to show, and the previous end for `lastState`.
fn states<'a>(
    container: &'a Container,
    spec: &ContainerSpec,
    object: &PodObject,
    clock: &NodeClock,
) -> (ContainerState, Option<&'a Ended>) {
    match (&container.phase, &container.ended) {
        (Phase::PostStart(..), _) => (waiting("ContainerCreating", None), container.last.as_ref()),
        (Phase::Running(run) | Phase::PreStop(run, _) | Phase::Stopping(run), _) => {
            let running = ContainerStateRunning { started_at: Some(clock.api_time(run.started_at)) };
            (ContainerState { running: Some(running), ..Default::default() }, container.last.as_ref())
        }
        (Phase::ImageError(error), ended) => {
            let (reason, message) = match (error.reason, error.backing_off) {
                ("ErrImagePull", true) => {
                    let (image, why) = (&spec.image, &error.message);
                    ("ImagePullBackOff", format!("Back-off pulling image \"{image}\": ErrImagePull: {why}"))
                }
                (reason, _) => (reason, error.message.clone()),
            };
            (waiting(reason, Some(message)), ended.as_ref())
        }
        (Phase::ConfigError(Some(problem)), ended) => {
            (waiting("CreateContainerConfigError", Some(problem.clone())), ended.as_ref())
        }
        (Phase::CrashLoop { delay, .. }, ended) => {
            let (delay, pod) = (go_duration(*delay), object.full_name());
            let message = format!("back-off {delay} restarting failed container={} pod={pod}", spec.name);
            (waiting("CrashLoopBackOff", Some(message)), ended.as_ref())
        }
        (
            Phase::Waiting | Phase::Image | Phase::ConfigError(None) | Phase::Starting | Phase::Exited,
            Some(ended),
        ) => (terminated(ended, object, clock), container.last.as_ref()),
        (
            Phase::Waiting | Phase::Image | Phase::ConfigError(None) | Phase::Starting | Phase::Exited,
            None,
        ) => {
            let initializing = container.kind == Kind::Regular && !object.spec.init_containers.is_empty();
            let begun = has_begun(container);
            let reason =
                if initializing && !begun { "PodInitializing" } else { default_reason(container, object) };
            (waiting(reason, None), None)
        }
    }
}

/// Whether the container's turn to start has come.
fn has_begun(container: &Container) -> bool {
    matches!(container.phase, Phase::Image | Phase::ConfigError(_) | Phase::Starting)
}

/// The waiting reason of a container that has not started: pods with init containers are initializing.
fn default_reason(container: &Container, object: &PodObject) -> &'static str {
    if !has_begun(container) && !object.spec.init_containers.is_empty() {
        "PodInitializing"
    } else {
        "ContainerCreating"
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

fn terminated(ended: &Ended, object: &PodObject, clock: &NodeClock) -> ContainerState {
    let share = POD_TERMINATION_MESSAGES / object.containers().count().max(1);
    let message = &ended.message[..ended.message.floor_char_boundary(share)];
    let terminated = ContainerStateTerminated {
        container_id: Some(ended.id.clone()),
        exit_code: ended.code,
        reason: Some(ended.reason.clone()),
        message: Some(message.to_owned()).filter(|message| !message.is_empty()),
        started_at: Some(clock.api_time(ended.started_at)),
        finished_at: Some(clock.api_time(ended.finished_at)),
        ..Default::default()
    };
    ContainerState { terminated: Some(terminated), ..Default::default() }
}
