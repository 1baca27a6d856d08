//! The end of reservations of a claim, and of a claim that was generated for a pod. Pure.

use super::pods;
use crate::device_claims::owner;
use crate::view::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus};
use kstore_informer::Key;
use serde_json::Value;
use std::collections::BTreeMap;

/// Finalizer of the scheduler: keeps an allocated claim until this controller has released its devices.
const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// A pod for which a claim is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumer {
    /// The pod may still use the claim.
    Active,
    /// The pod is done, does not exist, or is another one of the same name.
    Over,
}

/// What a claim loses.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Release {
    /// The new status, if it changes.
    pub status: Option<ResourceClaimStatus>,
    /// Whether the finalizer has to be removed after that.
    pub drops_finalizer: bool,
}

/// The objects for which a claim is reserved.
pub(super) fn reserved(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_deref()).unwrap_or_default()
}

/// The keys of the pods for which a claim is reserved.
pub(crate) fn reserved_pods(claim: &ResourceClaim) -> impl Iterator<Item = Key> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let pods = reserved(claim).iter().filter(|consumer| is_pod(consumer));
    pods.map(move |consumer| Key::new(namespace, &consumer.name))
}

/// Whether a claim is reserved for this pod.
pub(crate) fn is_reserved_for(claim: &ResourceClaim, pod: &Pod) -> bool {
    reserved(claim).iter().any(|consumer| consumer.uid == pod.metadata.uid)
}

/// Whether a reservation is for a pod.
pub(super) fn is_pod(consumer: &ResourceClaimConsumerReference) -> bool {
    consumer.api_group.as_deref().unwrap_or_default().is_empty() && consumer.resource == "pods"
}

fn is_active(consumer: &ResourceClaimConsumerReference, consumers: &BTreeMap<String, Consumer>) -> bool {
    consumers.get(&consumer.uid) != Some(&Consumer::Over)
}

/// Ends the reservations of pods that are over. With the last reservation the allocation ends too, so that the
/// claim can be allocated elsewhere. A claim that never was reserved keeps its allocation until it is deleted:
/// a scheduler may be about to reserve it. `consumers` has the state of every consumer by uid.
pub(super) fn release(claim: &ResourceClaim, consumers: &BTreeMap<String, Consumer>) -> Release {
    let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
    let is_protected = finalizers.iter().any(|finalizer| finalizer == PROTECTION);
    let status = claim.status.clone().unwrap_or_default();
    let kept: Vec<_> =
        reserved(claim).iter().filter(|consumer| is_active(consumer, consumers)).cloned().collect();
    let is_free = kept.is_empty();
    let has_ended = kept.len() < reserved(claim).len();
    let is_deleted = claim.metadata.deletion_timestamp.is_some();
    // Only the scheduler allocates, and it sets the finalizer first.
    let ends_allocation = is_free && is_protected && (has_ended || is_deleted);
    let next = ResourceClaimStatus {
        allocation: status.allocation.clone().filter(|_| !ends_allocation),
        reserved_for: if has_ended {
            Some(kept).filter(|kept| !kept.is_empty())
        } else {
            status.reserved_for.clone()
        },
        ..status.clone()
    };
    let drops_finalizer = ends_allocation || (has_ended && is_protected && next.allocation.is_none());
    Release { status: (next != status).then_some(next), drops_finalizer }
}

/// Removes the finalizer from a claim in JSON. Returns whether it was there.
pub(super) fn drop_finalizer(claim: &mut Value) -> bool {
    let Some(finalizers) = claim["metadata"]["finalizers"].as_array_mut() else { return false };
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != PROTECTION);
    finalizers.len() < before
}

/// Whether a claim was generated for a pod that will not use it, and no reservation is left. `pod` is the pod
/// that now has the owner's name. Without such a pod the garbage collector deletes the claim.
pub(super) fn is_unneeded(
    claim: &ResourceClaim,
    consumers: &BTreeMap<String, Consumer>,
    pod: Option<&Pod>,
) -> bool {
    let (Some(owner), Some(pod)) = (owner(claim), pod) else { return false };
    let is_free = !reserved(claim).iter().any(|consumer| is_active(consumer, consumers));
    let is_over = pod.metadata.uid != owner.uid || pods::is_done(pod);
    is_free && is_over && claim.metadata.deletion_timestamp.is_none()
}
