//! Watches of objects that pods refer to: one watch per object, as kubelets have them, while a pod on a
//! simulated node refers to it. Secrets are polled instead of watched, see `secrets`. Decides nothing.

use super::certificates::{CertificateOrder, CertificateTask};
use super::secrets::{Pace, SecretPoll};
use super::sources::SourceOrder;
use crate::identities::Identities;
use crate::limits::{SECRET_GETS, SOURCE_QUEUE};
use crate::pod::PodEvent;
use crate::pod_object::Keys;
use crate::pod_object::source::{SourceKey, SourceKind, SourceState};
use crate::stream::trust_bundles_of;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kstore_api::lenient;
use kstore_api::version::Minor;
use kstore_client::{Api, ApiType, Client, ProjectedMeta, WatchParams};
use kstore_informer::{Builder, Informer, Key, Object, Revision, TaskGroup};
use kstore_nondet::{Clock, Rng};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The state of an object that pods refer to.
pub(super) struct Report {
    pub(super) key: SourceKey,
    pub(super) state: SourceState,
    /// An event of the pods that refer to it.
    pub(super) event: Option<PodEvent>,
}

impl Report {
    /// A report without an event.
    pub(super) fn state(key: &SourceKey, state: SourceState) -> Self {
        Self { key: key.clone(), state, event: None }
    }
}

/// All watches and polls of referenced objects.
pub(super) struct Followers {
    client: Client,
    identities: Identities,
    /// The Kubernetes version of the API server.
    minor: Minor,
    rng: Rng,
    clock: Clock,
    reports: mpsc::Sender<Report>,
    followed: BTreeMap<SourceKey, Followed>,
    tasks: TaskGroup,
    /// Bounds the concurrent reads of Secrets, and requests for certificates.
    gets: Arc<Semaphore>,
}

/// An object that is watched or polled until this is dropped.
struct Followed {
    _guard: DropGuard,
    /// The polling rate, if the object is a Secret.
    pace: Option<Arc<Pace>>,
}

impl Followers {
    /// An empty set of watches, and the receiver of their reports. Watches run as tasks of `tasks`.
    pub(super) fn new(
        (client, identities, minor): (Client, Identities, Minor),
        (rng, clock): (Rng, Clock),
        tasks: TaskGroup,
    ) -> (Self, mpsc::Receiver<Report>) {
        let (reports, received) = mpsc::channel(SOURCE_QUEUE);
        let gets = Arc::new(Semaphore::new(SECRET_GETS));
        let followed = BTreeMap::new();
        (Self { client, identities, minor, rng, clock, reports, followed, tasks, gets }, received)
    }

    /// Begins or ends a watch.
    pub(super) fn obey(&mut self, order: SourceOrder) {
        match order {
            SourceOrder::Follow(key) => {
                let stop = self.tasks.stop().child_token();
                let pace = match key.kind {
                    SourceKind::Secret => Some(self.poll(key.clone(), &stop)),
                    SourceKind::ConfigMap => {
                        self.watch(self.client.api::<ConfigMap>(), key.clone(), &stop);
                        None
                    }
                    SourceKind::Claim => {
                        self.watch(self.client.api::<PersistentVolumeClaim>(), key.clone(), &stop);
                        None
                    }
                    SourceKind::TrustBundle => {
                        let bundles = self.client.dynamic(trust_bundles_of(self.minor));
                        self.watch(bundles, key.clone(), &stop);
                        None
                    }
                    SourceKind::ResourceClaim => {
                        self.watch(self.client.api::<ResourceClaim>(), key.clone(), &stop);
                        None
                    }
                    // Of a pod that is already gone: for another, `issue` is called.
                    SourceKind::PodCertificate => return,
                };
                self.followed.insert(key, Followed { _guard: stop.drop_guard(), pace });
            }
            SourceOrder::Refresh(key) => {
                if let Some(pace) = self.pace_of(&key) {
                    pace.refresh();
                }
            }
            SourceOrder::Leave(key) => drop(self.followed.remove(&key)),
        }
    }

    /// Begins to request certificates for a source of a volume.
    pub(super) fn issue(&mut self, order: CertificateOrder) {
        let stop = self.tasks.stop().child_token();
        let key = order.key.clone();
        let task = CertificateTask {
            node: self.identities.client(&order.node, &self.client),
            watcher: self.client.clone(),
            clock: self.clock,
            rng: self.rng.fork(&key.name),
            permits: Arc::clone(&self.gets),
            reports: self.reports.clone(),
            stop: stop.clone(),
            order,
        };
        self.followed.insert(key, Followed { _guard: stop.clone().drop_guard(), pace: None });
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task.run()).await;
        });
    }

    /// Sets whether a pod waits for the object. Secrets are then polled more often; other objects are watched
    /// anyway.
    pub(super) fn pace(&self, key: &SourceKey, is_awaited: bool) {
        if let Some(pace) = self.pace_of(key) {
            pace.set_awaited(is_awaited);
        }
    }

    fn pace_of(&self, key: &SourceKey) -> Option<&Arc<Pace>> {
        self.followed.get(key)?.pace.as_ref()
    }

    /// Polls a Secret until `stop`.
    fn poll(&self, key: SourceKey, stop: &CancellationToken) -> Arc<Pace> {
        let pace = Arc::new(Pace::new());
        let polling = SecretPoll {
            client: self.client.clone(),
            rng: self.rng.fork(&key.name),
            key,
            pace: Arc::clone(&pace),
            gets: Arc::clone(&self.gets),
            reports: self.reports.clone(),
        };
        let stop = stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(polling.run()).await;
        });
        pace
    }

    /// Watches one object until `stop`.
    fn watch<K: ApiType>(&self, api: Api<K>, key: SourceKey, stop: &CancellationToken) {
        let params = WatchParams::default().ns(&key.namespace).name(&key.name);
        let source = api.project(params, SourceRecord::decode);
        let name = format!("kubelet {} {}/{}", key.kind.resource(), key.namespace, key.name);
        let (informer, driver) = Builder::new(source).name(&name).rng(&self.rng).build(stop);
        let reports = self.reports.clone();
        self.tasks.spawn(async move {
            tokio::join!(driver, report(key, informer, reports));
        });
    }
}

/// Reports the object's state, then each newer one.
async fn report(key: SourceKey, informer: Informer<SourceRecord>, reports: mpsc::Sender<Report>) {
    if informer.synced().await.is_err() {
        return;
    }
    let mut changes = informer.subscribe();
    let object_key = Key::new(&key.namespace, &key.name);
    loop {
        let state = match informer.get(&object_key) {
            Some(record) if key.kind == SourceKind::Claim && !record.is_bound => SourceState::Unbound,
            Some(record) => SourceState::Present(record.keys.keys().cloned().collect()),
            None => SourceState::Missing,
        };
        if reports.send(Report::state(&key, state)).await.is_err() || changes.next().await.is_none() {
            return;
        }
    }
}

/// A referenced object: its identity, its keys (the uids of its consumers if it is a resource claim), and whether it is a claim that is
/// bound to a volume.
#[derive(Debug)]
struct SourceRecord {
    key: Key,
    uid: String,
    revision: Revision,
    keys: Keys,
    is_bound: bool,
}

impl SourceRecord {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Doc {
            metadata: ProjectedMeta,
            data: Option<Keys>,
            binary_data: Option<Keys>,
            #[serde(default)]
            spec: Spec,
            #[serde(default)]
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Spec {
            volume_name: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            phase: String,
            reserved_for: Option<Vec<Consumer>>,
        }
        #[derive(Deserialize)]
        struct Consumer {
            uid: String,
        }
        let Doc { metadata, data, binary_data, spec, status } = lenient::from_slice(json)?;
        let consumers = status.reserved_for.into_iter().flatten().map(|consumer| (consumer.uid, IgnoredAny));
        let keys = data.into_iter().chain(binary_data).flatten().chain(consumers).collect();
        let is_bound = status.phase == "Bound" && !spec.volume_name.is_empty();
        let (key, revision) = (metadata.key(), metadata.revision());
        Ok(Self { key, uid: metadata.uid, revision, keys, is_bound })
    }
}

impl Object for SourceRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_bound_if_its_phase_is_bound_and_it_names_a_volume() {
        let is_bound = |json: &str| SourceRecord::decode(json.as_bytes()).unwrap().is_bound;
        assert!(is_bound(
            r#"{"metadata":{"name":"a"},"spec":{"volumeName":"v"},"status":{"phase":"Bound"}}"#
        ));
        assert!(!is_bound(
            r#"{"metadata":{"name":"a"},"spec":{"volumeName":"v"},"status":{"phase":"Pending"}}"#
        ));
        assert!(!is_bound(r#"{"metadata":{"name":"a"},"spec":null,"status":{"phase":"Bound"}}"#));
        assert!(!is_bound(r#"{"metadata":{"name":"a"}}"#));
    }

    #[test]
    fn the_keys_of_an_object_are_read_and_its_values_skipped() {
        let keys = |json: &str| -> Vec<String> {
            SourceRecord::decode(json.as_bytes()).unwrap().keys.into_keys().collect()
        };
        assert_eq!(
            keys(r#"{"metadata":{"name":"a"},"data":{"x":"1"},"binaryData":{"y":"AA=="}}"#),
            ["x", "y"]
        );
        assert!(keys(r#"{"metadata":{"name":"a"},"data":null}"#).is_empty());
        let claim = r#"{"metadata":{"name":"a"},"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}"#;
        assert_eq!(keys(claim), ["u"], "of a resource claim");
    }
}
