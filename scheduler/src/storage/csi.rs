//! The CSI objects as the scheduler caches them: the volume limits of a node (CSINode), whether capacity
//! counts (CSIDriver), and the free capacity (CSIStorageCapacity).

use super::record::{MetaDoc, Record};
use crate::node::NodeInfo;
use crate::pod_constraints::LabelSelector;
use crate::quantity::Amount;
use kstore_api::lenient;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of a CSINode that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// The maximum number of volumes of the node by driver. A driver that is not listed has no limit.
    pub limits: BTreeMap<String, i64>,
    /// The names of the drivers that the node has.
    pub drivers: BTreeSet<String>,
}

/// Fields of a CSIDriver that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiDriver {
    /// Whether the driver publishes CSIStorageCapacities. The provisioner then makes a volume only where one
    /// of them has enough capacity.
    pub publishes_capacity: bool,
    /// Whether pods with its volumes run only on nodes that have the driver (`preventPodSchedulingIfMissing`).
    pub keeps_pods_from_other_nodes: bool,
}

/// Fields of a CSIStorageCapacity that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Name of the class.
    pub class: String,
    /// The size of the largest possible volume in bytes, if known.
    pub largest: Option<i64>,
    /// The free capacity in bytes; zero if it is not known.
    pub total: i64,
    /// The nodes for which the capacity counts; `None` for no node.
    pub nodes: Option<LabelSelector>,
}

impl Capacity {
    /// Whether a provisioner can make a volume of this class and size for the node.
    pub fn suffices(&self, class: &str, size: i64, node: &NodeInfo) -> bool {
        self.class == class
            && self.largest.is_some_and(|largest| largest >= size)
            && self.nodes.as_ref().is_some_and(|nodes| nodes.matches(&node.labels))
    }
}

/// Decodes a CSINode.
///
/// # Errors
///
/// `json` is not a CSINode.
pub fn decode_node(json: &[u8]) -> Result<Record<CsiNode>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Doc {
        #[serde(default)]
        metadata: MetaDoc,
        #[serde(default)]
        spec: SpecDoc,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SpecDoc {
        drivers: Option<Vec<DriverDoc>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct DriverDoc {
        name: String,
        allocatable: Option<AllocatableDoc>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct AllocatableDoc {
        count: Option<i64>,
    }
    let doc = lenient::from_slice::<Doc>(json)?;
    let listed = doc.spec.drivers.unwrap_or_default();
    let drivers = listed.iter().map(|driver| driver.name.clone()).collect();
    let limits = listed.into_iter().filter_map(|driver| Some((driver.name, driver.allocatable?.count?)));
    Ok(Record::of(doc.metadata, CsiNode { limits: limits.collect(), drivers }))
}

/// Decodes a CSIDriver.
///
/// # Errors
///
/// `json` is not a CSIDriver.
pub fn decode_driver(json: &[u8]) -> Result<Record<CsiDriver>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Doc {
        #[serde(default)]
        metadata: MetaDoc,
        #[serde(default)]
        spec: SpecDoc,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct SpecDoc {
        storage_capacity: Option<bool>,
        prevent_pod_scheduling_if_missing: Option<bool>,
    }
    let doc = lenient::from_slice::<Doc>(json)?;
    let fields = CsiDriver {
        publishes_capacity: doc.spec.storage_capacity == Some(true),
        keeps_pods_from_other_nodes: doc.spec.prevent_pod_scheduling_if_missing == Some(true),
    };
    Ok(Record::of(doc.metadata, fields))
}

/// Decodes a CSIStorageCapacity.
///
/// # Errors
///
/// `json` is not a CSIStorageCapacity, or a quantity in it is invalid. The apiserver stores no such object.
pub fn decode_capacity(json: &[u8]) -> Result<Record<Capacity>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Doc {
        #[serde(default)]
        metadata: MetaDoc,
        #[serde(default)]
        storage_class_name: String,
        capacity: Option<Amount>,
        maximum_volume_size: Option<Amount>,
        node_topology: Option<LabelSelector>,
    }
    let doc = lenient::from_slice::<Doc>(json)?;
    let total = doc.capacity.as_ref().map_or(0, |amount| amount.whole);
    let largest = doc.maximum_volume_size.or(doc.capacity).map(|amount| amount.whole);
    let fields = Capacity { class: doc.storage_class_name, largest, total, nodes: doc.node_topology };
    Ok(Record::of(doc.metadata, fields))
}
