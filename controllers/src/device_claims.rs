//! Which ResourceClaims a pod names, and for which pod a claim was made. Pure.

use crate::view::Pod;
use k8s_openapi::api::core::v1::{PodResourceClaim, PodResourceClaimStatus};
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The pod that a claim was created for.
pub(crate) fn owner(claim: &ResourceClaim) -> Option<&OwnerReference> {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true) && owner.api_version == "v1" && owner.kind == "Pod")
}

/// The status of an entry of a pod.
pub(crate) fn status<'p>(pod: &'p Pod, entry: &PodResourceClaim) -> Option<&'p PodResourceClaimStatus> {
    pod.status.resource_claim_statuses.iter().find(|status| status.name == entry.name)
}

/// The claim that an entry of a pod names, or that a scheduler made for the pod's extended resources.
pub(crate) struct NamedClaim<'p> {
    /// Name of the claim.
    pub name: &'p str,
    /// Whether the claim was made for the pod: one of the same name for another pod is not meant.
    pub is_generated: bool,
}

impl NamedClaim<'_> {
    /// Whether `claim`, which has the name, is the claim that `pod` means.
    pub(crate) fn is(&self, claim: &ResourceClaim, pod: &Pod) -> bool {
        !self.is_generated || is_for(claim, pod)
    }
}

/// The claims that a pod uses, as far as their names are known.
pub(crate) fn named_claims(pod: &Pod) -> impl Iterator<Item = NamedClaim<'_>> {
    let of_entries = pod.spec.resource_claims.iter().filter_map(|entry| {
        let generated = || status(pod, entry).and_then(|status| status.resource_claim_name.as_deref());
        let existing = entry.resource_claim_name.as_deref();
        let is_generated = existing.is_none();
        existing.or_else(generated).map(|name| NamedClaim { name, is_generated })
    });
    let of_resources = pod.status.extended_resource_claim_status.iter();
    of_entries
        .chain(of_resources.map(|claim| NamedClaim { name: &claim.resource_claim_name, is_generated: true }))
}

/// The names of the claims that a pod uses, as far as they are known.
pub(crate) fn used_by(pod: &Pod) -> impl Iterator<Item = &str> {
    named_claims(pod).map(|claim| claim.name)
}

/// Whether a claim was created for this pod.
pub(crate) fn is_for(claim: &ResourceClaim, pod: &Pod) -> bool {
    owner(claim).is_some_and(|owner| owner.uid == pod.metadata.uid)
}
