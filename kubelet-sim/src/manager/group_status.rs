//! The status of NodeGroups, and the writes about groups. Synchronous.

use super::Manager;
use super::groups::GroupEntry;
use super::write::{Failure, Write, Written};
use crate::group::GROUP_LABEL;
use crate::group::cost;
use crate::group::plan::InstanceState;
use crate::limits::{COST_INTERVAL, WRITE_RETRY_MAX};
use crate::time::api_time;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_informer::Object as _;
use serde_json::{Value, json};

impl Manager {
    /// The writes of groups and faults that are due.
    pub(super) fn group_writes(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = self.fault_writes();
        writes.extend(self.load_writes(now));
        let is_open = |entry: &GroupEntry| entry.is_changed && !entry.in_flight && entry.retry_at.is_none();
        let open = self.groups.entries.iter().filter(|(_, entry)| is_open(entry));
        let names: Vec<String> = open.map(|(name, _)| name.clone()).collect();
        for name in names {
            let status = self.due_status(&name, now);
            let Some(entry) = self.groups.entries.get_mut(&name) else { continue };
            entry.is_changed = false;
            let Some(status) = status else { continue };
            entry.in_flight = true;
            writes.push(match entry.resize {
                Some(replicas) => {
                    Write::GroupSize { group: name, base: entry.record.revision().max(entry.fence), replicas }
                }
                None => Write::GroupStatus { group: name, status: Box::new(status) },
            });
        }
        self.node_writes += writes.len();
        writes
    }

    /// The status of a group if it, or the group's size, is to be written.
    fn due_status(&self, name: &str, now: Timestamp) -> Option<Value> {
        let entry = self.groups.entries.get(name)?;
        let status = self.group_status(name)?;
        let without_cost = |status: &Value| {
            let mut status = status.clone();
            if let Some(members) = status.as_object_mut() {
                members.remove("spent");
                members.remove("spentTime");
            }
            status
        };
        let is_same = entry.sent.as_ref().is_some_and(|(sent, at)| {
            without_cost(sent) == without_cost(&status)
                && (later(*at, COST_INTERVAL) > now || *sent == status)
        });
        (!is_same || entry.resize.is_some()).then_some(status)
    }

    fn group_status(&self, name: &str) -> Option<Value> {
        let entry = self.groups.entries.get(name)?;
        let instances = self.instances(name);
        let count = |state| instances.iter().filter(|one| one.state == state).count();
        let (ready, terminating) = (count(InstanceState::Ready), count(InstanceState::Terminating));
        let price = entry.spec.as_ref().map_or(0, |spec| spec.micros_per_hour);
        let wanted = entry.spec.as_ref().map_or(0, |spec| spec.doc.replicas as usize);
        let is_scaled = instances.len() - terminating == wanted && ready == wanted;
        let condition = |type_: &str, holds: bool, reason: &str, message: &str| {
            let status = if holds { "True" } else { "False" };
            json!({ "type": type_, "status": status, "reason": reason, "message": message })
        };
        let invalid = entry.invalid.as_deref();
        let scaled = if is_scaled { "AllReady" } else { "Scaling" };
        let conditions = [
            condition("Scaled", is_scaled, scaled, ""),
            condition(
                "Invalid",
                invalid.is_some(),
                if invalid.is_some() { "InvalidSpec" } else { "Valid" },
                invalid.unwrap_or_default(),
            ),
        ];
        Some(json!({
            "replicas": instances.len() - terminating,
            "readyReplicas": ready,
            "creating": count(InstanceState::Creating) + count(InstanceState::Registered),
            "terminating": terminating,
            "failed": entry.failed,
            "failure": entry.failure.as_ref().map(|(code, message)| json!({ "code": code, "message": message })),
            "selector": format!("{GROUP_LABEL}={name}"),
            "hourlyCost": cost::text(u128::from(price) * instances.len() as u128),
            "spent": cost::text(entry.spent.micros()),
            "spentTime": api_time(entry.spent.since()),
            "observedGeneration": entry.record.object.metadata.generation.unwrap_or(0),
            "conditions": conditions,
        }))
    }

    /// Takes the result of a write that is not about a node or pod.
    pub(super) fn written_by_simulation(
        &mut self,
        write: &Write,
        result: Result<Written, Failure>,
        now: Timestamp,
    ) {
        self.node_writes -= 1;
        let (Write::GroupStatus { group, .. } | Write::GroupSize { group, .. }) = write else {
            self.written_load(write, &result, now);
            return self.written_fault(write, &result, now);
        };
        let Some(entry) = self.groups.entries.get_mut(group) else { return };
        entry.in_flight = false;
        match (result, write) {
            (Ok(written), Write::GroupStatus { status, .. }) => {
                entry.fence = written.revision;
                entry.sent = Some(((**status).clone(), now));
            }
            (Ok(written), _) => {
                entry.fence = written.revision;
                entry.resize = None;
            }
            // Another client has changed the group: its size counts.
            (Err(Failure::Conflict), Write::GroupSize { .. }) => entry.resize = None,
            (Err(failure), _) => {
                tracing::debug!(group, ?failure, "the status of a group is not written");
                entry.retry_at = Some(later(now, WRITE_RETRY_MAX));
            }
        }
        self.groups.dirty.push(group);
    }
}
