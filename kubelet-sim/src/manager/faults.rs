//! Faults of nodes: when they begin and end, and what that means for the node and its pods. `fault` has the rules. Synchronous.

use super::node_faults::FaultState;
use super::nodes::Removal;
use super::{Manager, Notice, Regarding};
use crate::behavior::ANNOTATION_PREFIX;
use crate::fault::effect::{Asked, Holding, Power};
use crate::fault::request::{self, FaultRequest, FaultValue};
use crate::fault::starts::StartFaults;
use crate::fault::table::FaultKind;
use crate::fault::{Fault, FaultError, FaultReport, Order, OrderRequest, WrittenFaults, list};
use crate::node::{self, object};
use crate::pod::{Input, PodEvent, power};
use jiff::Timestamp;
use kstore_api::meta::format_time;
use kstore_container_sim::time::go_duration;
use kstore_informer::{Key, Revision};
use std::borrow::Cow;

/// The origin of faults that the handle asks for.
const HANDLE: &str = "stop";
/// The origin of faults in the annotation of the Node.
const ANNOTATION: &str = "annotation";

impl Manager {
    /// Carries out a request about the faults of a node.
    pub(crate) fn obey(&mut self, order: Order, now: Timestamp) {
        let Order { node, request } = order;
        // The requester may have gone away.
        match request {
            OrderRequest::Fault(fault, done) => drop(done.send(self.fault(&node, fault, now))),
            OrderRequest::Annotation(written, done) => {
                drop(done.send(self.take_written_faults(&node, written, now)));
            }
            OrderRequest::Report(done) => drop(done.send(self.fault_reports(&node, now))),
        }
    }

    /// Stops or resumes a node.
    pub(super) fn fault(&mut self, name: &str, fault: Fault, now: Timestamp) -> Result<(), FaultError> {
        let node = self.nodes.get_mut(name).ok_or_else(|| FaultError::NoSuchNode(name.to_owned()))?;
        match fault {
            Fault::Stop if node.faults.asked.of(HANDLE).is_empty() => {
                let request = FaultRequest::at_once(FaultKind::Freeze, FaultValue::None);
                node.faults.asked.set(HANDLE, vec![Asked { from: now, request }]);
            }
            Fault::Stop => {}
            Fault::Resume => node.faults.asked.set(HANDLE, Vec::new()),
        }
        self.apply_faults(name, now);
        Ok(())
    }

    /// Reads the annotation of faults as a write has left it, which the informer may bring later.
    fn take_written_faults(
        &mut self,
        name: &str,
        written: WrittenFaults,
        now: Timestamp,
    ) -> Result<(), FaultError> {
        let node = self.nodes.get_mut(name).ok_or_else(|| FaultError::NoSuchNode(name.to_owned()))?;
        if node.faults.revision < written.revision && node.faults.annotation != written.list {
            self.take_fault_annotation(name, written.list, "", now);
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.faults.revision = node.faults.revision.max(written.revision);
        }
        Ok(())
    }

    /// What the faults of a node are now.
    fn fault_reports(&self, name: &str, now: Timestamp) -> Result<Vec<FaultReport>, FaultError> {
        let node = self.nodes.get(name).ok_or_else(|| FaultError::NoSuchNode(name.to_owned()))?;
        let texts: Vec<&str> = list::items(&node.faults.annotation).collect();
        let reports = node.faults.asked.all().flat_map(|(origin, asked)| {
            let texts = if origin == ANNOTATION { texts.as_slice() } else { &[] };
            let report = move |(at, asked): (usize, &Asked)| {
                asked.request.report(texts.get(at).copied(), origin, asked.from, now)
            };
            asked.iter().enumerate().map(report).collect::<Vec<_>>()
        });
        Ok(reports.collect())
    }

    /// Reads the annotation with faults of a Node that has changed. Times of an item that it had before go on; those of others count from
    /// now, or from when an earlier process read it.
    pub(super) fn read_fault_annotation(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some((text, times)) = node.changed_fault_annotation() else { return };
        self.take_fault_annotation(name, text, &times, now);
    }

    fn take_fault_annotation(&mut self, name: &str, text: String, times: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.faults.annotation = text;
        let parsed = request::parse(&node.faults.annotation);
        let asked = match parsed {
            Ok(requests) => node.faults.count_times(requests, times, now),
            Err(problem) => {
                node.faults.count_times(Vec::new(), times, now);
                let key = format!("{ANNOTATION_PREFIX}{}", request::ANNOTATION);
                self.node_event(name, true, "InvalidSimulation", format!("annotation {key}: {problem}"));
                Vec::new()
            }
        };
        self.set_faults(name, ANNOTATION, asked, now);
    }

    /// Replaces the faults that one origin asks for.
    pub(super) fn set_faults(&mut self, name: &str, origin: &str, asked: Vec<Asked>, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.removal == Removal::None) else {
            return;
        };
        if node.faults.asked.of(origin) != asked {
            node.faults.asked.set(origin, asked);
            self.apply_faults(name, now);
        }
    }

    /// Brings a node to what its faults say now.
    pub(super) fn apply_faults(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.removal == Removal::None) else {
            return;
        };
        let Holding { faults, effects, next } = node.faults.asked.holding(now);
        node.faults.next = next;
        let known = std::mem::replace(&mut node.faults.named, faults);
        let before = node.faults.replace(effects, now);
        let events = changes(&known, &node.faults);
        let effects = node.faults.effects.clone();
        node.devices.take_faults(&before, &effects);
        node.clock.set(effects.clock.clone(), now);
        for message in events {
            self.node_event(name, false, "SimulatedFault", message);
        }
        if let Some(at) = effects.reclaim.filter(|_| before.reclaim.is_none()) {
            let text = format!("the machine is taken back at {}", format_time(at));
            self.node_event(name, true, "SpotInterruption", text);
        }
        if effects.is_gone && !before.is_gone {
            self.terminate_machine(name, now);
            return;
        }
        if effects.shuts_down && !before.shuts_down {
            self.shut_down_pods(name, now);
        }
        if effects.power == Power::Off && before.power != Power::Off {
            self.cut_power(name, now);
        }
        if effects.power != Power::Off && before.power == Power::Off {
            self.boot(name, now);
        }
        match (before.power == Power::On, effects.power == Power::On) {
            (true, false) => self.halt(name, now),
            (false, true) => self.resume(name, before.power == Power::Hung, now),
            (true, true) | (false, false) => {}
        }
        if before.starts != effects.starts {
            self.change_starts(name, effects.starts, now);
        }
        if before.is_cut && !effects.is_cut && effects.power == Power::On {
            self.reconnect(name, now);
        }
        self.refresh_node(name, now);
        self.is_serving_changed |= before.is_cut != effects.is_cut || before.power != effects.power;
        self.pods_on(name).iter().for_each(|key| self.show(key));
    }

    /// Computes the health of a node anew.
    pub(super) fn refresh_node(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let is_ready_now = node.refresh_health(now) && node.is_registered();
        if is_ready_now {
            self.node_notice(name, "NodeReady", format!("Node {name} status is now: NodeReady"));
        }
        self.touch_group_of(name);
        self.end_drained(name, now);
        self.touch_node(name);
    }

    /// The pods of a node.
    pub(super) fn pods_on(&self, name: &str) -> Vec<Key> {
        self.by_node.get(name).into_iter().flatten().cloned().collect()
    }

    /// Lets the runtime and the pods of a node have what its faults do to starts now.
    fn change_starts(&mut self, name: &str, starts: StartFaults, now: Timestamp) {
        self.runtime.simulated.set_faults(name, starts);
        let is_running = self.nodes.get(name).is_some_and(|node| !node.stopped());
        for key in self.pods_on(name) {
            if let Some(entry) = self.pods.get_mut(&key) {
                entry.change(|machine, _| machine.faults = starts);
            }
            if is_running {
                self.step_pod(&key, Input::Observed, now);
            }
        }
    }

    /// Stops the kubelet of a node.
    fn halt(&mut self, name: &str, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.step(node::Input::Stop, now);
        }
        self.pods_on(name).iter().for_each(|key| self.pod_timers.set(key, None));
    }

    /// Starts the kubelet of a node again. What the runtime did meanwhile happened at its time if the kubelet `hung`, and else happens now.
    fn resume(&mut self, name: &str, hung: bool, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.step(node::Input::Resume, now);
        }
        self.thaw_all(name, hung, now);
    }

    /// Continues the pods of a node; it admits those that came meanwhile in the order of their creation.
    fn thaw_all(&mut self, name: &str, hung: bool, now: Timestamp) {
        let mut keys = self.pods_on(name);
        keys.sort_by_key(|key| self.pods.get(key).map(|entry| entry.object().order_of_admission()));
        for key in &keys {
            self.thaw(key, hung, now);
            self.observe_resize(key, now);
        }
    }

    fn thaw(&mut self, key: &Key, hung: bool, now: Timestamp) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        entry.reconcile_now();
        for (event, at) in entry.release() {
            self.step_pod_late(key, Input::Runtime(event), if hung { at } else { now }, now);
        }
        self.step_pod(key, Input::Observed, now);
    }

    /// The API server and the kubelet reach each other again: the kubelet learns what has changed.
    fn reconnect(&mut self, name: &str, now: Timestamp) {
        for key in self.pods_on(name) {
            let held = self.pods.get_mut(&key).and_then(|entry| entry.held.take());
            if let Some(record) = held {
                self.observe_pod(record, now);
            }
        }
        self.thaw_all(name, false, now);
    }

    /// The machine of a node goes off: everything under way in its runtime ends without a word.
    fn cut_power(&mut self, name: &str, now: Timestamp) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.faults.off_since = Some(now);
        }
        for key in self.pods_on(name) {
            if let Some(entry) = self.pods.get_mut(&key) {
                entry.release();
                self.runtime.simulated.power_off(&entry.uid);
            }
        }
    }

    /// The machine of a node is on again: its containers have ended when it went off.
    fn boot(&mut self, name: &str, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.health.boots += 1;
        node.post_status();
        let off = node.faults.off_since.take().unwrap_or(now);
        let boot = object::boot_id(name, node.health.boots);
        for key in self.pods_on(name) {
            let Some(entry) = self.pods.get_mut(&key) else { continue };
            let mut begins_anew = false;
            entry.change(|machine, object| begins_anew = power::lose(machine, object, off));
            if begins_anew {
                self.runtime.simulated.lose_sandbox(&entry.uid);
                let message = "Pod sandbox changed, it will be killed and re-created.".to_owned();
                self.pod_notice(
                    &key,
                    PodEvent { warning: false, ..PodEvent::warning("SandboxChanged", message) },
                );
            }
        }
        self.node_event(name, true, "Rebooted", format!("Node {name} has been rebooted, boot id: {boot}"));
    }

    /// The machine of a node is gone for good: its group replaces it.
    fn terminate_machine(&mut self, name: &str, now: Timestamp) {
        match self.nodes.get(name).is_some_and(|node| node.member.is_some()) {
            true => self.end_machine(name, now),
            false => {
                let text = "faults \"terminate\" and \"reclaim\" are for nodes of a NodeGroup; delete the Node instead";
                self.node_event(name, true, "InvalidSimulation", text.to_owned());
            }
        }
    }

    /// Forgets a pod's runtime state with its node.
    pub(super) fn forget_pods_of(&mut self, name: &str, now: Timestamp) {
        for key in self.pods_on(name) {
            if let Some(uid) = self.pods.get(&key).map(|entry| entry.uid.clone()) {
                self.forget_pod(&key, &uid, now);
            }
        }
    }

    /// What the clock of a node shows, if it is wrong.
    pub(super) fn wrong_time(&self, node: &str, now: Timestamp) -> Option<Timestamp> {
        let shown = self.nodes.get(node)?.clock.show(now);
        (shown != now).then_some(shown)
    }

    /// Records an event of a node that is no matter of a kubelet: it is recorded even if normal events are not.
    pub(super) fn node_event(&mut self, node: &str, warning: bool, reason: &'static str, message: String) {
        let (regarding, cause) = (Regarding::Node, Revision(0));
        let reason = Cow::Borrowed(reason);
        self.notices.push(Notice { node: node.to_owned(), regarding, warning, reason, message, cause });
    }
}

/// The texts about faults that have begun or ended since `known`.
fn changes(
    known: &std::collections::BTreeMap<(FaultKind, Timestamp), Option<std::time::Duration>>,
    now: &FaultState,
) -> Vec<String> {
    let begun = now.named.iter().filter(|(key, _)| !known.contains_key(*key));
    let begun = begun.map(|((kind, _), length)| match length.filter(|length| !length.is_zero()) {
        Some(length) => format!("{} for {}", kind.name(), go_duration(length)),
        None => kind.name().to_owned(),
    });
    let healed = known.keys().filter(|key| !now.named.contains_key(*key));
    begun.chain(healed.map(|(kind, _)| format!("healed: {}", kind.name()))).collect()
}
