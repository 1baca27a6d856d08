//! The writes of a preemption: the status of the pod that gets room, then the evictions.

use super::FinishedWrite;
use crate::action::Evict;
use crate::limits::EVICTIONS_IN_FLIGHT;
use crate::pod::{DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, PodInfo, Uid};
use futures::{StreamExt, future, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kstore_client::{Client, DeleteParams, Patch, Transaction, TransactionError};
use serde_json::json;

/// Writes `patch` to the status of the preemptor, then evicts the victims, several at a time. Without the first write
/// there are no evictions: the preemptor may be gone, and a scheduler that starts now must find the nomination.
pub(super) async fn evict(
    client: Client,
    evict: Box<Evict>,
    patch: Option<Patch>,
    now: Timestamp,
) -> FinishedWrite {
    let client = client.causes(&evict.notice.causes());
    let (api, key) = (client.api::<Pod>(), &evict.notice.pod.key);
    if let Some(patch) = patch
        && let Err(error) = api.write_status_patch(key.namespace(), key.name(), &patch).await
    {
        tracing::debug!(%error, "failed to nominate the pod for the node");
        let failed = evict.victims.iter().map(|victim| Uid::clone(&victim.uid)).collect();
        return FinishedWrite::Evictions(evict, failed);
    }
    for pod in &evict.displaced {
        let patch = json!({ "metadata": { "uid": &*pod.uid }, "status": { "nominatedNodeName": null } });
        let (namespace, name) = (pod.key.namespace(), pod.key.name());
        if let Err(error) = api.write_status_patch(namespace, name, &Patch::Strategic(patch)).await {
            tracing::debug!(pod = %pod.key, %error, "failed to end the nomination of a pod of lower priority");
        }
    }
    let evictions: Vec<_> =
        evict.victims.iter().map(|victim| evict_one(&client, &evict, victim, now)).collect();
    let failed: Vec<Uid> =
        stream::iter(evictions).buffered(EVICTIONS_IN_FLIGHT).filter_map(future::ready).collect().await;
    FinishedWrite::Evictions(evict, failed)
}

/// Evicts a victim. Returns its uid if that fails.
async fn evict_one(client: &Client, evict: &Evict, victim: &PodInfo, now: Timestamp) -> Option<Uid> {
    match write_eviction(client, evict, victim, now).await {
        Ok(()) => None,
        Err(refused) if refused.error.is_not_found() => None,
        Err(error) => {
            tracing::debug!(pod = %victim.key, %error, "failed to evict the pod");
            Some(Uid::clone(&victim.uid))
        }
    }
}

/// Sets the condition of a victim and deletes it, both or neither. The uid excludes a new pod of the same name.
async fn write_eviction(
    client: &Client,
    evict: &Evict,
    victim: &PodInfo,
    now: Timestamp,
) -> Result<(), TransactionError> {
    let scheduler = &evict.notice.pod.scheduler_name;
    let patch = Patch::Strategic(json!({
        "metadata": { "uid": &*victim.uid },
        "status": { "conditions": [{
            "type": DISRUPTION_TARGET, "status": "True", "reason": PREEMPTION_BY_SCHEDULER,
            "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
            "observedGeneration": victim.generation, "lastTransitionTime": now.to_string(),
        }] },
    }));
    let (namespace, name) = (victim.key.namespace(), victim.key.name());
    Transaction::new(client)
        .patch::<Pod>(namespace, name, "status", &patch)
        .delete::<Pod>(namespace, name, &DeleteParams::default().uid(&victim.uid))
        .commit()
        .await
        .map(|_| ())
}
