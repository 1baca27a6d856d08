//! One pod's life on its node: a state and a `step` that takes it on. Pure: what happens comes in as [`Input`], what is to
//! be done goes out as [`Output`], and `now` is an argument. What the API shows of it is computed in `status`.

pub mod adopt;
pub mod container;
pub mod needs;
pub mod object;
pub mod order;
mod raw;
pub mod source;
mod step;
#[cfg(test)]
mod tests;

use crate::runtime::{Command, Event};
use container::Container;
use jiff::Timestamp;
use std::net::IpAddr;

pub(crate) use raw::Keys;
pub use step::step;

/// A pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// How far it is.
    pub stage: Stage,
    /// Init containers in order, then the regular ones, then ephemeral ones.
    pub containers: Vec<Container>,
    /// The address of its network; `None` until there is one, and on the node's own network.
    pub ip: Option<IpAddr>,
    /// When the kubelet first saw it.
    pub started_at: Timestamp,
}

impl Pod {
    /// Whether it may wait for an object that it refers to.
    pub fn awaits_sources(&self) -> bool {
        let is_uncreated =
            |container: &Container| matches!(container.phase, container::Phase::ConfigError(_));
        matches!(self.stage, Stage::Admitted | Stage::Mounting(_)) || self.containers.iter().any(is_uncreated)
    }
}

/// How far a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Seen; nothing asked of the runtime yet.
    Admitted,
    /// Its volumes cannot be mounted: what the last events about it said.
    Mounting(Vec<String>),
    /// Its network is being made.
    Sandbox,
    /// Its network could not be made and is tried again.
    SandboxRetry(Timestamp),
    /// Its network is up; containers begin, run and restart.
    Active,
    /// Its containers are being stopped; what still runs is killed at `kill_at`.
    Stopping {
        /// Why.
        why: Why,
        /// When the grace is used up.
        kill_at: Timestamp,
    },
    /// Nothing runs any more, nor will.
    Ended(Why),
}

/// Why a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its containers did, by themselves.
    Finished,
    /// Somebody deleted it.
    Deleted,
    /// It was active for longer than it may.
    DeadlineExceeded,
}

/// What happens to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The object, or one that it refers to, is new or has changed, or this process has just started.
    Observed,
    /// The runtime reports.
    Runtime(Event),
    /// The moment that [`Pod::deadline`] named has come.
    Deadline,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask the runtime.
    Runtime(Command),
    /// Record an event.
    Event(PodEvent),
    /// Nothing is left of a deleted pod: once its final status is written, remove the object.
    Remove,
}

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// It tells of trouble.
    pub warning: bool,
    /// Upstream's reason.
    pub reason: &'static str,
    /// Upstream's text.
    pub message: String,
    /// About which container; `None` for the pod itself.
    pub container: Option<usize>,
}

impl Pod {
    /// When something about the pod changes without anything happening to it.
    pub fn deadline(&self, object: &object::PodObject) -> Option<Timestamp> {
        let own = match &self.stage {
            Stage::SandboxRetry(at) => Some(*at),
            Stage::Active => {
                let containers = self.containers.iter().filter_map(Container::deadline).min();
                let limit = self.active_until(object);
                return containers.into_iter().chain(limit).min();
            }
            Stage::Admitted | Stage::Mounting(_) | Stage::Sandbox => None,
            Stage::Stopping { .. } | Stage::Ended(_) => return None,
        };
        own.into_iter().chain(self.active_until(object)).min()
    }

    /// Until when the pod may be active.
    fn active_until(&self, object: &object::PodObject) -> Option<Timestamp> {
        let seconds = u64::try_from(object.spec.active_deadline_seconds?).unwrap_or(0);
        Some(kstore_container_sim::time::later(self.started_at, std::time::Duration::from_secs(seconds)))
    }

    /// Its network is up.
    pub fn networked(&self) -> bool {
        matches!(self.stage, Stage::Active | Stage::Stopping { .. })
    }
}
