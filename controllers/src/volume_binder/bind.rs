//! Binding of a claim and a volume: its annotations, and its transaction.

use crate::action::Action;
use crate::object::Object;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_client::Kind;

/// Annotation of a claim whose binding was completed. From then on a missing volume means data loss.
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Annotation of a claim or volume: the controller set the reference to the other, and may remove it.
pub(super) const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Annotation of a claim with the node of its first consumer.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Whether the binding of a claim was completed.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    annotation(&claim.metadata, COMPLETED).is_some()
}

/// The value of an annotation.
pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Whether a volume references this claim. A user wrote a reference without uid before the claim existed.
pub(super) fn refers_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && reference
                .uid
                .as_deref()
                .is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_deref())
    })
}

/// The transaction that binds `claim` to `volume`; `None` if they are completely bound.
pub(super) fn bind(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Action> {
    let mut writes = pair(volume, referring(claim, volume), |volume| with_phase(volume, "Bound"));
    writes.extend(pair(claim, naming(claim, volume), |claim| with_status_of(claim, volume)));
    (!writes.is_empty()).then_some(Action::Transaction(writes))
}

/// The update of an object, if `changed` is set, and of its status, if `report` changes it. The second
/// follows the first, so only the first has the resourceVersion as precondition.
fn pair<K: Kind + Clone>(seen: &K, changed: Option<K>, report: impl FnOnce(&K) -> Option<K>) -> Vec<Action> {
    let reported = report(changed.as_ref().unwrap_or(seen)).map(|mut reported| {
        if changed.is_some() {
            reported.metadata_mut().resource_version = None;
        }
        Action::UpdateStatus(Object::of(&reported))
    });
    changed.map(|changed| Action::Update(Object::of(&changed))).into_iter().chain(reported).collect()
}

/// The volume with a reference to the claim; `None` if it has one.
fn referring(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolume> {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if reference.is_some_and(|reference| reference.uid.is_some() && reference.uid == claim.metadata.uid) {
        return None;
    }
    let mut volume = volume.clone();
    if reference.is_none() {
        annotate(&mut volume.metadata, BY_CONTROLLER, "yes");
    }
    volume.spec.get_or_insert_default().claim_ref = Some(reference_to(claim));
    Some(volume)
}

/// A volume's reference to a claim.
pub(crate) fn reference_to(claim: &PersistentVolumeClaim) -> ObjectReference {
    let ObjectMeta { namespace, name, uid, resource_version, .. } = claim.metadata.clone();
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace,
        name,
        uid,
        resource_version,
        field_path: None,
    }
}

/// The claim with the volume's name and the annotation of a completed binding; `None` if it has both.
fn naming(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolumeClaim> {
    let names =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_some_and(|name| !name.is_empty());
    if names && is_bound(claim) {
        return None;
    }
    let mut claim = claim.clone();
    annotate(&mut claim.metadata, COMPLETED, "yes");
    if !names {
        annotate(&mut claim.metadata, BY_CONTROLLER, "yes");
        claim.spec.get_or_insert_default().volume_name.clone_from(&volume.metadata.name);
    }
    Some(claim)
}

/// The claim with the status of its volume; `None` if unchanged. An expanded claim keeps its own capacity.
fn with_status_of(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolumeClaim> {
    let spec = volume.spec.as_ref();
    let modes = spec.and_then(|spec| spec.access_modes.as_ref());
    let is_bound = phase_of(claim) == "Bound";
    if is_bound && claim.status.as_ref().and_then(|status| status.access_modes.as_ref()) == modes {
        return None;
    }
    let mut claim = claim.clone();
    let status = claim.status.get_or_insert_default();
    status.phase = Some("Bound".to_owned());
    status.access_modes = modes.cloned();
    status.capacity = spec.and_then(|spec| spec.capacity.clone());
    Some(claim)
}

fn phase_of(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The volume with this phase; `None` if unchanged.
fn with_phase(volume: &PersistentVolume, phase: &str) -> Option<PersistentVolume> {
    let is = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if is == Some(phase) {
        return None;
    }
    let mut volume = volume.clone();
    volume.status.get_or_insert_default().phase = Some(phase.to_owned());
    Some(volume)
}

/// The status update of a volume's phase, if it differs.
pub(super) fn volume_phase(volume: &PersistentVolume, phase: &str) -> Option<Action> {
    with_phase(volume, phase).map(|volume| Action::UpdateStatus(Object::of(&volume)))
}

/// The status update of an unbound claim's phase, if it differs.
pub(super) fn claim_phase(claim: &PersistentVolumeClaim, phase: &str) -> Option<Action> {
    if phase_of(claim) == phase {
        return None;
    }
    let mut claim = claim.clone();
    let status = claim.status.get_or_insert_default();
    (status.phase, status.access_modes, status.capacity) = (Some(phase.to_owned()), None, None);
    Some(Action::UpdateStatus(Object::of(&claim)))
}

/// Adds an annotation.
pub(super) fn annotate(metadata: &mut ObjectMeta, name: &str, value: &str) {
    metadata.annotations.get_or_insert_default().insert(name.to_owned(), value.to_owned());
}
