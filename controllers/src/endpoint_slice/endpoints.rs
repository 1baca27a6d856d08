//! Endpoints of a Service: pods converted to endpoints, grouped by their resolved ports. Pure.

use crate::view::Pod;
use k8s_openapi::api::core::v1::{ObjectReference, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A resolved port: name, protocol, number, application protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    pub name: String,
    pub protocol: String,
    pub number: i32,
    pub app_protocol: Option<String>,
}

impl Port {
    /// The port as in an EndpointSlice.
    pub(crate) fn to_slice(&self) -> EndpointPort {
        EndpointPort {
            name: Some(self.name.clone()),
            protocol: Some(self.protocol.clone()),
            port: Some(self.number),
            app_protocol: self.app_protocol.clone(),
        }
    }

    /// Converts a port of an EndpointSlice.
    pub(crate) fn of_slice(port: &EndpointPort) -> Self {
        Self {
            name: port.name.clone().unwrap_or_default(),
            protocol: port.protocol.clone().unwrap_or_default(),
            number: port.port.unwrap_or(0),
            app_protocol: port.app_protocol.clone(),
        }
    }
}

/// `IPv4` or `IPv6`.
pub(crate) type Family = String;

/// Endpoints by their resolved ports.
pub(crate) type Groups = BTreeMap<Vec<Port>, Vec<Endpoint>>;

/// The address families of a Service.
pub(crate) fn families(spec: &ServiceSpec) -> Vec<Family> {
    match &spec.ip_families {
        Some(families) if !families.is_empty() => families.clone(),
        _ => vec!["IPv4".to_owned()],
    }
}

/// Endpoints of a service's pods in one IP family, grouped by ports. `zones` maps nodes to zones.
pub(crate) fn groups(
    service: &Service,
    family: &str,
    pods: &[Arc<Pod>],
    zones: &BTreeMap<String, String>,
) -> Groups {
    let mut groups = Groups::new();
    let Some(spec) = service.spec.as_ref() else { return groups };
    for pod in pods.iter().filter(|p| !p.status.phase.is_terminal()) {
        if let Some(ip) = address(pod, family) {
            let endpoint = endpoint(service, spec, pod, ip, zones);
            groups.entry(ports(spec, pod)).or_default().push(endpoint);
        }
    }
    groups
}

/// The pod's address of a family.
pub(crate) fn address<'a>(pod: &'a Pod, family: &str) -> Option<&'a str> {
    let listed = pod.status.pod_ips.iter().map(|ip| ip.ip.as_str());
    let fits = |ip: &IpAddr| ip.is_ipv6() == (family == "IPv6");
    listed.chain([pod.status.pod_ip.as_str()]).find(|ip| ip.parse().as_ref().is_ok_and(fits))
}

/// The resolved ports of the Service on this pod, sorted. A named port that the pod lacks is omitted.
pub(crate) fn ports(spec: &ServiceSpec, pod: &Pod) -> Vec<Port> {
    let mut ports: Vec<Port> = spec
        .ports
        .iter()
        .flatten()
        .filter_map(|port| {
            Some(Port {
                name: port.name.clone().unwrap_or_default(),
                protocol: protocol(port).to_owned(),
                number: number(port, pod)?,
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    ports.sort();
    ports
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let all = pod.spec.containers.iter().flat_map(|c| &c.ports);
            let same = |p: &str| if p.is_empty() { "TCP" } else { p } == protocol(port);
            all.filter(|p| p.name == *name && same(&p.protocol)).map(|p| p.container_port).next()
        }
    }
}

/// Whether the Service publishes unready addresses.
pub(crate) fn publishes_all(spec: &ServiceSpec) -> bool {
    spec.publish_not_ready_addresses.unwrap_or(false)
}

fn endpoint(
    service: &Service,
    spec: &ServiceSpec,
    pod: &Pod,
    ip: &str,
    zones: &BTreeMap<String, String>,
) -> Endpoint {
    let (serving, terminating) = (pod.ready(), pod.metadata.is_deleting());
    let node = &pod.spec.node_name;
    Endpoint {
        addresses: vec![ip.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all(spec) || serving && !terminating),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        node_name: (!node.is_empty()).then(|| node.clone()),
        target_ref: Some(reference(pod)),
        zone: zones.get(node).cloned(),
        ..Endpoint::default()
    }
}

/// The pod's DNS host name within this Service.
pub(crate) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let named = !pod.spec.hostname.is_empty() && Some(&pod.spec.subdomain) == service.metadata.name.as_ref();
    named.then(|| pod.spec.hostname.clone())
}

/// The pod as target reference of an endpoint.
pub(crate) fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: Some(pod.metadata.namespace.clone()),
        name: Some(pod.metadata.name.clone()),
        uid: Some(pod.metadata.uid.clone()),
        ..ObjectReference::default()
    }
}
