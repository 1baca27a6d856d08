//! Total requests or limits of a pod's containers.

use super::quantity;
use kstore_api::object::{list, text};
use kstore_api::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// Resources that can be set for a pod as a whole, besides huge pages.
const OF_PODS: [&str; 2] = ["cpu", "memory"];
const HUGE_PAGES: &str = "hugepages-";

type Amounts = BTreeMap<String, Quantity>;

/// The sum over containers and sidecars, or the maximum needed during initialization if that is more.
/// Pod-level resources replace the sum. Overhead does not count.
pub(crate) fn of_pod(pod: &Value, side: &str) -> BTreeMap<String, String> {
    let spec = &pod["spec"];
    let mut running = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut running, &amounts(&container["resources"][side]));
    }
    let (mut sidecars, mut initializing) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let mut moment = amounts(&container["resources"][side]);
        if text(&container["restartPolicy"]) == "Always" {
            add(&mut running, &moment);
            add(&mut sidecars, &moment);
            raise(&mut initializing, &sidecars);
        } else {
            add(&mut moment, &sidecars);
            raise(&mut initializing, &moment);
        }
    }
    raise(&mut running, &initializing);
    let whole = amounts(&spec["resources"][side]).into_iter();
    running
        .extend(whole.filter(|(name, _)| OF_PODS.contains(&name.as_str()) || name.starts_with(HUGE_PAGES)));
    running.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
}

fn amounts(resources: &Value) -> Amounts {
    let names = resources.as_object().into_iter().flat_map(|members| members.keys());
    names.filter_map(|name| Some((name.clone(), quantity(resources, name)?))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        sum.entry(name.clone()).and_modify(|sum| *sum = sum.add(*amount)).or_insert(*amount);
    }
}

fn raise(greatest: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        greatest.entry(name.clone()).and_modify(|own| *own = (*own).max(*amount)).or_insert(*amount);
    }
}
