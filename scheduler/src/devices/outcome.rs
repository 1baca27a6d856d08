//! The allocation of a claim in the API's form: devices, configuration and node selector. Pure.

use super::Devices;
use super::allocate::ChosenDevice;
use super::claim::{Claim, Request};
use super::slice::SliceNodes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// `status.allocation` of a claim that gets the devices on `node`. `share_id` makes the identity of a share of a
/// device that several claims use.
pub fn allocation(
    devices: &Devices,
    claim: &Claim,
    chosen: &[ChosenDevice<'_>],
    node: &str,
    share_id: &mut dyn FnMut() -> String,
) -> Value {
    let results: Vec<Value> = chosen.iter().map(|device| result(claim, device, share_id)).collect();
    let mut allocation = json!({ "devices": { "results": results } });
    let config = config(devices, claim, chosen);
    if !config.is_empty() {
        allocation["devices"]["config"] = config.into();
    }
    if let Some(selector) = node_selector(chosen, node) {
        allocation["nodeSelector"] = selector;
    }
    allocation
}

fn result(claim: &Claim, chosen: &ChosenDevice<'_>, share_id: &mut dyn FnMut() -> String) -> Value {
    let request = &claim.requests[chosen.request];
    let alternative = &request.alternatives[chosen.alternative];
    let id = &chosen.device.id;
    let mut result = json!({
        "request": request.label(alternative), "driver": &*id.driver, "pool": &*id.pool, "device": &*id.device,
    });
    if alternative.admin_access == Some(true) {
        result["adminAccess"] = true.into();
    }
    if alternative.tolerations_json.as_array().is_some_and(|all| !all.is_empty()) {
        result["tolerations"] = alternative.tolerations_json.clone();
    }
    let device = chosen.device;
    if !device.binding_conditions.is_empty() {
        result["bindingConditions"] = device.binding_conditions.clone().into();
        result["bindingFailureConditions"] = device.binding_failure_conditions.clone().into();
    }
    if let Some(amounts) = &chosen.consumed {
        result["shareID"] = share_id().into();
        if !amounts.is_empty() {
            let amounts = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into()));
            result["consumedCapacity"] = Value::Object(amounts.collect());
        }
    }
    result
}

/// The configuration of the classes of the requests, each once, and then that of the claim. A configuration for
/// every request names none.
fn config(devices: &Devices, claim: &Claim, chosen: &[ChosenDevice<'_>]) -> Vec<Value> {
    let alternative = |index: usize, request: &Request| {
        let used = chosen.iter().find(|device| device.request == index);
        used.map(|device| request.alternatives[device.alternative].clone())
    };
    let mut labels = Vec::new();
    let mut classes: Vec<(String, Vec<String>)> = Vec::new();
    for (index, request) in claim.requests.iter().enumerate() {
        let Some(used) = alternative(index, request) else { continue };
        let label = request.label(&used);
        match classes.iter_mut().find(|(name, _)| *name == used.class) {
            Some((_, requests)) => requests.push(label.clone()),
            None => classes.push((used.class, vec![label.clone()])),
        }
        labels.push((request.name.clone(), label));
    }
    let is_used = |name: &String| labels.iter().any(|(request, label)| name == request || name == label);
    let mut all: Vec<(&str, Vec<String>, &Value)> = Vec::new();
    for (name, requests) in &classes {
        let config = devices.class(name).map_or(&[][..], |class| &class.fields.config);
        all.extend(config.iter().map(|entry| ("FromClass", requests.clone(), entry)));
    }
    for entry in &claim.config {
        let requests: Vec<String> = serde_json::from_value(entry["requests"].clone()).unwrap_or_default();
        if requests.is_empty() || requests.iter().any(is_used) {
            all.push(("FromClaim", requests, entry));
        }
    }
    let is_for_all = |requests: &[String]| {
        labels.iter().all(|(request, label)| requests.contains(request) || requests.contains(label))
    };
    let entry = |(source, requests, entry): (&str, Vec<String>, &Value)| {
        let mut config: Map<String, Value> = entry.as_object().cloned().unwrap_or_default();
        config.remove("requests");
        config.insert("source".to_owned(), source.into());
        if !is_for_all(&requests) && !requests.is_empty() {
            config.insert("requests".to_owned(), requests.into());
        }
        Value::Object(config)
    };
    all.into_iter().map(entry).collect()
}

/// The selector of the nodes that can use all of the devices; `None` if every node can.
fn node_selector(chosen: &[ChosenDevice<'_>], node: &str) -> Option<Value> {
    let mut requirements: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for found in chosen {
        match found.slice.nodes_of(found.device) {
            SliceNodes::Node(_) => return Some(only(node)),
            _ if found.device.binds_to_node => return Some(only(node)),
            SliceNodes::Selector(selector, _) => {
                let term = &selector["nodeSelectorTerms"][0];
                for member in ["matchFields", "matchExpressions"] {
                    for requirement in term[member].as_array().into_iter().flatten() {
                        let known = requirements.entry(member).or_default();
                        if !known.contains(requirement) {
                            known.push(requirement.clone());
                        }
                    }
                }
            }
            SliceNodes::All | SliceNodes::PerDevice | SliceNodes::Unknown => {}
        }
    }
    (!requirements.is_empty()).then(|| json!({ "nodeSelectorTerms": [requirements] }))
}

/// A time in the form of the API, which has seconds.
pub(crate) fn seconds(at: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// The selector of one node.
fn only(node: &str) -> Value {
    json!({ "nodeSelectorTerms": [{ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": [node] },
    ] }] })
}
