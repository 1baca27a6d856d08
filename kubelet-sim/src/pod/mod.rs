//! One pod on its node as a state machine with a `step`. Pure: takes an [`Input`] and the time `now`, and
//! returns [`Output`]s. `status` computes the status that the API shows.

pub mod adopt;
pub mod container;
pub mod hooks;
pub(crate) mod mounts;
pub mod order;
pub(crate) mod power;
mod probe_worker;
pub mod resize;
pub(crate) mod step;
#[cfg(test)]
mod tests;

use crate::execution::Execution;
use crate::fault::starts::StartFaults;
use crate::node::admission::Rejection;
use crate::runtime::{Command, Event};
use container::{Container, Phase};
use jiff::Timestamp;
use mounts::MountWait;
use resize::Resize;
use std::borrow::Cow;
use std::net::IpAddr;
pub use step::{RESTART_ALL, step};

/// The state of a pod on its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// The stage of its life.
    pub stage: Stage,
    /// Init containers in order, then the regular ones, then ephemeral ones.
    pub containers: Vec<Container>,
    /// The pod's address; `None` before its network is set up, and on the host network.
    pub ip: Option<IpAddr>,
    /// When the kubelet first saw the pod.
    pub started_at: Timestamp,
    /// Why the node rejected the pod.
    pub rejection: Option<Box<Rejection>>,
    /// The change of its resources that is not complete.
    pub resize: Option<Box<Resize>>,
    /// Whether all containers are being stopped to start anew, because a restart rule says so.
    pub restarts_all: bool,
    /// Why the node ends the pod.
    pub eviction: Option<Box<Eviction>>,
    /// What the faults of the node do to the pod's start.
    pub faults: StartFaults,
    /// How far the mount of its volumes is on a node where that takes time.
    pub mount: MountWait,
}

/// Why a node ends a pod before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The reason in the pod's status, such as `Evicted`.
    pub reason: &'static str,
    /// The message in the pod's status.
    pub message: String,
    /// The longest time that the containers have to end.
    pub grace: std::time::Duration,
}

impl Pod {
    /// Whether the pod may wait for an object that it refers to.
    pub fn awaits_sources(&self) -> bool {
        let is_uncreated = |container: &Container| matches!(container.phase, Phase::ConfigError(_));
        matches!(self.stage, Stage::Admitted | Stage::Mounting(_)) || self.containers.iter().any(is_uncreated)
    }
}

/// The stage of a pod's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The pod was seen; the runtime has no command for it yet.
    Admitted,
    /// The pod's volumes cannot be mounted; has the texts of the last events about it.
    Mounting(Vec<String>),
    /// The pod's network is being set up.
    Sandbox,
    /// The pod's network could not be set up; has the time of the next attempt.
    SandboxRetry(Timestamp),
    /// The pod's network is set up; containers start, run and restart.
    Active,
    /// The pod's containers are being stopped; those still running are killed at `kill_at`.
    Stopping {
        /// Why the pod ends.
        why: Why,
        /// The end of the grace period.
        kill_at: Timestamp,
    },
    /// No container runs or will run.
    Ended(Why),
}

/// Why a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The pod's containers ended by themselves.
    Finished,
    /// A user or controller deleted it.
    Deleted,
    /// It exceeded its active deadline.
    DeadlineExceeded,
    /// Its node rejected it; no container of it has run.
    Rejected,
    /// Its node ended it: [`Pod::eviction`] says why.
    Evicted,
}

/// An input of a pod's state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The object or an object that it refers to is new or has changed, or this process has just started.
    Observed,
    /// An event of the runtime.
    Runtime(Event),
    /// The time of [`Pod::deadline`] has come.
    Deadline,
}

/// An output of a pod's state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Give a command to the runtime.
    Runtime(Command),
    /// Run a command in a container. Answered by [`Event::Executed`].
    Execute(Execution),
    /// Record an event.
    Event(PodEvent),
    /// A deleted pod has ended: remove the object once its final status is written.
    Remove,
}

/// A Kubernetes Event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Whether it is a warning.
    pub warning: bool,
    /// The reason, as in Kubernetes.
    pub reason: Cow<'static, str>,
    /// The message, as in Kubernetes.
    pub message: String,
    /// The container it is about; `None` for the pod itself.
    pub container: Option<usize>,
}

impl PodEvent {
    /// A warning about the pod itself.
    pub fn warning(reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self { warning: true, reason: reason.into(), message, container: None }
    }
}

impl Pod {
    /// The time of the next deadline of the pod or a container.
    pub fn deadline(&self, object: &crate::pod_object::PodObject) -> Option<Timestamp> {
        let own = match &self.stage {
            Stage::SandboxRetry(at) => Some(*at),
            Stage::Active => {
                let containers = self.containers.iter().filter_map(Container::deadline).min();
                let limit = self.active_until(object);
                let resize = self.resize.as_ref().and_then(|resize| resize.in_progress.as_ref());
                let resize = resize.map(|progress| progress.until);
                return containers.into_iter().chain(limit).chain(resize).min();
            }
            Stage::Admitted | Stage::Mounting(_) => self.mount.deadline(),
            Stage::Sandbox => None,
            Stage::Stopping { .. } => {
                let stopping = |container: &&Container| matches!(container.phase, Phase::PreStop(..));
                return self.containers.iter().filter(stopping).filter_map(Container::deadline).min();
            }
            Stage::Ended(_) => return None,
        };
        own.into_iter().chain(self.active_until(object)).min()
    }

    /// The end of the pod's active deadline, if it has one.
    fn active_until(&self, object: &crate::pod_object::PodObject) -> Option<Timestamp> {
        let seconds = u64::try_from(object.spec.active_deadline_seconds?).unwrap_or(0);
        Some(kstore_container_sim::time::later(self.started_at, std::time::Duration::from_secs(seconds)))
    }

    /// Whether its network is set up.
    pub fn networked(&self) -> bool {
        matches!(self.stage, Stage::Active | Stage::Stopping { .. })
    }
}
