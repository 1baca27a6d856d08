//! Changes of the pod: smaller requests, tolerations, fewer constraints, a higher priority.

use super::{ChangedPart, Search};
use crate::pod;
use crate::quantity::Amount;
use crate::verdict::{Lack, NodeVerdict, PlacementTable};
use serde_json::{Value, json};

/// A priority above all that users can give: the limit of the API for classes of users.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

/// Nodes whose lacks are turned into changes.
const NEAREST: usize = 4;

/// The kinds of required terms between pods, with their names in suggestions.
const TERMS: [(&str, &str); 2] = [("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")];
/// The member with required terms.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Tries changes of the pod.
pub(super) fn try_changes(search: &mut Search<'_>, object: &Value, table: &PlacementTable) {
    for verdict in refused_only_by("NodeResourcesFit", table) {
        if let Some((changed, change)) = smaller_requests(object, verdict) {
            // The first node has the smallest shortage of those that lack only resources.
            if try_pod(search, &changed, change) {
                break;
            }
        }
    }
    for verdict in refused_only_by("TaintToleration", table) {
        let (changed, change) = with_tolerations(object, verdict);
        try_pod(search, &changed, change);
    }
    without_selectors(search, object);
    without_constraints(search, object);
    without_host_ports(search, object);
    higher_priority(search, object);
}

/// The nearest nodes that only one filter refuses.
fn refused_only_by<'t>(plugin: &str, table: &'t PlacementTable) -> impl Iterator<Item = &'t NodeVerdict> {
    let of_plugin =
        move |verdict: &&NodeVerdict| matches!(&verdict.refusals[..], [only] if only.plugin == plugin);
    table.nodes.iter().filter(of_plugin).take(NEAREST)
}

/// Places the changed pod, and notes the change if that succeeds.
fn try_pod(search: &mut Search<'_>, changed: &Value, change: String) -> bool {
    // A change that does not decode is no change of a pod that the API has stored.
    let Ok(pod) = pod::decode(changed.to_string().as_bytes()) else { return false };
    let node = search.place(&pod);
    search.note(ChangedPart::Pod, change, node)
}

/// The pod with as much less as the node lacks, in the container that requests most of it.
fn smaller_requests(object: &Value, verdict: &NodeVerdict) -> Option<(Value, String)> {
    let mut changed = object.clone();
    let mut texts = Vec::new();
    for lack in &verdict.refusals[0].lacks {
        let Lack::Resource { name, requested, free, .. } = lack else { return None };
        if name == "pods" {
            return None;
        }
        let (container, before, request) = largest_request(&mut changed, name)?;
        let after = amount(name, request)?.checked_sub(requested - free).filter(|left| *left > 0)?;
        let text = quantity(name, after);
        texts.push(format!("request {name} {text} instead of {before} in container {container}"));
        *request = text.into();
    }
    (!texts.is_empty()).then(|| (changed, texts.join(" and ")))
}

/// The container with the largest request of a resource: its name, the request as text, and its place.
fn largest_request<'v>(object: &'v mut Value, resource: &str) -> Option<(String, String, &'v mut Value)> {
    let containers = object.pointer_mut("/spec/containers")?.as_array_mut()?;
    let requests = containers.iter_mut().filter_map(|container| {
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        let request = container.get_mut("resources")?.get_mut("requests")?.get_mut(resource)?;
        let text = request.as_str().map_or_else(|| request.to_string(), str::to_owned);
        Some((amount(resource, request)?, (name, text, request)))
    });
    requests.max_by_key(|(amount, _)| *amount).map(|(_, found)| found)
}

/// A quantity as the scheduler counts it: CPU in thousandths, everything else in whole units.
fn amount(resource: &str, value: &Value) -> Option<i64> {
    let amount: Amount = serde_json::from_value(value.clone()).ok()?;
    Some(if resource == "cpu" { amount.milli } else { amount.whole })
}

/// An amount as a quantity, rounded down to whole mebibytes if it is memory or storage.
fn quantity(resource: &str, amount: i64) -> String {
    const MEBI: i64 = 1 << 20;
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        "memory" | "ephemeral-storage" if amount >= MEBI => format!("{}Mi", amount / MEBI),
        _ => amount.to_string(),
    }
}

fn with_tolerations(object: &Value, verdict: &NodeVerdict) -> (Value, String) {
    let mut changed = object.clone();
    let mut tolerations = changed["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let mut texts = Vec::new();
    for lack in &verdict.refusals[0].lacks {
        let Lack::Toleration { key, value, effect } = lack else { continue };
        let effect = format!("{effect:?}");
        texts.push(match value.as_str() {
            "" => format!("{key}:{effect}"),
            value => format!("{key}={value}:{effect}"),
        });
        tolerations.push(json!({ "key": key, "operator": "Equal", "value": value, "effect": effect }));
    }
    changed["spec"]["tolerations"] = tolerations.into();
    (changed, format!("tolerate {}", texts.join(" and ")))
}

fn without_selectors(search: &mut Search<'_>, object: &Value) {
    let selectors = object["spec"]["nodeSelector"].as_object();
    for (key, value) in selectors.into_iter().flatten() {
        let mut changed = object.clone();
        if let Some(selectors) = changed["spec"]["nodeSelector"].as_object_mut() {
            selectors.remove(key);
        }
        let value = value.as_str().unwrap_or_default();
        try_pod(search, &changed, format!("remove {key}={value} from nodeSelector"));
    }
    let mut changed = object.clone();
    if let Some(affinity) = changed.pointer_mut("/spec/affinity/nodeAffinity").and_then(Value::as_object_mut)
        && affinity.remove(REQUIRED).is_some()
    {
        try_pod(search, &changed, "remove the required node affinity".to_owned());
    }
}

fn without_constraints(search: &mut Search<'_>, object: &Value) {
    let constraints = object["spec"]["topologySpreadConstraints"].as_array();
    for (index, constraint) in constraints.into_iter().flatten().enumerate() {
        if constraint["whenUnsatisfiable"] == "ScheduleAnyway" {
            continue;
        }
        let changed = without(object, "/spec/topologySpreadConstraints", index);
        let over = constraint["topologyKey"].as_str().unwrap_or_default();
        try_pod(search, &changed, format!("do not require the spread over {over}"));
    }
    for (member, words) in TERMS {
        let path = format!("/spec/affinity/{member}/{REQUIRED}");
        let terms = object.pointer(&path).and_then(Value::as_array);
        for (index, term) in terms.into_iter().flatten().enumerate() {
            let over = term["topologyKey"].as_str().unwrap_or_default();
            let changed = without(object, &path, index);
            try_pod(search, &changed, format!("remove the required {words} over {over}"));
        }
    }
}

/// The object without a member of a list.
fn without(object: &Value, list: &str, index: usize) -> Value {
    let mut changed = object.clone();
    if let Some(list) = changed.pointer_mut(list).and_then(Value::as_array_mut)
        && index < list.len()
    {
        list.remove(index);
    }
    changed
}

fn without_host_ports(search: &mut Search<'_>, object: &Value) {
    let containers = object["spec"]["containers"].as_array();
    for (index, container) in containers.into_iter().flatten().enumerate() {
        for (place, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
            let Some(host_port) = port["hostPort"].as_i64().filter(|port| *port != 0) else { continue };
            let mut changed = object.clone();
            changed["spec"]["containers"][index]["ports"][place]["hostPort"] = 0.into();
            let name = container["name"].as_str().unwrap_or_default();
            try_pod(search, &changed, format!("use another host port than {host_port} in container {name}"));
        }
    }
}

/// The lowest priority at which evictions make room.
fn higher_priority(search: &mut Search<'_>, object: &Value) {
    if search.is_over() {
        return;
    }
    let mut changed = object.clone();
    changed["spec"]["priority"] = HIGHEST_USER_PRIORITY.into();
    changed["spec"]["preemptionPolicy"] = "PreemptLowerPriority".into();
    let Ok(pod) = pod::decode(changed.to_string().as_bytes()) else { return };
    search.tries += 1;
    let Some(found) = search.cluster.evictions(search.registry, &pod) else { return };
    let highest = found.victims.iter().map(|victim| i64::from(victim.priority)).max().unwrap_or(0);
    let is_lower = object["spec"]["priority"].as_i64().unwrap_or(0) <= highest;
    if is_lower {
        let (needed, count) = (highest + 1, found.victims.len());
        let change = format!("a priority of {needed} or more, which evicts {count} pod(s)");
        search.note(ChangedPart::Pod, change, Some(found.node));
    }
}
