//! Plan of a claim: bound, pending with a reason, or lost.

use super::bind::{SELECTED_NODE, annotate, annotation, bind, claim_phase, is_bound, refers_to};
use super::fit::{best, fits};
use crate::action::Action;
use crate::object::Object;
use crate::view::{self, Pod};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use std::cmp::Reverse;
use std::sync::Arc;

/// Annotations of a claim with its provisioner. Older provisioners read the first.
const PROVISIONER: [&str; 2] =
    ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];

/// Annotations of the default class; the second is the older name.
const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Provisioner of classes with manually created volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Input of a plan, at one revision.
pub(super) struct Observed<'a> {
    pub claim: &'a PersistentVolumeClaim,
    /// The volume that the claim names, if it exists.
    pub named: Option<&'a PersistentVolume>,
    /// All volumes.
    pub volumes: &'a [&'a PersistentVolume],
    /// The claim's class, if it exists.
    pub class: Option<&'a StorageClass>,
    /// The default class, if any.
    pub default: Option<&'a StorageClass>,
    /// Finds a pod that uses the claim and waits for a node.
    pub consumer: &'a dyn Fn() -> Option<Arc<Pod>>,
}

/// Plans the next step of a claim.
pub(super) fn plan(seen: &Observed<'_>) -> Vec<Action> {
    let claim = seen.claim;
    let names_volume =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_some_and(|n| !n.is_empty());
    match (is_bound(claim), names_volume) {
        (true, _) => keep(seen, names_volume),
        // A terminating claim gets no volume.
        (false, _) if claim.metadata.deletion_timestamp.is_some() => Vec::new(),
        (false, true) => meet(seen),
        (false, false) => find(seen),
    }
}

/// A claim that was bound: still bound, or lost.
fn keep(seen: &Observed<'_>, names_volume: bool) -> Vec<Action> {
    let claim = seen.claim;
    if !names_volume {
        return lost(
            claim,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    let Some(volume) = seen.named else {
        return lost(
            claim,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        );
    };
    let is_free = volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none());
    if is_free || refers_to(volume, claim) {
        return bind(claim, volume).into_iter().collect();
    }
    lost(claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

fn lost(claim: &PersistentVolumeClaim, reason: &str, message: &str) -> Vec<Action> {
    // The event is recorded once, with the phase update.
    let Some(phase) = claim_phase(claim, "Lost") else { return Vec::new() };
    vec![phase, Action::warning(about(claim), reason, message.to_owned())]
}

/// A claim with a user-selected volume.
fn meet(seen: &Observed<'_>) -> Vec<Action> {
    let claim = seen.claim;
    let Some(volume) = seen.named else { return claim_phase(claim, "Pending").into_iter().collect() };
    let is_free = volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none());
    if !is_free && !refers_to(volume, claim) {
        let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let name = |part: Option<&String>| part.cloned().unwrap_or_default();
        let message = format!(
            "volume \"{}\" already bound to a different claim: {}/{}",
            name(volume.metadata.name.as_ref()),
            name(holder.and_then(|holder| holder.namespace.as_ref())),
            name(holder.and_then(|holder| holder.name.as_ref())),
        );
        return pending(claim, Action::warning(about(claim), "FailedBinding", message));
    }
    if is_free && !fits(claim, volume) {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let message =
            format!("Cannot bind to requested volume \"{name}\": it does not offer what the claim asks for");
        return pending(claim, Action::warning(about(claim), "VolumeMismatch", message));
    }
    bind(claim, volume).into_iter().collect()
}

/// A claim that waits for any volume.
fn find(seen: &Observed<'_>) -> Vec<Action> {
    let claim = seen.claim;
    let waits =
        seen.class.and_then(|class| class.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer");
    let meant = seen.volumes.iter().any(|volume| refers_to(volume, claim));
    let selected = annotation(&claim.metadata, SELECTED_NODE);
    if waits && !meant && selected.is_none() {
        return wait(claim, (seen.consumer)());
    }
    // The choice of a free volume depends on the node, so the scheduler decides.
    if let Some(volume) = best(claim, seen.volumes, |_| !waits) {
        return bind(claim, volume).into_iter().collect();
    }
    let wanted = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    // The claim was created before the default class. An empty class name requests none.
    if wanted.is_none()
        && let Some(class) = seen.default
    {
        return vec![classed(claim, class)];
    }
    let wanted = wanted.unwrap_or_default();
    match seen.class {
        Some(class) if class.provisioner != NO_PROVISIONER => request_provisioning(claim, class),
        Some(_) | None if wanted.is_empty() || seen.class.is_some() => {
            let message = "no persistent volumes available for this claim and no storage class is set";
            pending(claim, Action::normal(about(claim), "FailedBinding", message.to_owned()))
        }
        Some(_) | None => {
            let message = format!("storageclass.storage.k8s.io \"{wanted}\" not found");
            pending(claim, Action::warning(about(claim), "ProvisioningFailed", message))
        }
    }
}

/// Waits for a pod, and for the scheduler to select its node.
fn wait(claim: &PersistentVolumeClaim, consumer: Option<Arc<Pod>>) -> Vec<Action> {
    let Some(pod) = consumer else {
        let message = "waiting for first consumer to be created before binding";
        return pending(claim, Action::normal(about(claim), "WaitForFirstConsumer", message.to_owned()));
    };
    let message = format!("waiting for pod {} to be scheduled", pod.metadata.name);
    pending(claim, Action::normal(about(claim), "WaitForPodScheduled", message))
}

/// The update that sets the class of a claim.
fn classed(claim: &PersistentVolumeClaim, class: &StorageClass) -> Action {
    let mut claim = claim.clone();
    claim.spec.get_or_insert_default().storage_class_name.clone_from(&class.metadata.name);
    Action::Update(Object::of(&claim))
}

/// The default class: of several the newest, and of equally new ones the first by name.
pub(super) fn default_class<'a>(classes: impl Iterator<Item = &'a StorageClass>) -> Option<&'a StorageClass> {
    let is_default = |class: &&StorageClass| {
        IS_DEFAULT.iter().any(|name| annotation(&class.metadata, name) == Some("true"))
    };
    classes
        .filter(is_default)
        .min_by_key(|class| (Reverse(class.metadata.creation_timestamp.clone()), class.metadata.name.clone()))
}

/// The update that sets the provisioner annotations of a claim.
fn annotated(claim: &PersistentVolumeClaim, provisioner: &str) -> Action {
    let mut claim = claim.clone();
    PROVISIONER.iter().for_each(|name| annotate(&mut claim.metadata, name, provisioner));
    Action::Update(Object::of(&claim))
}

/// Requests a volume from the provisioner of the class.
fn request_provisioning(claim: &PersistentVolumeClaim, class: &StorageClass) -> Vec<Action> {
    let provisioner = &class.provisioner;
    if PROVISIONER.iter().any(|name| annotation(&claim.metadata, name) != Some(provisioner)) {
        return vec![annotated(claim, provisioner)];
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    pending(claim, Action::normal(about(claim), "ExternalProvisioning", message))
}

/// Sets the claim pending and records the event.
fn pending(claim: &PersistentVolumeClaim, why: Action) -> Vec<Action> {
    claim_phase(claim, "Pending").into_iter().chain([why]).collect()
}

fn about(claim: &PersistentVolumeClaim) -> kstore_informer::Reference {
    view::subject("v1", "PersistentVolumeClaim", &claim.metadata)
}
