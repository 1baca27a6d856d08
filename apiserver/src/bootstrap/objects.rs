//! Initial objects that are created once and may then be changed by users.

use crate::service_ranges::ServiceRanges;
use kstore_api::kind;
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

/// Priorities of the built-in APIs: group, version, `groupPriorityMinimum`, `versionPriority`.
const PRIORITIES: [(&str, &str, i64, i64); 23] = [
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("autoscaling", "v1", 17_500, 15),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("certificates.k8s.io", "v1beta1", 17_300, 9),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("storagemigration.k8s.io", "v1beta1", 15_800, 9),
];

/// An APIService for every API that this server serves, except for `apiregistration.k8s.io`.
pub(super) fn api_services(kinds: &kind::Kinds) -> Vec<Value> {
    let is_built_in =
        |group: &str, version: &str| kinds.built_in_versions(group).any(|served| served == version);
    let served = PRIORITIES.iter().filter(|(group, version, ..)| is_built_in(group, version));
    served.map(|(group, version, of_group, of_version)| {
        let mut spec =
            json!({ "version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version });
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
    })
    .collect()
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
