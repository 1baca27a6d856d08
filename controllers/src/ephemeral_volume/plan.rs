//! Which claims a pod gets for its ephemeral volumes.

use crate::action::Action;
use crate::object::Object;
use crate::view::Pod;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as WholePod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Whether the pod waits for its claims: one that ends needs none any more.
pub(super) fn needs_claims(pod: &Pod) -> bool {
    pod.has_ephemeral_volumes()
        && pod.metadata.deletion_timestamp.is_none()
        && !pod.status.phase.is_terminal()
}

/// The name of the pod that controls a claim.
pub(super) fn controlling_pod(claim: &PersistentVolumeClaim) -> Option<&str> {
    controller(claim).filter(|owner| owner.kind == "Pod").map(|owner| owner.name.as_str())
}

fn controller(claim: &PersistentVolumeClaim) -> Option<&OwnerReference> {
    claim.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The event that a claim of the name that the pod needs is somebody else's; `None` if it is the pod's.
pub(super) fn foreign(pod: &Pod, claim: &PersistentVolumeClaim) -> Option<Action> {
    if controller(claim).is_some_and(|owner| owner.uid == pod.metadata.uid) {
        return None;
    }
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let claim = claim.metadata.name.as_deref().unwrap_or_default();
    let message = format!(
        "ephemeral volume: PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)"
    );
    Some(Action::warning(pod.subject(), "EphemeralVolumeConflict", message))
}

/// The claims of the pod that are not there, each from its template.
pub(super) fn create(pod: &WholePod, is_there: impl Fn(&str) -> bool) -> Vec<Action> {
    let ObjectMeta { name, namespace, uid, .. } = &pod.metadata;
    let (Some(pod_name), Some(uid)) = (name, uid) else { return Vec::new() };
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &k8s_openapi::api::core::v1::Volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let name = format!("{pod_name}-{}", volume.name);
        if is_there(&name) {
            return None;
        }
        let metadata = template.metadata.clone().unwrap_or_default();
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod_name.clone(),
            uid: uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: namespace.clone(),
                labels: metadata.labels,
                annotations: metadata.annotations,
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(template.spec.clone()),
            status: None,
        };
        Some(Action::Create(Object::of(&claim)))
    };
    volumes.filter_map(claim).collect()
}
