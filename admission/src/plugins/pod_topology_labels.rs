//! PodTopologyLabels: a pod gets the zone and region labels of its node, which its containers can read. They
//! are set when the pod is bound, or created with a node; existing labels are kept.

use super::row;
use crate::plugin::{Cluster, Enabled, Plugin, Review, Row, Unstored};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::object::text;
use kstore_api::resource::Resource;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods")],
    subresources: &["", "binding"],
    mutates: &[Operation::Create],
    unstored: Unstored::Reviewed,
    ..Row::new("PodTopologyLabels", || Arc::new(PodTopologyLabels))
};

struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn mutate(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let node = match review.subject.subresource {
            "binding" if new["target"]["kind"] != "Node" => return Ok(()),
            // A pod gets the labels of its binding.
            "binding" => &new["target"]["name"],
            _ => &new["spec"]["nodeName"],
        };
        let node = text(node).to_owned();
        copy(review.cluster, &node, new);
        Ok(())
    }
}

/// Copies the node's topology labels to an object that lacks them.
fn copy(cluster: &dyn Cluster, node: &str, object: &mut Value) {
    static NODES: OnceLock<&'static Resource> = OnceLock::new();
    if node.is_empty() {
        return;
    }
    let nodes = *NODES.get_or_init(|| row("", "v1", "nodes"));
    // An entry has its labels without being parsed, and nodes are large.
    let Some(node) = cluster.entry(nodes, &nodes.storage_key("", node)) else { return };
    for key in LABELS {
        if let Some(value) = node.labels().get(key)
            && meta::label(object, key).is_none()
        {
            meta::set_label(object, key, value);
        }
    }
}
