//! The faults of one node in the manager: what holds now, and what of it the node's conditions show. Synchronous.

use super::nodes::NodeEntry;
use super::write::Write;
use crate::behavior::ANNOTATION_PREFIX;
use crate::fault::effect::{Asked, Effects, NodeFaults};
use crate::fault::list;
use crate::fault::request::{self, FaultRequest};
use crate::fault::table::FaultKind;
use crate::image::hash;
use crate::limits::{FAULTS_PER_NODE, PRESSURE_TRANSITION};
use crate::time::api_time;
use jiff::Timestamp;
use kstore_api::json::value_of;
use kstore_container_sim::time::later;
use kstore_informer::{Object as _, Revision};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The message of a node that is starting.
const STARTING: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: \
     cni plugin not initialized";
/// The taint of a node whose machine is taken back.
const RECLAIM_TAINT: &str = "sim.kstore.io/reclaim";
/// The annotation of such a node with the time.
const RECLAIM_ANNOTATION: &str = "sim.kstore.io/reclaim-at";
/// The annotation with the times since which those of the annotation of faults count: for each item that has times one, and a hash of the
/// item's text.
const TIMES_ANNOTATION: &str = "kubelet-sim.kstore.io/fault-since";
/// The message of a node that is about to go off.
const SHUTTING_DOWN: &str = "node is shutting down";

/// Since when the times of an item of the annotation count.
struct ItemTime {
    since: Timestamp,
    /// Hash of the item's text.
    text: String,
}

/// The times that an earlier process noted.
fn read_times(shown: &str) -> Vec<ItemTime> {
    let items = shown.split(',').take(FAULTS_PER_NODE).filter_map(|item| item.split_once('/'));
    let times =
        items.map(|(since, text)| Some(ItemTime { since: since.parse().ok()?, text: text.to_owned() }));
    times.flatten().collect()
}

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
    /// The revision of the write from which it was read; zero if it was read from what the informer brought.
    pub(super) revision: Revision,
    /// Since when the times of its items count, with hashes of their texts; `None` if it was never read.
    known_times: Option<Vec<ItemTime>>,
    /// Until when a pressure that is over is shown: memory, disk, process numbers.
    relief: [Option<Timestamp>; 3],
    /// When the node evicts the next pod.
    pub(super) eviction: Option<Timestamp>,
    /// How many pods each pressure has evicted.
    pub(super) evicted: [u32; 3],
    /// When the machine went off.
    pub(super) off_since: Option<Timestamp>,
    /// The time of the notice that the Node shows.
    reclaim_shown: Option<Timestamp>,
    /// The value of the annotation with the times that the Node is to have, and the one that it has; empty: none.
    times: String,
    times_shown: String,
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

    /// The annotation's `requests` with the moments since which their times count: what an earlier reading of the annotation says about an
    /// item of the same text, else what an earlier process noted in `shown`, else `now`.
    pub(super) fn count_times(
        &mut self,
        requests: Vec<FaultRequest>,
        shown: &str,
        now: Timestamp,
    ) -> Vec<Asked> {
        let is_first = self.known_times.is_none();
        if is_first {
            shown.clone_into(&mut self.times_shown);
        }
        let mut known = self.known_times.take().unwrap_or_else(|| read_times(shown));
        known.retain(|time| time.since <= now);
        // Of equal items those that were asked for last are still there: the others have ended before them.
        known.sort_by_key(|time| time.since);
        let (mut times, mut noted, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for (item, request) in list::items(&self.annotation).zip(requests) {
            let text = format!("{:016x}", hash(0, &[item]));
            let earlier = known.iter().rposition(|time| time.text == text).map(|at| known.remove(at));
            let from = earlier.map_or(now, |time| time.since);
            if request.has_times() {
                noted.push(format!("{from}/{text}"));
            }
            times.push(ItemTime { since: from, text });
            asked.push(Asked { from, request });
        }
        self.known_times = Some(times);
        self.times = noted.join(",");
        asked
    }

    /// Takes the success of the write of the times.
    pub(super) fn times_shown(&mut self, patch: &Value) {
        let shown = &patch["metadata"]["annotations"][TIMES_ANNOTATION];
        shown.as_str().unwrap_or_default().clone_into(&mut self.times_shown);
    }

    /// Takes the success of the write of a notice.
    pub(super) fn reclaim_shown(&mut self) {
        self.reclaim_shown = self.effects.reclaim;
    }
}

impl NodeEntry {
    /// The write of the notice that the machine's owner takes it back, or of its withdrawal, if the Node does not show it: what cloud
    /// providers' interruption handlers write.
    pub(super) fn reclaim_write(&self) -> Option<Write> {
        let at = self.faults.effects.reclaim;
        if at == self.faults.reclaim_shown {
            return None;
        }
        let record = self.record.as_ref()?;
        let mut taints: Vec<Value> = record.taints().iter().filter_map(|one| value_of(one).ok()).collect();
        taints.retain(|one| one["key"] != RECLAIM_TAINT);
        if at.is_some() {
            taints.push(json!({ "key": RECLAIM_TAINT, "effect": "NoSchedule" }));
        }
        let annotations = json!({ RECLAIM_ANNOTATION: at.map(api_time) });
        let metadata =
            json!({ "resourceVersion": record.revision().to_string(), "annotations": annotations });
        let patch = Box::new(json!({ "metadata": metadata, "spec": { "taints": taints } }));
        Some(Write::ReclaimNotice { node: self.identity.name.clone(), patch })
    }

    /// The write of the times of the annotation's faults, if the Node does not show them.
    pub(super) fn fault_times_write(&self) -> Option<Write> {
        let FaultState { times, times_shown, .. } = &self.faults;
        if times == times_shown || self.record.is_none() {
            return None;
        }
        let value = (!times.is_empty()).then_some(times);
        let patch = Box::new(json!({ "metadata": { "annotations": { TIMES_ANNOTATION: value } } }));
        Some(Write::FaultTimes { node: self.identity.name.clone(), patch })
    }

    /// The faults in the annotation of the Node: its text, and what an earlier process noted about its times. `None` if it has not changed.
    pub(super) fn changed_fault_annotation(&mut self) -> Option<(String, String)> {
        let of =
            |key: &str| self.record.as_ref().and_then(|record| record.annotation(key)).unwrap_or_default();
        let is_older = self.record.as_ref().is_some_and(|record| record.revision() < self.faults.revision);
        let text = of(&format!("{ANNOTATION_PREFIX}{}", request::ANNOTATION)).to_owned();
        let times = of(TIMES_ANNOTATION).to_owned();
        (!is_older && text != self.faults.annotation).then_some((text, times))
    }

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
        let not_ready = match (self.ready_at, effects.shuts_down || self.is_draining()) {
            (Some(_), _) => Some(STARTING.to_owned()),
            (None, true) => Some(SHUTTING_DOWN.to_owned()),
            (None, false) => effects.not_ready.clone().or_else(|| self.runtime_problem.clone()),
        };
        let lacks_network = match (effects.lacks_network, self.health.lacks_network) {
            (true, _) => Some(true),
            (false, shown) => shown.map(|_| false),
        };
        let mut health = self.health.clone();
        (health.not_ready, health.lacks_network) = (not_ready, lacks_network);
        (health.lacks_memory, health.lacks_disk, health.lacks_pids) = (lacks_memory, lacks_disk, lacks_pids);
        health.lacks_plugins = effects.plugins_away;
        if health == self.health {
            return false;
        }
        let is_ready_now = self.health.not_ready.is_some() && health.not_ready.is_none();
        self.health = health;
        self.post_status();
        is_ready_now
    }
}
