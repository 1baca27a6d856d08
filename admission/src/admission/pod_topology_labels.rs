//! PodTopologyLabels: a pod gets the zone and region labels of its node, which its containers can read. They
//! are set when the pod is bound, or created with a node; existing labels are kept.

use super::{Operation, Plugin, Subject, row};
use crate::admission::Cluster;
use kstore_api::meta;
use kstore_api::object::text;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use serde_json::Value;
use std::sync::OnceLock;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

pub(super) const NAME: &str = "PodTopologyLabels";

pub(super) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn mutate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        pod: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if subject.operation == Operation::Create && subject.subresource.is_empty() {
            let node = text(&pod["spec"]["nodeName"]).to_owned();
            copy(cluster, &node, pod);
        }
        Ok(())
    }
}

/// Adds the labels of the node to a pod's binding.
pub(super) fn label_binding(cluster: &dyn Cluster, binding: &mut Value) {
    if binding["target"]["kind"] == "Node" {
        let node = text(&binding["target"]["name"]).to_owned();
        copy(cluster, &node, binding);
    }
}

/// Copies the node's topology labels to an object that lacks them.
fn copy(cluster: &dyn Cluster, node: &str, object: &mut Value) {
    static NODES: OnceLock<&'static Resource> = OnceLock::new();
    if node.is_empty() {
        return;
    }
    let Some(node) = cluster.get(NODES.get_or_init(|| row("", "v1", "nodes")), "", node) else { return };
    for key in LABELS {
        if let Some(value) = meta::label(&node, key)
            && meta::label(object, key).is_none()
        {
            meta::set_label(object, key, value);
        }
    }
}
