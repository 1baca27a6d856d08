//! Cluster events that may make a waiting pod schedulable. The plugins that refused a pod decide whether an event wakes it
//! ([`Plugin::may_help`](crate::plugin::Plugin::may_help)); this file only names the events.

use crate::devices::{DeviceEvent, Devices};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_groups::PodGroups;
use crate::storage::{Storage, StorageEvent};
use kstore_informer::Key;

/// A change in the cluster.
#[derive(Clone, Copy)]
pub enum ClusterEvent<'a> {
    /// A new node, and the devices of the cluster.
    NodeAdded(&'a NodeInfo, &'a Devices),
    /// A node changed in a property that scheduling reads.
    NodeChanged {
        /// The node before.
        old: &'a NodeInfo,
        /// The node after.
        new: &'a NodeInfo,
        /// The devices of the cluster.
        devices: &'a Devices,
    },
    /// A deleted node. The filters count its pods as removed with it.
    NodeRemoved(&'a NodeInfo),
    /// A pod was assigned to a node.
    PodPlaced(&'a PodInfo),
    /// An assigned pod left its node or now requests less. The pod as it was: its resources are free in whole
    /// or in part.
    PodFreed(&'a PodInfo),
    /// The deletion of an assigned pod began: topology spread constraints do not count the pod any more, but it still
    /// occupies its resources.
    PodTerminating(&'a PodInfo),
    /// An assigned pod has other labels, and no less than before.
    PodRelabeled {
        /// The pod before.
        old: &'a PodInfo,
        /// The pod after.
        new: &'a PodInfo,
    },
    /// A storage object changed.
    Storage(&'a StorageEvent, &'a Storage),
    /// A claim, class or slice of devices changed.
    Devices(&'a DeviceEvent, &'a Devices),
    /// The PodGroup of this key is new or needs fewer pods, or has a new pod.
    PodGroup(&'a Key, &'a PodGroups),
    /// The waiting pod itself changed; it was this before.
    OwnChange(&'a PodInfo),
}

/// A kind of [`ClusterEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// [`ClusterEvent::NodeAdded`].
    NodeAdded,
    /// [`ClusterEvent::NodeChanged`].
    NodeChanged,
    /// [`ClusterEvent::NodeRemoved`].
    NodeRemoved,
    /// [`ClusterEvent::PodPlaced`].
    PodPlaced,
    /// [`ClusterEvent::PodFreed`].
    PodFreed,
    /// [`ClusterEvent::PodTerminating`].
    PodTerminating,
    /// [`ClusterEvent::PodRelabeled`].
    PodRelabeled,
    /// [`ClusterEvent::Storage`].
    Storage,
    /// [`ClusterEvent::Devices`].
    Devices,
    /// [`ClusterEvent::PodGroup`].
    PodGroup,
    /// [`ClusterEvent::OwnChange`].
    OwnChange,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::NodeAdded,
        Self::NodeChanged,
        Self::NodeRemoved,
        Self::PodPlaced,
        Self::PodFreed,
        Self::PodTerminating,
        Self::PodRelabeled,
        Self::Storage,
        Self::Devices,
        Self::PodGroup,
        Self::OwnChange,
    ];
}

impl ClusterEvent<'_> {
    /// The assigned pod that the event is about.
    pub(crate) fn pod(&self) -> Option<&PodInfo> {
        match self {
            Self::PodPlaced(pod) | Self::PodFreed(pod) | Self::PodTerminating(pod) => Some(pod),
            Self::PodRelabeled { new, .. } => Some(new),
            _ => None,
        }
    }

    /// The kind of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::NodeAdded(..) => EventKind::NodeAdded,
            Self::NodeChanged { .. } => EventKind::NodeChanged,
            Self::NodeRemoved(_) => EventKind::NodeRemoved,
            Self::PodPlaced(_) => EventKind::PodPlaced,
            Self::PodFreed(_) => EventKind::PodFreed,
            Self::PodTerminating(_) => EventKind::PodTerminating,
            Self::PodRelabeled { .. } => EventKind::PodRelabeled,
            Self::Storage(..) => EventKind::Storage,
            Self::Devices(..) => EventKind::Devices,
            Self::PodGroup(..) => EventKind::PodGroup,
            Self::OwnChange(_) => EventKind::OwnChange,
        }
    }
}

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSet(u16);

const _: () = assert!(EventKind::ALL.len() <= u16::BITS as usize);

impl EventSet {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// These kinds.
    pub const fn of(kinds: &[EventKind]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < kinds.len() {
            set |= 1 << kinds[at] as u16;
            at += 1;
        }
        Self(set)
    }

    /// Whether the kind is in the set.
    pub fn contains(self, kind: EventKind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }
}
