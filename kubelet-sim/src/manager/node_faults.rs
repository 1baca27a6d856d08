//! The faults of one node in the manager: what holds now, and what of it the node's conditions show. Synchronous.

use super::nodes::NodeEntry;
use crate::fault::effect::{Effects, NodeFaults};
use crate::fault::table::FaultKind;
use crate::limits::PRESSURE_TRANSITION;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use std::collections::BTreeMap;
use std::time::Duration;

/// The message of a node that is starting.
const STARTING: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: \
     cni plugin not initialized";
/// The message of a node that is about to go off.
const SHUTTING_DOWN: &str = "node is shutting down";

/// The faults of a node.
#[derive(Default)]
pub(super) struct FaultState {
    /// What was asked for.
    pub(super) asked: NodeFaults,
    /// What is in force.
    pub(super) effects: Effects,
    /// The faults that hold, with their beginnings and durations: their changes are events.
    pub(super) named: BTreeMap<(FaultKind, Timestamp), Option<Duration>>,
    /// When what holds changes.
    pub(super) next: Option<Timestamp>,
    /// The annotation as it was read last.
    pub(super) annotation: String,
    /// Until when a pressure that is over is shown: memory, disk, process numbers.
    relief: [Option<Timestamp>; 3],
    /// When the node evicts the next pod.
    pub(super) eviction: Option<Timestamp>,
    /// How many pods each pressure has evicted.
    pub(super) evicted: [u32; 3],
    /// When the machine went off.
    pub(super) off_since: Option<Timestamp>,
}

impl FaultState {
    /// When the node's faults or what it shows of them change.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.relief.iter().flatten().copied().chain(self.next).min()
    }

    /// Which pressures hold: memory, disk, process numbers.
    pub(super) fn pressures(&self) -> [bool; 3] {
        let Effects { memory, disk, pids, .. } = &self.effects;
        [memory.is_some(), disk.is_some(), pids.is_some()]
    }

    /// Replaces the effects and returns those before. A pressure that ends is shown for some time more.
    pub(super) fn replace(&mut self, effects: Effects, now: Timestamp) -> Effects {
        let held = self.pressures();
        let before = std::mem::replace(&mut self.effects, effects);
        for (at, holds) in self.pressures().into_iter().enumerate() {
            match (held[at], holds) {
                (false, true) => (self.relief[at], self.evicted[at]) = (None, 0),
                (true, false) => self.relief[at] = Some(later(now, PRESSURE_TRANSITION)),
                (true, true) | (false, false) => {}
            }
        }
        let is_new = held.iter().zip(self.pressures()).any(|(held, holds)| holds && !held);
        self.eviction = match is_new {
            true => Some(now),
            false => self.eviction.filter(|_| self.pressures().contains(&true)),
        };
        before
    }
}

impl NodeEntry {
    /// Whether its kubelet and the API server reach each other.
    pub(super) fn is_linked(&self) -> bool {
        !self.stopped() && !self.faults.effects.is_cut
    }

    /// Computes the health anew; if it differs, the node posts its status. Returns whether the node is ready only now.
    pub(super) fn refresh_health(&mut self, now: Timestamp) -> bool {
        for relief in &mut self.faults.relief {
            *relief = relief.filter(|until| *until > now);
        }
        if self.ready_at.is_some_and(|at| at <= now) {
            self.ready_at = None;
        }
        let [lacks_memory, lacks_disk, lacks_pids] =
            [0, 1, 2].map(|at| self.faults.pressures()[at] || self.faults.relief[at].is_some());
        let effects = &self.faults.effects;
        let not_ready = match (self.ready_at, effects.shuts_down) {
            (Some(_), _) => Some(STARTING.to_owned()),
            (None, true) => Some(SHUTTING_DOWN.to_owned()),
            (None, false) => effects.not_ready.clone(),
        };
        let lacks_network = match (effects.lacks_network, self.health.lacks_network) {
            (true, _) => Some(true),
            (false, shown) => shown.map(|_| false),
        };
        let mut health = self.health.clone();
        (health.not_ready, health.lacks_network) = (not_ready, lacks_network);
        (health.lacks_memory, health.lacks_disk, health.lacks_pids) = (lacks_memory, lacks_disk, lacks_pids);
        if health == self.health {
            return false;
        }
        let is_ready_now = self.health.not_ready.is_some() && health.not_ready.is_none();
        self.health = health;
        self.post_status();
        is_ready_now
    }
}
