//! Pods of a DaemonSet: construction, template version, and order. Pure.

use super::placement::tolerations;
use crate::claim::controller_ref;
use crate::revision::POD_LABEL;
use crate::view::Pod;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{
    Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";

/// Template version of a DaemonSet, with both of its labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version<'a> {
    /// Hash of the revision.
    pub hash: &'a str,
    /// Template generation, the deprecated label from before revisions.
    pub generation: Option<&'a str>,
}

impl<'a> Version<'a> {
    /// The version of a DaemonSet whose newest revision has this hash.
    pub(crate) fn of(set: &'a DaemonSet, hash: &'a str) -> Self {
        let generation = set.metadata.annotations.as_ref().and_then(|a| a.get(GENERATION_ANNOTATION));
        Self { hash, generation: generation.map(String::as_str).filter(|g| g.parse::<i64>().is_ok()) }
    }

    /// Whether the pod was created from this version.
    pub(crate) fn is_of(self, pod: &Pod) -> bool {
        let label = |name: &str| pod.metadata.labels.get(name).map(String::as_str);
        label(POD_LABEL) == Some(self.hash)
            || self.generation.is_some() && label(GENERATION_LABEL) == self.generation
    }
}

/// The pod of a DaemonSet for any node, without a node name.
pub(crate) fn template(set: &DaemonSet, version: Version<'_>) -> core::Pod {
    let PodTemplateSpec { metadata, spec } =
        set.spec.as_ref().map(|s| s.template.clone()).unwrap_or_default();
    let (meta, mut spec) = (metadata.unwrap_or_default(), spec.unwrap_or_default());
    spec.tolerations = Some(tolerations(&spec));
    let mut labels = meta.labels.unwrap_or_default();
    if let Some(generation) = version.generation {
        labels.insert(GENERATION_LABEL.into(), generation.into());
    }
    labels.insert(POD_LABEL.into(), version.hash.into());
    core::Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_ref("apps/v1", "DaemonSet", &set.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// The pod for a node. Its required node affinity names the node and replaces the template's terms, which the
/// node matches; the scheduler binds it.
pub(crate) fn for_node(template: &core::Pod, node: &str) -> core::Pod {
    let mut pod = template.clone();
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.into()]),
    };
    let term = NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![by_name]) };
    let affinity: &mut Affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    affinity.node_affinity.get_or_insert_default().required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod
}

/// The node that a pod runs on or was created for; `None` for a pod without a node.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let name = if pod.spec.node_name.is_empty() { &pod.spec.affine_node } else { &pod.spec.node_name };
    (!name.is_empty()).then_some(name)
}

/// Sorts pods: bound before unbound, then the oldest, then by name.
pub(crate) fn sort(pods: &mut [&Arc<Pod>]) {
    pods.sort_by(|a, b| rank(a).cmp(&rank(b)));
}

fn rank(pod: &Pod) -> impl Ord + use<'_> {
    let created = pod.metadata.creation_timestamp.as_ref().map(|t| t.0);
    (pod.spec.node_name.is_empty(), created, pod.metadata.name.as_str())
}
