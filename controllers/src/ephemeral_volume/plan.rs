//! Claims of a pod's ephemeral volumes. Pure.

use crate::action::Action;
use crate::claim::{controller_of, controller_ref};
use crate::object::Object;
use crate::view::Pod;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_informer::Key;
use std::collections::BTreeSet;

/// An existing claim with the name that a pod needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExistingClaim {
    /// The uid of its controller.
    pub owner: Option<String>,
}

impl ExistingClaim {
    /// Extracts the owner of a claim.
    pub(crate) fn of(claim: &PersistentVolumeClaim) -> Self {
        let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
        Self { owner: controller_of(owners).map(|owner| owner.uid.clone()) }
    }
}

/// A claim with the needed name belongs to another owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "ephemeral volume {volume}: PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)"
)]
pub(crate) struct Conflict {
    volume: String,
    claim: String,
    namespace: String,
    pod: String,
}

impl Conflict {
    /// The event about the pod.
    pub(crate) fn event(&self, pod: &Pod) -> Action {
        Action::warning(pod.subject(), "FailedBinding", self.to_string())
    }
}

/// Whether a pod has ephemeral volumes and is not being deleted.
pub(crate) fn wants_claims(pod: &Pod) -> bool {
    !pod.metadata.is_deleting() && pod.spec.claim_volumes.iter().any(|volume| volume.is_ephemeral)
}

/// The pod that owns a claim.
pub(crate) fn owner(claim: &PersistentVolumeClaim) -> Option<Key> {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = controller_of(owners).filter(|owner| owner.kind == "Pod")?;
    Some(Key::new(claim.metadata.namespace.as_deref().unwrap_or_default(), &owner.name))
}

/// The volumes whose claims are missing.
///
/// # Errors
/// The first claim that belongs to another owner.
pub(crate) fn missing(
    pod: &Pod,
    find: impl Fn(&str) -> Option<ExistingClaim>,
) -> Result<BTreeSet<String>, Conflict> {
    let mut missing = BTreeSet::new();
    for volume in pod.spec.claim_volumes.iter().filter(|volume| volume.is_ephemeral) {
        match find(&volume.claim_name) {
            None => drop(missing.insert(volume.name.clone())),
            Some(found) if found.owner.as_ref() == Some(&pod.metadata.uid) => {}
            Some(_) => {
                return Err(Conflict {
                    volume: volume.name.clone(),
                    claim: volume.claim_name.clone(),
                    namespace: pod.metadata.namespace.clone(),
                    pod: pod.metadata.name.clone(),
                });
            }
        }
    }
    Ok(missing)
}

/// The claims of these volumes, from their templates.
pub(crate) fn claims(pod: &core::Pod, volumes: &BTreeSet<String>) -> Vec<Action> {
    let all = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let wanted = all.filter(|volume| volumes.contains(&volume.name));
    wanted.filter_map(|volume| Some(Action::Create(Object::of(&claim(pod, volume)?)))).collect()
}

fn claim(pod: &core::Pod, volume: &core::Volume) -> Option<PersistentVolumeClaim> {
    let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
    let said = template.metadata.as_ref();
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name)),
            namespace: pod.metadata.namespace.clone(),
            labels: said.and_then(|metadata| metadata.labels.clone()),
            annotations: said.and_then(|metadata| metadata.annotations.clone()),
            owner_references: Some(vec![controller_ref("v1", "Pod", &pod.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec.clone()),
        ..PersistentVolumeClaim::default()
    })
}
