//! Owners of a StatefulSet's claims by `persistentVolumeClaimRetentionPolicy`: the garbage collector deletes
//! a claim with its last owner. Pure.
//!
//! | whenScaled | whenDeleted | owner of the claim of a desired ordinal | of an undesired ordinal |
//! |---|---|---|---|
//! | Retain | Retain | none | none |
//! | Retain | Delete | the set | the set |
//! | Delete | Retain | none | its pod |
//! | Delete | Delete | the set | its pod |
//!
//! Claims with a reference to an earlier set or pod of the same name are left to the garbage collector. For
//! claims that another controller manages, the controller removes its references and adds none.

use super::identity::Range;
use crate::claim::controller_ref;
use crate::view::Pod;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Whether claims are deleted with their StatefulSet, and with their ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    with_set: bool,
    with_scale: bool,
}

/// Required change of a claim's owners.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ownership {
    /// None: the owners are correct, or must not be changed.
    Settled,
    /// Replace the owners by these.
    Owners(Vec<OwnerReference>),
}

impl Policy {
    /// The policy of a StatefulSet; the default is `Retain`.
    pub(crate) fn of(set: &StatefulSet) -> Self {
        let policy = set
            .spec
            .as_ref()
            .and_then(|s| s.persistent_volume_claim_retention_policy.clone())
            .unwrap_or_default();
        let deletes = |word: Option<String>| word.as_deref() == Some("Delete");
        Self { with_set: deletes(policy.when_deleted), with_scale: deletes(policy.when_scaled) }
    }

    /// The owners of a new claim for a desired ordinal.
    pub(crate) fn owners_at_creation(self, set: &StatefulSet) -> Option<Vec<OwnerReference>> {
        self.with_set.then(|| vec![reference_to_set(set)])
    }

    /// Whether a deleted pod of the ordinal still owns the claim: the claim is about to be deleted, so no new
    /// pod may use it.
    pub(crate) fn is_stale(self, claim: &PersistentVolumeClaim, pod: &str) -> bool {
        self.with_scale && owners(claim).iter().any(|owner| names(owner, "v1", "Pod", pod))
    }

    /// Decides the owners of a claim of `pod`.
    pub(crate) fn evaluate(
        self,
        set: &StatefulSet,
        pod: &Pod,
        ordinal: i32,
        claim: &PersistentVolumeClaim,
    ) -> Ownership {
        let set_uid = set.metadata.uid.as_deref().unwrap_or_default();
        let set_name = set.metadata.name.as_deref().unwrap_or_default();
        let is_set = |o: &OwnerReference| names(o, "apps/v1", "StatefulSet", set_name);
        let is_pod = |o: &OwnerReference| names(o, "v1", "Pod", &pod.metadata.name);
        let have = owners(claim);
        let is_stale =
            |o: &&OwnerReference| is_set(o) && o.uid != set_uid || is_pod(o) && o.uid != pod.metadata.uid;
        if have.iter().any(|o| is_stale(&o)) {
            return Ownership::Settled;
        }
        let others: Vec<_> = have.iter().filter(|o| !is_set(o) && !is_pod(o)).cloned().collect();
        let is_managed_by_others =
            (self.with_set || self.with_scale) && others.iter().any(|o| o.controller == Some(true));
        let is_in_range = set.spec.as_ref().is_some_and(|spec| Range::of(spec).contains(ordinal));
        let wanted: Vec<OwnerReference> = match is_in_range {
            _ if is_managed_by_others => vec![],
            true if self.with_set => vec![reference_to_set(set)],
            false if self.with_scale => vec![reference_to_pod(pod)],
            false if self.with_set => vec![reference_to_set(set)],
            true | false => vec![],
        };
        let own: Vec<_> = have.iter().filter(|o| is_set(o) || is_pod(o)).collect();
        let is_right = own.len() == wanted.len()
            && own.iter().zip(&wanted).all(|(a, b)| a.uid == b.uid && a.controller == Some(true));
        if is_right {
            Ownership::Settled
        } else {
            Ownership::Owners(others.into_iter().chain(wanted).collect())
        }
    }
}

/// Whether another controller manages the claim, so that a deletion policy does not apply; the user gets an
/// event.
pub(crate) fn is_conflicting(set: &StatefulSet, pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let Policy { with_set, with_scale } = Policy::of(set);
    let is_other = |o: &OwnerReference| {
        Some(&o.uid) != set.metadata.uid.as_ref() && o.uid != pod.metadata.uid && o.controller == Some(true)
    };
    (with_set || with_scale) && owners(claim).iter().any(is_other)
}

fn owners(claim: &PersistentVolumeClaim) -> &[OwnerReference] {
    claim.metadata.owner_references.as_deref().unwrap_or_default()
}

fn names(owner: &OwnerReference, api_version: &str, kind: &str, name: &str) -> bool {
    owner.api_version == api_version && owner.kind == kind && owner.name == name
}

fn reference_to_set(set: &StatefulSet) -> OwnerReference {
    controller_ref("apps/v1", "StatefulSet", &set.metadata)
}

fn reference_to_pod(pod: &Pod) -> OwnerReference {
    let metadata = ObjectMeta {
        name: Some(pod.metadata.name.clone()),
        uid: Some(pod.metadata.uid.clone()),
        ..ObjectMeta::default()
    };
    controller_ref("v1", "Pod", &metadata)
}
