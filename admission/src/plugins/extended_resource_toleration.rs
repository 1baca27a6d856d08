//! ExtendedResourceToleration: pods that request an extended resource tolerate the taint of its name, which
//! reserves nodes for them.

use crate::plugin::{Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::list;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "pods")],
    mutates: &[Operation::Create, Operation::Update],
    ..Row::new("ExtendedResourceToleration", || Arc::new(ExtendedResourceToleration))
};

struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn mutate(&self, _: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        for resource in requested(&pod["spec"]) {
            let toleration = json!({ "key": resource, "operator": "Exists", "effect": "NoSchedule" });
            let tolerations = &mut pod["spec"]["tolerations"];
            let is_same = |own: &Value| {
                ["key", "operator", "effect"].iter().all(|member| own[member] == toleration[member])
            };
            match tolerations.as_array_mut() {
                Some(list) => match list.iter_mut().find(|own| is_same(own)) {
                    Some(own) => *own = toleration,
                    None => list.push(toleration),
                },
                None => *tolerations = json!([toleration]),
            }
        }
        Ok(())
    }
}

/// The extended resources that the containers request.
fn requested(spec: &Value) -> BTreeSet<String> {
    let containers = list(&spec["containers"]).iter().chain(list(&spec["initContainers"]));
    let requests =
        containers.filter_map(|container| container["resources"]["requests"].as_object()).flatten();
    requests.map(|(name, _)| name.clone()).filter(|name| is_extended(name)).collect()
}

/// Whether a resource's domain is not Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
