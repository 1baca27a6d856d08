//! Preparation of pods: the first status, the quality-of-service class, and the subresources that change a
//! running pod's spec.
//!
//! Follows `GetPodQOS`.

use crate::object::is_empty;
use crate::quantity::Quantity;
use crate::resource::copy;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

pub(crate) fn prepare_create(object: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
    if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        let now = object["metadata"]["creationTimestamp"].clone();
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastTransitionTime": now}]);
    }
    object["status"] = status;
    label_keys(object);
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into the label selectors, with the values of the pod's
/// labels.
fn label_keys(object: &mut Value) {
    let labels = object["metadata"]["labels"].clone();
    let spec = &mut object["spec"];
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(side)) else {
            continue;
        };
        for term in items(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge_keys(term, &labels);
            }
        }
        for term in items(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys(term, &labels);
        }
    }
    for constraint in items(spec, "topologySpreadConstraints") {
        merge_keys(constraint, &labels);
    }
}

fn items<'o>(object: &'o mut Value, member: &str) -> impl Iterator<Item = &'o mut Value> {
    object.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge_keys(term: &mut Value, labels: &Value) {
    for (member, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term[member].as_array().cloned().unwrap_or_default();
        let said = keys.iter().filter_map(Value::as_str).filter(|key| !labels[*key].is_null());
        let merged: Vec<Value> =
            said.map(|key| json!({"key": key, "operator": operator, "values": [labels[key]]})).collect();
        if merged.is_empty() || !term["labelSelector"].is_object() {
            continue;
        }
        let expressions = &mut term["labelSelector"]["matchExpressions"];
        match expressions.as_array_mut() {
            Some(expressions) => expressions.extend(merged),
            None => *expressions = merged.into(),
        }
    }
}

/// Amounts of one resource: sum of the main containers, sum of the sidecars started so far, and peak during
/// init.
#[derive(Clone, Copy)]
struct ResourceNeed {
    together: Quantity,
    beside: Quantity,
    start: Quantity,
}

/// Effective amounts of a pod's containers, by resource: the sum of main containers and sidecars, or the peak
/// during init if that is higher. Resources that no container names have no entry.
pub(crate) fn aggregates<'s>(spec: &'s Value, side: &str) -> BTreeMap<&'s str, Quantity> {
    let zero = Quantity::ZERO;
    let mut needs: BTreeMap<&str, ResourceNeed> = BTreeMap::new();
    let list = |member: &str| spec[member].as_array().map_or(&[][..], Vec::as_slice);
    let each = |container: &'s Value, add: &mut dyn FnMut(&'s str, Quantity)| {
        for (name, amount) in container["resources"][side].as_object().into_iter().flatten() {
            if let Some(amount) = amount.as_str().and_then(|text| Quantity::parse(text).ok()) {
                add(name, amount);
            }
        }
    };
    let none = ResourceNeed { together: zero, beside: zero, start: zero };
    for container in list("containers") {
        each(container, &mut |name, own| {
            let need = needs.entry(name).or_insert(none);
            need.together = need.together.add(own);
        });
    }
    for container in list("initContainers") {
        let stays = container["restartPolicy"] == "Always";
        each(container, &mut |name, own| {
            let need = needs.entry(name).or_insert(none);
            let with = need.beside.add(own);
            need.start = need.start.max(with);
            if stays {
                need.beside = with;
            }
        });
    }
    needs.into_iter().map(|(name, need)| (name, need.together.add(need.beside).max(need.start))).collect()
}

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Quality-of-service class of a pod: `Guaranteed` if every container has limits for cpu and memory with
/// equal requests, `BestEffort` if none has either, else `Burstable`. Pod-level resources take precedence
/// over those of containers. Zero amounts count as unset.
pub fn qos_class(pod: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let (mut guaranteed, mut any) = (true, false);
    let whole = &pod["spec"]["resources"];
    let all: Vec<&Value> = if amounts(whole, "requests").is_empty() && amounts(whole, "limits").is_empty() {
        containers.map(|container| &container["resources"]).collect()
    } else {
        vec![whole]
    };
    for resources in all {
        let (requests, limits) = (amounts(resources, "requests"), amounts(resources, "limits"));
        any |= !requests.is_empty() || !limits.is_empty();
        guaranteed &= COMPUTE.iter().all(|name| {
            limits.get(name).is_some_and(|limit| requests.get(name).is_none_or(|request| request == limit))
        });
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn amounts(resources: &Value, side: &str) -> BTreeMap<&'static str, Quantity> {
    let amount = |name: &&'static str| {
        let amount = Quantity::parse(resources[side][*name].as_str()?).ok()?;
        (!amount.is_zero()).then_some((*name, amount))
    };
    COMPUTE.iter().filter_map(amount).collect()
}

/// Restricts a write through `/status`. The quality-of-service class and observed generations stay unless the
/// writer sets them.
pub(crate) fn status_only(new: &mut Value, old: &Value) {
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    let (status, stored) = (&mut new["status"], &old["status"]);
    if status["qosClass"].as_str().unwrap_or_default().is_empty() {
        copy(status, stored, "qosClass");
    }
    keep_generation(status, stored);
    // Each stored condition of a type is matched once, in order.
    let mut before: BTreeMap<String, VecDeque<&Value>> = BTreeMap::new();
    for condition in stored["conditions"].as_array().into_iter().flatten() {
        before.entry(condition["type"].to_string()).or_default().push_back(condition);
    }
    for condition in items(status, "conditions").filter(|condition| condition.is_object()) {
        if let Some(old) = before.get_mut(&condition["type"].to_string()).and_then(VecDeque::pop_front) {
            keep_generation(condition, old);
        }
    }
}

/// Members of a pod's status about its claims, which no client unsets.
const CLAIMS: [&str; 3] =
    ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"];

/// Keeps what the stored status says about claims if a status lacks it: since 1.37, so that clients which do not know the members do
/// not remove them.
pub(super) fn keep_claims(new: &mut Value, old: &Value) {
    for member in CLAIMS {
        if is_empty(&new["status"][member]) && !is_empty(&old["status"][member]) {
            copy(&mut new["status"], &old["status"], member);
        }
    }
}

fn keep_generation(new: &mut Value, old: &Value) {
    let unsaid = new["observedGeneration"].as_i64().unwrap_or_default() == 0;
    if unsaid && !old["observedGeneration"].is_null() {
        copy(new, old, "observedGeneration");
    }
}

/// Metadata members that only a write to the pod itself changes.
const OWN_METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

fn rest_as_before(new: &mut Value, old: &Value) {
    copy(new, old, "spec");
    copy(new, old, "status");
    for member in OWN_METADATA.into_iter().filter(|_| old["metadata"].is_object()) {
        copy(&mut new["metadata"], &old["metadata"], member);
    }
}

/// Restricts a write through `/ephemeralcontainers` to that list.
pub(crate) fn ephemeral_containers_only(new: &mut Value, old: &Value) {
    let list = new["spec"]["ephemeralContainers"].take();
    rest_as_before(new, old);
    if !new["spec"].is_object() {
        return;
    }
    if list.is_null() {
        super::remove(&mut new["spec"], "ephemeralContainers");
    } else {
        new["spec"]["ephemeralContainers"] = list;
    }
}

/// Restricts a write through `/resize` to the resources of the pod and its containers, and to their resize
/// policies. If containers were added, removed or renamed, the object stays as it is for validation to
/// refuse.
pub(crate) fn resources_only(new: &mut Value, old: &Value) {
    let lists = ["containers", "initContainers"];
    let names = |object: &Value, list: &str| -> Vec<Value> {
        object["spec"][list].as_array().into_iter().flatten().map(|c| c["name"].clone()).collect()
    };
    if lists.iter().any(|list| names(new, list) != names(old, list)) {
        return;
    }
    let requested = new["spec"].take();
    rest_as_before(new, old);
    if !new["spec"].is_object() {
        return;
    }
    copy(&mut new["spec"], &requested, "resources");
    for list in lists {
        let wanted = requested[list].as_array().into_iter().flatten();
        for (container, wanted) in items(&mut new["spec"], list).zip(wanted) {
            for member in ["resources", "resizePolicy"] {
                copy(container, wanted, member);
            }
        }
    }
}
