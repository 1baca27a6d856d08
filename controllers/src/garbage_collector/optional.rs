//! The watch stream of the built-in kinds that not every server has: which of them the server serves is asked once.

use super::custom::Stream;
use super::known::Shared;
use super::latest::LatestValue;
use super::plan::{OwnerKind, kind_key};
use crate::cluster::Cluster;
use crate::optional_api;
use crate::resource::Resource;
use kstore_informer::{Causes, Key, Queue};
use std::sync::Arc;

/// Feeds the objects of the kinds into the graph until the cluster stops.
pub(super) async fn run(cluster: Arc<Cluster>, shared: Arc<Shared>, queue: Queue<Key>) {
    let rows = optional_api::served_kinds(&cluster).await;
    if rows.is_empty() {
        return;
    }
    let resource = |row: &kstore_api::resource::Resource| Resource::named(row.group, row.version, row.plural);
    let kinds = rows.iter().map(|row| {
        let kind = OwnerKind { resource: resource(row), namespaced: row.namespaced };
        (kind_key(row.group, row.kind), kind)
    });
    for key in shared.serve(kinds.collect()) {
        queue.add(key, Causes::none());
    }
    let streamed = rows.iter().map(|row| (row.qualified(), resource(row))).collect();
    let stream = Stream::new(&cluster, &shared, &queue, "optional-kinds".to_owned());
    stream.run(Arc::new(LatestValue::new(streamed))).await;
}
