//! The state of one container. `step` decides on its transitions, `order` on the containers that may start.

use super::hooks::HookRun;
use super::probe_worker::ProbeWorker;
use crate::backoff::Backoff;
use crate::pod_object::{ContainerSpec, Kind, RestartPolicy};
use crate::probe::{Health, Verdict};
use jiff::Timestamp;
use std::time::Duration;

/// A container's current state and its earlier runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The role.
    pub kind: Kind,
    /// The current phase.
    pub phase: Phase,
    /// Number of runs before the current or latest one.
    pub restarts: u32,
    /// Whether it has run at least once.
    pub ever_started: bool,
    /// Whether it has not run since all containers of the pod were stopped to start anew.
    pub starts_anew: bool,
    /// The end of its latest run, until a newer one begins.
    pub ended: Option<Ended>,
    /// The end of the run before that.
    pub last: Option<Ended>,
    /// Back-off after crashes.
    pub crashes: Backoff,
    /// Back-off after failed pulls.
    pub pulls: Backoff,
}

/// The phase of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not started: earlier containers come first, or the container is about to restart.
    Waiting,
    /// The image is being looked up or pulled.
    Image,
    /// The image could not be pulled, or the container not be created or started.
    ImageError(ImageError),
    /// It cannot be created, for this reason. `None` while the API has not yet answered about objects that it
    /// refers to.
    ConfigError(Option<String>),
    /// It is being created and started.
    Starting,
    /// It is running, but counts as not started until its postStart hook is over.
    PostStart(Run, HookRun),
    /// It is running.
    Running(Run),
    /// It is running and is to stop: its preStop hook runs, or is over and the container waits for its turn.
    PreStop(Run, HookRun),
    /// It is running and has been asked to stop.
    Stopping(Run),
    /// It ended and may restart at `until`; `delay` is shown in the message.
    CrashLoop {
        /// When it may restart.
        until: Timestamp,
        /// Total length of the back-off.
        delay: Duration,
    },
    /// It ended and will not restart.
    Exited,
}

/// A failed pull or start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError {
    /// `ErrImagePull`, `ErrImageNeverPull`, `CreateContainerError`, …
    pub reason: &'static str,
    /// The runtime's error.
    pub message: String,
    /// Whether it is shown as a back-off instead of the error.
    pub backing_off: bool,
    /// When the pull is tried again.
    pub until: Timestamp,
}

/// The current run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The runtime's id of the run.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// The application's health over time.
    pub health: Health,
    /// The results of the probes.
    pub verdict: Verdict,
    /// The probes whose commands run.
    pub probes: Vec<ProbeWorker>,
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The runtime's id of the run.
    pub id: String,
    /// Exit code of the run.
    pub code: i32,
    /// `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    /// The termination message.
    pub message: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl Container {
    /// A container that has not started.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            phase: Phase::Waiting,
            restarts: 0,
            ever_started: false,
            starts_anew: false,
            ended: None,
            last: None,
            crashes: Backoff::default(),
            pulls: Backoff::default(),
        }
    }

    /// The current run, even if it has been asked to stop.
    pub fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::PostStart(run, _) | Phase::Running(run) => Some(run),
            Phase::PreStop(run, _) | Phase::Stopping(run) => Some(run),
            Phase::Waiting | Phase::Image | Phase::ImageError(_) | Phase::ConfigError(_) => None,
            Phase::Starting => None,
            Phase::CrashLoop { .. } | Phase::Exited => None,
        }
    }

    /// The current run as a kubelet shows it: it waits for the postStart hook before it looks at the container again.
    pub fn shown_run(&self) -> Option<&Run> {
        self.run().filter(|_| !matches!(self.phase, Phase::PostStart(..)))
    }

    /// Whether it is known to have run at least once.
    pub fn is_begun(&self) -> bool {
        self.ever_started && (self.shown_run().is_some() || self.run().is_none() || self.last.is_some())
    }

    /// Whether a process exists or is about to: the pod cannot end before.
    pub fn active(&self) -> bool {
        self.run().is_some() || self.phase == Phase::Starting
    }

    /// Whether it is running and its startup probe has passed.
    pub fn started(&self) -> bool {
        self.run().is_some_and(|run| run.verdict.started)
    }

    /// Whether it is running and ready. An init container is ready once it has succeeded.
    pub fn ready(&self) -> bool {
        match self.kind {
            Kind::Init => self.succeeded(),
            // Readiness of ephemeral containers does not count.
            Kind::Ephemeral => false,
            Kind::Sidecar | Kind::Regular => self.run().is_some_and(|run| run.verdict.ready),
        }
    }

    /// Whether it ended with code zero and will not restart.
    pub fn succeeded(&self) -> bool {
        self.phase == Phase::Exited && self.ended.as_ref().is_some_and(|ended| ended.code == 0)
    }

    /// Whether it ended with another code and will not restart.
    pub fn failed(&self) -> bool {
        self.phase == Phase::Exited && !self.succeeded()
    }

    /// The number of the next run, counted from zero.
    pub fn next_run(&self) -> u32 {
        if self.ever_started { self.restarts.saturating_add(1) } else { 0 }
    }

    /// The time of the next deadline.
    pub fn deadline(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Running(run) => run.verdict.next,
            Phase::ImageError(error) => Some(error.until),
            Phase::CrashLoop { until, .. } => Some(*until),
            Phase::PostStart(_, hook) | Phase::PreStop(_, hook) => hook.deadline(),
            Phase::Waiting | Phase::Image | Phase::ConfigError(_) | Phase::Starting => None,
            Phase::Stopping(_) | Phase::Exited => None,
        }
    }

    /// Whether another run follows a run that ended with `code`: the container's rules come before its own policy, and this before the
    /// policy of the pod, as in `ContainerShouldRestart`.
    pub fn restarts_after(&self, code: i32, spec: &ContainerSpec, policy: RestartPolicy) -> bool {
        let by_rule = spec.restart_rule(code).is_some();
        match (self.kind, spec.restart_policy.unwrap_or(policy)) {
            (Kind::Sidecar, _) => true,
            (Kind::Ephemeral, _) => false,
            (Kind::Init, _) if code == 0 => false,
            (Kind::Init | Kind::Regular, _) if by_rule => true,
            (Kind::Init | Kind::Regular, RestartPolicy::Always) => true,
            (Kind::Init | Kind::Regular, RestartPolicy::OnFailure) => code != 0,
            (Kind::Init | Kind::Regular, RestartPolicy::Never) => false,
        }
    }
}
