//! A node's decision whether a new pod may run there, and whether a running pod may be resized: kubelet's general predicates
//! (`predicateAdmitHandler.Admit`, `podResizesAdmitHandler.Admit`), in its order and with its texts. Pure.

mod sysctl;

use crate::amounts::{Amounts, Total};
use crate::pod_object::options::HostPort;
use crate::pod_object::{Claim, PodObject};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};
use std::collections::BTreeMap;

/// The label of a pod or node that names its operating system.
const OS: &str = "linux";
/// The field that a node selector can name.
const NAME_FIELD: &str = "metadata.name";

/// The least priority of critical pods: that of `system-cluster-critical`.
const CRITICAL: i32 = 2_000_000_000;

/// What the admitted pods of a node occupy together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pods: i64,
    total: Total,
    ports: BTreeMap<HostPort, u32>,
}

impl Ledger {
    /// Adds an admitted pod.
    pub fn charge(&mut self, claim: &Claim) {
        self.pods += 1;
        self.total.add(&claim.requests);
        for port in &claim.ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
    }

    /// Removes a pod that was added before.
    pub fn release(&mut self, claim: &Claim) {
        self.pods -= 1;
        self.total.subtract(&claim.requests);
        for port in &claim.ports {
            match self.ports.get_mut(port) {
                Some(1) | None => drop(self.ports.remove(port)),
                Some(count) => *count -= 1,
            }
        }
    }

    fn has_conflict(&self, wanted: &HostPort) -> bool {
        self.ports.keys().any(|taken| wanted.conflicts_with(taken))
    }
}

/// The properties of a node that decide about pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeProperties {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The taints.
    pub taints: Vec<Taint>,
    /// The resources for pods; `pods` is among the others.
    pub allocatable: Amounts,
    /// The pressures under which the node is, such as `DiskPressure`.
    pub pressures: Vec<&'static str>,
}

/// Why a node rejects a pod, or does not resize it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The reason in the pod's status, and of the event.
    pub reason: String,
    /// The event's message.
    pub message: String,
}

impl Rejection {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    fn predicate(name: &str, why: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {why}"))
    }

    fn insufficient(resource: &str, requested: i64, used: i128, capacity: i64) -> Self {
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        Self::new(&format!("OutOf{resource}"), message)
    }
}

/// Judges a pod that claims this, on a node whose other pods occupy what `ledger` says. A kubelet names only the first of several reasons.
///
/// # Errors
/// The rejection.
pub fn judge(
    pod: &PodObject,
    claim: &Claim,
    node: &NodeProperties,
    ledger: &Ledger,
) -> Result<(), Rejection> {
    if is_kept_out(pod, claim, node) {
        let message = format!("The node had condition: [{}]. ", node.pressures.join(", "));
        return Err(Rejection::new("Evicted", message));
    }
    sysctl::admit(pod)?;
    if pod.metadata.labels.os.as_deref().is_some_and(|os| os != OS) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(Rejection::new("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    if pod.spec.os.as_ref().is_some_and(|os| os.name != OS) {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return Err(Rejection::new("PodOSNotSupported", message));
    }
    fits(&claim.requests, node, ledger)?;
    if !admits(pod, node) {
        let why = "node(s) didn't match Pod's node affinity/selector";
        return Err(Rejection::predicate("NodeAffinity", why));
    }
    if claim.ports.iter().any(|port| ledger.has_conflict(port)) {
        let why = "node(s) didn't have free ports for the requested pod ports";
        return Err(Rejection::predicate("NodePorts", why));
    }
    let tolerated = |taint: &Taint| pod.spec.tolerations.iter().any(|one| covers(one, taint));
    if node.taints.iter().any(|taint| taint.effect == "NoExecute" && !tolerated(taint)) {
        let why = "node(s) had taints that the pod didn't tolerate";
        return Err(Rejection::predicate("TaintToleration", why));
    }
    Ok(())
}

/// Whether the node's pressures keep a pod out: not one that is critical, and with too little memory alone only a pod without requests
/// that does not tolerate the taint, as in the eviction manager of a kubelet.
fn is_kept_out(pod: &PodObject, claim: &Claim, node: &NodeProperties) -> bool {
    if node.pressures.is_empty() || pod.spec.priority.is_some_and(|priority| priority >= CRITICAL) {
        return false;
    }
    if node.pressures != ["MemoryPressure"] {
        return true;
    }
    let taint = Taint {
        key: "node.kubernetes.io/memory-pressure".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let is_best_effort = claim.requests.milli_cpu == 0 && claim.requests.memory == 0;
    is_best_effort && !pod.spec.tolerations.iter().any(|one| covers(one, &taint))
}

/// Judges the new requests of a running pod, on a node whose other pods occupy what `ledger` says.
///
/// # Errors
/// The reason `Infeasible` if the node is too small, or `Deferred` if it has no room now.
pub fn judge_resize(requests: &Amounts, node: &NodeProperties, ledger: &Ledger) -> Result<(), Rejection> {
    let capacity = &node.allocatable;
    let too_large = if requests.memory > capacity.memory {
        Some(("memory", requests.memory, capacity.memory))
    } else {
        let too_large = requests.milli_cpu > capacity.milli_cpu;
        too_large.then_some(("cpu", requests.milli_cpu, capacity.milli_cpu))
    };
    if let Some((resource, requested, capacity)) = too_large {
        let message = format!(
            "Node didn't have enough capacity: {resource}, requested: {requested}, capacity: {capacity}"
        );
        return Err(Rejection::new("Infeasible", message));
    }
    fits(requests, node, ledger).map_err(|rejection| Rejection { reason: "Deferred".to_owned(), ..rejection })
}

/// The check of `noderesources.Fits`, after the extended resources that the node does not know are left out.
fn fits(requests: &Amounts, node: &NodeProperties, ledger: &Ledger) -> Result<(), Rejection> {
    let (capacity, used) = (&node.allocatable, &ledger.total);
    let enough = |resource: &str, requested: i64, used: i128, capacity: i64| {
        let lacks = requested > 0 && i128::from(requested) > i128::from(capacity) - used;
        if lacks { Err(Rejection::insufficient(resource, requested, used, capacity)) } else { Ok(()) }
    };
    let allowed = capacity.others.get("pods").copied().unwrap_or(0);
    enough("pods", 1, ledger.pods.into(), allowed)?;
    enough("cpu", requests.milli_cpu, used.milli_cpu, capacity.milli_cpu)?;
    enough("memory", requests.memory, used.memory, capacity.memory)?;
    let (wanted, room) = (requests.ephemeral_storage, capacity.ephemeral_storage);
    enough("ephemeral-storage", wanted, used.ephemeral_storage, room)?;
    for (name, requested) in &requests.others {
        let known = capacity.others.get(name).copied();
        // A class has devices for the resource, as far as the node knows.
        let is_of_class = name.starts_with(CLASS_PREFIX) && known.unwrap_or(0) == 0;
        if known.is_none() && is_extended(name) || is_of_class {
            continue;
        }
        enough(name, *requested, used.other(name), known.unwrap_or(0))?;
    }
    Ok(())
}

/// The prefix of the name under which containers request devices of a class.
const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether a node need not know the resource: `IsExtendedResourceName`.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// Whether the node satisfies the pod's node selector and one of its required terms.
fn admits(pod: &PodObject, node: &NodeProperties) -> bool {
    let required = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.required.as_ref());
    pod.spec.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && required.is_none_or(|any| any.node_selector_terms.iter().any(|term| matches(term, node)))
}

/// Whether all requirements of a term hold. A term without requirements matches no node.
fn matches(term: &NodeSelectorTerm, node: &NodeProperties) -> bool {
    let (labels, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
    let label = |one: &NodeSelectorRequirement| holds(one, node.labels.get(&one.key).map(String::as_str));
    let field =
        |one: &NodeSelectorRequirement| holds(one, (one.key == NAME_FIELD).then_some(node.name.as_str()));
    !(labels.is_empty() && fields.is_empty()) && labels.iter().all(label) && fields.iter().all(field)
}

fn holds(requirement: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = |actual: &str| values.iter().any(|value| value == actual);
    let bound = values.first().and_then(|value| value.parse::<i64>().ok());
    let number = actual.and_then(|actual| actual.parse::<i64>().ok());
    match requirement.operator.as_str() {
        "In" => actual.is_some_and(listed),
        "NotIn" => !actual.is_some_and(listed),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => number.zip(bound).is_some_and(|(number, bound)| number > bound),
        "Lt" => number.zip(bound).is_some_and(|(number, bound)| number < bound),
        _ => false,
    }
}

/// Whether a toleration covers a taint.
fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && match toleration.operator.as_deref() {
            None | Some("" | "Equal") => text(&toleration.value) == text(&taint.value),
            Some(operator) => operator == "Exists",
        }
}

#[cfg(test)]
mod tests;
