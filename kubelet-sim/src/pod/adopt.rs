//! The initial state of a pod in this process: new, or restored from the status that an earlier process
//! wrote. Pure.

use super::container::{Container, Ended, Phase, Run};
use super::mounts::MountWait;
use super::{Pod, Stage, Why, resize};
use crate::fault::starts::StartFaults;
use crate::limits::PROCESS_END_WINDOW;
use crate::node::admission::Rejection;
use crate::pod_object::{ContainerSpec, PodObject, kind_of};
use crate::probe::{Health, Verdict};
use crate::process_end::{self, CODE, MESSAGE, REASON};
use crate::program;
use crate::runtime::Command;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};
use kstore_container_sim::time::between;

/// The beginning of the message of a pod that its node rejected.
pub(crate) const REJECTED: &str = "Pod was rejected: ";

/// The state of a pod that this process sees for the first time, and the commands with which the runtime
/// adopts it. Running containers continue, except those whose command ran in the earlier process: their run ended with it.
/// Operations that were in flight are started again.
pub fn adopt(object: &PodObject, now: Timestamp) -> (Pod, Vec<Command>) {
    let status = &object.status;
    let started_at = status.start_time.as_ref().map_or(now, |time| time.0);
    let ip = status.pod_ip.as_deref().filter(|_| !object.spec.host_network).and_then(|ip| ip.parse().ok());
    let written = status.init_container_statuses.iter().chain(&status.container_statuses);
    let written = written.chain(&status.ephemeral_container_statuses).flatten();
    let containers = object.containers().enumerate().map(|(index, spec)| {
        let mut container = Container::new(kind_of(object, index, spec));
        if let Some(status) = written.clone().find(|status| status.name == spec.name) {
            restore(&mut container, status, spec, object);
            if program::ends_with_process(object, index) {
                end_run(&mut container, spec, object, now);
            }
        }
        container
    });
    let mut pod = Pod {
        stage: Stage::Admitted,
        containers: containers.collect(),
        ip,
        started_at,
        rejection: rejection(object).map(Box::new),
        resize: resize::restored(object),
        restarts_all: false,
        eviction: None,
        faults: StartFaults::default(),
        mount: MountWait::default(),
    };
    if pod.rejection.is_some() {
        pod.stage = Stage::Ended(Why::Rejected);
        return (pod, Vec::new());
    }
    if object.terminal() {
        let deadline = status.reason.as_deref() == Some("DeadlineExceeded");
        pod.stage = Stage::Ended(if deadline { Why::DeadlineExceeded } else { Why::Finished });
        return (pod, Vec::new());
    }
    let networked =
        ip.is_some() || (object.spec.host_network && pod.containers.iter().any(|c| c.ever_started));
    if !networked {
        return (pod, Vec::new());
    }
    pod.stage = Stage::Active;
    let running = pod.containers.iter().enumerate();
    let running =
        running.filter_map(|(index, c)| Some(Command::Adopt(index, c.restarts, c.run()?.started_at)));
    let commands = ip.map(Command::AdoptSandbox).into_iter().chain(running).collect();
    (pod, commands)
}

/// The rejection that an earlier process wrote.
fn rejection(object: &PodObject) -> Option<Rejection> {
    let status = &object.status;
    let message = status.message.as_deref()?.strip_prefix(REJECTED)?;
    let reason = status.reason.clone().filter(|_| object.terminal())?;
    Some(Rejection { reason, message: message.to_owned() })
}

fn restore(container: &mut Container, status: &ContainerStatus, spec: &ContainerSpec, object: &PodObject) {
    let ended = |terminated: &ContainerStateTerminated| Ended {
        id: terminated.container_id.clone().unwrap_or_default(),
        code: terminated.exit_code,
        reason: terminated.reason.clone().unwrap_or_default(),
        message: terminated.message.clone().unwrap_or_default(),
        started_at: terminated.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        finished_at: terminated.finished_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    };
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref()).map(ended);
    container.restarts = u32::try_from(status.restart_count).unwrap_or(0);
    let state = status.state.clone().unwrap_or_default();
    if let Some(running) = &state.running {
        let (started, ready) = (status.started.unwrap_or(true), status.ready);
        container.phase = Phase::Running(Run {
            id: status.container_id.clone().unwrap_or_default(),
            started_at: running.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            health: Health::default(),
            verdict: Verdict { started, ready, condemned: None, next: None },
            probes: Vec::new(),
        });
        container.last = last;
    } else if let Some(terminated) = &state.terminated {
        container.ended = Some(ended(terminated));
        container.last = last;
        let again = container.restarts_after(terminated.exit_code, spec, object.spec.restart_policy);
        container.phase = if again && !object.terminal() { Phase::Waiting } else { Phase::Exited };
    } else {
        container.ended = last;
    }
    container.ever_started =
        container.run().is_some() || container.ended.is_some() || container.last.is_some();
}

/// Ends the run that the status of an earlier process shows.
fn end_run(container: &mut Container, spec: &ContainerSpec, object: &PodObject, now: Timestamp) {
    let Phase::Running(run) = &container.phase else { return };
    let is_short = between(run.started_at, now) <= PROCESS_END_WINDOW;
    let before = container
        .last
        .as_ref()
        .filter(|_| is_short)
        .map_or(0, |last| process_end::count(&last.reason, &last.message));
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
