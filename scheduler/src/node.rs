//! A node as the scheduler caches it: its capacity, labels and taints. The pods on the node are in `cache`.

use crate::quantity::Amount;
use crate::resources::Resources;
use crate::taint::Taint;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label of a node's zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

/// The scheduler's data of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The name.
    pub name: Arc<str>,
    /// The name as an informer key.
    pub key: Key,
    /// The uid: a node that registers again under the same name has another.
    pub uid: String,
    /// The revision of the decoded object.
    pub revision: Revision,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The taints in the object's order.
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// The resources for pods.
    pub allocatable: Resources,
    /// The maximum number of pods.
    pub allowed_pods: i64,
    /// The features that the node's kubelet declares (`status.declaredFeatures`).
    pub declared_features: Vec<String>,
    /// The sizes in bytes of the container images on the node, by each of their names.
    pub images: BTreeMap<String, i64>,
}

impl NodeInfo {
    /// A node with only a name: it has no resources.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            key: Key::new("", name),
            uid: String::new(),
            revision: Revision(0),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::default(),
            allowed_pods: 0,
            declared_features: Vec::new(),
            images: BTreeMap::new(),
        }
    }

    /// The failure domain (region and zone) for the search order, which alternates between domains; `None` if
    /// unlabelled.
    pub fn zone(&self) -> Option<(&str, &str)> {
        let label = |key| self.labels.get(key).map_or("", String::as_str);
        let zone = (label(REGION), label(ZONE));
        (zone != ("", "")).then_some(zone)
    }

    /// Whether the two nodes are equal in everything that filters read.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let Self {
            name,
            key: _,
            uid: _,
            revision: _,
            labels,
            taints,
            unschedulable,
            allocatable,
            allowed_pods,
            declared_features,
            images: _,
        } = self;
        (name, labels, taints, unschedulable, allocatable, allowed_pods, declared_features)
            == (
                &other.name,
                &other.labels,
                &other.taints,
                &other.unschedulable,
                &other.allocatable,
                &other.allowed_pods,
                &other.declared_features,
            )
    }
}

impl Object for NodeInfo {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

/// Decodes a node. Without `status.allocatable` the capacity counts.
///
/// # Errors
///
/// `json` is not a node, or a quantity in it is invalid. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<NodeInfo, serde_json::Error> {
    lenient::from_slice(json).map(NodeDoc::into_info)
}

#[derive(Deserialize)]
struct NodeDoc {
    metadata: ProjectedMeta<BTreeMap<String, String>>,
    #[serde(default)]
    spec: SpecDoc,
    #[serde(default)]
    status: StatusDoc,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecDoc {
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusDoc {
    allocatable: Option<BTreeMap<String, Amount>>,
    capacity: Option<BTreeMap<String, Amount>>,
    images: Option<Vec<ImageDoc>>,
    declared_features: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageDoc {
    names: Option<Vec<String>>,
    size_bytes: i64,
}

impl NodeDoc {
    fn into_info(self) -> NodeInfo {
        let mut info = NodeInfo {
            revision: self.metadata.revision(),
            uid: self.metadata.uid,
            labels: self.metadata.labels,
            taints: self.spec.taints.unwrap_or_default(),
            unschedulable: self.spec.unschedulable.unwrap_or_default(),
            declared_features: self.status.declared_features.unwrap_or_default(),
            ..NodeInfo::named(&self.metadata.name)
        };
        for image in self.status.images.into_iter().flatten() {
            let names = image.names.into_iter().flatten();
            info.images.extend(names.map(|name| (name, image.size_bytes)));
        }
        for (name, amount) in self.status.allocatable.or(self.status.capacity).unwrap_or_default() {
            match name.as_str() {
                "cpu" => info.allocatable.milli_cpu = amount.milli,
                "memory" => info.allocatable.memory = amount.whole,
                "ephemeral-storage" => info.allocatable.ephemeral_storage = amount.whole,
                "pods" => info.allowed_pods = amount.whole,
                other => info.allocatable.set_extended(other, amount.whole),
            }
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_decoded_and_unknown_fields_are_ignored() {
        let json = serde_json::json!({
            "metadata": { "name": "n1", "resourceVersion": "9", "labels": { "topology.kubernetes.io/zone": "a" } },
            "spec": {
                "podCIDR": "10.0.0.0/24", "unschedulable": true,
                "taints": [{ "key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z" }]
            },
            "status": {
                "allocatable": { "cpu": "3500m", "memory": "32Gi", "pods": "110", "example.com/gpu": "4" },
                "capacity": { "cpu": "4" }, "conditions": []
            }
        });
        let node = decode(json.to_string().as_bytes()).unwrap();
        assert_eq!((&*node.name, node.revision, node.unschedulable), ("n1", Revision(9), true));
        assert_eq!(
            (node.allocatable.milli_cpu, node.allocatable.memory, node.allowed_pods),
            (3500, 32 << 30, 110)
        );
        assert_eq!(node.allocatable.extended("example.com/gpu"), 4);
        assert_eq!((node.zone(), node.taints.len()), (Some(("", "a")), 1));
    }
}
