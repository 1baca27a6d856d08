//! Default requests and limits of containers from LimitRanges.

use kstore_api::meta;
use kstore_api::object::text;
use serde_json::{Map, Value};

/// Annotation that lists, per container, the requests and limits that LimitRanger set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Adds missing requests and limits to the containers of a pod, from the defaults in `limits`. Ephemeral
/// containers have no resources.
pub(super) fn fill(pod: &mut Value, limits: &[Value]) {
    let (requests, maxima) = (defaults(limits, "defaultRequest"), defaults(limits, "default"));
    if requests.is_empty() && maxima.is_empty() {
        return;
    }
    let mut texts = Vec::new();
    for (list, noun) in [("containers", "container"), ("initContainers", "init container")] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = text(&container["name"]).to_owned();
            for (side, resources) in [("requests", &requests), ("limits", &maxima)] {
                let set = fill_side(container, side, resources);
                if !set.is_empty() {
                    let singular = side.trim_end_matches('s');
                    texts.push(format!("{} {singular} for {noun} {name}", set.join(", ")));
                }
            }
        }
    }
    if !texts.is_empty() {
        meta::set_annotation(pod, ANNOTATION, &format!("LimitRanger plugin set: {}", texts.join("; ")));
    }
}

/// The defaults of one side from all limits of type Container. If several name a resource, the last one
/// counts.
fn defaults<'r>(limits: &'r [Value], side: &str) -> Map<String, Value> {
    let of_containers = limits.iter().filter(|limit| limit["type"] == "Container");
    let named: Vec<&'r Map<String, Value>> =
        of_containers.filter_map(|limit| limit[side].as_object()).collect();
    named.into_iter().flatten().map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

/// Adds missing resources to one side of a container, and returns their names, sorted.
fn fill_side<'d>(container: &mut Value, side: &str, resources: &'d Map<String, Value>) -> Vec<&'d str> {
    let Some(container) = container.as_object_mut() else { return Vec::new() };
    let lacking: Vec<(&String, &Value)> = {
        let stated = container.get("resources").map(|resources| &resources[side]);
        let is_stated = |name: &str| stated.is_some_and(|stated| !stated[name].is_null());
        resources.iter().filter(|(name, _)| !is_stated(name)).collect()
    };
    if lacking.is_empty() {
        return Vec::new();
    }
    let own = container.entry("resources").or_insert_with(|| Value::Object(Map::new()));
    if own.is_null() {
        *own = Value::Object(Map::new());
    }
    let Some(own) = own.as_object_mut() else { return Vec::new() };
    let amounts = own.entry(side).or_insert_with(|| Value::Object(Map::new()));
    if amounts.is_null() {
        *amounts = Value::Object(Map::new());
    }
    let Some(amounts) = amounts.as_object_mut() else { return Vec::new() };
    for (name, amount) in &lacking {
        amounts.insert((*name).clone(), (*amount).clone());
    }
    let mut names: Vec<&str> = lacking.into_iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}
