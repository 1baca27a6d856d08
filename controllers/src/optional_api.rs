//! Controllers of kinds that the server may not serve: whether it does is asked once, when the controllers start.

use crate::cluster::Cluster;
use crate::resource::{Resource, gvr, resource_of};
use kstore_api::kind;
use kstore_api::resource::Resource as Row;
use kstore_client::{Kind, ListParams};
use std::num::NonZeroU32;
use std::time::Duration;

/// Wait between questions while the server does not answer, for example because it is starting.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether the server serves the kind. Waits until the server answers; false if the cluster stops before.
pub(crate) async fn is_served<K: Kind>(cluster: &Cluster) -> bool {
    serves(cluster, &resource_of::<K>()).await
}

/// The optional built-in kinds that the server serves, each in one version. Waits until the server answers.
pub(crate) async fn served_kinds(cluster: &Cluster) -> Vec<&'static Row> {
    let mut served: Vec<&'static Row> = Vec::new();
    for row in kind::optional_of(cluster.config.minor) {
        let is_new = !served.iter().any(|known| known.is(row.group, row.plural));
        if is_new && serves(cluster, &Resource::named(row.group, row.version, row.plural)).await {
            served.push(row);
        }
    }
    served
}

async fn serves(cluster: &Cluster, resource: &Resource) -> bool {
    let api = cluster.client.dynamic(gvr(resource));
    let any = ListParams::default();
    loop {
        let request = api.list_first("", &any, NonZeroU32::MIN);
        let answer = tokio::select! {
            biased;
            () = cluster.stop.cancelled() => return false,
            answer = request => answer,
        };
        match answer {
            Ok(_) => return true,
            Err(error) if error.is_not_found() => return false,
            Err(error) => tracing::debug!(%error, "whether an optional API is served is not known yet"),
        }
        tokio::select! {
            biased;
            () = cluster.stop.cancelled() => return false,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
