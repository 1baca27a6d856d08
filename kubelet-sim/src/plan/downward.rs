//! The downward API: fields and resources of a pod as texts.

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::quantity::Quantity as Parsed;
use std::collections::BTreeMap;

/// What a node knows of a pod before the pod's status says it.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The address of the pod.
    pub pod_ip: Option<String>,
    /// The addresses of the node.
    pub host_ips: Vec<String>,
    /// What the node has for pods: the limits of containers without any.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// The value of a field of a pod; `None` for a field that has no value.
pub fn field(pod: &Pod, node: &NodeFacts, field: &ObjectFieldSelector) -> Option<String> {
    let (meta, spec, status) = (&pod.metadata, pod.spec.as_ref()?, pod.status.as_ref());
    let of = |map: &Option<BTreeMap<String, String>>, rest: &str| {
        let key = rest.trim_matches(['[', ']', '\'', '"']);
        Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
    };
    let all = |map: &Option<BTreeMap<String, String>>| {
        let lines = map.iter().flatten().map(|(key, value)| format!("{key}={value:?}"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    let pod_ip = || status.and_then(|status| status.pod_ip.clone()).or_else(|| node.pod_ip.clone());
    let pod_ips = || {
        let known = status.and_then(|status| status.pod_ips.as_ref()).filter(|ips| !ips.is_empty());
        known.map(|ips| ips.iter().map(|ip| ip.ip.as_str()).collect::<Vec<_>>().join(",")).or_else(pod_ip)
    };
    match field.field_path.as_str() {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "metadata.labels" => all(&meta.labels),
        "metadata.annotations" => all(&meta.annotations),
        "spec.nodeName" => spec.node_name.clone(),
        "spec.serviceAccountName" => spec.service_account_name.clone(),
        "status.podIP" => pod_ip(),
        "status.podIPs" => pod_ips(),
        "status.hostIP" => {
            status.and_then(|status| status.host_ip.clone()).or_else(|| node.host_ips.first().cloned())
        }
        "status.hostIPs" => {
            let known = status.and_then(|status| status.host_ips.as_ref()).filter(|ips| !ips.is_empty());
            let known = known.map(|ips| ips.iter().map(|ip| ip.ip.clone()).collect::<Vec<_>>());
            Some(known.unwrap_or_else(|| node.host_ips.clone()).join(",")).filter(|ips| !ips.is_empty())
        }
        path => match (path.strip_prefix("metadata.labels"), path.strip_prefix("metadata.annotations")) {
            (Some(rest), _) => of(&meta.labels, rest),
            (None, Some(rest)) => of(&meta.annotations, rest),
            (None, None) => None,
        },
    }
}

/// Whether a field is an address of the node.
pub fn needs_addresses(field: &ObjectFieldSelector) -> bool {
    matches!(field.field_path.as_str(), "status.hostIP" | "status.hostIPs")
}

/// The value of a resource of a container, in units of its divisor and rounded up. Without a limit it is what the node has; without a
/// request it is zero.
pub fn resource(container: &Container, node: &NodeFacts, wanted: &ResourceFieldSelector) -> Option<String> {
    let (kind, name) = wanted.resource.split_once('.')?;
    let resources = container.resources.as_ref();
    let amounts = match kind {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return None,
    };
    let own =
        amounts.and_then(|amounts| amounts.get(name)).and_then(|quantity| Parsed::parse(&quantity.0).ok());
    let own = own.filter(|own| own.milli() > 0 || kind != "limits");
    let given = || node.allocatable.get(name).and_then(|quantity| Parsed::parse(&quantity.0).ok());
    let value = match kind {
        "limits" => own.or_else(given),
        _ => own,
    };
    let divisor = wanted.divisor.as_ref().and_then(|divisor| Parsed::parse(&divisor.0).ok());
    let divided = |value: i64, divisor: i64| match divisor {
        0 => value,
        divisor => value / divisor + i64::from(value % divisor > 0),
    };
    let text = match name {
        "cpu" => {
            let divisor = divisor.map_or(1000, |divisor| divisor.milli());
            divided(value.map_or(0, |value| value.milli()), if divisor == 0 { 1000 } else { divisor })
        }
        _ => divided(
            value.map_or(0, |value| value.units()),
            divisor.map_or(1, |divisor| divisor.units()).max(1),
        ),
    };
    Some(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_divided_and_rounded_up() {
        let container: Container = serde_yaml_ng::from_str(
            "{name: c, resources: {limits: {cpu: 1250m, memory: 64Mi}, requests: {cpu: 250m, memory: 32Mi}}}",
        )
        .unwrap();
        let plain = Container::default();
        let amount = |text: &str| Quantity(text.to_owned());
        let allocatable = [("cpu".to_owned(), amount("8")), ("memory".to_owned(), amount("32Gi"))].into();
        let node = NodeFacts { allocatable, ..NodeFacts::default() };
        let of = |container: &Container, resource_: &str, divisor: &str| {
            let wanted = ResourceFieldSelector {
                resource: resource_.to_owned(),
                divisor: (!divisor.is_empty()).then(|| amount(divisor)),
                ..ResourceFieldSelector::default()
            };
            resource(container, &node, &wanted)
        };
        for (resource, divisor, expected) in [
            ("limits.cpu", "", "2"),
            ("limits.cpu", "1m", "1250"),
            ("limits.cpu", "0", "2"),
            ("requests.cpu", "1m", "250"),
            ("limits.memory", "1Mi", "64"),
            ("limits.memory", "", "67108864"),
            ("requests.memory", "1Ki", "32768"),
        ] {
            assert_eq!(of(&container, resource, divisor).as_deref(), Some(expected), "{resource} {divisor}");
        }
        assert_eq!(of(&plain, "limits.cpu", "").as_deref(), Some("8"));
        assert_eq!(of(&plain, "limits.memory", "1Gi").as_deref(), Some("32"));
        assert_eq!(of(&plain, "requests.cpu", "").as_deref(), Some("0"));
        assert_eq!(of(&plain, "nope", ""), None);
    }

    #[test]
    fn addresses_come_from_the_node_until_the_status_has_them() {
        let pod: Pod = serde_yaml_ng::from_str(
            "{metadata: {name: p, labels: {b: '2', a: x\"y}}, spec: {containers: []}}",
        )
        .unwrap();
        let node = NodeFacts {
            pod_ip: Some("10.1.2.3".to_owned()),
            host_ips: vec!["172.30.0.2".to_owned(), "fd00::2".to_owned()],
            ..NodeFacts::default()
        };
        let of = |path: &str| {
            field(
                &pod,
                &node,
                &ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() },
            )
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!((of("status.podIP"), of("status.podIPs")), (text("10.1.2.3"), text("10.1.2.3")));
        assert_eq!(
            (of("status.hostIP"), of("status.hostIPs")),
            (text("172.30.0.2"), text("172.30.0.2,fd00::2"))
        );
        assert_eq!(of("metadata.labels"), text("a=\"x\\\"y\"\nb=\"2\""));
        assert_eq!((of("metadata.labels['b']"), of("spec.nope")), (text("2"), None));
    }
}
