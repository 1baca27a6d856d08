//! The transition of a pod: apply the input, process deadlines, then act on the new state. Level-triggered: a
//! step without changes does nothing.

use super::container::{Container, Ended, ImageError, Phase, Run};
use super::order::{self, Outcome};
use super::{Input, Output, Pod, PodEvent, Stage, Why, probe_worker};
use crate::limits::{PULL_ERROR_SHOWN, SANDBOX_RETRY};
use crate::pod_object::needs::{self, Readiness};
use crate::pod_object::source::Sources;
use crate::pod_object::{ContainerSpec, Hook, Kind, PodObject};
use crate::probe::{self, Condemned, ProbeKind, Verdict};
use crate::runtime::{Command, Event};
use jiff::Timestamp;
use kstore_container_sim::time::{between, go_duration, later};

/// The reason of a pod that its node evicts for want of a resource.
pub(crate) const EVICTED: &str = "Evicted";

/// The exit code of a container whose program a runtime could not start.
const NOT_STARTED: i32 = 128;

/// The action of a restart rule that restarts all containers of the pod.
pub const RESTART_ALL: &str = "RestartAllContainers";

/// Processes one input of `pod`. `object` is its newest known object, which has the wanted containers and
/// whether the pod is deleted. `sources` are the known states of the objects that it refers to. Outputs must
/// be executed in order.
pub fn step(
    pod: Pod,
    object: &PodObject,
    sources: &Sources,
    input: Input,
    now: Timestamp,
) -> (Pod, Vec<Output>) {
    let mut step = Step { pod, object, sources, now, out: Vec::new() };
    let known = step.pod.containers.len();
    step.pod.containers.extend(object.containers().skip(known).map(|_| Container::new(Kind::Ephemeral)));
    match input {
        Input::Observed | Input::Deadline => {}
        Input::Runtime(event) => step.apply(event),
    }
    step.expire();
    step.decide_to_end();
    step.advance();
    (step.pod, step.out)
}

pub(crate) struct Step<'a> {
    pub(crate) pod: Pod,
    pub(crate) object: &'a PodObject,
    pub(super) sources: &'a Sources,
    pub(crate) now: Timestamp,
    pub(crate) out: Vec<Output>,
}

impl Step<'_> {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Sandbox(ip) if self.pod.stage == Stage::Sandbox => {
                self.pod.ip = ip;
                self.pod.stage = Stage::Active;
            }
            Event::SandboxFailed(error) if self.pod.stage == Stage::Sandbox => {
                let message = format!("Failed to create pod sandbox: {error}");
                self.warn(None, "FailedCreatePodSandBox", message);
                self.pod.stage = Stage::SandboxRetry(later(self.now, SANDBOX_RETRY));
            }
            // The network was lost, and the runtime made it anew for a container that starts.
            Event::Sandbox(ip) if self.pod.stage == Stage::Active => self.pod.ip = ip,
            // The pod was deleted meanwhile.
            Event::Sandbox(_) | Event::SandboxFailed(_) => {}
            Event::Pulling(index) => {
                let message = format!("Pulling image \"{}\"", self.image(index));
                self.normal(index, "Pulling", message);
            }
            Event::ImagePresent(index) => {
                let message = format!(
                    "Container image \"{}\" already present on machine and can be accessed by the pod",
                    self.image(index)
                );
                self.image_ready(index, message);
            }
            Event::Pulled { container, took, size } => {
                let (image, took) = (self.image(container), go_duration(took));
                let message = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size} bytes."
                );
                self.image_ready(container, message);
            }
            Event::PullFailed(index, error) => self.pull_failed(index, error),
            Event::NeverPull(index) => self.never_pull(index),
            Event::InspectFailed(index, message) => self.inspect_failed(index, message),
            Event::StartFailed { container, reason, message } => {
                self.start_failed(container, reason, message);
            }
            Event::Started { container, id, health } => self.started(container, id, health),
            Event::Adopted(index, health) => {
                if let Phase::Running(run) | Phase::Stopping(run) = &mut self.pod.containers[index].phase {
                    run.health = health;
                    if run.probes.is_empty() {
                        run.probes = probe_worker::adopted(self.object, index, &run.verdict);
                    }
                }
                self.judge(index);
            }
            Event::NotStarted { container, id, message } => self.not_started(container, id, message),
            Event::Exited { container, code, oom, message } => {
                let reason = match (oom, code) {
                    (true, _) => "OOMKilled",
                    (false, 0) => "Completed",
                    (false, _) => "Error",
                };
                self.exited(container, code, reason, message);
            }
            Event::Executed { container, run, purpose, result } => {
                self.executed(container, &run, purpose, &result);
            }
        }
    }

    fn image_ready(&mut self, index: usize, message: String) {
        if self.pod.containers[index].phase != Phase::Image {
            return;
        }
        self.normal(index, "Pulled", message);
        self.pod.containers[index].pulls = Default::default();
        self.create(index);
    }

    /// Creates and starts a container whose image is present, unless objects that it needs are missing.
    fn create(&mut self, index: usize) {
        match needs::container(self.object, index, self.sources) {
            Readiness::Ready => {
                self.pod.containers[index].phase = Phase::Starting;
                let run = self.pod.containers[index].next_run();
                self.out.push(Output::Runtime(Command::Start(index, run)));
            }
            Readiness::Unknown => self.pod.containers[index].phase = Phase::ConfigError(None),
            Readiness::Blocked(problems) => {
                let problem = problems.join(", ");
                let message = format!("Error: {problem}");
                let phase = Phase::ConfigError(Some(problem));
                if self.pod.containers[index].phase != phase {
                    self.warn(Some(index), "Failed", message);
                    self.pod.containers[index].phase = phase;
                }
            }
        }
    }

    /// Tries again to create a container that could not be created. After an error the kubelet starts with
    /// the image.
    fn create_again(&mut self, index: usize) {
        let failed = self.pod.containers[index].phase != Phase::ConfigError(None);
        if failed && needs::container(self.object, index, self.sources) == Readiness::Ready {
            self.pod.containers[index].phase = Phase::Waiting;
        } else {
            self.create(index);
        }
    }

    fn pull_failed(&mut self, index: usize, message: String) {
        if self.pod.containers[index].phase != Phase::Image {
            return;
        }
        let image = self.image(index).to_owned();
        self.warn(Some(index), "Failed", format!("Failed to pull image \"{image}\": {message}"));
        self.warn(Some(index), "Failed", "Error: ErrImagePull".to_owned());
        let container = &mut self.pod.containers[index];
        container.pulls.tried(self.now);
        let until = later(self.now, PULL_ERROR_SHOWN);
        container.phase =
            Phase::ImageError(ImageError { reason: "ErrImagePull", message, backing_off: false, until });
    }

    /// The runtime did not answer: the kubelet asks again with its next look at the pod.
    fn inspect_failed(&mut self, index: usize, message: String) {
        let container = &mut self.pod.containers[index];
        if !matches!(container.phase, Phase::Image | Phase::Starting) {
            return;
        }
        let until = later(self.now, SANDBOX_RETRY);
        let shown = message.clone();
        container.phase = Phase::ImageError(ImageError {
            reason: "ImageInspectError",
            message: shown,
            backing_off: true,
            until,
        });
        self.warn(Some(index), "InspectFailed", message);
        self.warn(Some(index), "Failed", "Error: ImageInspectError".to_owned());
    }

    /// The container is created and started again with a later look at the pod, beginning with its image.
    fn start_failed(&mut self, index: usize, reason: &'static str, message: String) {
        if self.pod.containers[index].phase != Phase::Starting {
            return;
        }
        self.warn(Some(index), "Failed", format!("Error: {message}"));
        let until = later(self.now, SANDBOX_RETRY);
        let error = ImageError { reason, message, backing_off: true, until };
        self.pod.containers[index].phase = Phase::ImageError(error);
    }

    fn never_pull(&mut self, index: usize) {
        if self.pod.containers[index].phase != Phase::Image {
            return;
        }
        let image = self.image(index);
        let message = format!("Container image \"{image}\" is not present with pull policy of Never");
        self.warn(Some(index), "ErrImageNeverPull", message.clone());
        self.warn(Some(index), "Failed", "Error: ErrImageNeverPull".to_owned());
        let container = &mut self.pod.containers[index];
        container.pulls.tried(self.now);
        let until = container.pulls.wait(self.now).0;
        container.phase =
            Phase::ImageError(ImageError { reason: "ErrImageNeverPull", message, backing_off: true, until });
    }

    fn started(&mut self, index: usize, id: String, health: probe::Health) {
        if self.pod.containers[index].phase != Phase::Starting {
            return;
        }
        self.normal(index, "Created", "Container created".to_owned());
        self.normal(index, "Started", "Container started".to_owned());
        let verdict = Verdict { started: false, ready: false, condemned: None, next: None };
        let probes = probe_worker::workers(self.object, index);
        self.begin_run(index, Run { id, started_at: self.now, health, verdict, probes });
        if !self.begin_post_start(index) {
            self.judge(index);
        }
    }

    /// The program of a created container could not be started, which is the end of a run.
    fn not_started(&mut self, index: usize, id: String, message: String) {
        if self.pod.containers[index].phase != Phase::Starting {
            return;
        }
        self.normal(index, "Created", "Container created".to_owned());
        self.warn(Some(index), "Failed", format!("Error: {message}"));
        let verdict = Verdict { started: false, ready: false, condemned: None, next: None };
        let health = probe::Health::of_process();
        let run = Run { id, started_at: Timestamp::UNIX_EPOCH, health, verdict, probes: Vec::new() };
        self.begin_run(index, run);
        self.exited(index, NOT_STARTED, "StartError", message);
    }

    /// Counts a run that begins.
    fn begin_run(&mut self, index: usize, run: Run) {
        let container = &mut self.pod.containers[index];
        container.restarts = container.next_run();
        (container.ever_started, container.starts_anew) = (true, false);
        if let Some(ended) = container.ended.take() {
            container.crashes.tried(self.now);
            container.last = Some(ended);
        }
        container.phase = Phase::Running(run);
    }

    fn exited(&mut self, index: usize, code: i32, reason: &str, message: String) {
        let policy = self.object.spec.restart_policy;
        let Some(spec) = self.object.container(index) else { return };
        let ending = self.ending();
        let container = &mut self.pod.containers[index];
        let Some(run) = container.run() else { return };
        container.ended = Some(Ended {
            id: run.id.clone(),
            code,
            reason: reason.to_owned(),
            message,
            started_at: run.started_at,
            finished_at: self.now,
        });
        if ending || self.pod.restarts_all || !container.restarts_after(code, spec, policy) {
            container.phase = Phase::Exited;
            return;
        }
        let (until, delay) = container.crashes.wait(self.now);
        if until <= self.now {
            container.phase = Phase::Waiting;
        } else {
            container.phase = Phase::CrashLoop { until, delay };
            let (name, pod) = (&spec.name, self.object.full_name());
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            self.warn(Some(index), "BackOff", message);
        }
        if spec.restart_rule(code).is_some_and(|rule| rule.action == RESTART_ALL) {
            self.restart_all();
        }
    }

    /// Processes expired deadlines.
    fn expire(&mut self) {
        if matches!(self.pod.stage, Stage::SandboxRetry(at) if at <= self.now) {
            self.pod.stage = Stage::Admitted;
        }
        self.expire_hooks();
        if self.pod.stage != Stage::Active {
            return;
        }
        self.finish_resize();
        for index in 0..self.pod.containers.len() {
            match &self.pod.containers[index].phase {
                Phase::CrashLoop { until, .. } if *until <= self.now => {
                    self.pod.containers[index].phase = Phase::Waiting;
                }
                Phase::ImageError(error) if error.until <= self.now => self.image_error_expired(index),
                Phase::Running(run) if run.verdict.next.is_some_and(|next| next <= self.now) => {
                    self.judge(index);
                }
                Phase::Waiting | Phase::Image | Phase::ImageError(_) | Phase::ConfigError(_) => {}
                Phase::Starting | Phase::PostStart(..) | Phase::PreStop(..) => {}
                Phase::Running(_) | Phase::Stopping(_) | Phase::CrashLoop { .. } | Phase::Exited => {}
            }
        }
    }

    /// Turns an image error into a back-off; after that, the pull is tried again.
    fn image_error_expired(&mut self, index: usize) {
        let container = &mut self.pod.containers[index];
        let Phase::ImageError(error) = &mut container.phase else { return };
        if error.backing_off {
            container.phase = Phase::Waiting;
            return;
        }
        error.backing_off = true;
        error.until = container.pulls.wait(self.now).0;
        let message = format!("Back-off pulling image \"{}\"", self.image(index));
        self.normal(index, "BackOff", message);
        self.warn(Some(index), "Failed", "Error: ImagePullBackOff".to_owned());
    }

    /// Evaluates the probes, and stops the container if they failed.
    pub(crate) fn judge(&mut self, index: usize) {
        let Some(spec) = self.object.container(index) else { return };
        let Phase::Running(run) = &mut self.pod.containers[index].phase else { return };
        let (due, verdict) = probe_worker::run(run, spec, self.now);
        for kind in due {
            self.begin_probe(index, kind);
        }
        let Phase::Running(run) = &mut self.pod.containers[index].phase else { return };
        let runs = |kind| run.probes.iter().any(|worker| worker.kind == kind);
        let (runs_readiness, runs_startup, runs_liveness) =
            (runs(ProbeKind::Readiness), runs(ProbeKind::Startup), runs(ProbeKind::Liveness));
        let was_ready = std::mem::replace(&mut run.verdict, verdict.clone()).ready;
        if was_ready && !verdict.ready && spec.readiness_probe.is_some() && !runs_readiness {
            self.warn(
                Some(index),
                "Unhealthy",
                "Readiness probe failed: the simulated container is not ready".to_owned(),
            );
        }
        let Some(condemned) = verdict.condemned else { return };
        let (probe, name, text) = match condemned {
            Condemned::Startup => {
                let text = "Startup probe failed: the simulated container has not started up";
                (&spec.startup_probe, "startup", (text, runs_startup))
            }
            Condemned::Liveness => {
                let text = "Liveness probe failed: the simulated container is broken";
                (&spec.liveness_probe, "liveness", (text, runs_liveness))
            }
        };
        // A command that failed has been reported.
        if let (text, false) = text {
            self.warn(Some(index), "Unhealthy", text.to_owned());
        }
        let message = format!("Container {} failed {name} probe, will be restarted", spec.name);
        self.stop(index, message, self.object.grace_after(probe.as_ref()));
    }

    /// Begins to end a pod that is deleted, exceeded its deadline, or has completed.
    fn decide_to_end(&mut self) {
        if self.object.deleted() && !self.ending() {
            return self.end(Why::Deleted);
        }
        if self.object.deleted() {
            self.shorten_grace();
        }
        if self.ending() {
            return;
        }
        if let Some(eviction) = self.pod.eviction.clone() {
            if eviction.reason == EVICTED {
                self.warn(None, EVICTED, eviction.message.clone());
            }
            self.end(Why::Evicted);
            let kill_at = later(self.now, self.object.grace().min(eviction.grace));
            self.pod.stage = Stage::Stopping { why: Why::Evicted, kill_at };
            return;
        }
        if self.pod.active_until(self.object).is_some_and(|at| at <= self.now) {
            let message = "Pod was active on the node longer than the specified deadline";
            self.warn(None, "DeadlineExceeded", message.to_owned());
            return self.end(Why::DeadlineExceeded);
        }
        let over = order::outcome(&self.pod.containers) != Outcome::Open && !self.pod.restarts_all;
        if over && self.pod.stage == Stage::Active {
            self.end(Why::Finished);
        }
    }

    fn end(&mut self, why: Why) {
        self.pod.restarts_all = false;
        for container in &mut self.pod.containers {
            if matches!(container.phase, Phase::CrashLoop { .. }) {
                container.phase = Phase::Exited;
            }
            if matches!(
                container.phase,
                Phase::Waiting | Phase::Image | Phase::ImageError(_) | Phase::ConfigError(_)
            ) {
                let exited = container.ended.is_some();
                container.phase = if exited { Phase::Exited } else { Phase::Waiting };
            }
        }
        self.pod.stage = Stage::Stopping { why, kill_at: later(self.now, self.object.grace()) };
    }

    /// Acts on the current state.
    fn advance(&mut self) {
        let is_stopping = self.pod.stage == Stage::Active && self.restarting_all();
        match &self.pod.stage {
            Stage::Admitted | Stage::Mounting(_) => self.mount(),
            Stage::Active if is_stopping => {}
            Stage::Active => {
                for index in 0..self.pod.containers.len() {
                    if matches!(self.pod.containers[index].phase, Phase::ConfigError(_)) {
                        self.create_again(index);
                    }
                }
                self.pull();
            }
            &Stage::Stopping { why, kill_at } => {
                let grace = between(self.now, kill_at);
                // All preStop hooks begin at once, also those of sidecars, which get SIGTERM later.
                let hooked = |index: &usize| self.spec(*index).hook(Hook::PreStop).is_some();
                let hooked: Vec<usize> = (0..self.pod.containers.len()).filter(hooked).collect();
                for index in hooked.into_iter().chain(order::stoppable(&self.pod.containers)) {
                    let message = format!("Stopping container {}", self.spec(index).name);
                    self.stop(index, message, grace);
                }
                for index in order::stoppable(&self.pod.containers) {
                    self.terminate(index);
                }
                if !self.pod.containers.iter().any(Container::active) {
                    self.out.push(Output::Runtime(Command::RemoveSandbox));
                    self.pod.stage = Stage::Ended(why);
                }
            }
            Stage::Sandbox | Stage::SandboxRetry(_) | Stage::Ended(_) => {}
        }
        if matches!(self.pod.stage, Stage::Ended(_)) && self.object.deleted() {
            self.out.push(Output::Remove);
        }
    }

    /// Provides the images of the containers that may start, once it is known which pull secrets are there.
    fn pull(&mut self) {
        let has_hook = |index| self.spec(index).hook(Hook::PostStart).is_some();
        let startable = order::startable(&self.pod.containers, has_hook);
        if startable.is_empty() {
            return;
        }
        match needs::pulls(self.object, self.sources) {
            Readiness::Unknown => return,
            Readiness::Ready => {}
            Readiness::Blocked(messages) => {
                for message in messages {
                    self.warn(None, "FailedToRetrieveImagePullSecret", message);
                }
            }
        }
        for index in startable {
            self.pod.containers[index].phase = Phase::Image;
            self.out.push(Output::Runtime(Command::Image(index)));
        }
    }

    /// Stops all containers, which then start anew in their order. PreStop hooks do not run.
    fn restart_all(&mut self) {
        self.pod.restarts_all = true;
        for index in 0..self.pod.containers.len() {
            let container = &mut self.pod.containers[index];
            let Some(run) = container.run().filter(|_| container.kind != Kind::Ephemeral) else { continue };
            if !matches!(container.phase, Phase::Stopping(_)) {
                container.phase = Phase::Stopping(run.clone());
                let message = format!("Stopping container {}", self.spec(index).name);
                self.normal(index, "Killing", message);
                self.out.push(Output::Runtime(Command::Stop(index, self.object.grace())));
            }
        }
    }

    /// Whether containers are still being stopped to start anew. Once none is, all wait for their start.
    fn restarting_all(&mut self) -> bool {
        let counts = |container: &&Container| container.kind != Kind::Ephemeral;
        if !self.pod.restarts_all || self.pod.containers.iter().filter(counts).any(Container::active) {
            return self.pod.restarts_all;
        }
        for container in self.pod.containers.iter_mut().filter(|container| container.kind != Kind::Ephemeral)
        {
            container.starts_anew = true;
            if !matches!(container.phase, Phase::CrashLoop { .. }) {
                container.phase = Phase::Waiting;
            }
        }
        self.pod.restarts_all = false;
        false
    }

    fn ending(&self) -> bool {
        matches!(self.pod.stage, Stage::Stopping { .. } | Stage::Ended(_))
    }

    fn spec(&self, index: usize) -> &ContainerSpec {
        self.object.container(index).expect("a pod's containers are never removed")
    }

    fn image(&self, index: usize) -> &str {
        &self.spec(index).image
    }

    pub(super) fn normal(&mut self, index: usize, reason: &'static str, message: String) {
        let (reason, container) = (reason.into(), Some(index));
        self.out.push(Output::Event(PodEvent { warning: false, reason, message, container }));
    }

    pub(crate) fn warn(&mut self, container: Option<usize>, reason: &'static str, message: String) {
        let reason = reason.into();
        self.out.push(Output::Event(PodEvent { warning: true, reason, message, container }));
    }
}
