//! The runtimes of a simulation: the pods of the node of a container runtime are there, all others are simulated.

use super::cri::CriRuntime;
use super::sim::SimRuntime;
use super::{Command, DueEvent, Runtime};
use crate::config::Config;
use crate::pod_object::PodObject;
use jiff::Timestamp;
use kstore_nondet::Rng;
use std::net::IpAddr;

/// The simulated runtime, and perhaps a real one beside it.
pub(crate) struct Runtimes {
    pub(crate) simulated: SimRuntime,
    pub(crate) real: Option<CriRuntime>,
}

impl Runtimes {
    /// The runtimes of a configuration, without nodes.
    pub(crate) fn new(config: &Config, rng: &Rng) -> Self {
        let simulated = SimRuntime::new(config.delays.clone(), rng);
        Self {
            simulated: simulated.missing_images(config.missing_images.clone()),
            real: config.cri.as_ref().map(|cri| CriRuntime::new(cri.node.clone())),
        }
    }

    /// The uid of the pod with an address.
    pub(crate) fn pod_at(&self, address: IpAddr) -> Option<&str> {
        let real = self.real.as_ref().and_then(|real| real.pod_at(address));
        real.or_else(|| self.simulated.pod_at(address))
    }

    fn of(&mut self, pod: &PodObject) -> &mut dyn Runtime {
        match &mut self.real {
            Some(real) if real.has_node(&pod.spec.node_name) => real,
            Some(_) | None => &mut self.simulated,
        }
    }
}

impl Runtime for Runtimes {
    fn submit(&mut self, pod: &PodObject, command: Command, now: Timestamp) {
        self.of(pod).submit(pod, command, now);
    }

    fn exit(&mut self, pod: &PodObject, container: usize, code: i32, oom: bool, now: Timestamp) {
        self.of(pod).exit(pod, container, code, oom, now);
    }

    fn take_due(&mut self, now: Timestamp) -> Option<DueEvent> {
        let due = |at: Option<Timestamp>| at.unwrap_or(Timestamp::MAX);
        match &mut self.real {
            Some(real) if due(real.next_due()) < due(self.simulated.next_due()) => real.take_due(now),
            Some(_) | None => self.simulated.take_due(now),
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.real.as_ref().and_then(Runtime::next_due).into_iter().chain(self.simulated.next_due()).min()
    }

    fn forget(&mut self, uid: &str) {
        match &mut self.real {
            Some(real) if real.has_pod(uid) => real.forget(uid),
            Some(_) | None => self.simulated.forget(uid),
        }
    }
}
