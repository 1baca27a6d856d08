//! StorageClasses as the scheduler caches them.

use super::record::{MetaDoc, Record};
use crate::node::NodeInfo;
use kstore_api::lenient;
use serde::Deserialize;

/// The provisioner of classes whose volumes an administrator makes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Fields of a StorageClass that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Name of the provisioner.
    pub provisioner: String,
    /// Whether claims of the class are bound for the node of their first pod (`WaitForFirstConsumer`).
    pub waits_for_consumer: bool,
    /// The topologies in which the provisioner makes volumes; empty for all.
    pub topologies: Vec<Topology>,
}

/// Labels that a node must have, each with one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Topology {
    match_label_expressions: Vec<LabelValues>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct LabelValues {
    key: String,
    values: Vec<String>,
}

impl Class {
    /// Whether a provisioner makes volumes of the class on demand.
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER
    }

    /// Whether a provisioner makes volumes of the class for this node. A topology without labels admits no
    /// node.
    pub fn admits(&self, node: &NodeInfo) -> bool {
        let holds = |label: &LabelValues| {
            node.labels.get(&label.key).is_some_and(|value| label.values.contains(value))
        };
        let admits = |topology: &Topology| {
            let labels = &topology.match_label_expressions;
            !labels.is_empty() && labels.iter().all(holds)
        };
        self.topologies.is_empty() || self.topologies.iter().any(admits)
    }
}

/// Decodes a StorageClass.
///
/// # Errors
///
/// `json` is not a StorageClass.
pub fn decode(json: &[u8]) -> Result<Record<Class>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Doc {
        #[serde(default)]
        metadata: MetaDoc,
        #[serde(default)]
        provisioner: String,
        volume_binding_mode: Option<String>,
        allowed_topologies: Option<Vec<Topology>>,
    }
    let doc = lenient::from_slice::<Doc>(json)?;
    Ok(Record::of(
        doc.metadata,
        Class {
            provisioner: doc.provisioner,
            waits_for_consumer: doc.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            topologies: doc.allowed_topologies.unwrap_or_default(),
        },
    ))
}
