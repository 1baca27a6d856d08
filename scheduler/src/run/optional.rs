//! Kinds that not every server has, or that not every scheduler watches.

use super::Caches;
use crate::devices::taint_rule::{self, TaintRule};
use crate::storage::Record;
use kstore_client::{Client, Gvr, ListParams, WatchParams};
use kstore_informer::{Delta, Informer, Object, Stopped, Subscription};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The wait between questions whether the server has a resource, while the server does not answer.
const SERVED_RETRY: Duration = Duration::from_secs(1);

/// The resource of DeviceTaintRules. The scheduler reads it without a type: the client has none in this version.
fn resource() -> Gvr {
    Gvr::new("resource.k8s.io", "v1", "devicetaintrules")
}

/// Whether the server has DeviceTaintRules. Waits until the server answers; false if the scheduler stops before.
pub(super) async fn serves_taint_rules(client: &Client, stop: &CancellationToken) -> bool {
    let api = client.dynamic(resource());
    let any = ListParams::default();
    loop {
        let answer = tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            answer = api.list_first("", &any, NonZeroU32::MIN) => answer,
        };
        match answer {
            Ok(_) => return true,
            Err(error) if error.is_not_found() => return false,
            Err(error) => tracing::debug!(%error, "whether the server has an optional kind is not known yet"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(SERVED_RETRY) => {}
        }
    }
}

/// The informer of DeviceTaintRules, on a stream of its own.
pub(super) fn taint_rules(client: &Client, caches: &Caches<'_>) -> Informer<Record<TaintRule>> {
    let source = client.dynamic(resource()).project(WatchParams::default(), taint_rule::decode);
    caches.start("scheduler-device-taint-rules", source)
}

/// Waits for the initial state of an informer that not every scheduler has. Fails if the informer ended before.
pub(super) async fn synced<T: Object>(informer: Option<&Informer<T>>) -> Result<(), Stopped> {
    match informer {
        Some(informer) => informer.synced().await,
        None => Ok(()),
    }
}

/// The next changes of a kind that not every scheduler watches; never without a subscription.
pub(super) async fn next_of<T: Object>(subscription: &mut Option<Subscription<T>>) -> Option<Vec<Delta<T>>> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}
