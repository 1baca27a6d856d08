//! Lifecycle hooks of containers, as `startContainer` and `killContainer` of kubelet run them: postStart before the container counts as
//! started, preStop within the grace period before SIGTERM. Pure.

use super::container::{Phase, Run};
use super::step::Step;
use super::{Output, Pod, Stage};
use crate::execution::{Act, Executed, Execution, Purpose};
use crate::limits::MIN_KILL_GRACE;
use crate::pod_object::options::{Handler, HttpTarget, PortName};
use crate::pod_object::{Hook, PodObject};
use crate::program::{self, Program};
use crate::runtime::Command;
use jiff::Timestamp;
use kstore_container_sim::time::{between, later};
use std::time::Duration;

/// A hook that runs, or that is over while its container waits for its turn to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    /// When it began.
    pub since: Timestamp,
    /// When its action is over by itself; `None` for a command, whose end is an event.
    pub due: Option<Timestamp>,
    /// The end of the grace period for a container that is to stop.
    pub kill_at: Option<Timestamp>,
    /// Whether it is over.
    pub is_over: bool,
}

impl HookRun {
    /// When it is over at the latest; `None` while only an event ends it.
    pub fn deadline(&self) -> Option<Timestamp> {
        let ends = [self.due, self.kill_at].into_iter().flatten();
        ends.min().filter(|_| !self.is_over)
    }
}

/// How an action of a hook goes on.
enum Action {
    /// It has succeeded or failed at once.
    Over(bool),
    /// It succeeds at this time.
    Until(Timestamp),
    /// An event will say how it ends.
    Running,
}

impl Step<'_> {
    /// Begins the action of a hook. A command that the simulated shell does not know succeeds, because a container goes on whose own
    /// command is not known. HTTP requests reach servers of known images, and in pods without any the ports that running containers
    /// declare.
    fn act(&mut self, index: usize, run: &Run, hook: Hook) -> Action {
        let Some(handler) = self.object.container(index).and_then(|spec| spec.hook(hook)) else {
            return Action::Over(true);
        };
        match handler {
            Handler::Sleep(0) => Action::Over(true),
            Handler::Sleep(seconds) => Action::Until(later(self.now, Duration::from_secs(*seconds))),
            Handler::Http(target) => match self.served_port(index, target) {
                Some(port) => {
                    let (run, purpose) = (run.id.clone(), Purpose::Hook(hook));
                    let path = target.path.trim_start_matches('/');
                    let act = match target.is_encrypted() {
                        true => Act::Https(port, format!("/{path}")),
                        false => Act::Http(port, format!("/{path}")),
                    };
                    self.execute(Execution { container: index, run, purpose, act, timeout: None })
                }
                None => Action::Over(is_served(&self.pod, self.object, index, target)),
            },
            Handler::Invalid => Action::Over(false),
            Handler::Exec(argv) if !program::runs(self.object, index, argv) => Action::Over(true),
            Handler::Exec(argv) => {
                let (run, purpose) = (run.id.clone(), Purpose::Hook(hook));
                self.execute(Execution {
                    container: index,
                    run,
                    purpose,
                    act: Act::Command(argv.clone()),
                    timeout: None,
                })
            }
        }
    }

    fn execute(&mut self, execution: Execution) -> Action {
        self.out.push(Output::Execute(execution));
        Action::Running
    }

    /// The port of a hook's request in a pod with a server of a known image or a program of this machine, which is asked then.
    fn served_port(&self, index: usize, target: &HttpTarget) -> Option<u16> {
        let is_own = target.host.is_empty();
        let mut all = 0..self.object.containers().count();
        let is_asked = |other| {
            program::server_command(self.object, other).is_some()
                || matches!(program::of(self.object, other), Program::Host | Program::Real)
        };
        if !is_own || !all.any(is_asked) {
            return None;
        }
        let ports = self.object.container(index)?.options.as_deref().map(|options| options.ports.as_slice());
        match &target.port {
            PortName::Name(name) if name.is_empty() => Some(80),
            port => port.number(ports.unwrap_or_default()),
        }
    }

    fn has_hook(&self, index: usize, hook: Hook) -> bool {
        self.object.container(index).is_some_and(|spec| spec.hook(hook).is_some())
    }

    /// Begins the postStart hook of a container that has just started. Returns false if it has none, or none that takes time.
    pub(super) fn begin_post_start(&mut self, index: usize) -> bool {
        let Phase::Running(run) = &self.pod.containers[index].phase else { return false };
        if !self.has_hook(index, Hook::PostStart) {
            return false;
        }
        let run = run.clone();
        let due = match self.act(index, &run, Hook::PostStart) {
            Action::Over(true) => return false,
            Action::Over(false) => {
                self.fail_post_start(index);
                return true;
            }
            Action::Until(due) => Some(due),
            Action::Running => None,
        };
        let hook = HookRun { since: self.now, due, kill_at: None, is_over: false };
        self.pod.containers[index].phase = Phase::PostStart(run, hook);
        true
    }

    fn fail_post_start(&mut self, index: usize) {
        // The hook's output is not in the event: it may have secrets.
        self.warn(Some(index), "FailedPostStartHook", "PostStartHook failed".to_owned());
        self.stop(index, "FailedPostStartHook".to_owned(), self.object.grace());
    }

    /// Begins to stop a running container: its preStop hook, or SIGTERM.
    pub(super) fn stop(&mut self, index: usize, message: String, grace: Duration) {
        let (Phase::Running(run) | Phase::PostStart(run, _)) = &self.pod.containers[index].phase else {
            return;
        };
        let run = run.clone();
        self.normal(index, "Killing", message);
        if !self.has_hook(index, Hook::PreStop) {
            self.pod.containers[index].phase = Phase::Stopping(run);
            self.out.push(Output::Runtime(Command::Stop(index, grace.max(MIN_KILL_GRACE))));
            return;
        }
        let action = self.act(index, &run, Hook::PreStop);
        let due = match action {
            Action::Over(_) => Some(self.now),
            Action::Until(due) => Some(due),
            Action::Running => None,
        };
        let kill_at = Some(later(self.now, grace));
        let hook = HookRun { since: self.now, due, kill_at, is_over: false };
        self.pod.containers[index].phase = Phase::PreStop(run, hook);
        if let Action::Over(succeeded) = action {
            self.end_pre_stop(index, succeeded);
        }
    }

    /// Ends the preStop hook of a container, which gets SIGTERM when it is its turn.
    fn end_pre_stop(&mut self, index: usize, succeeded: bool) {
        if !succeeded {
            self.warn(Some(index), "FailedPreStopHook", "PreStopHook failed".to_owned());
        }
        if let Phase::PreStop(_, hook) = &mut self.pod.containers[index].phase {
            hook.is_over = true;
        }
        // In a pod that ends, the order of its containers decides.
        if !matches!(self.pod.stage, Stage::Stopping { .. }) {
            self.terminate(index);
        }
    }

    /// Sends SIGTERM to a container whose preStop hook is over. What is left of the grace period counts from the beginning of the hook,
    /// in whole seconds.
    pub(super) fn terminate(&mut self, index: usize) {
        let Phase::PreStop(run, hook) = &self.pod.containers[index].phase else { return };
        let grace = hook.kill_at.map_or(Duration::ZERO, |kill_at| between(hook.since, kill_at));
        let passed = Duration::from_secs(between(hook.since, self.now).as_secs());
        let left = grace.saturating_sub(passed).max(MIN_KILL_GRACE);
        self.pod.containers[index].phase = Phase::Stopping(run.clone());
        self.out.push(Output::Runtime(Command::Stop(index, left)));
    }

    /// Ends the hooks whose time has come. A preStop hook that takes longer than the grace period is given up.
    pub(super) fn expire_hooks(&mut self) {
        for index in 0..self.pod.containers.len() {
            match &self.pod.containers[index].phase {
                Phase::PostStart(_, hook) if hook.deadline().is_some_and(|at| at <= self.now) => {
                    self.end_post_start(index, true);
                }
                Phase::PreStop(_, hook) if hook.deadline().is_some_and(|at| at <= self.now) => {
                    self.end_pre_stop(index, true);
                }
                _ => {}
            }
        }
    }

    fn end_post_start(&mut self, index: usize, succeeded: bool) {
        let Phase::PostStart(run, _) = &self.pod.containers[index].phase else { return };
        self.pod.containers[index].phase = Phase::Running(run.clone());
        if succeeded {
            self.judge(index);
        } else {
            self.fail_post_start(index);
        }
    }

    /// Takes the end of a command.
    pub(super) fn executed(&mut self, index: usize, run: &str, purpose: Purpose, result: &Executed) {
        let Some(container) = self.pod.containers.get(index) else { return };
        if container.run().is_none_or(|current| current.id != run) {
            return;
        }
        let succeeded = result.code == Some(0);
        match (purpose, &container.phase) {
            (Purpose::Hook(Hook::PostStart), Phase::PostStart(..)) => self.end_post_start(index, succeeded),
            (Purpose::Hook(Hook::PreStop), Phase::PreStop(_, hook)) if !hook.is_over => {
                self.end_pre_stop(index, succeeded);
            }
            (Purpose::Probe(kind), Phase::Running(_)) => self.probed(index, kind, result),
            (Purpose::Hook(_) | Purpose::Probe(_), _) => {}
        }
    }

    /// Shortens the grace period of a pod that is stopping already.
    pub(super) fn shorten_grace(&mut self) {
        let grace = self.object.grace();
        let sooner = later(self.now, grace);
        let Stage::Stopping { kill_at, .. } = &mut self.pod.stage else { return };
        if *kill_at <= sooner {
            return;
        }
        *kill_at = sooner;
        for index in 0..self.pod.containers.len() {
            match &mut self.pod.containers[index].phase {
                Phase::PreStop(_, hook) => hook.kill_at = hook.kill_at.map(|kill_at| kill_at.min(sooner)),
                Phase::Stopping(_) => {
                    self.out.push(Output::Runtime(Command::Shorten(index, grace.max(MIN_KILL_GRACE))));
                }
                _ => {}
            }
        }
    }
}

/// Whether an HTTP request of a hook is answered: a running container of the pod declares its port.
fn is_served(pod: &Pod, object: &PodObject, index: usize, target: &HttpTarget) -> bool {
    let options =
        |index: usize| object.container(index).and_then(|spec| spec.options.as_deref()).map(|all| &all.ports);
    let own = |name: &str| {
        let ports = options(index).into_iter().flatten();
        ports.into_iter().find(|port| port.name == name).map(|port| port.container_port)
    };
    let port = match &target.port {
        PortName::Number(number) => Some(*number),
        PortName::Name(name) if name.is_empty() => Some(80),
        PortName::Name(name) => name.parse().ok().or_else(|| own(name)),
    };
    let Some(port) = port.filter(|_| target.host.is_empty()) else { return false };
    let serves = |other: usize| {
        let declared = options(other).into_iter().flatten();
        pod.containers[other].run().is_some() && declared.into_iter().any(|one| one.container_port == port)
    };
    (0..pod.containers.len()).any(serves)
}
