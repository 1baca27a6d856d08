//! The informers of the storage kinds (claims, volumes, classes, CSI objects), combined.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kstore_client::{MultiSource, WatchParams};
use kstore_informer::{Delta, Informer, Subscription};

use super::{Caches, change};
use crate::scheduler::Change;
use crate::storage::claim::{self, Claim};
use crate::storage::class::{self, Class};
use crate::storage::csi::{self, Capacity, CsiDriver, CsiNode};
use crate::storage::volume::{self, Volume};
use crate::storage::{Record, StorageChange};

/// The informers of the storage kinds.
pub(super) struct StorageInformers {
    claims: Informer<Record<Claim>>,
    volumes: Informer<Record<Volume>>,
    classes: Informer<Record<Class>>,
    csi_nodes: Informer<Record<CsiNode>>,
    csi_drivers: Informer<Record<CsiDriver>>,
    capacities: Informer<Record<Capacity>>,
}

/// The subscriptions to the informers of the storage kinds.
pub(super) struct StorageSubscriptions {
    claims: Subscription<Record<Claim>>,
    volumes: Subscription<Record<Volume>>,
    classes: Subscription<Record<Class>>,
    csi_nodes: Subscription<Record<CsiNode>>,
    csi_drivers: Subscription<Record<CsiDriver>>,
    capacities: Subscription<Record<Capacity>>,
}

impl StorageInformers {
    /// Starts the informers on the stream `multi`.
    pub(super) fn start(multi: &MultiSource, caches: &Caches<'_>) -> Self {
        let all = WatchParams::default;
        let claims = multi.project::<PersistentVolumeClaim, _, _>(all(), claim::decode);
        let volumes = multi.project::<PersistentVolume, _, _>(all(), volume::decode);
        let classes = multi.project::<StorageClass, _, _>(all(), class::decode);
        let csi_nodes = multi.project::<CSINode, _, _>(all(), csi::decode_node);
        let csi_drivers = multi.project::<CSIDriver, _, _>(all(), csi::decode_driver);
        let capacities = multi.project::<CSIStorageCapacity, _, _>(all(), csi::decode_capacity);
        Self {
            claims: caches.start("scheduler-claims", claims),
            volumes: caches.start("scheduler-volumes", volumes),
            classes: caches.start("scheduler-classes", classes),
            csi_nodes: caches.start("scheduler-csi-nodes", csi_nodes),
            csi_drivers: caches.start("scheduler-csi-drivers", csi_drivers),
            capacities: caches.start("scheduler-capacities", capacities),
        }
    }

    /// Waits for the initial state of each informer. Fails if an informer ended before.
    pub(super) async fn synced(&self) -> Result<(), kstore_informer::Stopped> {
        self.claims.synced().await?;
        self.volumes.synced().await?;
        self.classes.synced().await?;
        self.csi_nodes.synced().await?;
        self.csi_drivers.synced().await?;
        self.capacities.synced().await
    }

    /// Subscribes from now on, beginning with the current state.
    pub(super) fn subscribe(&self) -> StorageSubscriptions {
        StorageSubscriptions {
            claims: self.claims.subscribe(),
            volumes: self.volumes.subscribe(),
            classes: self.classes.subscribe(),
            csi_nodes: self.csi_nodes.subscribe(),
            csi_drivers: self.csi_drivers.subscribe(),
            capacities: self.capacities.subscribe(),
        }
    }
}

/// The changes of one kind as changes of any kind.
pub(super) fn changes<T: Send + Sync + 'static, C>(
    deltas: Vec<Delta<Record<T>>>,
    wrap: fn(Change<Record<T>>) -> C,
) -> impl Iterator<Item = C> {
    deltas.into_iter().map(move |delta| wrap(change(delta)))
}

impl StorageSubscriptions {
    /// The pending changes, without waiting.
    pub(super) fn try_next(&mut self) -> Vec<StorageChange> {
        let mut all = Vec::new();
        all.extend(changes(self.classes.try_next(), StorageChange::Class));
        all.extend(changes(self.volumes.try_next(), StorageChange::Volume));
        all.extend(changes(self.claims.try_next(), StorageChange::Claim));
        all.extend(changes(self.csi_nodes.try_next(), StorageChange::CsiNode));
        all.extend(changes(self.csi_drivers.try_next(), StorageChange::CsiDriver));
        all.extend(changes(self.capacities.try_next(), StorageChange::Capacity));
        all
    }

    /// The next changes; `None` if an informer has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Vec<StorageChange>> {
        tokio::select! {
            biased;
            deltas = self.classes.next() => Some(changes(deltas?, StorageChange::Class).collect()),
            deltas = self.volumes.next() => Some(changes(deltas?, StorageChange::Volume).collect()),
            deltas = self.claims.next() => Some(changes(deltas?, StorageChange::Claim).collect()),
            deltas = self.csi_nodes.next() => Some(changes(deltas?, StorageChange::CsiNode).collect()),
            deltas = self.csi_drivers.next() => Some(changes(deltas?, StorageChange::CsiDriver).collect()),
            deltas = self.capacities.next() => Some(changes(deltas?, StorageChange::Capacity).collect()),
        }
    }
}
