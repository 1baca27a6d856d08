//! Writes to resource claims: allocations and reservations together with a bind, and deallocations.

use super::{FinishedWrite, bound_revision};
use crate::action::Binding;
use crate::devices::claim::{Allocation, Claim, FINALIZER};
use crate::devices::extended;
use crate::devices::plan::{CreatedClaim, Deallocation, DevicePlan};
use crate::pod::PodInfo;
use crate::storage::Record;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kstore_client::{ApiError, Client, DeleteParams, Gvr, Patch, Transaction};
use kstore_informer::Revision;
use serde_json::{Value, json};
use std::sync::Arc;

/// Allocates and reserves the claims of a pod and binds the pod, all at one revision, or nothing. A claim that is
/// allocated must be unchanged since the scheduler read it. A claim that is only reserved must still have the
/// same devices; other pods may reserve it at the same time.
pub(super) async fn bind_devices(client: Client, binding: Binding, plan: Arc<DevicePlan>) -> FinishedWrite {
    let (pod, node) = (&binding.pod, &binding.choice.node);
    let transaction =
        claims(&client, &binding, &plan).bind(pod.key.namespace(), pod.key.name(), &pod.uid, node);
    let outcome = match transaction.commit().await.map_err(|refused| refused.error) {
        Ok(committed) => Ok(committed.revision()),
        Err(error @ ApiError::Transport(_)) => bound_revision(&client, &binding).await.ok_or(error),
        Err(error) => Err(error),
    };
    FinishedWrite::Devices(binding, outcome)
}

/// Allocates and reserves the claims of a pod that is bound later or by an extender, all at one revision, or nothing. Revision zero: there
/// is nothing to write.
///
/// # Errors
///
/// The API refused that.
pub(super) async fn claim(
    client: &Client,
    binding: &Binding,
    plan: &DevicePlan,
) -> Result<Revision, ApiError> {
    if !plan.has_writes() {
        return Ok(Revision(0));
    }
    let written = claims(client, binding, plan).commit().await;
    written.map(|committed| committed.revision()).map_err(|refused| refused.error)
}

/// The writes to the claims of a pod.
fn claims(client: &Client, binding: &Binding, plan: &DevicePlan) -> Transaction {
    let mut transaction = Transaction::new(&client.causes(&binding.causes()));
    for (claim, allocation) in &plan.allocate {
        transaction = allocate(transaction, claim, allocation, binding);
    }
    if let Some(created) = &plan.create {
        transaction = create(transaction, created, binding);
    }
    for claim in &plan.reserve {
        transaction = reserve(transaction, claim, &binding.pod);
    }
    transaction
}

/// Creates the claim for the extended resources of the pod with its devices, and names it in the status of the pod.
fn create(transaction: Transaction, created: &CreatedClaim, binding: &Binding) -> Transaction {
    let CreatedClaim { claim, allocation, mappings } = created;
    let (pod, namespace, name) = (&binding.pod, claim.key.namespace(), claim.key.name());
    let status = Patch::Merge(json!({ "status": status(allocation, binding) }));
    let of_pod = Patch::Strategic(
        json!({ "metadata": { "uid": &*pod.uid }, "status": extended::pod_status(name, mappings) }),
    );
    transaction
        .create_value(&Gvr::of::<ResourceClaim>(), namespace, &extended::manifest(pod, claim))
        .patch::<ResourceClaim>(namespace, name, "status", &status)
        .patch::<Pod>(namespace, pod.key.name(), "status", &of_pod)
}

/// The status of a claim that gets these devices for the pod alone.
fn status(allocation: &Allocation, binding: &Binding) -> Value {
    let mut allocation = allocation.json.clone();
    allocation["allocationTimestamp"] = crate::devices::outcome::seconds(binding.at).into();
    json!({ "allocation": allocation, "reservedFor": [consumer(&binding.pod)] })
}

fn allocate(
    transaction: Transaction,
    claim: &Record<Claim>,
    allocation: &Allocation,
    binding: &Binding,
) -> Transaction {
    let (namespace, name) = (claim.key.namespace(), claim.key.name());
    // The first write refuses a claim that has changed; later ones would see the changes of the first.
    let unchanged = json!({ "uid": claim.uid, "resourceVersion": claim.revision.0.to_string() });
    let mut metadata = unchanged.clone();
    let mut transaction = transaction;
    if !claim.has_finalizer {
        let mut protected = unchanged;
        protected["finalizers"] = json!([FINALIZER]);
        let patch = Patch::Strategic(json!({ "metadata": protected }));
        transaction = transaction.patch::<ResourceClaim>(namespace, name, "", &patch);
        metadata = json!({ "uid": claim.uid });
    }
    let patch = Patch::Merge(json!({ "metadata": metadata, "status": status(allocation, binding) }));
    transaction.patch::<ResourceClaim>(namespace, name, "status", &patch)
}

fn reserve(transaction: Transaction, claim: &Record<Claim>, pod: &PodInfo) -> Transaction {
    let (namespace, name) = (claim.key.namespace(), claim.key.name());
    let allocation = claim.allocation.as_ref().map(|allocation| &allocation.json);
    let test = Patch::Json(json!([
        { "op": "test", "path": "/metadata/uid", "value": claim.uid },
        { "op": "test", "path": "/status/allocation", "value": allocation },
    ]));
    let add = json!({ "metadata": { "uid": claim.uid }, "status": { "reservedFor": [consumer(pod)] } });
    transaction.patch::<ResourceClaim>(namespace, name, "status", &test).patch::<ResourceClaim>(
        namespace,
        name,
        "status",
        &Patch::Strategic(add),
    )
}

/// The entry of a pod in `status.reservedFor`.
fn consumer(pod: &PodInfo) -> Value {
    json!({ "resource": "pods", "name": pod.key.name(), "uid": &*pod.uid })
}

/// Takes the devices of a claim away, unless the claim has changed: it may have a user then. A claim that was made for the pod is deleted.
pub(super) async fn deallocate(client: Client, deallocation: Deallocation) -> FinishedWrite {
    let Deallocation { claim, uid, revision, deletes } = deallocation;
    let patch = Patch::Merge(json!({
        "metadata": { "uid": uid, "resourceVersion": revision.0.to_string() },
        "status": { "allocation": null, "reservedFor": null },
    }));
    let (namespace, name) = (claim.namespace(), claim.name());
    let outcome = match deletes {
        false => client.api::<ResourceClaim>().write_status_patch(namespace, name, &patch).await.map(drop),
        true => {
            let released = Patch::Strategic(
                json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [FINALIZER] } }),
            );
            let transaction = Transaction::new(&client)
                .patch::<ResourceClaim>(namespace, name, "status", &patch)
                .patch::<ResourceClaim>(namespace, name, "", &released)
                .delete::<ResourceClaim>(namespace, name, &DeleteParams::default());
            transaction.commit().await.map(drop).map_err(|refused| refused.error)
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%claim, %error, "failed to deallocate the claim");
    }
    FinishedWrite::Deallocation
}
