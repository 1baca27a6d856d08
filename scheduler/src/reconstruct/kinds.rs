//! [`DecisionKind`]: the kinds of objects that a decision reads, and how an object becomes part of the cache.

use crate::budgets;
use crate::cache::Cache;
use crate::change::Change;
use crate::devices::{self, DeviceChange};
use crate::namespace;
use crate::node;
use crate::pod::{self, PodInfo, WorkloadKind};
use crate::storage::{StorageChange, claim, class, csi, volume};
use crate::workloads::{WorkloadChange, decode_labels, decode_selector};
use std::sync::Arc;

/// A kind that decisions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// The labels of namespaces, for affinity terms.
    Namespace,
    /// Nodes.
    Node,
    /// How volumes of claims are made.
    StorageClass,
    /// Volumes.
    PersistentVolume,
    /// Claims of volumes.
    PersistentVolumeClaim,
    /// The volumes that a node can have of each driver.
    CsiNode,
    /// Drivers of volumes.
    CsiDriver,
    /// Room for new volumes.
    CsiStorageCapacity,
    /// Kinds of devices.
    DeviceClass,
    /// The devices of nodes.
    ResourceSlice,
    /// Taints of devices that are not in slices. Servers before Kubernetes 1.37 do not have the kind.
    DeviceTaintRule,
    /// Claims of devices.
    ResourceClaim,
    /// Limits of evictions, for preemption.
    PodDisruptionBudget,
    /// Selects pods that are spread by default.
    Service,
    /// Selects pods that are spread by default.
    ReplicationController,
    /// Selects pods that are spread by default.
    ReplicaSet,
    /// Selects pods that are spread by default.
    StatefulSet,
    /// Pods on nodes, and pods that are nominated for one.
    Pod,
}

impl DecisionKind {
    /// All kinds, in an order in which objects can be added: what others refer to first.
    pub const ALL: [Self; 18] = [
        Self::Namespace,
        Self::Node,
        Self::StorageClass,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::CsiNode,
        Self::CsiDriver,
        Self::CsiStorageCapacity,
        Self::DeviceClass,
        Self::ResourceSlice,
        Self::DeviceTaintRule,
        Self::ResourceClaim,
        Self::PodDisruptionBudget,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::Pod,
    ];

    /// The path of the objects of all namespaces in the API.
    pub fn path(self) -> &'static str {
        match self {
            Self::Namespace => "/api/v1/namespaces",
            Self::Node => "/api/v1/nodes",
            Self::StorageClass => "/apis/storage.k8s.io/v1/storageclasses",
            Self::PersistentVolume => "/api/v1/persistentvolumes",
            Self::PersistentVolumeClaim => "/api/v1/persistentvolumeclaims",
            Self::CsiNode => "/apis/storage.k8s.io/v1/csinodes",
            Self::CsiDriver => "/apis/storage.k8s.io/v1/csidrivers",
            Self::CsiStorageCapacity => "/apis/storage.k8s.io/v1/csistoragecapacities",
            Self::DeviceClass => "/apis/resource.k8s.io/v1/deviceclasses",
            Self::ResourceSlice => "/apis/resource.k8s.io/v1/resourceslices",
            Self::DeviceTaintRule => "/apis/resource.k8s.io/v1/devicetaintrules",
            Self::ResourceClaim => "/apis/resource.k8s.io/v1/resourceclaims",
            Self::PodDisruptionBudget => "/apis/policy/v1/poddisruptionbudgets",
            Self::Service => "/api/v1/services",
            Self::ReplicationController => "/api/v1/replicationcontrollers",
            Self::ReplicaSet => "/apis/apps/v1/replicasets",
            Self::StatefulSet => "/apis/apps/v1/statefulsets",
            Self::Pod => "/api/v1/pods",
        }
    }

    /// Whether decisions cannot be computed without the kind: the others only matter to pods that refer to them.
    pub fn is_required(self) -> bool {
        matches!(self, Self::Node | Self::Pod)
    }

    pub(super) fn add(self, cache: &mut Cache, json: &[u8]) -> Result<(), serde_json::Error> {
        match self {
            Self::Namespace => {
                let found = namespace::decode(json)?;
                cache.set_namespace(found.key.name(), Some(found.labels));
            }
            Self::Node => drop(cache.set_node(Arc::new(node::decode(json)?))),
            Self::Pod => add_pod(cache, Arc::new(pod::decode(json)?)),
            Self::PodDisruptionBudget => cache.budgets_mut().apply(set(budgets::decode(json)?)),
            Self::StorageClass => store(cache, StorageChange::Class(set(class::decode(json)?))),
            Self::PersistentVolume => store(cache, StorageChange::Volume(set(volume::decode(json)?))),
            Self::PersistentVolumeClaim => store(cache, StorageChange::Claim(set(claim::decode(json)?))),
            Self::CsiNode => store(cache, StorageChange::CsiNode(set(csi::decode_node(json)?))),
            Self::CsiDriver => store(cache, StorageChange::CsiDriver(set(csi::decode_driver(json)?))),
            Self::CsiStorageCapacity => {
                store(cache, StorageChange::Capacity(set(csi::decode_capacity(json)?)));
            }
            Self::DeviceClass => {
                devices(cache, DeviceChange::Class(set(devices::class::decode(json)?)));
            }
            Self::ResourceSlice => {
                devices(cache, DeviceChange::Slice(set(devices::slice::decode(json)?)));
            }
            Self::DeviceTaintRule => {
                devices(cache, DeviceChange::TaintRule(set(devices::taint_rule::decode(json)?)));
            }
            Self::ResourceClaim => {
                devices(cache, DeviceChange::Claim(set(devices::claim::decode(json)?)));
            }
            Self::Service => {
                let change = set(decode_labels(json)?);
                cache.workloads_mut().apply(WorkloadChange { kind: WorkloadKind::Service, change });
            }
            Self::ReplicationController => {
                let (kind, change) = (WorkloadKind::ReplicationController, set(decode_labels(json)?));
                cache.workloads_mut().apply(WorkloadChange { kind, change });
            }
            Self::ReplicaSet => {
                let change = set(decode_selector(json)?);
                cache.workloads_mut().apply(WorkloadChange { kind: WorkloadKind::ReplicaSet, change });
            }
            Self::StatefulSet => {
                let change = set(decode_selector(json)?);
                cache.workloads_mut().apply(WorkloadChange { kind: WorkloadKind::StatefulSet, change });
            }
        }
        Ok(())
    }
}

/// Counts a pod on its node, or among the nominated pods. A pod that has ended occupies nothing.
pub(super) fn add_pod(cache: &mut Cache, pod: Arc<PodInfo>) {
    if pod.ended {
        return;
    }
    match pod.node_name.clone() {
        Some(node) => drop(cache.set_pod(pod, &node)),
        None => cache.nominations_mut().observe(&pod),
    }
}

fn set<T>(object: T) -> Change<T> {
    Change::Set(Arc::new(object))
}

/// Without a queue, no event is of use.
fn store(cache: &mut Cache, change: StorageChange) {
    cache.storage_mut().apply(change);
}

fn devices(cache: &mut Cache, change: DeviceChange) {
    cache.devices_mut().apply(change);
}
