//! [`best`]: the volume for a claim: one reserved for it, else the smallest that is large enough and meets
//! its requirements.

use super::bind::refers_to;
use crate::selector;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kstore_api::quantity::Quantity;
use std::collections::BTreeMap;

const FILESYSTEM: &str = "Filesystem";

/// The volume for a claim that names none. Of volumes with equal size, the first by name.
pub(super) fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &[&'a PersistentVolume],
    is_near: impl Fn(&PersistentVolume) -> bool,
) -> Option<&'a PersistentVolume> {
    // A volume that a user reserved for this claim is used even if it is larger, or has another mode.
    let meant =
        volumes.iter().copied().find(|volume| refers_to(volume, claim) && is_large_enough(claim, volume));
    if meant.is_some() {
        return meant;
    }
    let free =
        volumes.iter().copied().filter(|volume| is_free(volume) && fits(claim, volume) && is_near(volume));
    free.min_by(|a, b| {
        let size = |volume: &PersistentVolume| capacity(volume).map(Quantity::milli);
        size(a).cmp(&size(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    })
}

fn is_free(volume: &PersistentVolume) -> bool {
    let claimed = volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_some());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    !claimed
        && volume.metadata.deletion_timestamp.is_none()
        && matches!(phase, None | Some("" | "Pending" | "Available"))
}

/// Whether a volume meets all requirements of a claim.
pub(super) fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (Some(wants), Some(has)) = (claim.spec.as_ref(), volume.spec.as_ref()) else { return false };
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| FILESYSTEM.to_owned());
    let class = |class: &Option<String>| class.clone().unwrap_or_default();
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let empty = BTreeMap::new();
    let labels = volume.metadata.labels.as_ref().unwrap_or(&empty);
    is_large_enough(claim, volume)
        && mode(&wants.volume_mode) == mode(&has.volume_mode)
        && class(&wants.storage_class_name) == class(&has.storage_class_name)
        && class(&wants.volume_attributes_class_name) == class(&has.volume_attributes_class_name)
        && wants.access_modes.iter().flatten().all(|wanted| modes.contains(wanted))
        && wants.selector.as_ref().is_none_or(|wanted| selector::matches(wanted, labels))
}

fn is_large_enough(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    match (requested(claim), capacity(volume)) {
        (Some(wanted), Some(offered)) => offered.sub(wanted).milli() >= 0,
        (None, _) => true,
        (Some(_), None) => false,
    }
}

/// The requested size of a claim. The API stores no invalid quantities.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    Quantity::parse(&requests.get("storage")?.0).ok()
}

fn capacity(volume: &PersistentVolume) -> Option<Quantity> {
    Quantity::parse(&volume.spec.as_ref()?.capacity.as_ref()?.get("storage")?.0).ok()
}
