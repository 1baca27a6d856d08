//! Services as the network of pods sees them: which Service or pod a name means, and which pods are behind a Service's port, as kube-proxy
//! and CoreDNS decide. Pure.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::net::{IpAddr, SocketAddr};

/// The domain of the cluster.
const ZONE: &str = "cluster.local";

/// What a name may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A Service: namespace and name.
    Service(String, String),
    /// A pod behind a headless Service: its host name, and namespace and name of the Service.
    PodOf(String, String, String),
    /// The address that a name such as `10-1-2-3.default.pod.cluster.local` spells.
    Address(IpAddr),
}

/// What a name may mean in a namespace, in the order in which a resolver tries its search list.
pub fn meanings(name: &str, namespace: &str) -> Vec<Meaning> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let searches =
        [String::new(), format!(".{namespace}.svc.{ZONE}"), format!(".svc.{ZONE}"), format!(".{ZONE}")];
    // A name with so many dots is tried as it is first.
    let is_whole = name.ends_with(&format!(".{ZONE}"));
    let tried = if is_whole { &searches[..1] } else { &searches[1..] };
    tried.iter().filter_map(|search| meaning(&format!("{name}{search}"))).collect()
}

fn meaning(full: &str) -> Option<Meaning> {
    let inner = full.strip_suffix(&format!(".{ZONE}"))?;
    let parts: Vec<&str> = inner.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    let owned = |text: &str| text.to_owned();
    match parts[..] {
        [service, namespace, "svc"] => Some(Meaning::Service(owned(namespace), owned(service))),
        [host, service, namespace, "svc"] => {
            Some(Meaning::PodOf(owned(host), owned(namespace), owned(service)))
        }
        [address, _, "pod"] => {
            let is_v6 = address.contains("--") || address.matches('-').count() != 3;
            address.replace('-', if is_v6 { ":" } else { "." }).parse().ok().map(Meaning::Address)
        }
        _ => None,
    }
}

/// Whether a Service has no address of its own.
pub fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// Whether a pod is ready, and whether it is being deleted.
fn readiness(pod: &Pod) -> (bool, bool) {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    (is_ready, pod.metadata.deletion_timestamp.is_some())
}

fn address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()
}

/// The pods that take connections of a Service: ready ones, else those that end and are still ready.
fn chosen<'a>(service: &Service, pods: &'a [Pod]) -> Vec<&'a Pod> {
    let takes_all = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let with_address = || pods.iter().filter(|pod| address(pod).is_some());
    if takes_all {
        return with_address().collect();
    }
    let of = |state| with_address().filter(|pod| readiness(pod) == state).collect::<Vec<_>>();
    let ready = of((true, false));
    if ready.is_empty() { of((true, true)) } else { ready }
}

/// The addresses of the pods behind a headless Service; with a host name only of the pod that has it.
pub fn addresses(service: &Service, pods: &[Pod], host: Option<&str>) -> Vec<IpAddr> {
    let name = service.metadata.name.as_deref();
    let is_named = |pod: &&Pod| {
        let spec = pod.spec.as_ref();
        let of_service = spec.and_then(|spec| spec.subdomain.as_deref()) == name;
        let own = spec.and_then(|spec| spec.hostname.as_deref()).filter(|_| of_service);
        let dashed = address(pod).map(|ip| ip.to_string().replace(['.', ':'], "-"));
        host.is_none_or(|host| own == Some(host) || (own.is_none() && dashed.as_deref() == Some(host)))
    };
    chosen(service, pods).into_iter().filter(is_named).filter_map(address).collect()
}

/// The addresses and ports behind a port of a Service, seen from a node; `None` if the Service has no such TCP port.
pub fn backends(service: &Service, port: u16, pods: &[Pod], node: &str) -> Option<Vec<SocketAddr>> {
    let spec = service.spec.as_ref()?;
    let is_meant = |one: &&k8s_openapi::api::core::v1::ServicePort| {
        one.port == i32::from(port) && one.protocol.as_deref().unwrap_or("TCP") == "TCP"
    };
    let entry = spec.ports.iter().flatten().find(is_meant)?;
    let is_local = spec.internal_traffic_policy.as_deref() == Some("Local");
    let on_node =
        |pod: &&Pod| !is_local || pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let target = |pod: &Pod| {
        let number = match &entry.target_port {
            None | Some(IntOrString::Int(0)) => entry.port,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(name)) => {
                let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
                ports.find(|one| one.name.as_ref() == Some(name))?.container_port
            }
        };
        Some(SocketAddr::new(address(pod)?, u16::try_from(number).ok()?))
    };
    Some(chosen(service, pods).into_iter().filter(on_node).filter_map(target).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_mean_what_a_resolver_with_the_search_list_of_a_pod_finds() {
        let service = |namespace: &str, name: &str| Meaning::Service(namespace.to_owned(), name.to_owned());
        let pod = |host: &str, namespace: &str, name: &str| {
            Meaning::PodOf(host.to_owned(), namespace.to_owned(), name.to_owned())
        };
        for (name, expected) in [
            ("web", vec![service("ns", "web")]),
            ("WEB.other", vec![pod("web", "ns", "other"), service("other", "web")]),
            ("web.other.svc", vec![pod("web", "svc", "other"), service("other", "web")]),
            ("web.other.svc.cluster.local.", vec![service("other", "web")]),
            ("db-0.db.ns.svc.cluster.local", vec![pod("db-0", "ns", "db")]),
            ("10-1-2-3.ns.pod.cluster.local", vec![Meaning::Address("10.1.2.3".parse().unwrap())]),
            (
                "fd00-1--2.ns.pod",
                vec![pod("fd00-1--2", "pod", "ns"), Meaning::Address("fd00:1::2".parse().unwrap())],
            ),
            ("example.com.a.b", Vec::new()),
            ("a..b", Vec::new()),
            ("", Vec::new()),
        ] {
            assert_eq!(meanings(name, "ns"), expected, "{name}");
        }
    }

    fn a_pod(number: u8, ready: bool, ends: bool, node: &str) -> Pod {
        let mut pod = json!({"metadata": {"name": format!("p-{number}")},
            "spec": {"nodeName": node, "hostname": format!("p-{number}"), "subdomain": "web",
                "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8000 + i32::from(number)}]}]},
            "status": {"podIP": format!("10.0.0.{number}"),
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        if ends {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_port_of_a_service_leads_to_its_ready_pods_else_to_those_that_end() {
        let service = |spec: serde_json::Value| -> Service {
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
        };
        let ports =
            json!([{"port": 80, "targetPort": "http"}, {"port": 81}, {"port": 53, "protocol": "UDP"}]);
        let web = service(json!({"clusterIP": "10.96.0.9", "ports": ports}));
        let pods = [
            a_pod(1, true, false, "a"),
            a_pod(2, false, false, "a"),
            a_pod(3, true, true, "b"),
            a_pod(4, true, false, "b"),
        ];
        let of = |service: &Service, port, pods: &[Pod]| {
            let all = backends(service, port, pods, "a")?;
            Some(all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of(&web, 80, &pods).unwrap(), "10.0.0.1:8001 10.0.0.4:8004");
        assert_eq!(of(&web, 81, &pods).unwrap(), "10.0.0.1:81 10.0.0.4:81");
        assert_eq!((of(&web, 53, &pods), of(&web, 1, &pods)), (None, None));
        assert_eq!(of(&web, 80, &pods[1..3]).unwrap(), "10.0.0.3:8003", "it ends, and still serves");
        assert_eq!(of(&web, 80, &pods[1..2]).unwrap(), "");
        let local =
            service(json!({"clusterIP": "10.96.0.9", "ports": ports, "internalTrafficPolicy": "Local"}));
        assert_eq!(of(&local, 80, &pods).unwrap(), "10.0.0.1:8001");
        let headless = service(json!({"clusterIP": "None", "publishNotReadyAddresses": true}));
        assert!(is_headless(&headless) && !is_headless(&web));
        assert_eq!(addresses(&headless, &pods, Some("p-2")), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(addresses(&headless, &pods, None).len(), 4);
        assert_eq!(addresses(&web, &pods, Some("p-2")), [] as [IpAddr; 0]);
    }
}
