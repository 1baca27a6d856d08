//! Instances of NodeGroups that are drained before their machines end: cordoned, and their pods ended as at the shutdown of a node.
//! Synchronous.

use super::Manager;
use super::nodes::{NodeEntry, Removal};
use super::write::Write;
use crate::limits::DRAIN_REPORT;
use crate::node::admission::Rejection;
use crate::pod::Eviction;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::Object as _;
use serde_json::json;
use std::time::Duration;

/// The reason in the status of pods that end with their node.
const TERMINATED: &str = "Terminated";

impl Manager {
    /// Gives up an instance: its group may let it end its pods first.
    pub(super) fn terminate_instance(&mut self, name: &str, drain: Option<Duration>, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.removal == Removal::None) else {
            return;
        };
        let Some(grace) = drain.filter(|_| node.is_registered() && node.is_linked()) else {
            return self.end_machine(name, now);
        };
        node.removal = Removal::Draining(later(now, grace));
        node.is_cordoning = true;
        for key in self.pods_on(name) {
            let message = "Pod was terminated in response to imminent node shutdown.".to_owned();
            self.end_pod(&key, Eviction { reason: TERMINATED, message, grace }, now);
        }
        self.refresh_node(name, now);
    }

    /// Ends the machine of an instance whose time to drain is over. Once its pods have all ended, that is as soon as their last states are
    /// reported.
    pub(super) fn end_drained(&mut self, name: &str, now: Timestamp) {
        let Some(Removal::Draining(until)) = self.nodes.get(name).map(|node| node.removal) else { return };
        if until <= now {
            return self.end_machine(name, now);
        }
        let soon = later(now, DRAIN_REPORT);
        let has_ended = |key| self.pods.get(key).is_none_or(|entry| entry.has_ended());
        if soon < until && self.pods_on(name).iter().all(has_ended) {
            if let Some(node) = self.nodes.get_mut(name) {
                node.removal = Removal::Draining(soon);
            }
            self.touch_node(name);
        }
    }
}

impl NodeEntry {
    /// Whether it ends its pods before its machine ends.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.removal, Removal::Draining(_))
    }

    /// Why it takes no pod at all; `None`: it may.
    pub(super) fn shutdown_rejection(&self) -> Option<Rejection> {
        let is_shutting_down = self.is_draining() || self.faults.effects.shuts_down;
        is_shutting_down.then(|| Rejection {
            reason: "NodeShutdown".to_owned(),
            message: "Pod was rejected as the node is shutting down.".to_owned(),
        })
    }

    /// The write that keeps the scheduler from a node that is being drained.
    pub(super) fn cordon_write(&self) -> Option<Write> {
        let record = self.record.as_ref().filter(|_| self.is_cordoning && self.is_draining())?;
        let patch = json!({ "metadata": { "uid": record.uid() }, "spec": { "unschedulable": true } });
        Some(Write::NodeSpec { node: self.identity.name.clone(), patch: Box::new(patch) })
    }
}
