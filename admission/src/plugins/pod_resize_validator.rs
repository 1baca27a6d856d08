//! PodResizeValidator: a bound pod is resized only to requests that its node can have at all, and only on Linux.

use super::limit_ranger::totals;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::object::text;
use kstore_api::quantity::Quantity;
use kstore_api::version::Minor;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

const OS: &str = "kubernetes.io/os";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods")],
    subresources: &["resize"],
    validates: &[Operation::Update],
    ..Row::new("PodResizeValidator", || Arc::new(PodResizeValidator))
};

struct PodResizeValidator;

impl Plugin for PodResizeValidator {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        // An older version accepts such a resize, and the node reports that it is infeasible.
        if subject.resource.minor < Minor::V36 {
            return Ok(());
        }
        let (Some(pod), Some(old)) = (new, old) else { return Ok(()) };
        let name = text(&pod["spec"]["nodeName"]);
        // Every change of the spec changes the generation.
        if name.is_empty() || pod["metadata"]["generation"] == old["metadata"]["generation"] {
            return Ok(());
        }
        let Some(node) = cluster.get(kstore_registry::lookup::core("nodes"), "", name) else {
            return subject.refuse(&format!("node {name:?} not found"));
        };
        let missing = missing(pod, &node["status"]["allocatable"]);
        if !missing.is_empty() {
            let missing = missing.join("; ");
            let text = format!("Node didn't have enough allocatable resources: {missing}");
            return subject.refuse(&text);
        }
        match meta::label(&node, OS).unwrap_or_default() {
            "linux" => Ok(()),
            other => {
                let text = format!("pod resize is only supported on linux nodes, node {name:?} is {other:?}");
                subject.refuse(&text)
            }
        }
    }
}

/// The requests of a pod, with its overhead, that exceed what a node has.
fn missing(pod: &Value, allocatable: &Value) -> Vec<String> {
    let requests = totals::of_pod(pod, "requests");
    let amount =
        |text: Option<&str>| text.and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO);
    let measure = |name: &str, quantity: Quantity| match name {
        "cpu" => quantity.milli(),
        _ => quantity.units(),
    };
    let exceeding = |name: &&str| {
        let overhead = amount(pod["spec"]["overhead"][*name].as_str());
        let requested = measure(name, amount(requests.get(*name).map(String::as_str)).add(overhead));
        let available = measure(name, amount(allocatable[*name].as_str()));
        (requested > available).then(|| format!("{name}, requested: {requested}, allocatable: {available}"))
    };
    ["cpu", "memory"].iter().filter_map(exceeding).collect()
}
