//! Revisions of a Deployment: template equality, names and hashes of ReplicaSets, and the annotations with
//! the revision history.

use crate::claim::controller_ref;
use crate::limits::REVISION_HISTORY_CHARS;
use crate::template::{encoded, pruned};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use std::collections::BTreeMap;

pub(crate) const HASH_LABEL: &str = "pod-template-hash";
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

type Annotations = BTreeMap<String, String>;

/// Whether two templates create the same pods: they are equal apart from the hash label, and apart from empty
/// versus absent fields.
pub(crate) fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let (a, b) = (without_hash(a), without_hash(b));
    a == b || pruned(&a) == pruned(&b)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(HASH_LABEL);
    }
    template
}

/// Hash of the template and the collision count (FNV-1a of its JSON, in the letters of generated names). If
/// two templates share it, the ReplicaSet's name collides, and the collision count changes.
pub(crate) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut bytes = serde_json::to_vec(template).expect("a pod template serializes");
    if let Some(count) = collisions {
        bytes.extend(count.to_le_bytes());
    }
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    encoded(hash)
}

/// The revision of a ReplicaSet; 0 without one.
pub(crate) fn revision_of(annotations: Option<&Annotations>) -> i64 {
    annotations.and_then(|a| a.get(REVISION)).and_then(|r| r.parse().ok()).unwrap_or(0)
}

/// The number in an annotation.
pub(crate) fn number(annotations: Option<&Annotations>, name: &str) -> Option<i32> {
    annotations?.get(name)?.parse().ok()
}

/// The ReplicaSet for the template of `d`, with size zero and without annotations.
pub(crate) fn new_set(d: &Deployment) -> ReplicaSet {
    let spec = d.spec.clone().unwrap_or_default();
    let mut template = spec.template;
    let hash = template_hash(&template, d.status.as_ref().and_then(|s| s.collision_count));
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH_LABEL.into(), hash.clone());
    let labels = labels.clone();
    let mut selector: LabelSelector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.into(), hash.clone());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", d.metadata.name.as_deref().unwrap_or_default())),
            namespace: d.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_ref("apps/v1", "Deployment", &d.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: Some(0),
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// Updates the annotations of the new ReplicaSet: copies those of the Deployment, and raises its revision to
/// `revision` (never lowers it), appending the old one to the history.
pub(crate) fn annotate_new(annotations: &mut Annotations, d: &Deployment, revision: i64) {
    for (key, value) in d.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let had = annotations.get(REVISION).cloned();
    if had.as_deref().and_then(|r| r.parse().ok()).unwrap_or(0) >= revision {
        return;
    }
    annotations.insert(REVISION.into(), revision.to_string());
    if let Some(had) = had {
        let history = annotations.get(REVISION_HISTORY).map(String::as_str).unwrap_or_default();
        annotations.insert(REVISION_HISTORY.into(), append_history(history, &had));
    }
}

fn append_history(history: &str, revision: &str) -> String {
    let mut all: Vec<&str> = history.split(',').filter(|r| !r.is_empty()).chain([revision]).collect();
    while all.len() > 1 && all.iter().map(|r| r.len() + 1).sum::<usize>() > REVISION_HISTORY_CHARS {
        all.remove(0);
    }
    all.join(",")
}
