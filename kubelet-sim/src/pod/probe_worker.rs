//! Probes whose commands run in a container, or whose requests are made: when each begins, and what its results say together, as
//! `prober.worker` of kubelet decides. They run only beside a command of the container that the simulated shell runs, and requests only
//! to servers of known images; what else a container has is decided by annotations. Pure.

use super::Output;
use super::container::{Phase, Run};
use super::step::Step;
use crate::behavior;
use crate::execution::{Act, Executed, Execution, Purpose};
use crate::pod_object::{ContainerSpec, PodObject, ProbeSpec};
use crate::probe::{self, Condemned, ProbeKind, Verdict};
use crate::program::{self, Program};
use jiff::Timestamp;
use kstore_container_sim::time::{between, later};
use std::time::Duration;

/// A probe whose command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeWorker {
    /// The kind of the probe.
    pub kind: ProbeKind,
    phase: ProbePhase,
    /// The last result, and how many were equal in a row.
    row: (bool, u32),
    /// The result that counts: it changes when enough results in a row differ. `None` before the first.
    result: Option<bool>,
}

/// The place of a probe between two runs of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbePhase {
    /// It has not begun: the container must start up first, or it is the first look at it.
    Unplanned,
    /// The command begins at this time.
    At(Timestamp),
    /// The command runs.
    Running,
}

/// The probes of a container whose commands run: those without an annotation that decides in their place.
pub(crate) fn workers(pod: &PodObject, index: usize) -> Vec<ProbeWorker> {
    let Some(spec) = pod.container(index) else { return Vec::new() };
    let kinds = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];
    let is_made = |probe: &ProbeSpec| {
        let is_request = probe.http_get.is_some() || probe.tcp_socket.is_some() || probe.grpc.is_some();
        is_request || probe.exec.is_some()
    };
    if !kinds.iter().filter_map(|kind| kind.of(spec)).any(is_made) {
        return Vec::new();
    }
    let program = program::of(pod, index);
    let (is_shell, is_host) = (matches!(program, Program::Shell(_)), program == Program::Host);
    let is_real = program == Program::Real;
    let is_server = program::server_command(pod, index).is_some();
    if !is_shell && !is_server && !is_host && !is_real {
        return Vec::new();
    }
    let script = behavior::script(&pod.metadata.annotations, &spec.name);
    let is_scripted = |kind: ProbeKind| match kind {
        _ if is_real => false,
        ProbeKind::Startup => script.started.is_some(),
        ProbeKind::Readiness => script.ready.is_some() || script.unready.is_some(),
        ProbeKind::Liveness => script.unhealthy_after.is_some(),
    };
    let runs = |kind: &ProbeKind| match kind.of(spec).and_then(|probe| act(spec, probe)) {
        // Each can be asked of a program of this machine, and of a container of a runtime, but for the ports of one without an address of
        // its own.
        Some(_) if is_host => true,
        Some(Act::Command(_)) if is_real => true,
        Some(_) if is_real => !pod.spec.host_network,
        Some(Act::Command(argv)) => is_shell && program::runs(pod, index, &argv),
        // The answer of such a server is known without asking it.
        Some(Act::Http(port, path)) => is_server && !program::is_well(pod, index, port, &path),
        // The configuration of other servers is not simulated, and so not whether they speak TLS.
        Some(Act::Https(..)) => is_shell && is_server,
        Some(Act::Connect(_) | Act::Health(..)) => is_server,
        None => false,
    };
    let worker = |kind| ProbeWorker { kind, phase: ProbePhase::Unplanned, row: (false, 0), result: None };
    kinds.into_iter().filter(runs).filter(|kind| !is_scripted(*kind)).map(worker).collect()
}

/// The probes of a container that ran before this process: their last results are those that its status shows.
pub(crate) fn adopted(pod: &PodObject, index: usize, verdict: &Verdict) -> Vec<ProbeWorker> {
    let mut all = workers(pod, index);
    for worker in &mut all {
        worker.result = match worker.kind {
            ProbeKind::Startup => verdict.started.then_some(true),
            ProbeKind::Readiness => verdict.ready.then_some(true),
            ProbeKind::Liveness => None,
        };
    }
    all
}

/// What a probe does; `None` if that is not simulated: other hosts, and ports without a number.
fn act(spec: &ContainerSpec, probe: &ProbeSpec) -> Option<Act> {
    let ports = spec.options.as_deref().map(|options| options.ports.as_slice()).unwrap_or_default();
    match (&probe.exec, &probe.http_get, &probe.tcp_socket) {
        (Some(exec), ..) => Some(Act::Command(exec.command.clone())),
        (None, Some(target), _) if target.host.is_empty() => {
            let path =
                if target.path.starts_with('/') { target.path.clone() } else { format!("/{}", target.path) };
            let port = target.port.number(ports)?;
            Some(if target.is_encrypted() { Act::Https(port, path) } else { Act::Http(port, path) })
        }
        (None, None, Some(target)) if target.host.is_empty() => {
            Some(Act::Connect(target.port.number(ports)?))
        }
        (None, None, None) => {
            let target = probe.grpc.as_ref()?;
            Some(Act::Health(target.number()?, target.service.clone().unwrap_or_default()))
        }
        (None, ..) => None,
    }
}

/// The results at `now`: probes whose commands run say theirs themselves, the others are computed.
fn judge(run: &Run, spec: &ContainerSpec, now: Timestamp) -> Verdict {
    let computed = |kind| run.probes.iter().all(|worker| worker.kind != kind);
    let verdict = probe::judge(spec, &run.health, computed, run.started_at, now);
    run.probes.iter().fold(verdict, |verdict, worker| worker.amend(verdict))
}

/// Marks the probes as running that are due now, and returns them with the verdict about the container.
pub(crate) fn run(run: &mut Run, spec: &ContainerSpec, now: Timestamp) -> (Vec<ProbeKind>, Verdict) {
    let start = run.started_at;
    let started = judge(run, spec, now).started;
    let mut due = Vec::new();
    for worker in &mut run.probes {
        let Some(probe) = worker.kind.of(spec).filter(|_| worker.may_begin(started)) else { continue };
        if worker.phase == ProbePhase::Unplanned {
            worker.phase = ProbePhase::At(later(start, probe.tick_from(between(start, now))));
        }
        if matches!(worker.phase, ProbePhase::At(at) if at <= now) {
            worker.phase = ProbePhase::Running;
            due.push(worker.kind);
        }
    }
    let verdict = judge(run, spec, now);
    (due, verdict)
}

impl ProbeWorker {
    /// Whether the probe is made at all: the startup probe until it has passed, the others after that.
    fn may_begin(&self, started: bool) -> bool {
        (self.kind == ProbeKind::Startup) != started
    }

    /// The verdict with this probe's part.
    fn amend(&self, mut verdict: Verdict) -> Verdict {
        match (self.kind, self.result) {
            (ProbeKind::Startup, result) => {
                verdict.started = result == Some(true);
                verdict.ready &= verdict.started;
                if !verdict.started {
                    verdict.condemned = None;
                }
                if result == Some(false) {
                    verdict.condemned = Some(Condemned::Startup);
                }
            }
            (ProbeKind::Readiness, result) => verdict.ready &= result == Some(true),
            (ProbeKind::Liveness, Some(false)) if verdict.condemned.is_none() => {
                verdict.condemned = Some(Condemned::Liveness);
            }
            (ProbeKind::Liveness, _) => {}
        }
        if let ProbePhase::At(begins) = self.phase
            && self.may_begin(verdict.started)
        {
            verdict.next = verdict.next.into_iter().chain([begins]).min();
        }
        verdict
    }

    /// Takes the result of a command.
    fn take(&mut self, succeeded: bool, probe: &ProbeSpec, start: Timestamp, now: Timestamp) {
        let count = if self.row.0 == succeeded { self.row.1.saturating_add(1) } else { 1 };
        self.row = (succeeded, count);
        let enough = if succeeded { probe.success_threshold() } else { probe.failure_threshold() };
        if count >= enough {
            self.result = Some(succeeded);
        }
        let passed = between(start, now).saturating_add(Duration::from_nanos(1));
        self.phase = ProbePhase::At(later(start, probe.tick_from(passed)));
    }
}

impl Step<'_> {
    /// Begins the command or request of a probe.
    pub(crate) fn begin_probe(&mut self, index: usize, kind: ProbeKind) {
        let Some(probe) = self.object.container(index).and_then(|spec| kind.of(spec)) else { return };
        let act = self.object.container(index).and_then(|spec| act(spec, probe));
        let (Some(act), Some(run)) = (act, self.pod.containers[index].run()) else { return };
        let (timeout, purpose) = (Some(probe.timeout()), Purpose::Probe(kind));
        let execution = Execution { container: index, run: run.id.clone(), purpose, act, timeout };
        self.out.push(Output::Execute(execution));
    }

    /// Takes the result of a probe's command.
    pub(crate) fn probed(&mut self, index: usize, kind: ProbeKind, result: &Executed) {
        let Some(probe) = self.object.container(index).and_then(|spec| kind.of(spec)) else { return };
        let Phase::Running(run) = &mut self.pod.containers[index].phase else { return };
        let (start, succeeded) = (run.started_at, result.code == Some(0));
        let Some(worker) = run.probes.iter_mut().find(|worker| worker.kind == kind) else { return };
        worker.take(succeeded, probe, start, self.now);
        if !succeeded {
            let what = match (&probe.exec, result.code) {
                (Some(exec), None) => format!("command \"{}\" timed out", exec.command.join(" ")),
                (None, None) => {
                    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()
                }
                (_, Some(_)) => result.output.clone(),
            };
            self.warn(Some(index), "Unhealthy", format!("{kind:?} probe failed: {what}"));
        }
        self.judge(index);
    }
}
