//! One container's life, as a value. How it moves on is decided in `step`; which containers may begin, in `order`.

use crate::backoff::Backoff;
use crate::pod::object::{ContainerSpec, PodObject, RestartPolicy};
use crate::probe::{Health, Verdict};
use jiff::Timestamp;
use std::time::Duration;

/// What role a container has in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs to its end before the next one begins.
    Init,
    /// An init container that stays: the next one begins once it has started up.
    Sidecar,
    /// Begins when all init containers are through.
    Regular,
    /// Was added to look at the others: begins at once and does not begin again.
    Ephemeral,
}

/// A container: where it stands, and what it remembers of earlier runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its role.
    pub kind: Kind,
    /// Where it stands.
    pub phase: Phase,
    /// Runs before the present or latest one.
    pub restarts: u32,
    /// It has run at least once.
    pub ever_started: bool,
    /// How its latest run ended, while no newer one has begun.
    pub ended: Option<Ended>,
    /// How the run before that ended.
    pub last: Option<Ended>,
    /// Waits between crashes.
    pub crashes: Backoff,
    /// Waits between failed pulls.
    pub pulls: Backoff,
}

/// Where a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not begun: its turn has not come, or it is about to begin anew.
    Waiting,
    /// Its image is being looked up or pulled.
    Image,
    /// Its image could not be had.
    ImageError(ImageError),
    /// It cannot be created, for the reason that the kubelet gives. `None` while the API has not yet answered about the
    /// objects that it refers to.
    ConfigError(Option<String>),
    /// It is being created and started.
    Starting,
    /// It runs.
    Running(Run),
    /// It runs and was told to stop.
    Stopping(Run),
    /// It ended and may begin anew after `until`; `delay` is what the message says.
    CrashLoop {
        /// When it may begin.
        until: Timestamp,
        /// How long the wait is in all.
        delay: Duration,
    },
    /// It ended for good.
    Exited,
}

/// A failed pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError {
    /// `ErrImagePull`, `ErrImageNeverPull`.
    pub reason: &'static str,
    /// What the runtime said.
    pub message: String,
    /// Shown as a back-off rather than as the error.
    pub backing_off: bool,
    /// When the pull is tried again.
    pub until: Timestamp,
}

/// A run under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The runtime's name for it.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// How the application fares.
    pub health: Health,
    /// What the probes have found.
    pub verdict: Verdict,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The runtime's name for it.
    pub id: String,
    /// Its exit code.
    pub code: i32,
    /// `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl Container {
    /// A container that has not begun.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            phase: Phase::Waiting,
            restarts: 0,
            ever_started: false,
            ended: None,
            last: None,
            crashes: Backoff::default(),
            pulls: Backoff::default(),
        }
    }

    /// The run under way, told to stop or not.
    pub fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Running(run) | Phase::Stopping(run) => Some(run),
            Phase::Waiting | Phase::Image | Phase::ImageError(_) | Phase::ConfigError(_) => None,
            Phase::Starting => None,
            Phase::CrashLoop { .. } | Phase::Exited => None,
        }
    }

    /// A process exists or is about to: the pod cannot end before it does.
    pub fn active(&self) -> bool {
        self.run().is_some() || self.phase == Phase::Starting
    }

    /// It runs and its startup probe has passed.
    pub fn started(&self) -> bool {
        self.run().is_some_and(|run| run.verdict.started)
    }

    /// It runs and is ready; an init container is ready once it is through.
    pub fn ready(&self) -> bool {
        match self.kind {
            Kind::Init => self.succeeded(),
            // Nobody asks.
            Kind::Ephemeral => false,
            Kind::Sidecar | Kind::Regular => self.run().is_some_and(|run| run.verdict.ready),
        }
    }

    /// It ended with code zero and stays so.
    pub fn succeeded(&self) -> bool {
        self.phase == Phase::Exited && self.ended.as_ref().is_some_and(|ended| ended.code == 0)
    }

    /// It ended with another code and stays so.
    pub fn failed(&self) -> bool {
        self.phase == Phase::Exited && !self.succeeded()
    }

    /// The number that the next run has, counted from zero.
    pub fn next_run(&self) -> u32 {
        if self.ever_started { self.restarts.saturating_add(1) } else { 0 }
    }

    /// When something about it changes without anything happening to it.
    pub fn deadline(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Running(run) => run.verdict.next,
            Phase::ImageError(error) => Some(error.until),
            Phase::CrashLoop { until, .. } => Some(*until),
            Phase::Waiting | Phase::Image | Phase::ConfigError(_) | Phase::Starting => None,
            Phase::Stopping(_) | Phase::Exited => None,
        }
    }

    /// Whether a run that ended with `code` is followed by another.
    pub fn restarts_after(&self, code: i32, policy: RestartPolicy) -> bool {
        match (self.kind, policy) {
            (Kind::Sidecar, _) => true,
            (Kind::Init, RestartPolicy::Always | RestartPolicy::OnFailure) => code != 0,
            (Kind::Ephemeral, _) | (Kind::Init | Kind::Regular, RestartPolicy::Never) => false,
            (Kind::Regular, RestartPolicy::Always) => true,
            (Kind::Regular, RestartPolicy::OnFailure) => code != 0,
        }
    }
}

/// The role of the `index`-th container of `pod`.
pub fn kind_of(pod: &PodObject, index: usize, spec: &ContainerSpec) -> Kind {
    let init = pod.spec.init_containers.len();
    match (index < init, spec.restart_policy) {
        (true, Some(RestartPolicy::Always)) => Kind::Sidecar,
        (true, _) => Kind::Init,
        (false, _) if index < init + pod.spec.containers.len() => Kind::Regular,
        (false, _) => Kind::Ephemeral,
    }
}
