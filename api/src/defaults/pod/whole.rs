//! Defaults of pod-level resources: the sum over the containers, else the limits.

use crate::defaults::{default, make};
use crate::object::is_empty;
use crate::quantity::Quantity;
use crate::strategy::pod::aggregates;
use serde_json::{Map, Value};

const HUGE_PAGES: &str = "hugepages-";

fn of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Sets pod-level requests and huge page limits. Runs after the defaults of the containers.
pub(super) fn resources(spec: &mut Value) {
    if is_empty(&spec["resources"]["limits"]) && is_empty(&spec["resources"]["requests"]) {
        return;
    }
    let has_request = |spec: &Value, name: &str| !spec["resources"]["requests"][name].is_null();
    for (name, amount) in sums(spec, "limits").filter(|(name, _)| name.starts_with(HUGE_PAGES)) {
        if !has_request(spec, &name) {
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

/// Combined amounts of the pod's containers, by resource.
fn sums(spec: &Value, side: &str) -> impl Iterator<Item = (String, Quantity)> + use<> {
    let sums: Vec<_> = aggregates(spec, side).into_iter().map(|(name, sum)| (name.to_owned(), sum)).collect();
    sums.into_iter()
}
