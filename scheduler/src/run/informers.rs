//! The informers of the kinds that the scheduler watches in groups (storage, devices, workloads), each group with one type of change.

use super::{Caches, change};
use crate::change::Change;
use crate::devices::{self, DeviceChange};
use crate::pod::WorkloadKind;
use crate::pod_constraints::LabelSelector;
use crate::storage::{Record, StorageChange, claim, class, csi, volume};
use crate::workloads::{WorkloadChange, decode_labels, decode_selector};
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, ReplicationController, Service};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kstore_client::{MultiSource, WatchParams};
use kstore_informer::{Delta, Informer, Object, Stopped, Subscription};

/// Makes two structs with a member per kind, one of informers and one of subscriptions to them. Of each kind: its cached form, its type in
/// the API with the decoder, the name of its cache, and how a change of it becomes a change of the group. Changes are read in the order of
/// the list: what others refer to first.
macro_rules! informer_group {
    ($(#[$doc:meta])* $informers:ident, $subscriptions:ident: $change:ty {
        $($kind:ident: $cached:ty = ($api:ty, $decode:path, $name:literal, $wrap:expr),)*
    }) => {
        $(#[$doc])*
        pub(super) struct $informers {
            $($kind: Informer<$cached>,)*
        }

        /// The subscriptions to the informers of the group.
        pub(super) struct $subscriptions {
            $($kind: Subscription<$cached>,)*
        }

        impl $informers {
            /// Starts the informers on the stream `multi`.
            pub(super) fn start(multi: &MultiSource, caches: &Caches<'_>) -> Self {
                Self {
                    $($kind: caches.start(
                        concat!("scheduler-", $name),
                        multi.project::<$api, _, _>(WatchParams::default(), $decode),
                    ),)*
                }
            }

            /// Waits for the initial state of each informer. Fails if an informer ended before.
            pub(super) async fn synced(&self) -> Result<(), Stopped> {
                $(self.$kind.synced().await?;)*
                Ok(())
            }

            /// Subscribes from now on, beginning with the current state.
            pub(super) fn subscribe(&self) -> $subscriptions {
                $subscriptions { $($kind: self.$kind.subscribe(),)* }
            }
        }

        impl $subscriptions {
            /// The pending changes, without waiting.
            pub(super) fn try_next(&mut self) -> Vec<$change> {
                let mut all = Vec::new();
                $(all.extend(changes(self.$kind.try_next(), $wrap));)*
                all
            }

            /// The next changes; `None` if an informer has ended. Cancel-safe.
            pub(super) async fn next(&mut self) -> Option<Vec<$change>> {
                tokio::select! {
                    biased;
                    $(deltas = self.$kind.next() => Some(changes(deltas?, $wrap).collect()),)*
                }
            }
        }
    };
}

/// The changes of one kind as changes of its group.
fn changes<T: Object, C>(deltas: Vec<Delta<T>>, wrap: fn(Change<T>) -> C) -> impl Iterator<Item = C> {
    deltas.into_iter().map(move |delta| wrap(change(delta)))
}

informer_group! {
    /// The informers of the storage kinds.
    StorageInformers, StorageSubscriptions: StorageChange {
        classes: Record<class::Class> = (StorageClass, class::decode, "classes", StorageChange::Class),
        volumes: Record<volume::Volume> = (PersistentVolume, volume::decode, "volumes", StorageChange::Volume),
        claims: Record<claim::Claim> = (PersistentVolumeClaim, claim::decode, "claims", StorageChange::Claim),
        csi_nodes: Record<csi::CsiNode> = (CSINode, csi::decode_node, "csi-nodes", StorageChange::CsiNode),
        csi_drivers: Record<csi::CsiDriver> =
            (CSIDriver, csi::decode_driver, "csi-drivers", StorageChange::CsiDriver),
        capacities: Record<csi::Capacity> =
            (CSIStorageCapacity, csi::decode_capacity, "capacities", StorageChange::Capacity),
    }
}

informer_group! {
    /// The informers of the kinds of devices.
    DeviceInformers, DeviceSubscriptions: DeviceChange {
        classes: Record<devices::class::Class> =
            (DeviceClass, devices::class::decode, "device-classes", DeviceChange::Class),
        slices: Record<devices::slice::Slice> =
            (ResourceSlice, devices::slice::decode, "device-slices", DeviceChange::Slice),
        claims: Record<devices::claim::Claim> =
            (ResourceClaim, devices::claim::decode, "device-claims", DeviceChange::Claim),
    }
}

type Selector = Record<Option<LabelSelector>>;

informer_group! {
    /// The informers of Services and of the controllers of pods.
    WorkloadInformers, WorkloadSubscriptions: WorkloadChange {
        services: Selector = (Service, decode_labels, "services", |change| WorkloadChange { kind: WorkloadKind::Service, change }),
        replication_controllers: Selector = (
            ReplicationController,
            decode_labels,
            "replication-controllers",
            |change| WorkloadChange { kind: WorkloadKind::ReplicationController, change }
        ),
        replica_sets: Selector =
            (ReplicaSet, decode_selector, "replica-sets", |change| WorkloadChange { kind: WorkloadKind::ReplicaSet, change }),
        stateful_sets: Selector =
            (StatefulSet, decode_selector, "stateful-sets", |change| WorkloadChange { kind: WorkloadKind::StatefulSet, change }),
    }
}
