//! Services as the network of pods sees them: which Service or pod a name means, and which pods are behind a Service's port, as kube-proxy
//! and CoreDNS decide. Pure.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint as SliceEndpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
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

/// The label by which a Service is left to another proxy than kube-proxy.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// The label of EndpointSlices that are for names only. Their controller gives it to those of headless Services.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Whether connections to the cluster address and the ports of a Service are served, as kube-proxy does.
pub fn is_proxied(service: &Service) -> bool {
    !has_label(&service.metadata, OTHER_PROXY) && alias(service).is_none()
}

/// Whether connections through a Service go to the endpoints of a slice, as kube-proxy decides. Names lead to those of all slices.
pub fn is_proxied_slice(slice: &EndpointSlice) -> bool {
    !has_label(&slice.metadata, HEADLESS)
}

fn has_label(meta: &ObjectMeta, label: &str) -> bool {
    meta.labels.as_ref().is_some_and(|labels| labels.contains_key(label))
}

/// The cluster addresses of a Service.
pub fn cluster_addresses(service: &Service) -> Vec<IpAddr> {
    let spec = service.spec.as_ref();
    let all = spec.and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default();
    let first = spec.and_then(|spec| spec.cluster_ip.clone());
    let all = if all.is_empty() { first.into_iter().collect() } else { all };
    all.iter().filter_map(|ip| ip.parse().ok()).collect()
}

/// The ports that all nodes have for a Service, each once.
pub fn node_ports(service: &Service) -> BTreeSet<u16> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.filter_map(|port| u16::try_from(port.node_port?).ok().filter(|number| *number > 0)).collect()
}

/// An endpoint of a Service: an entry of one of its EndpointSlices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: IpAddr,
    /// Its host name in the DNS.
    host: String,
    node: Option<String>,
    is_ready: bool,
    /// Whether it ends, and still serves.
    is_ending: bool,
    /// The ports of its slice.
    ports: Arc<[SlicePort]>,
}

/// A port of an EndpointSlice, which has the name of the Service's port that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SlicePort {
    name: String,
    protocol: String,
    number: Option<i32>,
}

impl Endpoint {
    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The first port of its slice.
    pub fn first_port(&self) -> Option<u16> {
        self.ports.first()?.number?.try_into().ok()
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The number of its port behind a port of its Service.
    fn target(&self, entry: &ServicePort) -> Option<u16> {
        let name = entry.name.as_deref().unwrap_or_default();
        let protocol = entry.protocol.as_deref().unwrap_or("TCP");
        let port = self.ports.iter().find(|port| port.name == name && port.protocol == protocol)?;
        u16::try_from(port.number?).ok()
    }
}

/// The entries of an EndpointSlice.
pub fn slice_endpoints(slice: &EndpointSlice) -> Vec<Endpoint> {
    let port = |port: &EndpointPort| SlicePort {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        number: port.port,
    };
    let ports: Arc<[SlicePort]> = slice.ports.iter().flatten().map(port).collect();
    let endpoint = |one: &SliceEndpoint| {
        let conditions = one.conditions.clone().unwrap_or_default();
        let address: IpAddr = one.addresses.first()?.parse().ok()?;
        Some(Endpoint {
            address,
            host: one.hostname.clone().unwrap_or_else(|| dashed(address)),
            node: one.node_name.clone(),
            is_ready: conditions.ready != Some(false),
            is_ending: conditions.serving != Some(false) && conditions.terminating == Some(true),
            ports: Arc::clone(&ports),
        })
    };
    slice.endpoints.iter().flatten().filter_map(endpoint).collect()
}

/// The endpoints that take connections: ready ones, else those that end and still serve.
fn serving<'e>(endpoints: impl Iterator<Item = &'e Endpoint> + Clone) -> Vec<&'e Endpoint> {
    let ready: Vec<_> = endpoints.clone().filter(|endpoint| endpoint.is_ready).collect();
    if ready.is_empty() { endpoints.filter(|endpoint| endpoint.is_ending).collect() } else { ready }
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

/// The addresses of endpoints, each once; with a host name only of the endpoints that have it.
pub fn addresses(endpoints: &[&Endpoint], host: Option<&str>) -> Vec<IpAddr> {
    let named = endpoints.iter().filter(|endpoint| host.is_none_or(|host| endpoint.host == host));
    let mut all: Vec<IpAddr> = named.map(|endpoint| endpoint.address).collect();
    let mut seen = BTreeSet::new();
    all.retain(|address| seen.insert(*address));
    all
}

/// The host names of the endpoints that have an address.
pub fn hosts_at<'e>(endpoints: &[&'e Endpoint], address: IpAddr) -> impl Iterator<Item = &'e str> {
    endpoints
        .iter()
        .filter(move |endpoint| endpoint.address == address)
        .map(|endpoint| endpoint.host.as_str())
}

/// What endpoints offer behind a port of their Service.
pub fn backends_of(entry: &ServicePort, endpoints: &[&Endpoint]) -> Vec<Backend> {
    let backend = |endpoint: &&Endpoint| {
        let to = SocketAddr::new(endpoint.address, endpoint.target(entry)?);
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

/// The addresses and ports behind a port of a Service and a protocol, each once, seen from a pod of a node; `None` if the Service has no
/// such port. The error says that packets vanish, because its policy leaves none of its endpoints. For a pod that asks a node, a Service's
/// policy for traffic from outside does not count.
pub fn backends<'e>(
    service: &Service,
    (asked, protocol): (AskedPort, &str),
    endpoints: impl Iterator<Item = &'e Endpoint> + Clone,
    node: &str,
) -> Option<Result<Vec<SocketAddr>, Dropped>> {
    let entry = asked.of(service, protocol)?;
    let policy = service.spec.as_ref()?.internal_traffic_policy.as_deref();
    let is_local = policy == Some("Local") && matches!(asked, AskedPort::Cluster(_));
    let chosen = match is_local {
        false => serving(endpoints),
        true => {
            let own = serving(endpoints.clone().filter(|endpoint| endpoint.node.as_deref() == Some(node)));
            if own.is_empty() && !serving(endpoints).is_empty() {
                return Some(Err(Dropped));
            }
            own
        }
    };
    let to = |endpoint: &Endpoint| Some(SocketAddr::new(endpoint.address, endpoint.target(entry)?));
    let mut all: Vec<SocketAddr> = chosen.into_iter().filter_map(to).collect();
    // Several slices may have one endpoint.
    all.sort_unstable();
    all.dedup();
    Some(Ok(all))
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

    fn service(spec: serde_json::Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
    }

    /// A slice with a port `http` and one endpoint.
    fn slice(
        ip: &str,
        port: i32,
        (ready, serving, terminating): (bool, bool, bool),
        node: &str,
    ) -> EndpointSlice {
        let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
        serde_json::from_value(json!({"addressType": "IPv4", "ports": [{"name": "http", "port": port}],
            "endpoints": [{"addresses": [ip], "hostname": "h", "nodeName": node, "conditions": conditions}]}))
        .unwrap()
    }

    const READY: (bool, bool, bool) = (true, true, false);
    const ENDING: (bool, bool, bool) = (false, true, true);
    const UNREADY: (bool, bool, bool) = (false, false, false);

    /// Where connections to a port of `service` go from node `a`.
    fn led(service: &Service, asked: AskedPort, slices: &[EndpointSlice]) -> Option<String> {
        let endpoints: Vec<Endpoint> = slices.iter().flat_map(slice_endpoints).collect();
        let all = backends(service, (asked, "TCP"), endpoints.iter(), "a")?;
        Some(all.map(|all| texts(&all)).unwrap_or_else(|Dropped| "dropped".to_owned()))
    }

    fn texts(all: &[SocketAddr]) -> String {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_port_of_a_service_leads_to_ready_endpoints_else_to_those_that_end() {
        let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}, {"name": "other", "port": 81},
            {"name": "http", "port": 53, "protocol": "UDP"}]);
        let web = service(json!({"clusterIP": "10.96.0.9", "ports": ports}));
        let slices = [
            slice("10.0.0.1", 8090, READY, "a"),
            slice("10.0.0.3", 1, ENDING, "b"),
            slice("10.0.0.2", 9090, READY, "b"),
            slice("10.0.0.2", 9090, READY, "b"),
            slice("10.0.0.4", 1, UNREADY, "a"),
        ];
        let cluster =
            |service: &Service, slices: &[EndpointSlice]| led(service, AskedPort::Cluster(80), slices);
        assert_eq!(cluster(&web, &slices).unwrap(), "10.0.0.1:8090 10.0.0.2:9090", "each once");
        assert_eq!(led(&web, AskedPort::Node(30080), &slices).unwrap(), "10.0.0.1:8090 10.0.0.2:9090");
        assert_eq!(
            led(&web, AskedPort::Cluster(81), &slices).unwrap(),
            "",
            "no slice has a port of this name"
        );
        for none in [AskedPort::Cluster(53), AskedPort::Cluster(1), AskedPort::Node(80)] {
            assert_eq!(led(&web, none, &slices), None, "{none:?}");
        }
        assert_eq!(cluster(&web, &slices[1..2]).unwrap(), "10.0.0.3:1", "it ends, and still serves");
        assert_eq!(cluster(&web, &slices[4..]).unwrap(), "");
        let local =
            service(json!({"clusterIP": "10.96.0.9", "ports": ports, "internalTrafficPolicy": "Local"}));
        assert_eq!(cluster(&local, &slices).unwrap(), "10.0.0.1:8090");
        assert_eq!(cluster(&local, &slices[2..]).unwrap(), "dropped");
        assert_eq!(led(&local, AskedPort::Node(30080), &slices[2..]).unwrap(), "10.0.0.2:9090");
        assert_eq!(cluster(&local, &slices[4..]).unwrap(), "", "no other node has endpoints");
        let endpoints: Vec<Endpoint> = slices.iter().flat_map(slice_endpoints).collect();
        let ready: Vec<&Endpoint> = endpoints.iter().filter(|one| one.is_ready()).collect();
        assert_eq!((addresses(&ready, Some("h")).len(), addresses(&ready, Some("i")).len()), (2, 0));
        let affine = service(json!({"sessionAffinity": "ClientIP"}));
        assert_eq!((affinity(&affine), affinity(&web)), (Some(Duration::from_secs(10_800)), None));
    }

    #[test]
    fn services_of_other_proxies_and_other_names_have_no_served_address() {
        let of = |labels: serde_json::Value, kind: &str| {
            let spec = json!({"type": kind, "externalName": "a.example", "clusterIP": "10.96.0.7",
                "ports": [{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30080}, {"port": 82}]});
            let service: Service =
                serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": spec})).unwrap();
            assert_eq!(node_ports(&service), [30080].into());
            assert_eq!(cluster_addresses(&service), ["10.96.0.7".parse::<IpAddr>().unwrap()]);
            is_proxied(&service)
        };
        assert!(of(json!({"app": "a"}), "NodePort"));
        assert!(!of(json!({"service.kubernetes.io/service-proxy-name": "other"}), "NodePort"));
        assert!(of(json!({"service.kubernetes.io/headless": ""}), "NodePort"), "the label is one of slices");
        assert!(!of(json!({}), "ExternalName"));
        let mut slice = slice("10.0.0.1", 1, READY, "a");
        assert!(is_proxied_slice(&slice));
        slice.metadata.labels = Some([(HEADLESS.to_owned(), String::new())].into());
        assert!(!is_proxied_slice(&slice));
    }
}
