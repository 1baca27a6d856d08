//! The informers of Services and of the controllers of pods, combined.

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use kstore_client::{MultiSource, WatchParams};
use kstore_informer::{Informer, Stopped, Subscription};

use super::storage::changes;
use super::{Caches, Delta};
use crate::pod_constraints::LabelSelector;
use crate::storage::Record;
use crate::workloads::{WorkloadChange, WorkloadKind, decode_labels, decode_selector};

type Selector = Record<Option<LabelSelector>>;

/// The informers of the kinds that select pods.
pub(super) struct WorkloadInformers {
    services: Informer<Selector>,
    replication_controllers: Informer<Selector>,
    replica_sets: Informer<Selector>,
    stateful_sets: Informer<Selector>,
}

/// The subscriptions to the informers of the kinds that select pods.
pub(super) struct WorkloadSubscriptions {
    services: Subscription<Selector>,
    replication_controllers: Subscription<Selector>,
    replica_sets: Subscription<Selector>,
    stateful_sets: Subscription<Selector>,
}

impl WorkloadInformers {
    /// Starts the informers on the stream `multi`.
    pub(super) fn start(multi: &MultiSource, caches: &Caches<'_>) -> Self {
        let all = WatchParams::default;
        let services = multi.project::<Service, _, _>(all(), decode_labels);
        let replication_controllers = multi.project::<ReplicationController, _, _>(all(), decode_labels);
        let replica_sets = multi.project::<ReplicaSet, _, _>(all(), decode_selector);
        let stateful_sets = multi.project::<StatefulSet, _, _>(all(), decode_selector);
        Self {
            services: caches.start("scheduler-services", services),
            replication_controllers: caches
                .start("scheduler-replication-controllers", replication_controllers),
            replica_sets: caches.start("scheduler-replica-sets", replica_sets),
            stateful_sets: caches.start("scheduler-stateful-sets", stateful_sets),
        }
    }

    /// Waits for the initial state of each informer. Fails if an informer ended before.
    pub(super) async fn synced(&self) -> Result<(), Stopped> {
        self.services.synced().await?;
        self.replication_controllers.synced().await?;
        self.replica_sets.synced().await?;
        self.stateful_sets.synced().await
    }

    /// Subscribes from now on, beginning with the current state.
    pub(super) fn subscribe(&self) -> WorkloadSubscriptions {
        WorkloadSubscriptions {
            services: self.services.subscribe(),
            replication_controllers: self.replication_controllers.subscribe(),
            replica_sets: self.replica_sets.subscribe(),
            stateful_sets: self.stateful_sets.subscribe(),
        }
    }
}

fn of(kind: WorkloadKind, deltas: Vec<Delta<Selector>>) -> Vec<WorkloadChange> {
    changes(deltas, |change| change).map(|change| WorkloadChange { kind, change }).collect()
}

impl WorkloadSubscriptions {
    /// The pending changes, without waiting.
    pub(super) fn try_next(&mut self) -> Vec<WorkloadChange> {
        let mut all = of(WorkloadKind::Service, self.services.try_next());
        all.extend(of(WorkloadKind::ReplicationController, self.replication_controllers.try_next()));
        all.extend(of(WorkloadKind::ReplicaSet, self.replica_sets.try_next()));
        all.extend(of(WorkloadKind::StatefulSet, self.stateful_sets.try_next()));
        all
    }

    /// The next changes; `None` if an informer has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Vec<WorkloadChange>> {
        tokio::select! {
            biased;
            deltas = self.services.next() => Some(of(WorkloadKind::Service, deltas?)),
            deltas = self.replication_controllers.next() => {
                Some(of(WorkloadKind::ReplicationController, deltas?))
            }
            deltas = self.replica_sets.next() => Some(of(WorkloadKind::ReplicaSet, deltas?)),
            deltas = self.stateful_sets.next() => Some(of(WorkloadKind::StatefulSet, deltas?)),
        }
    }
}
