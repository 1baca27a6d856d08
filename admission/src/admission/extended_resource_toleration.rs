//! ExtendedResourceToleration: pods that request an extended resource tolerate the taint of its name, which
//! reserves nodes for them.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::object::list;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn mutate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        pod: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if !matches!(subject.operation, Operation::Create | Operation::Update)
            || !subject.subresource.is_empty()
        {
            return Ok(());
        }
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
