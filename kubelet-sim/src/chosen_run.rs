//! Chooses the run of a container that a request for its log means, by the kubelet's rule and with the kubelet's errors.
//! Pure.

use crate::pod::Pod;
use crate::pod::container::{Container, Ended};
use crate::pod_object::PodObject;
use crate::program::{self, Program};
use crate::{behavior, status};
use k8s_openapi::api::core::v1::ContainerStatus;
use kstore_container_sim::{CommandOutput, ContainerRun, Log, PrintedLines};
use std::sync::Arc;

/// A run of a container, and the index of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The index in [`PodObject::containers`].
    pub container: usize,
    /// The run.
    pub run: ContainerRun,
}

impl Chosen {
    /// The log of the run. `printed` is the output of its command, if the command ran in this process.
    pub fn log(&self, object: &PodObject, printed: Option<Arc<PrintedLines>>) -> Log {
        let spec = object.container(self.container).expect("the run is of one of the pod's containers");
        let mut script = behavior::script(&object.metadata.annotations, &spec.name);
        if spec.stdin {
            // The process waits for input and logs nothing before.
            script.log.lines.get_or_insert_default();
        }
        let program = program::of(object, self.container);
        if program == Program::Image {
            script.log.note = program::ignored_configuration(spec);
        }
        let command = match (printed, program) {
            (Some(printed), Program::Image) => CommandOutput::Served(printed),
            (Some(printed), _) => CommandOutput::Ran(printed),
            (None, Program::Shell(_) | Program::Host | Program::Real) => CommandOutput::Forgotten,
            (None, Program::NotRun(why)) => CommandOutput::NotRun(why),
            (None, Program::Missing(_)) => CommandOutput::Ran(Arc::default()),
            (None, Program::Image | Program::Scripted | Program::Attached) => CommandOutput::Absent,
        };
        Log::of(&script.log, &spec.name, &spec.image, &self.run, command)
    }
}

/// The current or latest run of the container `name`, or with `previous` the run before it.
///
/// # Errors
/// The kubelet's message if there is no such run.
pub fn choose(pod: &Pod, object: &PodObject, name: &str, previous: bool) -> Result<Chosen, String> {
    let of = format!("container \"{name}\" in pod \"{}\"", object.metadata.name);
    let statuses = status::containers(pod, object);
    let position = object.containers().position(|spec| spec.name == name);
    let Some(container) = position else { return Err(format!("{of} is not available")) };
    let status = statuses.get(container).ok_or_else(|| format!("{of} is not available"))?;
    let id = match id_of(status, previous) {
        Ok(id) => id,
        Err(None) => {
            let pod = &object.metadata.name;
            return Err(format!("previous terminated container \"{name}\" in pod \"{pod}\" not found"));
        }
        Err(Some(reason)) => {
            let why = match reason {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                other => other,
            };
            return Err(format!("{of} is waiting to start: {why}"));
        }
    };
    let run = find(&pod.containers[container], id).ok_or_else(|| format!("{of} is terminated"))?;
    Ok(Chosen { container, run })
}

/// The id of the chosen run. Without one: the reason why a container that never ran waits, or `None` if only the previous
/// run is missing.
fn id_of(status: &ContainerStatus, previous: bool) -> Result<&str, Option<&str>> {
    let state = status.state.as_ref();
    let terminated = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| -> Option<String> {
        state?.terminated.as_ref()?.container_id.clone()
    };
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last = last.and_then(|terminated| terminated.container_id.as_deref());
    if previous {
        return last.ok_or(None);
    }
    let running = state.is_some_and(|state| state.running.is_some());
    if running || terminated(state).is_some() {
        return Ok(status.container_id.as_deref().unwrap_or_default());
    }
    let waiting = state.and_then(|state| state.waiting.as_ref()).and_then(|w| w.reason.as_deref());
    last.ok_or(Some(waiting.unwrap_or("ContainerCreating")))
}

/// The run with this id; `None` if the container has had two newer runs.
pub fn find(container: &Container, id: &str) -> Option<ContainerRun> {
    if let Some(run) = container.run().filter(|run| run.id == id) {
        return Some(ContainerRun { id: id.to_owned(), started_at: run.started_at, ended: None });
    }
    let ended = [&container.ended, &container.last].into_iter().flatten().find(|ended| ended.id == id)?;
    let Ended { started_at, finished_at, code, .. } = *ended;
    Some(ContainerRun { id: id.to_owned(), started_at, ended: Some((finished_at, code)) })
}
