//! Pods: their first status, their quality-of-service class, and the two paths that change a running pod's spec.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::copy;
use crate::quantity::Quantity;

pub(super) fn prepare_create(object: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
    if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    object["status"] = status;
}

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed` if every container limits cpu and memory and requests exactly that; `BestEffort` if none asks for either;
/// else `Burstable`. Amounts of zero count as not given.
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

/// `/ephemeralcontainers` writes that list and nothing else.
pub(super) fn ephemeral_containers_only(new: &mut Value, old: &Value) {
    let list = new["spec"]["ephemeralContainers"].clone();
    copy(new, old, "spec");
    copy(new, old, "status");
    if !list.is_null() {
        new["spec"]["ephemeralContainers"] = list;
    }
}

/// `/resize` writes the resources of containers (found by name) and their resize policy.
pub(super) fn resources_only(new: &mut Value, old: &Value) {
    let asked = new["spec"].take();
    copy(new, old, "spec");
    copy(new, old, "status");
    for list in ["containers", "initContainers"] {
        for container in new["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let same = |other: &&Value| other["name"] == container["name"];
            let Some(wanted) = asked[list].as_array().and_then(|all| all.iter().find(same)) else { continue };
            for member in ["resources", "resizePolicy"] {
                copy(container, wanted, member);
            }
        }
    }
}
