//! NodeFaults in the manager: which nodes have them and when, and their status. Synchronous.

use super::Manager;
use super::groups::SimKind;
use super::timers::Timers;
use super::write::{Failure, Write, Written};
use crate::fault::effect::Asked;
use crate::fault::object::FaultRecord;
use crate::fault::request::{FaultRequest, Window};
use crate::image::hash;
use crate::limits::{FAULT_NODES_SHOWN, WRITE_RETRY_MAX};
use crate::time::api_time;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::{Delta, Object};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The NodeFaults of the cluster.
#[derive(Default)]
pub(super) struct FaultObjects {
    entries: BTreeMap<String, FaultEntry>,
    /// When a fault begins, ends or is written again.
    pub(super) timers: Timers<String>,
}

struct FaultEntry {
    record: Arc<FaultRecord>,
    /// The nodes that have the fault now, and the number of its beginning.
    nodes: Vec<String>,
    drawn: u64,
    status: Value,
    sent: Option<Value>,
    in_flight: bool,
    retry_at: Option<Timestamp>,
}

impl Manager {
    /// Takes changes from the informer of faults.
    pub(crate) fn observe_faults(&mut self, deltas: Vec<Delta<FaultRecord>>, now: Timestamp) {
        for delta in deltas {
            match delta {
                Delta::Added(record) | Delta::Updated { new: record, .. } | Delta::Resync(record) => {
                    let name = record.key().name().to_owned();
                    self.observe_fault(&name, record, now);
                }
                Delta::Deleted(record) => self.withdraw_fault(record.key().name(), now),
            }
        }
    }

    fn observe_fault(&mut self, name: &str, record: Arc<FaultRecord>, now: Timestamp) {
        let before = self.fault_objects.entries.get(name);
        if before.is_some_and(|entry| entry.record.uid() != record.uid()) {
            self.withdraw_fault(name, now);
        }
        let new = || FaultEntry {
            record: Arc::clone(&record),
            nodes: Vec::new(),
            drawn: 0,
            status: Value::Null,
            sent: None,
            in_flight: false,
            retry_at: None,
        };
        let entry = self.fault_objects.entries.entry(name.to_owned()).or_insert_with(new);
        if entry.record.revision() <= record.revision() {
            entry.record = record;
        }
        self.turn_fault(name, now);
    }

    fn withdraw_fault(&mut self, name: &str, now: Timestamp) {
        let Some(entry) = self.fault_objects.entries.remove(name) else { return };
        self.fault_objects.timers.set(&name.to_owned(), None);
        for node in entry.nodes {
            self.set_faults(&node, &origin(name), Vec::new(), now);
        }
    }

    /// Begins or ends a fault whose time has come.
    pub(super) fn turn_fault(&mut self, name: &str, now: Timestamp) {
        let Some(entry) = self.fault_objects.entries.get_mut(name) else { return };
        entry.retry_at = entry.retry_at.filter(|at| *at > now);
        let record = Arc::clone(&entry.record);
        let (request, from) = match record.request(now) {
            Ok(request) => request,
            Err(problem) => return self.invalid_fault(name, problem, now),
        };
        let window = record.window((&request, from), self.seed, now);
        let is_terminate = request.duration.is_some_and(|length| length.is_zero()) && window.activations > 0;
        let holds = window.since.is_some() || is_terminate;
        if holds && entry.drawn != window.activations {
            entry.drawn = window.activations;
            let seed = hash(self.seed, &[record.uid(), &window.activations.to_string()]);
            let chosen = record.object.spec.nodes.draw(self.matching_nodes(&record), seed);
            self.set_fault_nodes(name, chosen, now);
            let since = window.since.unwrap_or(now);
            self.ask(name, Some((&request, since)), now);
        }
        if !holds {
            self.ask(name, None, now);
            self.set_fault_nodes(name, Vec::new(), now);
        }
        self.report_fault(name, &window, holds, now);
    }

    /// The nodes that may have a fault, by name.
    fn matching_nodes(&self, record: &FaultRecord) -> Vec<String> {
        let spec = &record.object.spec.nodes;
        let matches = self.nodes.iter().filter(|(name, node)| {
            let label = |key: &str| match &node.record {
                Some(record) => record.label(key).map(str::to_owned),
                None => node.shape.labels.get(key).cloned(),
            };
            spec.matches(name, label, node.member.as_ref().map(|member| &*member.group))
        });
        matches.map(|(name, _)| name.clone()).collect()
    }

    fn set_fault_nodes(&mut self, name: &str, nodes: Vec<String>, now: Timestamp) {
        let Some(entry) = self.fault_objects.entries.get_mut(name) else { return };
        let before = std::mem::replace(&mut entry.nodes, nodes.clone());
        for node in before.into_iter().filter(|node| !nodes.contains(node)) {
            self.set_faults(&node, &origin(name), Vec::new(), now);
        }
    }

    /// Gives the fault to its nodes, or takes it from them.
    fn ask(&mut self, name: &str, request: Option<(&FaultRequest, Timestamp)>, now: Timestamp) {
        let nodes = self.fault_objects.entries.get(name).map(|entry| entry.nodes.clone()).unwrap_or_default();
        for node in nodes {
            let asked = request.map(|(request, from)| {
                let mut request = request.clone();
                (request.after, request.every) = (std::time::Duration::ZERO, None);
                Asked { from, request }
            });
            let asked = asked.into_iter().collect();
            self.set_faults(&node, &origin(name), asked, now);
        }
    }

    fn invalid_fault(&mut self, name: &str, problem: String, now: Timestamp) {
        self.ask(name, None, now);
        let Some(entry) = self.fault_objects.entries.get_mut(name) else { return };
        let status =
            json!({ "phase": "Invalid", "message": problem, "nodes": [], "activations": 0, "next": null });
        let is_news = entry.status != status;
        entry.status = status;
        let (uid, cause) = (Arc::from(entry.record.uid()), entry.record.revision());
        if is_news {
            self.sim_event((SimKind::NodeFault, name, uid), true, ("InvalidSimulation", problem), cause);
        }
    }

    fn report_fault(&mut self, name: &str, window: &Window, holds: bool, now: Timestamp) {
        let Some(entry) = self.fault_objects.entries.get_mut(name) else { return };
        let phase = match (holds, window.next) {
            (true, _) => "Active",
            (false, Some(_)) => "Pending",
            (false, None) => "Done",
        };
        let shown: Vec<&String> = entry.nodes.iter().take(FAULT_NODES_SHOWN).collect();
        let next = window.next.map(api_time);
        entry.status = json!({
            "phase": phase, "message": null, "nodes": shown, "activations": window.activations, "next": next,
        });
        let next = window.next.into_iter().chain(entry.retry_at).min();
        self.fault_objects.timers.set(&name.to_owned(), next.filter(|at| *at > now));
    }

    /// The statuses to write now.
    pub(super) fn fault_writes(&mut self) -> Vec<Write> {
        let due = self.fault_objects.entries.iter_mut().filter(|(_, entry)| {
            let is_open = !entry.in_flight && entry.retry_at.is_none() && !entry.status.is_null();
            is_open && entry.sent.as_ref() != Some(&entry.status)
        });
        due.map(|(name, entry)| {
            entry.in_flight = true;
            Write::FaultStatus { fault: name.clone(), status: Box::new(entry.status.clone()) }
        })
        .collect()
    }

    /// Takes the result of a write of a status.
    pub(super) fn written_fault(&mut self, write: &Write, result: &Result<Written, Failure>, now: Timestamp) {
        let Write::FaultStatus { fault, status } = write else { return };
        let Some(entry) = self.fault_objects.entries.get_mut(fault) else { return };
        entry.in_flight = false;
        match result {
            Ok(_) => entry.sent = Some((**status).clone()),
            Err(_) => {
                entry.retry_at = Some(later(now, WRITE_RETRY_MAX));
                self.turn_fault(fault, now);
            }
        }
    }
}

/// The origin of a NodeFault's requests.
fn origin(name: &str) -> String {
    format!("nodefault/{name}")
}
