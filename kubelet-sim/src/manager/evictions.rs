//! Evictions: nodes under pressure end pods, and nodes that go off end all. `pressure` has order and texts. Synchronous.

use super::Manager;
use crate::behavior;
use crate::limits::{EVICTION_INTERVAL, SHUTDOWN};
use crate::pod::step::EVICTED;
use crate::pod::{Eviction, Input, Stage};
use crate::pod_object::PodObject;
use crate::pressure::{Candidate, ContainerUse, Scarce, bytes, first, message};
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::Key;
use std::time::Duration;

/// The least priority of critical pods, which no pressure evicts.
const CRITICAL: i32 = 2_000_000_000;

impl Manager {
    /// Evicts the next pod of a node under pressure, and sets when it looks again.
    pub(super) fn evict(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let holds = node.faults.pressures();
        let effects = &node.faults.effects;
        let bounds = [effects.memory, effects.disk, effects.pids].map(Option::flatten);
        let open =
            |at: &usize| holds[*at] && bounds[*at].is_none_or(|bound| node.faults.evicted[*at] < bound);
        let next = (0..3).find(open);
        node.faults.eviction = next.map(|_| later(now, EVICTION_INTERVAL));
        let Some(at) = next else { return };
        let scarce = Scarce::ALL[at];
        let candidates: Vec<(Key, Candidate)> = self
            .pods_on(name)
            .into_iter()
            .filter_map(|key| Some((key.clone(), self.candidate(&key, scarce)?)))
            .collect();
        let all: Vec<Candidate> = candidates.iter().map(|(_, one)| one.clone()).collect();
        let Some(evicted) = first(scarce, &all) else { return };
        let Some((key, _)) = candidates.iter().find(|(_, one)| one == evicted) else { return };
        if let Some(node) = self.nodes.get_mut(name) {
            node.faults.evicted[at] += 1;
        }
        let message = message(scarce, evicted);
        self.end_pod(&key.clone(), Eviction { reason: EVICTED, message, grace: Duration::ZERO }, now);
    }

    /// Ends all pods of a node that is about to go off.
    pub(super) fn shut_down_pods(&mut self, name: &str, now: Timestamp) {
        for key in self.pods_on(name) {
            let message = "Pod was terminated in response to imminent node shutdown.".to_owned();
            self.end_pod(&key, Eviction { reason: "Terminated", message, grace: SHUTDOWN / 2 }, now);
        }
    }

    pub(super) fn end_pod(&mut self, key: &Key, eviction: Eviction, now: Timestamp) {
        if let Some(entry) = self.pods.get_mut(key) {
            entry.change(|machine, _| machine.eviction = Some(Box::new(eviction)));
            self.step_pod(key, Input::Observed, now);
        }
    }

    /// A pod as a candidate for eviction; `None` if it is ending, or critical.
    fn candidate(&self, key: &Key, scarce: Scarce) -> Option<Candidate> {
        let entry = self.pods.get(key)?;
        let is_ending = matches!(entry.machine()?.stage, Stage::Stopping { .. } | Stage::Ended(_));
        let object = entry.object();
        let priority = object.spec.priority.unwrap_or(0);
        if is_ending || object.deleted() || object.terminal() || priority >= CRITICAL {
            return None;
        }
        let running =
            entry.machine()?.containers.iter().enumerate().filter(|(_, container)| container.run().is_some());
        let containers = running.filter_map(|(index, _)| usage(object, index, scarce)).collect();
        Some(Candidate { name: object.full_name(), priority, containers })
    }
}

/// What a container uses and has requested of a resource. The annotations of the pod say it; of disk nothing is used.
fn usage(object: &PodObject, index: usize, scarce: Scarce) -> Option<ContainerUse> {
    let spec = object.container(index)?;
    let script = behavior::script(&object.metadata.annotations, &spec.name);
    let (usage, resource) = match scarce {
        Scarce::Memory => (script.memory.unwrap_or(0), "memory"),
        Scarce::Disk => (0, "ephemeral-storage"),
        Scarce::Pids => (0, "pids"),
    };
    let requests = spec.resources.requests.as_ref();
    let request = bytes(requests.and_then(|requests| requests.get(resource)));
    Some(ContainerUse { name: spec.name.clone(), usage: i64::try_from(usage).unwrap_or(i64::MAX), request })
}
