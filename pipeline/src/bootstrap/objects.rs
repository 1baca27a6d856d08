//! Initial objects that are created once and may then be changed by users.

use kstore_api::{kind, schema};
use kstore_registry::service_ranges::ServiceRanges;
use serde_json::{Value, json};

/// The namespaces of the system, and the default namespace.
pub(super) fn namespaces() -> Vec<Value> {
    let names = ["default", "kube-system", "kube-public", "kube-node-lease"];
    names
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
        .collect()
}

/// The two priority classes above all classes of users.
pub(super) fn priority_classes() -> Vec<Value> {
    vec![
        class(
            "system-cluster-critical",
            2_000_000_000,
            "For pods without which the cluster does not work, on whichever node they run.",
        ),
        class("system-node-critical", 2_000_001_000, "For pods without which their node does not work."),
    ]
}

fn class(name: &str, value: i64, description: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": name },
        "value": value,
        "description": description,
    })
}

/// The Service through which pods reach the API, which listens at `port`.
pub(super) fn kubernetes_service(ranges: &ServiceRanges, port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ranges.api_address().to_string(),
            "ports": service_ports(port),
        },
    })
}

/// The port of the Service `kubernetes`.
pub(super) fn service_ports(port: u16) -> Value {
    json!([{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }])
}

/// An APIService for every API that this server serves, except for `apiregistration.k8s.io`.
pub(super) fn api_services(kinds: &kind::Kinds) -> Vec<Value> {
    let is_built_in =
        |group: &str, version: &str| kinds.built_in_versions(group).any(|served| served == version);
    let mut served: Vec<(&str, &str, schema::Priority)> = schema::packages()
        .filter_map(|package| Some((package.group, package.version, package.priority?)))
        .filter(|(group, version, _)| is_built_in(group, version))
        .collect();
    served.sort_by_key(|(group, _, priority)| (-priority.of_group, *group, -priority.of_version));
    let service = |(group, version, priority): (&str, &str, schema::Priority)| {
        let mut spec = json!({
            "version": version,
            "groupPriorityMinimum": priority.of_group,
            "versionPriority": priority.of_version,
        });
        if !group.is_empty() {
            spec["group"] = json!(group);
        }
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {
                "name": format!("{version}.{group}"),
                "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" },
            },
            "spec": spec,
        })
    };
    served.into_iter().map(service).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind::{Kinds, OptIn};
    use std::collections::BTreeSet;

    #[test]
    fn every_served_api_but_apiregistration_has_an_apiservice() {
        for kinds in [Kinds::built_in(), Kinds::new(OptIn::all(), &[], &[])] {
            let made = api_services(&kinds);
            let made: BTreeSet<&str> =
                made.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
            let groups = kinds.groups().filter(|group| *group != "apiregistration.k8s.io");
            let names = |group| kinds.versions(group).map(move |version| format!("{version}.{group}"));
            let served: BTreeSet<String> = groups.flat_map(names).collect();
            assert_eq!(made, served.iter().map(String::as_str).collect());
        }
    }
}
