//! Defaults of what a pod asks for as a whole: what its containers need together, else its limits.

use serde_json::{Map, Value};

use crate::defaults::{default, make};
use crate::object::is_empty;
use crate::quantity::Quantity;
use crate::strategy::aggregate;

const HUGE_PAGES: &str = "hugepages-";

fn of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Runs after the containers have their own defaults.
pub(super) fn resources(spec: &mut Value) {
    if is_empty(&spec["resources"]["limits"]) && is_empty(&spec["resources"]["requests"]) {
        return;
    }
    let asked = |spec: &Value, name: &str| !spec["resources"]["requests"][name].is_null();
    for (name, amount) in sums(spec, "limits").filter(|(name, _)| name.starts_with(HUGE_PAGES)) {
        if !asked(spec, &name) {
            default(make(make(spec, "resources"), "limits"), &name, amount.to_string());
        }
    }
    if is_empty(&spec["resources"]["limits"]) {
        return;
    }
    for (name, amount) in sums(spec, "requests").filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"))
    {
        default(make(make(spec, "resources"), "requests"), &name, amount.to_string());
    }
    let limits: Map<String, Value> = spec["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (name, limit) in limits.into_iter().filter(|(name, _)| of_pods(name)) {
        default(make(make(spec, "resources"), "requests"), &name, limit);
    }
}

/// What the containers need together, by resource.
fn sums(spec: &Value, side: &str) -> std::vec::IntoIter<(String, Quantity)> {
    let mut names: Vec<String> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
        .flat_map(|container| container["resources"][side].as_object().into_iter().flatten())
        .map(|(name, _)| name.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    let sums = names.into_iter().filter_map(|name| aggregate(spec, side, &name).map(|sum| (name, sum)));
    sums.collect::<Vec<_>>().into_iter()
}
