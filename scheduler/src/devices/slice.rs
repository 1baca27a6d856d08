//! A ResourceSlice as the scheduler caches it: devices of a pool, with the nodes that can use them.

use super::DeviceId;
use super::capacity::{Capacity, CapacityDoc};
use super::claim::{NodeSelectorDoc, quantities};
use crate::affinity::Term;
use crate::node::NodeInfo;
use crate::storage::{MetaDoc, Record};
use crate::taint::{Effect, Taint};
use kstore_api::expression::device::{AttributeValue, DeviceValue};
use kstore_api::lenient;
use kstore_api::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Quantities by name, in sets by name.
pub type CounterSets = BTreeMap<String, BTreeMap<String, Quantity>>;

/// The scheduler's data of a ResourceSlice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The name of the driver.
    pub driver: String,
    /// The name of the pool.
    pub pool: String,
    /// The generation of the pool that the slice belongs to.
    pub generation: i64,
    /// The number of slices of the pool in this generation.
    pub slice_count: usize,
    /// The nodes that can use the devices.
    pub nodes: SliceNodes,
    /// The devices.
    pub devices: Vec<Device>,
    /// The counters from which devices of the pool consume.
    pub counters: Vec<(String, BTreeMap<String, Quantity>)>,
}

/// The nodes that can use devices.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceNodes {
    /// The node of this name.
    Node(String),
    /// Every node.
    All,
    /// The nodes of a node selector, as JSON and as terms.
    Selector(Value, Vec<Term>),
    /// Each device says it.
    PerDevice,
    /// None that the scheduler knows.
    Unknown,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The identity of the device.
    pub id: DeviceId,
    /// The attributes by name.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// The capacities by name.
    pub capacity: BTreeMap<String, Capacity>,
    /// The device as selectors see it.
    pub value: DeviceValue,
    /// The nodes that can use the device, if the slice leaves that to its devices.
    pub nodes: SliceNodes,
    /// The taints of the slice that keep claims away; rules may add others.
    pub taints: Vec<Taint>,
    /// What the device consumes of the counters of its pool.
    pub consumes: CounterSets,
    /// Whether an allocation binds the device to the node.
    pub binds_to_node: bool,
    /// The conditions that must be true of the device before a pod is bound.
    pub binding_conditions: Vec<String>,
    /// The conditions that say that the device cannot be used.
    pub binding_failure_conditions: Vec<String>,
    /// Whether several claims can share the device.
    pub is_shareable: bool,
}

impl SliceNodes {
    /// Whether the node is one of these; `PerDevice` has none.
    pub fn include(&self, node: &NodeInfo) -> bool {
        match self {
            Self::Node(name) => **name == *node.name,
            Self::All => true,
            Self::Selector(_, terms) => terms.iter().any(|term| term.matches(&node.name, &node.labels)),
            Self::PerDevice | Self::Unknown => false,
        }
    }
}

impl Slice {
    /// Whether the node can use a device of the slice.
    pub fn is_for(&self, node: &NodeInfo) -> bool {
        match self.nodes {
            SliceNodes::PerDevice => self.devices.iter().any(|device| device.nodes.include(node)),
            _ => self.nodes.include(node),
        }
    }

    /// The nodes that can use a device of the slice.
    pub fn nodes_of<'a>(&'a self, device: &'a Device) -> &'a SliceNodes {
        match self.nodes {
            SliceNodes::PerDevice => &device.nodes,
            _ => &self.nodes,
        }
    }
}

impl Device {
    /// The value of an attribute with a fully qualified name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.get(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            (domain == &*self.id.driver).then(|| self.attributes.get(id)).flatten()
        })
    }
}

/// Decodes a ResourceSlice.
///
/// # Errors
///
/// `json` is not a ResourceSlice. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<Record<Slice>, serde_json::Error> {
    let Doc { metadata, spec } = lenient::from_slice(json)?;
    let (driver, pool) = (spec.driver, spec.pool.name);
    let devices = spec.devices.unwrap_or_default().into_iter();
    let counters = spec.shared_counters.unwrap_or_default().into_iter();
    let slice = Slice {
        generation: spec.pool.generation,
        slice_count: spec.pool.resource_slice_count,
        nodes: match spec.per_device_node_selection {
            Some(true) => SliceNodes::PerDevice,
            _ => nodes(spec.node_name, spec.node_selector, spec.all_nodes)?,
        },
        devices: devices.map(|doc| doc.device(&driver, &pool)).collect::<Result<_, _>>()?,
        counters: counters.map(|set| (set.name, counters_of(set.counters))).collect(),
        driver,
        pool,
    };
    Ok(Record::of(metadata, slice))
}

fn nodes(
    name: Option<String>,
    selector: Option<Value>,
    all: Option<bool>,
) -> Result<SliceNodes, serde_json::Error> {
    Ok(match (name.filter(|name| !name.is_empty()), selector) {
        (Some(name), _) => SliceNodes::Node(name),
        (None, _) if all == Some(true) => SliceNodes::All,
        (None, Some(json)) => {
            let doc: NodeSelectorDoc = lenient::from_value(&json)?;
            SliceNodes::Selector(json, doc.node_selector_terms.unwrap_or_default())
        }
        (None, None) => SliceNodes::Unknown,
    })
}

fn counters_of(counters: Option<BTreeMap<String, CounterDoc>>) -> BTreeMap<String, Quantity> {
    let texts = counters.unwrap_or_default().into_iter().map(|(name, counter)| (name, counter.value));
    quantities(Some(texts.collect()))
}

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
    driver: String,
    pool: PoolDoc,
    node_name: Option<String>,
    node_selector: Option<Value>,
    all_nodes: Option<bool>,
    per_device_node_selection: Option<bool>,
    devices: Option<Vec<DeviceDoc>>,
    shared_counters: Option<Vec<CounterSetDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PoolDoc {
    name: String,
    generation: i64,
    resource_slice_count: usize,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeviceDoc {
    name: String,
    attributes: Option<BTreeMap<String, AttributeDoc>>,
    capacity: Option<BTreeMap<String, CapacityDoc>>,
    node_name: Option<String>,
    node_selector: Option<Value>,
    all_nodes: Option<bool>,
    taints: Option<Vec<TaintDoc>>,
    consumes_counters: Option<Vec<CounterSetDoc>>,
    binds_to_node: Option<bool>,
    binding_conditions: Option<Vec<String>>,
    binding_failure_conditions: Option<Vec<String>>,
    allow_multiple_allocations: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AttributeDoc {
    bool: Option<bool>,
    int: Option<i64>,
    string: Option<String>,
    version: Option<String>,
}

/// A set of counters of a slice, or what a device consumes of such a set.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CounterSetDoc {
    name: String,
    counter_set: String,
    counters: Option<BTreeMap<String, CounterDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CounterDoc {
    value: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TaintDoc {
    key: String,
    value: String,
    effect: String,
}

impl DeviceDoc {
    fn device(self, driver: &str, pool: &str) -> Result<Device, serde_json::Error> {
        let attributes = self.attributes.unwrap_or_default().into_iter();
        let attributes: BTreeMap<String, AttributeValue> =
            attributes.filter_map(|(name, attribute)| Some((name, attribute.value()?))).collect();
        let capacity = self.capacity.unwrap_or_default().into_iter();
        let capacity: BTreeMap<String, Capacity> =
            capacity.filter_map(|(name, doc)| Some((name, doc.capacity()?))).collect();
        let is_shareable = self.allow_multiple_allocations == Some(true);
        let value = DeviceValue::new(
            driver,
            is_shareable,
            attributes.iter().map(|(name, value)| (name.as_str(), value)),
            capacity.iter().map(|(name, capacity)| (name.as_str(), capacity.value)),
        );
        let consumes = self.consumes_counters.unwrap_or_default().into_iter();
        Ok(Device {
            id: DeviceId::new(driver, pool, &self.name),
            value,
            attributes,
            capacity,
            nodes: nodes(self.node_name, self.node_selector, self.all_nodes)?,
            taints: self.taints.unwrap_or_default().into_iter().filter_map(TaintDoc::taint).collect(),
            consumes: consumes.map(|set| (set.counter_set, counters_of(set.counters))).collect(),
            binds_to_node: self.binds_to_node == Some(true),
            binding_conditions: self.binding_conditions.unwrap_or_default(),
            binding_failure_conditions: self.binding_failure_conditions.unwrap_or_default(),
            is_shareable,
        })
    }
}

impl AttributeDoc {
    fn value(self) -> Option<AttributeValue> {
        let bool = self.bool.map(AttributeValue::Bool);
        let int = || self.int.map(AttributeValue::Int);
        let string = self.string.map(AttributeValue::String);
        bool.or_else(int).or(string).or_else(|| self.version.map(AttributeValue::Version))
    }
}

impl TaintDoc {
    /// The taint; `None` if it has no effect on scheduling.
    pub(super) fn taint(self) -> Option<Taint> {
        let effect = match self.effect.as_str() {
            "NoSchedule" => Effect::NoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => return None,
        };
        Some(Taint { key: self.key, value: self.value, effect })
    }
}
