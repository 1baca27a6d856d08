//! Plan of a volume: its phase, and the release after its claim is deleted.

use super::bind::{BY_CONTROLLER, annotation, bind, refers_to, volume_phase};
use crate::action::Action;
use crate::object::Object;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

/// Plans the next step of a volume; `claim` is the claim with the referenced name, if it exists.
pub(super) fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Vec<Action> {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some(reference) = reference else {
        return volume_phase(volume, "Available").into_iter().collect();
    };
    // A user's reference, to a claim that may be created later.
    if reference.uid.as_deref().is_none_or(str::is_empty) {
        return match claim {
            None => volume_phase(volume, "Available").into_iter().collect(),
            // The claim's own plan binds it, or has bound it to another volume.
            Some(_) => Vec::new(),
        };
    }
    let Some(claim) = claim.filter(|claim| refers_to(volume, claim)) else {
        // Also if the volume is being deleted: it is kept while it is bound.
        return volume_phase(volume, "Released").into_iter().collect();
    };
    if volume.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let named =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    match named {
        None => Vec::new(),
        Some(named) if Some(named) == volume.metadata.name.as_deref() => {
            bind(claim, volume).into_iter().collect()
        }
        // The claim has another volume. The controller removes its own reference; a user's reference stays.
        Some(_) if annotation(&volume.metadata, BY_CONTROLLER).is_some() => {
            let mut free = volume.clone();
            if let Some(annotations) = &mut free.metadata.annotations {
                annotations.remove(BY_CONTROLLER);
            }
            free.spec.get_or_insert_default().claim_ref = None;
            vec![Action::Update(Object::of(&free))]
        }
        Some(_) => Vec::new(),
    }
}
