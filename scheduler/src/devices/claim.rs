//! A ResourceClaim as the scheduler caches it: what it requests, and what it got.

use super::DeviceId;
use crate::affinity::Term;
use crate::storage::{MetaDoc, Record, controller_uid};
use crate::taint::{self, Toleration};
use jiff::Timestamp;
use kstore_api::lenient;
use kstore_api::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The finalizer that keeps an allocated claim until its devices are released.
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The annotation of a claim that a scheduler makes for the extended resources of a pod.
pub(crate) const OF_RESOURCES: &str = "resource.kubernetes.io/extended-resource-claim";

/// The scheduler's data of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Whether the claim is being deleted.
    pub is_deleting: bool,
    /// The uid of the owner that controls the claim.
    pub controller: Option<String>,
    /// Whether a scheduler made the claim for the extended resources of its owner, a pod.
    pub is_of_resources: bool,
    /// Whether the claim has the finalizer of allocated claims.
    pub has_finalizer: bool,
    /// The requests for devices.
    pub requests: Vec<Request>,
    /// The conditions that the devices must satisfy together.
    pub constraints: Vec<Constraint>,
    /// The configuration for drivers: entries of `spec.devices.config`.
    pub config: Vec<Value>,
    /// The devices that the claim has.
    pub allocation: Option<Arc<Allocation>>,
    /// The uids of the consumers for which the claim is reserved.
    pub reserved_for: Vec<String>,
    /// What drivers say about the allocated devices.
    pub device_conditions: Vec<DeviceConditions>,
}

/// A request of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The name of the request.
    pub name: String,
    /// What satisfies the request, best first. An `exactly` request has one alternative.
    pub alternatives: Vec<Alternative>,
}

/// Devices that satisfy a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The name of the alternative in a `firstAvailable` request.
    pub subrequest: Option<String>,
    /// The name of the DeviceClass.
    pub class: String,
    /// The CEL expressions that a device must satisfy.
    pub selectors: Vec<String>,
    /// The number of devices.
    pub count: Count,
    /// The value of `adminAccess`: access to devices that other claims may have.
    pub admin_access: Option<bool>,
    /// The tolerated taints of devices.
    pub tolerations: Vec<Toleration>,
    /// The tolerations as the claim says them, for the allocation.
    pub tolerations_json: Value,
    /// The requested capacities by name.
    pub capacity: BTreeMap<String, Quantity>,
}

/// A number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This number.
    Exact(usize),
    /// All devices that the selectors match.
    All,
}

/// A condition on the devices of some requests of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The names of the requests or alternatives; empty for all.
    pub requests: Vec<String>,
    /// The fully qualified name of an attribute that each device must have.
    pub attribute: String,
    /// Whether the values of the attribute must differ; otherwise they must be equal.
    pub is_distinct: bool,
}

/// The devices of an allocated claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// `status.allocation` as the API has it.
    pub json: Value,
    /// The terms of the node selector; `None` if every node can use the devices.
    pub nodes: Option<Vec<Term>>,
    /// The devices.
    pub devices: Vec<AllocatedDevice>,
    /// The time of the allocation.
    pub timestamp: Option<Timestamp>,
}

/// A device of an allocated claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedDevice {
    /// The device.
    pub id: DeviceId,
    /// Whether the claim has only administrative access, which leaves the device free for others.
    pub is_admin: bool,
    /// The capacity that the claim consumes of a device with several users.
    pub consumed: Option<BTreeMap<String, Quantity>>,
    /// The identity of the claim's share of a device with several users.
    pub share: Option<String>,
    /// The conditions that must be true of the device before a pod is bound.
    pub binding_conditions: Vec<String>,
    /// The conditions that say that the device cannot be used.
    pub binding_failure_conditions: Vec<String>,
}

/// What a driver says about an allocated device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConditions {
    /// The device.
    pub id: DeviceId,
    /// The identity of the claim's share of a device with several users.
    pub share: Option<String>,
    /// The conditions.
    pub conditions: Vec<DeviceCondition>,
}

/// A condition of an allocated device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceCondition {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A machine-readable reason.
    pub reason: String,
    /// A human-readable message.
    pub message: String,
}

impl Request {
    /// Whether the request is a list of alternatives, best first.
    pub(crate) fn is_ranked(&self) -> bool {
        self.alternatives.iter().any(|alternative| alternative.subrequest.is_some())
    }

    /// The name of an alternative as constraints, configuration and results say it.
    pub fn label(&self, alternative: &Alternative) -> String {
        match &alternative.subrequest {
            Some(own) => format!("{}/{own}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Claim {
    /// The CEL expressions of the claim.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &String> {
        self.requests
            .iter()
            .flat_map(|request| &request.alternatives)
            .flat_map(|document| &document.selectors)
    }
}

impl Allocation {
    /// Whether pods on the node can use the devices.
    pub fn is_available_on(&self, node: &crate::node::NodeInfo) -> bool {
        let matches = |terms: &Vec<Term>| terms.iter().any(|term| term.matches(&node.name, &node.labels));
        self.nodes.as_ref().is_none_or(matches)
    }

    /// The allocation in this JSON.
    ///
    /// # Errors
    ///
    /// `json` is not an allocation.
    pub(crate) fn of(json: Value) -> Result<Self, serde_json::Error> {
        let doc: AllocationDoc = lenient::from_value(&json)?;
        let devices = doc.devices.unwrap_or_default().results.unwrap_or_default();
        let devices = devices.into_iter().map(|result| AllocatedDevice {
            id: DeviceId::new(&result.driver, &result.pool, &result.device),
            is_admin: result.admin_access == Some(true),
            consumed: result.share_id.as_ref().map(|_| quantities(result.consumed_capacity)),
            share: result.share_id,
            binding_conditions: result.binding_conditions.unwrap_or_default(),
            binding_failure_conditions: result.binding_failure_conditions.unwrap_or_default(),
        });
        let nodes = doc.node_selector.map(|selector| selector.node_selector_terms.unwrap_or_default());
        Ok(Self { devices: devices.collect(), nodes, timestamp: doc.allocation_timestamp, json })
    }
}

/// Decodes a ResourceClaim.
///
/// # Errors
///
/// `json` is not a ResourceClaim. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<Record<Claim>, serde_json::Error> {
    let Doc { metadata, spec, status } = lenient::from_slice(json)?;
    let devices = spec.devices.unwrap_or_default();
    let claim = Claim {
        is_deleting: metadata.is_deleting(),
        has_finalizer: metadata.has_finalizer(FINALIZER),
        controller: controller_uid(&metadata),
        is_of_resources: metadata.annotations.is_of_resources.as_deref() == Some("true"),
        requests: devices.requests.unwrap_or_default().into_iter().map(RequestDoc::request).collect(),
        constraints: devices
            .constraints
            .unwrap_or_default()
            .into_iter()
            .filter_map(ConstraintDoc::constraint)
            .collect(),
        config: devices.config.unwrap_or_default(),
        allocation: status.allocation.map(Allocation::of).transpose()?.map(Arc::new),
        reserved_for: status.reserved_for.unwrap_or_default().into_iter().map(|one| one.uid).collect(),
        device_conditions: status
            .devices
            .unwrap_or_default()
            .into_iter()
            .map(DeviceStatusDoc::conditions)
            .collect(),
    };
    Ok(Record::of(metadata, claim))
}

#[derive(Deserialize)]
struct Doc {
    #[serde(default)]
    metadata: MetaDoc,
    #[serde(default)]
    spec: SpecDoc,
    #[serde(default)]
    status: StatusDoc,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecDoc {
    devices: Option<DevicesDoc>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DevicesDoc {
    requests: Option<Vec<RequestDoc>>,
    constraints: Option<Vec<ConstraintDoc>>,
    config: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestDoc {
    name: String,
    exactly: Option<AlternativeDoc>,
    first_available: Option<Vec<AlternativeDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AlternativeDoc {
    name: Option<String>,
    device_class_name: String,
    selectors: Option<Vec<SelectorDoc>>,
    allocation_mode: Option<String>,
    count: Option<usize>,
    admin_access: Option<bool>,
    tolerations: Option<Vec<Value>>,
    capacity: Option<CapacityDoc>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CapacityDoc {
    requests: Option<BTreeMap<String, String>>,
}

/// A CEL selector of a claim or class.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SelectorDoc {
    cel: Option<ExpressionDoc>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExpressionDoc {
    expression: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConstraintDoc {
    requests: Option<Vec<String>>,
    match_attribute: Option<String>,
    distinct_attribute: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusDoc {
    allocation: Option<Value>,
    reserved_for: Option<Vec<ConsumerDoc>>,
    devices: Option<Vec<DeviceStatusDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceStatusDoc {
    driver: String,
    pool: String,
    device: String,
    #[serde(rename = "shareID")]
    share_id: Option<String>,
    conditions: Option<Vec<DeviceCondition>>,
}

impl DeviceStatusDoc {
    fn conditions(self) -> DeviceConditions {
        DeviceConditions {
            id: DeviceId::new(&self.driver, &self.pool, &self.device),
            share: self.share_id,
            conditions: self.conditions.unwrap_or_default(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConsumerDoc {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllocationDoc {
    devices: Option<ResultsDoc>,
    allocation_timestamp: Option<Timestamp>,
    node_selector: Option<NodeSelectorDoc>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultsDoc {
    results: Option<Vec<ResultDoc>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResultDoc {
    driver: String,
    pool: String,
    device: String,
    admin_access: Option<bool>,
    #[serde(rename = "shareID")]
    share_id: Option<String>,
    consumed_capacity: Option<BTreeMap<String, String>>,
    binding_conditions: Option<Vec<String>>,
    binding_failure_conditions: Option<Vec<String>>,
}

/// A node selector.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelectorDoc {
    pub(super) node_selector_terms: Option<Vec<Term>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TolerationDoc {
    key: String,
    operator: taint::Operator,
    value: String,
    effect: String,
}

impl RequestDoc {
    fn request(self) -> Request {
        let exactly = self.exactly.into_iter().map(|document| document.alternative(None));
        let first = self.first_available.unwrap_or_default().into_iter().map(|mut document| {
            let name = document.name.take();
            document.alternative(name)
        });
        Request { name: self.name, alternatives: exactly.chain(first).collect() }
    }
}

impl AlternativeDoc {
    fn alternative(self, subrequest: Option<String>) -> Alternative {
        let tolerations = self.tolerations.unwrap_or_default();
        let capacity = self.capacity.and_then(|capacity| capacity.requests);
        Alternative {
            subrequest,
            class: self.device_class_name,
            selectors: expressions(self.selectors),
            count: match self.allocation_mode.as_deref() {
                Some("All") => Count::All,
                _ => Count::Exact(self.count.unwrap_or(1)),
            },
            admin_access: self.admin_access,
            tolerations: tolerations.iter().filter_map(toleration).collect(),
            tolerations_json: Value::Array(tolerations),
            capacity: quantities(capacity),
        }
    }
}

impl ConstraintDoc {
    fn constraint(self) -> Option<Constraint> {
        let is_distinct = self.match_attribute.is_none();
        let attribute = self.match_attribute.or(self.distinct_attribute)?;
        Some(Constraint { requests: self.requests.unwrap_or_default(), attribute, is_distinct })
    }
}

/// The expressions of selectors.
pub(super) fn expressions(selectors: Option<Vec<SelectorDoc>>) -> Vec<String> {
    let selectors = selectors.unwrap_or_default().into_iter();
    selectors.filter_map(|selector| selector.cel).map(|cel| cel.expression).collect()
}

/// Quantities by name. The apiserver stores no other text.
pub(super) fn quantities(texts: Option<BTreeMap<String, String>>) -> BTreeMap<String, Quantity> {
    let parse = |(name, text): (String, String)| Some((name, Quantity::parse(&text).ok()?));
    texts.unwrap_or_default().into_iter().filter_map(parse).collect()
}

/// A toleration; `None` if it tolerates only taints without an effect on scheduling.
fn toleration(json: &Value) -> Option<Toleration> {
    let doc: TolerationDoc = lenient::from_value(json).ok()?;
    let effect = match doc.effect.as_str() {
        "" => None,
        "NoSchedule" => Some(taint::Effect::NoSchedule),
        "NoExecute" => Some(taint::Effect::NoExecute),
        _ => return None,
    };
    Some(Toleration { key: doc.key, operator: doc.operator, value: doc.value, effect })
}
