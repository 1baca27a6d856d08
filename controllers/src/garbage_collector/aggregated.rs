//! Kinds of aggregated API servers: follows discovery and opens a watch stream for each kind. While a server
//! does not answer, its kinds stay and its streams retry; the other kinds are not affected.

use super::custom::{Kinds, Stream};
use super::known::Shared;
use super::latest::LatestValue;
use crate::aggregated::{AggregatedKind, AggregatedKinds};
use crate::cluster::Cluster;
use crate::limits::{AGGREGATED_DISCOVERY, AGGREGATED_KINDS};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kstore_client::Obj;
use kstore_informer::{Causes, Informer, Key, Queue};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Verbs of a kind whose objects the collector can follow and delete.
const COLLECTED: [&str; 3] = ["delete", "list", "watch"];

/// Follows the kinds until the cluster stops.
pub(super) async fn run(
    cluster: Arc<Cluster>,
    shared: Arc<Shared>,
    queue: Queue<Key>,
    services: Informer<Obj<APIService>>,
) {
    let stop = cluster.stop.clone();
    let followed = Followed { cluster, shared, queue, services, streams: BTreeMap::new() };
    stop.run_until_cancelled(followed.run()).await;
}

/// The followed kinds.
struct Followed {
    cluster: Arc<Cluster>,
    shared: Arc<Shared>,
    queue: Queue<Key>,
    services: Informer<Obj<APIService>>,
    /// The kind of each stream, by group and plural. Streams stay, since the objects of a kind that is not
    /// served now may still exist.
    streams: BTreeMap<(String, String), Arc<LatestValue<Kinds>>>,
}

impl Followed {
    async fn run(mut self) {
        if self.services.synced().await.is_err() {
            return;
        }
        let mut changes = self.services.subscribe();
        // The kinds of a server change without a change of its APIService.
        let mut next_reading = None;
        loop {
            let due = async {
                match next_reading {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = changes.next() => if changed.is_none() { return },
                () = due => {}
            }
            let client = self.cluster.client.agent("controllers");
            match AggregatedKinds::discover(&client, &self.services).await {
                Ok(found) => self.follow(&found),
                Err(error) => tracing::warn!(%error, "the kinds of aggregated API servers are unknown"),
            }
            let any =
                !crate::aggregated::group_versions(self.services.view().iter().map(|s| &***s)).is_empty();
            next_reading = any.then(|| tokio::time::Instant::now() + AGGREGATED_DISCOVERY);
        }
    }

    fn follow(&mut self, found: &AggregatedKinds) {
        for key in self.shared.aggregate(found) {
            self.queue.add(key, Causes::none());
        }
        let collected: Vec<_> = found.kinds.iter().filter(|kind| kind.supports(&COLLECTED)).collect();
        for stream in self.streams.values() {
            let now = stream.get();
            let stays = |kinds: &Kinds| {
                kinds.values().any(|resource| {
                    found.is_unavailable(resource) || collected.iter().any(|kind| kind.resource == *resource)
                })
            };
            if !stays(&now) {
                stream.set(Kinds::new());
            }
        }
        collected.into_iter().for_each(|kind| self.watch(kind));
    }

    fn watch(&mut self, kind: &AggregatedKind) {
        let api = (kind.resource.group.to_string(), kind.resource.plural.to_string());
        let kinds = Kinds::from([(kind.kind.clone(), kind.resource.clone())]);
        if let Some(stream) = self.streams.get(&api) {
            stream.set(kinds);
            return;
        }
        if self.streams.len() >= AGGREGATED_KINDS {
            tracing::warn!(group = api.0, resource = api.1, "too many aggregated kinds: not collected");
            return;
        }
        let name = format!("{}.{}", api.1, api.0);
        let stream = Stream::new(&self.cluster, &self.shared, &self.queue, name).aggregated();
        let latest = Arc::new(LatestValue::new(kinds));
        self.cluster.spawn(stream.run(Arc::clone(&latest)));
        self.streams.insert(api, latest);
    }
}
