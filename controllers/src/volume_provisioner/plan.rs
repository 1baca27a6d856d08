//! Volumes to create for claims, to enlarge, and to delete.

use crate::action::{Action, Propagation, Target};
use crate::object::Object;
use crate::view;
use crate::volume_binder::{SELECTED_NODE, is_bound, reference_to};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeSpec, TopologySelectorTerm, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_api::quantity::Quantity;
use std::collections::BTreeMap;

/// Provisioner name of simulated volumes in storage classes.
pub(crate) const PROVISIONER: &str = "volumes.kstore.dev";

const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The default class. As in other development clusters it is called `standard`, and waits for the first
/// consumer.
pub(super) fn default_class() -> StorageClass {
    let default = ("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned());
    StorageClass {
        metadata: ObjectMeta {
            name: Some("standard".to_owned()),
            annotations: Some(BTreeMap::from([default])),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        allow_volume_expansion: Some(true),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        ..StorageClass::default()
    }
}

/// Name of a claim's volume, derived from the claim's uid, so that a second attempt finds the first.
pub(super) fn name_for(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// Creates the volume of a claim that requests this provisioner and is ready for one.
pub(super) fn provision(claim: &PersistentVolumeClaim, class: &StorageClass) -> Vec<Action> {
    let Some(spec) = claim.spec.as_ref() else { return Vec::new() };
    let annotation = |name: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let is_ours = annotation(STORAGE_PROVISIONER).is_some_and(|name| name == PROVISIONER)
        && class.provisioner == PROVISIONER;
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    let ready = !waits || annotation(SELECTED_NODE).is_some();
    if !is_ours || !ready || is_bound(claim) || claim.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let about = view::subject("v1", "PersistentVolumeClaim", &claim.metadata);
    // A label selector requires an existing volume: none can be created for it.
    if spec.selector.is_some() {
        let message = "failed to provision volume: claim Selector is not supported".to_owned();
        return vec![Action::warning(about, "ProvisioningFailed", message)];
    }
    let name = name_for(claim);
    let provisioned =
        Action::normal(about, "ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
    let volume = PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes.clone(),
            capacity: spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
            claim_ref: Some(reference_to(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: PROVISIONER.to_owned(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            mount_options: class.mount_options.clone(),
            node_affinity: reach(class),
            persistent_volume_reclaim_policy: class
                .reclaim_policy
                .clone()
                .or_else(|| Some("Delete".to_owned())),
            storage_class_name: class.metadata.name.clone(),
            volume_attributes_class_name: spec.volume_attributes_class_name.clone(),
            volume_mode: spec.volume_mode.clone(),
            ..PersistentVolumeSpec::default()
        }),
        ..PersistentVolume::default()
    };
    vec![Action::Create(Object::of(&volume)), provisioned]
}

/// The node affinity of a class's volumes: its allowed topologies. `None` for all nodes.
fn reach(class: &StorageClass) -> Option<VolumeNodeAffinity> {
    let topologies = class.allowed_topologies.as_deref().filter(|topologies| !topologies.is_empty())?;
    let term = |topology: &TopologySelectorTerm| {
        let labels = topology.match_label_expressions.iter().flatten();
        let labels = labels.map(|label| NodeSelectorRequirement {
            key: label.key.clone(),
            operator: "In".to_owned(),
            values: Some(label.values.clone()),
        });
        NodeSelectorTerm { match_expressions: Some(labels.collect()), match_fields: None }
    };
    let required = NodeSelector { node_selector_terms: topologies.iter().map(term).collect() };
    Some(VolumeNodeAffinity { required: Some(required) })
}

/// Enlarges the volume of a bound claim that requests more, and updates the claim, in one transaction.
pub(super) fn expand(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    volume: &PersistentVolume,
) -> Vec<Action> {
    let wanted =
        claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage"));
    let has = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    let (Some(wanted), Some(has)) = (wanted, has) else { return Vec::new() };
    let larger = match (Quantity::parse(&wanted.0), Quantity::parse(&has.0)) {
        (Ok(wanted), Ok(has)) => !wanted.sub(has).is_negative() && !wanted.sub(has).is_zero(),
        _ => false,
    };
    if !larger || !is_ours(volume) || !is_bound(claim) || class.allow_volume_expansion != Some(true) {
        return Vec::new();
    }
    let capacity = BTreeMap::from([("storage".to_owned(), wanted.clone())]);
    let (mut claim, mut volume) = (claim.clone(), volume.clone());
    volume.spec.get_or_insert_default().capacity = Some(capacity.clone());
    claim.status.get_or_insert_default().capacity = Some(capacity);
    let about = view::subject("v1", "PersistentVolumeClaim", &claim.metadata);
    vec![
        Action::Transaction(vec![
            Action::Update(Object::of(&volume)),
            Action::UpdateStatus(Object::of(&claim)),
        ]),
        Action::normal(about, "VolumeResizeSuccessful", "Resize volume succeeded".to_owned()),
    ]
}

/// Deletes a released volume of this provisioner, if its reclaim policy is Delete.
pub(super) fn remove(volume: &PersistentVolume) -> Vec<Action> {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let leaving = volume.metadata.deletion_timestamp.is_some();
    if !is_ours(volume) || policy != Some("Delete") || phase != Some("Released") || leaving {
        return Vec::new();
    }
    vec![Action::Delete { target: Target::of(volume), propagation: Propagation::Default, force: false }]
}

fn is_ours(volume: &PersistentVolume) -> bool {
    let annotations = volume.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(PROVISIONED_BY)).is_some_and(|by| by == PROVISIONER)
}
