//! Protection finalizers of claims, volumes and classes of volume attributes.

use crate::action::Action;
use crate::object::Object;
use crate::view::{Pod, seconds};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kstore_client::Kind;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
const CLASS: &str = "kubernetes.io/vac-protection";

/// Whether a pod uses a claim of its namespace. Ended pods and unscheduled pods do not.
pub(super) fn uses(pod: &Pod, claim: &str) -> bool {
    !pod.status.phase.is_terminal()
        && !pod.spec.node_name.is_empty()
        && pod.claims().any(|name| name == claim)
}

/// Whether a pod refers to a claim of its namespace, scheduled or not. Ended pods do not count.
pub(super) fn refers(pod: &Pod, claim: &str) -> bool {
    !pod.status.phase.is_terminal() && pod.claims().any(|name| name == claim)
}

/// The condition that shows whether a pod refers to the claim.
const UNUSED: &str = "Unused";

/// The change of the condition `Unused` of a bound claim, if due. Its time is that of the change.
pub(super) fn unused(claim: &PersistentVolumeClaim, is_used: bool, now: Timestamp) -> Option<Action> {
    let status = claim.status.as_ref().filter(|status| status.phase.as_deref() == Some("Bound"))?;
    let (value, reason, message) = match is_used {
        true => ("False", "PodUsingPVC", "A pod is currently referencing this PVC"),
        false => ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let old = status.conditions.as_deref().unwrap_or_default();
    if old.iter().any(|condition| condition.type_ == UNUSED && condition.status == value) {
        return None;
    }
    let new = PersistentVolumeClaimCondition {
        type_: UNUSED.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(seconds(now)),
        ..Default::default()
    };
    let others = old.iter().filter(|condition| condition.type_ != UNUSED).cloned();
    let conditions: Vec<_> = others.chain([new]).collect();
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().conditions = Some(conditions);
    Some(Action::UpdateStatus(Object::of(&claim)))
}

/// The change of a claim's finalizers, if due. `is_used` is called only for terminating claims.
pub(super) fn claim(claim: &PersistentVolumeClaim, is_used: impl FnOnce() -> bool) -> Option<Action> {
    protect(claim, CLAIM, is_used)
}

/// The change of a volume's finalizers, if due.
pub(super) fn volume(volume: &PersistentVolume) -> Option<Action> {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    protect(volume, VOLUME, || phase == Some("Bound"))
}

/// Classes of volume attributes that a claim names: the wanted one, the present one, and that of a change in progress.
pub(super) fn classes_of_claim(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let change = status.and_then(|status| status.modify_volume_status.as_ref());
    let names = [
        spec.and_then(|spec| spec.volume_attributes_class_name.as_deref()),
        status.and_then(|status| status.current_volume_attributes_class_name.as_deref()),
        change.and_then(|change| change.target_volume_attributes_class_name.as_deref()),
    ];
    names.into_iter().flatten().filter(|name| !name.is_empty())
}

/// The class of volume attributes that a volume names.
pub(super) fn class_of_volume(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.volume_attributes_class_name.as_deref().filter(|name| !name.is_empty())
}

/// The change of a class's finalizers, if due. `is_used` is called only for terminating classes.
pub(super) fn class(class: &VolumeAttributesClass, is_used: impl FnOnce() -> bool) -> Option<Action> {
    protect(class, CLASS, is_used)
}

fn protect<K: Kind + Clone>(object: &K, finalizer: &str, is_used: impl FnOnce() -> bool) -> Option<Action> {
    let metadata = object.metadata();
    let have = metadata.finalizers.as_deref().unwrap_or_default();
    let has = have.iter().any(|name| name == finalizer);
    let finalizers: Vec<&str> = match (metadata.deletion_timestamp.is_some(), has) {
        (true, true) if !is_used() => {
            have.iter().map(String::as_str).filter(|name| *name != finalizer).collect()
        }
        (false, false) => have.iter().map(String::as_str).chain([finalizer]).collect(),
        _ => return None,
    };
    let finalizers = finalizers.into_iter().map(str::to_owned).collect();
    let mut object = object.clone();
    object.metadata_mut().finalizers = Some(finalizers);
    Some(Action::Update(Object::of(&object)))
}
