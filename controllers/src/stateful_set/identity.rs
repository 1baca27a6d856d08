//! Identity of an ordinal of a StatefulSet: names and construction of its pod and claims, and checks of a
//! pod's identity and storage. Pure.

use crate::action::{Action, PatchKind};
use crate::claim::controller_ref;
use crate::revision::POD_LABEL;
use crate::view::Pod;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Name of a StatefulSet.
pub(crate) fn name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The ordinal in a pod's name; `None` if the StatefulSet does not use that name.
pub(crate) fn ordinal(set: &StatefulSet, pod: &str) -> Option<i32> {
    let digits = pod.strip_prefix(name(set))?.strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    // Without sign and leading zeros: each ordinal has one name.
    (ordinal.to_string() == digits && ordinal >= 0).then_some(ordinal)
}

/// The name of the pod of an ordinal.
pub(crate) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", name(set))
}

/// The name of a pod's claim for a claim template.
fn claim_name(template: &PersistentVolumeClaim, pod: &str) -> String {
    format!("{}-{pod}", template.metadata.name.as_deref().unwrap_or_default())
}

/// The claim templates of a StatefulSet.
fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|s| s.volume_claim_templates.as_deref()).unwrap_or_default()
}

/// The names of the claims of a pod.
pub(crate) fn claim_names<'a>(set: &'a StatefulSet, pod: &'a str) -> impl Iterator<Item = String> + use<'a> {
    templates(set).iter().map(move |template| claim_name(template, pod))
}

/// Whether a pod of the StatefulSet would have a claim with this name.
pub(crate) fn owns_claim(set: &StatefulSet, claim: &str) -> bool {
    templates(set).iter().any(|template| {
        let prefix = template.metadata.name.as_deref().unwrap_or_default();
        let pod = claim.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        pod.is_some_and(|pod| ordinal(set, pod).is_some())
    })
}

/// Range of the desired ordinals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// First desired ordinal.
    pub start: i64,
    /// End of the range, exclusive.
    pub end: i64,
}

impl Range {
    /// From `spec.ordinals.start`, with `replicas` ordinals, limited to 32 bits.
    pub(crate) fn of(spec: &StatefulSetSpec) -> Self {
        let start = i64::from(spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0).max(0));
        let end = start + i64::from(spec.replicas.unwrap_or(1).max(0));
        Self { start, end: end.min(i64::from(i32::MAX) + 1) }
    }

    /// Whether the ordinal is desired.
    pub(crate) fn contains(self, ordinal: i32) -> bool {
        (self.start..self.end).contains(&i64::from(ordinal))
    }

    /// Number of desired pods.
    pub(crate) fn len(self) -> i64 {
        self.end - self.start
    }
}

/// The claims of an ordinal: the claim templates with the claim's name and the labels of the selector.
pub(crate) fn claims(set: &StatefulSet, ordinal: i32) -> impl Iterator<Item = PersistentVolumeClaim> + '_ {
    let selected = set.spec.as_ref().and_then(|s| s.selector.match_labels.clone()).unwrap_or_default();
    templates(set).iter().map(move |template| {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(selected.clone());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(claim_name(template, &pod_name(set, ordinal))),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                ..template.metadata.clone()
            },
            spec: template.spec.clone(),
            status: None,
        }
    })
}

/// The pod of an ordinal, from the template of this revision.
pub(crate) fn new_pod(
    set: &StatefulSet,
    ordinal: i32,
    template: PodTemplateSpec,
    revision: &str,
) -> core::Pod {
    let name_of_pod = pod_name(set, ordinal);
    let meta = template.metadata.unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    labels.insert(NAME_LABEL.into(), name_of_pod.clone());
    labels.insert(INDEX_LABEL.into(), ordinal.to_string());
    labels.insert(POD_LABEL.into(), revision.into());
    let mut spec = template.spec.unwrap_or_default();
    spec.hostname = Some(name_of_pod.clone());
    spec.subdomain = set.spec.as_ref().and_then(|s| s.service_name.clone());
    let mut volumes: Vec<Volume> =
        templates(set).iter().map(|template| volume(template, &name_of_pod)).collect();
    let is_replaced = |v: &Volume| templates(set).iter().any(|t| t.metadata.name.as_ref() == Some(&v.name));
    volumes.extend(spec.volumes.take().into_iter().flatten().filter(|v| !is_replaced(v)));
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
    core::Pod {
        metadata: ObjectMeta {
            name: Some(name_of_pod),
            generate_name: Some(format!("{}-", name(set))),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_ref("apps/v1", "StatefulSet", &set.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

fn volume(template: &PersistentVolumeClaim, pod: &str) -> Volume {
    let claim = PersistentVolumeClaimVolumeSource { claim_name: claim_name(template, pod), read_only: None };
    Volume {
        name: template.metadata.name.clone().unwrap_or_default(),
        persistent_volume_claim: Some(claim),
        ..Volume::default()
    }
}

/// Whether the pod's labels have its name. An adopted pod may lack it.
fn has_identity(pod: &Pod) -> bool {
    pod.metadata.labels.get(NAME_LABEL) == Some(&pod.metadata.name)
}

/// Whether the pod mounts the claims of its ordinal.
pub(crate) fn has_storage(set: &StatefulSet, pod: &Pod) -> bool {
    templates(set).iter().all(|template| {
        let (volume, claim) = (template.metadata.name.as_deref(), claim_name(template, &pod.metadata.name));
        let is_mounted =
            |v: &crate::view::ClaimVolume| Some(v.name.as_str()) == volume && v.claim_name == claim;
        pod.spec.claim_volumes.iter().any(is_mounted)
    })
}

/// The patch that corrects a pod's identity and storage; `None` if it needs none. The server refuses new
/// volumes: the pod then stays unchanged, and the error tells the user to delete it.
pub(crate) fn correction(set: &StatefulSet, pod: &Pod, ordinal: i32) -> Option<Action> {
    let (identity, storage) = (has_identity(pod), has_storage(set, pod));
    if identity && storage {
        return None;
    }
    let mut patch = json!({ "metadata": {
        "uid": pod.metadata.uid,
        "labels": { NAME_LABEL: pod.metadata.name, INDEX_LABEL: ordinal.to_string() },
    }});
    if !storage {
        let volumes: Vec<_> = templates(set).iter().map(|t| volume(t, &pod.metadata.name)).collect();
        patch["spec"] = json!({ "volumes": volumes });
    }
    Some(Action::Patch { target: pod.target(), status: false, kind: PatchKind::Strategic, patch })
}
