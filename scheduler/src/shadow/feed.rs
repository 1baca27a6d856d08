//! What each kind of object is to a scheduler.

use crate::budgets;
use crate::change::Change;
use crate::devices::{self, DeviceChange};
use crate::namespace;
use crate::node;
use crate::pod::{self, WorkloadKind};
use crate::reconstruct::DecisionKind;
use crate::scheduler::Scheduler;
use crate::storage::{StorageChange, claim, class, csi, volume};
use crate::workloads::{WorkloadChange, decode_labels, decode_selector};
use jiff::Timestamp;
use serde_json::Error;
use std::sync::Arc;

/// Gives a scheduler an object, or its deletion.
pub(super) fn feed(
    scheduler: &mut Scheduler,
    kind: DecisionKind,
    (json, is_gone): (&[u8], bool),
    now: Timestamp,
) -> Result<(), Error> {
    match kind {
        DecisionKind::Namespace => scheduler.namespace(change(namespace::decode(json)?, is_gone)),
        DecisionKind::Node => scheduler.node(change(node::decode(json)?, is_gone), now),
        DecisionKind::Pod => scheduler.pod(change(pod::decode(json)?, is_gone), now),
        DecisionKind::PodDisruptionBudget => scheduler.budget(change(budgets::decode(json)?, is_gone)),
        DecisionKind::Service
        | DecisionKind::ReplicationController
        | DecisionKind::ReplicaSet
        | DecisionKind::StatefulSet => scheduler.workload(workload(kind, json, is_gone)?),
        DecisionKind::DeviceClass
        | DecisionKind::ResourceSlice
        | DecisionKind::DeviceTaintRule
        | DecisionKind::ResourceClaim => scheduler.devices(devices(kind, json, is_gone)?, now),
        DecisionKind::StorageClass
        | DecisionKind::PersistentVolume
        | DecisionKind::PersistentVolumeClaim
        | DecisionKind::CsiNode
        | DecisionKind::CsiDriver
        | DecisionKind::CsiStorageCapacity => scheduler.storage(storage(kind, json, is_gone)?, now),
    }
    Ok(())
}

fn change<T>(object: T, is_gone: bool) -> Change<T> {
    if is_gone { Change::Gone(Arc::new(object)) } else { Change::Set(Arc::new(object)) }
}

fn workload(kind: DecisionKind, json: &[u8], is_gone: bool) -> Result<WorkloadChange, Error> {
    let (kind, found) = match kind {
        DecisionKind::Service => (WorkloadKind::Service, decode_labels(json)?),
        DecisionKind::ReplicationController => (WorkloadKind::ReplicationController, decode_labels(json)?),
        DecisionKind::ReplicaSet => (WorkloadKind::ReplicaSet, decode_selector(json)?),
        _ => (WorkloadKind::StatefulSet, decode_selector(json)?),
    };
    Ok(WorkloadChange { kind, change: change(found, is_gone) })
}

fn devices(kind: DecisionKind, json: &[u8], is_gone: bool) -> Result<DeviceChange, Error> {
    Ok(match kind {
        DecisionKind::DeviceClass => DeviceChange::Class(change(devices::class::decode(json)?, is_gone)),
        DecisionKind::ResourceSlice => DeviceChange::Slice(change(devices::slice::decode(json)?, is_gone)),
        DecisionKind::DeviceTaintRule => {
            DeviceChange::TaintRule(change(devices::taint_rule::decode(json)?, is_gone))
        }
        _ => DeviceChange::Claim(change(devices::claim::decode(json)?, is_gone)),
    })
}

fn storage(kind: DecisionKind, json: &[u8], is_gone: bool) -> Result<StorageChange, Error> {
    Ok(match kind {
        DecisionKind::StorageClass => StorageChange::Class(change(class::decode(json)?, is_gone)),
        DecisionKind::PersistentVolume => StorageChange::Volume(change(volume::decode(json)?, is_gone)),
        DecisionKind::PersistentVolumeClaim => StorageChange::Claim(change(claim::decode(json)?, is_gone)),
        DecisionKind::CsiNode => StorageChange::CsiNode(change(csi::decode_node(json)?, is_gone)),
        DecisionKind::CsiDriver => StorageChange::CsiDriver(change(csi::decode_driver(json)?, is_gone)),
        _ => StorageChange::Capacity(change(csi::decode_capacity(json)?, is_gone)),
    })
}
