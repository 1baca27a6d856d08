//! ServiceLoads in the manager: whether the simulation can follow them, as an event and the condition `Invalid`. What they do to the usage
//! of pods is computed where a client asks for it. Synchronous.

use super::Manager;
use super::groups::SimKind;
use super::timers::Timers;
use super::write::{Failure, Write, Written};
use crate::limits::WRITE_RETRY_MAX;
use crate::load::record::LoadRecord;
use crate::time::api_time;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::{Delta, Key, Object as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The ServiceLoads of the cluster.
#[derive(Default)]
pub(super) struct Loads {
    entries: BTreeMap<Key, LoadEntry>,
    /// Loads whose condition may have to be written, each once.
    dirty: BTreeSet<Key>,
    /// When a write is tried again.
    pub(super) timers: Timers<Key>,
}

struct LoadEntry {
    record: Arc<LoadRecord>,
    in_flight: bool,
}

impl LoadEntry {
    /// What is wrong with the spec.
    fn problem(&self) -> Option<&String> {
        self.record.spec.as_ref().err()
    }
}

impl Manager {
    /// Takes changes from the informer of ServiceLoads.
    pub(crate) fn observe_loads(&mut self, deltas: Vec<Delta<LoadRecord>>) {
        for delta in deltas {
            match delta {
                Delta::Added(record) | Delta::Updated { new: record, .. } | Delta::Resync(record) => {
                    self.observe_load(record);
                }
                Delta::Deleted(record) => {
                    self.loads.timers.set(&record.key(), None);
                    self.loads.entries.remove(&record.key());
                }
            }
        }
    }

    fn observe_load(&mut self, record: Arc<LoadRecord>) {
        let key = record.key();
        let known = self.loads.entries.get(&key);
        let known_problem = known.and_then(LoadEntry::problem).cloned();
        let in_flight = known.is_some_and(|known| known.in_flight);
        if let Some(problem) =
            record.spec.as_ref().err().filter(|problem| known_problem.as_ref() != Some(*problem))
        {
            let name = format!("{}/{}", key.namespace(), key.name());
            let about = (SimKind::ServiceLoad, name.as_str(), Arc::from(record.uid()));
            self.sim_event(about, true, ("InvalidSimulation", problem.clone()), record.revision());
        }
        self.loads.entries.insert(key.clone(), LoadEntry { record, in_flight });
        self.loads.dirty.insert(key);
    }

    /// The write of a load's condition is tried again.
    pub(super) fn retry_load(&mut self, key: Key) {
        self.loads.dirty.insert(key);
    }

    /// The conditions to write now: those that do not say what is true. A load that was never wrong has none.
    pub(super) fn load_writes(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        for key in std::mem::take(&mut self.loads.dirty) {
            let Some(entry) = self.loads.entries.get_mut(&key) else { continue };
            let problem = entry.problem().cloned();
            if entry.in_flight || entry.record.shown == problem {
                continue;
            }
            entry.in_flight = true;
            let (status, reason) = match &problem {
                Some(_) => ("True", "InvalidSpec"),
                None => ("False", "Valid"),
            };
            let condition = json!({
                "type": "Invalid", "status": status, "reason": reason, "message": problem.unwrap_or_default(),
                "lastTransitionTime": api_time(now),
            });
            writes.push(Write::LoadStatus {
                load: key,
                status: Box::new(json!({ "conditions": [condition] })),
            });
        }
        writes
    }

    /// Takes the result of a write of a condition.
    pub(super) fn written_load(&mut self, write: &Write, result: &Result<Written, Failure>, now: Timestamp) {
        let Write::LoadStatus { load, .. } = write else { return };
        let Some(entry) = self.loads.entries.get_mut(load) else { return };
        entry.in_flight = false;
        match result {
            // The informer shows the condition; a change that came meanwhile is compared with it then.
            Ok(_) | Err(Failure::NotFound) => {}
            Err(_) => self.loads.timers.set(load, Some(later(now, WRITE_RETRY_MAX))),
        }
    }
}
