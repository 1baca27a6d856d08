//! Services as the network of pods sees them: which Service or pod a name means, and which pods are behind a Service's port, as kube-proxy
//! and CoreDNS decide. Pure.

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The domain of the cluster.
pub const ZONE: &str = "cluster.local";

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

/// The name for which a Service stands. A Service that was of the type `ExternalName` once may still have one, which means nothing.
pub fn alias(service: &Service) -> Option<&str> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("ExternalName"))?;
    spec.external_name.as_deref()
}

/// The namespace and name of the Service that leads to the API server.
pub const API_SERVER: (&str, &str) = ("default", "kubernetes");

/// Whether a Service leads to the API server.
pub fn is_api_server(service: &Service) -> bool {
    let meta = &service.metadata;
    meta.namespace.as_deref() == Some(API_SERVER.0) && meta.name.as_deref() == Some(API_SERVER.1)
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

/// An endpoint of a Service: a pod that it selects, or an entry of an EndpointSlice that was made by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: IpAddr,
    /// Its host name in the DNS.
    host: String,
    node: Option<String>,
    ports: EndpointPorts,
}

/// The ports of an endpoint, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EndpointPorts {
    /// The names are those of the pod's containers, and a Service may name one.
    OfPod(Vec<(String, i32)>),
    /// The names are those of the Service's ports.
    OfSlice(Vec<(String, String, i32)>),
}

/// Where connections of a Service go, and the host name of that in the DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The address and port.
    pub to: SocketAddr,
    /// The host name.
    pub host: String,
}

fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// The pods of a Service that take its connections, as endpoints.
pub fn pod_endpoints(service: &Service, pods: &[Pod]) -> Vec<Endpoint> {
    let name = service.metadata.name.as_deref();
    let endpoint = |pod: &Pod| {
        let (address, spec) = (address(pod)?, pod.spec.as_ref()?);
        let own = spec.hostname.clone().filter(|_| spec.subdomain.as_deref() == name);
        let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
        let ports = ports.filter_map(|port| Some((port.name.clone()?, port.container_port))).collect();
        let host = own.unwrap_or_else(|| dashed(address));
        Some(Endpoint { address, host, node: spec.node_name.clone(), ports: EndpointPorts::OfPod(ports) })
    };
    chosen(service, pods).into_iter().filter_map(endpoint).collect()
}

/// The entries of EndpointSlices that take connections: ready ones, else those that end and still serve.
pub fn slice_endpoints(slices: &[EndpointSlice]) -> Vec<Endpoint> {
    let of = |is_wanted: &dyn Fn(&EndpointConditions) -> bool| {
        let mut all = Vec::new();
        for slice in slices {
            let ports: Vec<_> = slice
                .ports
                .iter()
                .flatten()
                .filter_map(|port| {
                    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
                    Some((port.name.clone().unwrap_or_default(), protocol, port.port?))
                })
                .collect();
            for one in slice.endpoints.iter().flatten() {
                let conditions = one.conditions.clone().unwrap_or_default();
                let Some(address) = one.addresses.first().and_then(|text| text.parse::<IpAddr>().ok()) else {
                    continue;
                };
                if is_wanted(&conditions) {
                    let host = one.hostname.clone().unwrap_or_else(|| dashed(address));
                    let ports = EndpointPorts::OfSlice(ports.clone());
                    all.push(Endpoint { address, host, node: one.node_name.clone(), ports });
                }
            }
        }
        all
    };
    let ready = of(&|conditions| conditions.ready != Some(false));
    if ready.is_empty() { of(&|conditions| conditions.serving == Some(true)) } else { ready }
}

/// The addresses of endpoints; with a host name only of the endpoint that has it.
pub fn addresses(endpoints: &[Endpoint], host: Option<&str>) -> Vec<IpAddr> {
    let named = endpoints.iter().filter(|endpoint| host.is_none_or(|host| endpoint.host == host));
    named.map(|endpoint| endpoint.address).collect()
}

/// The host names of the endpoints that have an address.
pub fn hosts_at(endpoints: &[Endpoint], address: IpAddr) -> impl Iterator<Item = &str> {
    endpoints
        .iter()
        .filter(move |endpoint| endpoint.address == address)
        .map(|endpoint| endpoint.host.as_str())
}

/// The port of an endpoint behind a port of its Service.
fn target(entry: &ServicePort, endpoint: &Endpoint) -> Option<u16> {
    let number = match (&endpoint.ports, &entry.target_port) {
        (EndpointPorts::OfSlice(ports), _) => {
            let name = entry.name.as_deref().unwrap_or_default();
            let protocol = entry.protocol.as_deref().unwrap_or("TCP");
            ports.iter().find(|(own, of, _)| own == name && of == protocol)?.2
        }
        (EndpointPorts::OfPod(_), None | Some(IntOrString::Int(0))) => entry.port,
        (EndpointPorts::OfPod(_), Some(IntOrString::Int(number))) => *number,
        (EndpointPorts::OfPod(ports), Some(IntOrString::String(name))) => {
            ports.iter().find(|(own, _)| own == name)?.1
        }
    };
    u16::try_from(number).ok()
}

/// What endpoints offer behind a port of their Service.
pub fn backends_of(entry: &ServicePort, endpoints: &[Endpoint]) -> Vec<Backend> {
    let backend = |endpoint: &Endpoint| {
        let to = SocketAddr::new(endpoint.address, target(entry, endpoint)?);
        Some(Backend { to, host: endpoint.host.clone() })
    };
    endpoints.iter().filter_map(backend).collect()
}

/// The port of a Service to which a connection goes: that of its own address, or the one that all nodes have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedPort {
    /// At the cluster address.
    Cluster(u16),
    /// At an address of a node.
    Node(u16),
}

impl AskedPort {
    /// The port of a Service that is meant, of this protocol.
    pub fn of<'s>(self, service: &'s Service, protocol: &str) -> Option<&'s ServicePort> {
        let mut ports = service.spec.as_ref()?.ports.iter().flatten();
        ports.find(|one| {
            let is_meant = match self {
                Self::Cluster(port) => one.port == i32::from(port),
                Self::Node(port) => one.node_port == Some(i32::from(port)),
            };
            is_meant && one.protocol.as_deref().unwrap_or("TCP") == protocol
        })
    }
}

/// The addresses and ports behind a port of a Service and a protocol, seen from a pod of a node; `None` if the Service has no such port.
/// The error says that packets vanish, because its policy leaves none of its endpoints. For a pod that asks a node, a Service's policy for
/// traffic from outside does not count.
pub fn backends(
    service: &Service,
    (asked, protocol): (AskedPort, &str),
    endpoints: &[Endpoint],
    node: &str,
) -> Option<Result<Vec<SocketAddr>, Dropped>> {
    let entry = asked.of(service, protocol)?;
    let policy = service.spec.as_ref()?.internal_traffic_policy.as_deref();
    let is_local = policy == Some("Local") && matches!(asked, AskedPort::Cluster(_));
    let on_node = |endpoint: &&Endpoint| !is_local || endpoint.node.as_deref() == Some(node);
    let left: Vec<Endpoint> = endpoints.iter().filter(on_node).cloned().collect();
    if left.is_empty() && !endpoints.is_empty() {
        return Some(Err(Dropped));
    }
    Some(Ok(backends_of(entry, &left).into_iter().map(|backend| backend.to).collect()))
}

/// No endpoint of a Service may be used from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

/// How long connections of one client stay with an endpoint; `None`: each is on its own.
pub fn affinity(service: &Service) -> Option<Duration> {
    let spec = service.spec.as_ref().filter(|spec| spec.session_affinity.as_deref() == Some("ClientIP"))?;
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds).unwrap_or(AFFINITY_SECONDS);
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// The seconds of affinity of a Service that says none.
const AFFINITY_SECONDS: i32 = 10_800;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_stands_for_another_name_only_by_its_type() {
        let of = |kind: &str| {
            let spec = json!({"type": kind, "externalName": "a.example", "clusterIP": "10.96.0.7"});
            let service: Service = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            alias(&service).map(str::to_owned)
        };
        assert_eq!(of("ExternalName").as_deref(), Some("a.example"));
        assert_eq!(of("ClusterIP"), None, "the API keeps the name when the type changes");
    }

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
            let all =
                backends(service, (AskedPort::Cluster(port), "TCP"), &pod_endpoints(service, pods), "a")?;
            Some(all.map(|all| texts(&all)).unwrap_or_else(|Dropped| "dropped".to_owned()))
        };
        assert_eq!(of(&web, 80, &pods).unwrap(), "10.0.0.1:8001 10.0.0.4:8004");
        assert_eq!(of(&web, 81, &pods).unwrap(), "10.0.0.1:81 10.0.0.4:81");
        assert_eq!((of(&web, 53, &pods), of(&web, 1, &pods)), (None, None));
        let datagrams = backends(&web, (AskedPort::Cluster(53), "UDP"), &pod_endpoints(&web, &pods), "a");
        assert_eq!(texts(&datagrams.unwrap().unwrap()), "10.0.0.1:53 10.0.0.4:53");
        assert_eq!(of(&web, 80, &pods[1..3]).unwrap(), "10.0.0.3:8003", "it ends, and still serves");
        assert_eq!(of(&web, 80, &pods[1..2]).unwrap(), "");
        let local =
            service(json!({"clusterIP": "10.96.0.9", "ports": ports, "internalTrafficPolicy": "Local"}));
        assert_eq!(of(&local, 80, &pods).unwrap(), "10.0.0.1:8001");
        assert_eq!(of(&local, 80, &pods[3..]).unwrap(), "dropped");
        let named = |host| addresses(&pod_endpoints(&web, &pods), host);
        let headless = service(json!({"clusterIP": "None", "publishNotReadyAddresses": true}));
        assert!(is_headless(&headless) && !is_headless(&web));
        let all = pod_endpoints(&headless, &pods);
        assert_eq!(addresses(&all, Some("p-2")), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(addresses(&all, None).len(), 4);
        assert_eq!(named(Some("p-2")), [] as [IpAddr; 0]);
    }

    fn texts(all: &[SocketAddr]) -> String {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slices_made_by_hand_lead_by_the_names_of_ports_and_nodes_by_their_own() {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.9",
            "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "nodePort": 30080}, {"name": "other", "port": 81}]}}))
            .unwrap();
        let slice = |ip: &str, port: i32, ready: bool| -> EndpointSlice {
            serde_json::from_value(json!({"addressType": "IPv4", "ports": [{"name": "http", "port": port}],
                "endpoints": [{"addresses": [ip], "hostname": "h", "conditions": {"ready": ready, "serving": true}}]}))
            .unwrap()
        };
        let slices =
            [slice("10.0.0.1", 8090, true), slice("10.0.0.2", 9090, true), slice("10.0.0.3", 1, false)];
        let endpoints = slice_endpoints(&slices);
        let of = |asked| backends(&service, (asked, "TCP"), &endpoints, "a");
        assert_eq!(texts(&of(AskedPort::Node(30080)).unwrap().unwrap()), "10.0.0.1:8090 10.0.0.2:9090");
        assert_eq!(of(AskedPort::Cluster(80)), Some(Err(Dropped)), "none of them is on the node");
        assert_eq!((of(AskedPort::Node(80)), of(AskedPort::Cluster(82))), (None, None));
        assert_eq!(addresses(&endpoints, Some("h")).len(), 2);
        assert_eq!(
            texts(
                &backends_of(
                    AskedPort::Cluster(80).of(&service, "TCP").unwrap(),
                    &slice_endpoints(&slices[2..])
                )
                .iter()
                .map(|one| one.to)
                .collect::<Vec<_>>()
            ),
            "10.0.0.3:1"
        );
        assert_eq!(affinity(&service), Some(Duration::from_secs(10_800)));
    }
}
