//! Resolution of a Service to an address, without a cluster network: first by the operator's table of
//! backends, then by the cluster's objects (ExternalName, ready endpoints). Pure except for reading the
//! cluster.

use crate::lookup::Lookup;
use crate::pod_dialer::PodPort;
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use serde_json::Value;
use std::str::FromStr;
use std::sync::Arc;

/// Services that programs beside the server provide, by namespace and name: `--webhook-service-resolve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceBackends(Vec<ServiceBackend>);

/// The address of a Service: `NAMESPACE/NAME[:PORT]=HOST:PORT`.
///
/// Only the dialled address changes; the server's certificate must still be for `<name>.<namespace>.svc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBackend {
    namespace: String,
    name: String,
    /// The port of the Service that this address provides; `None`: all ports.
    port: Option<u16>,
    /// The address to dial, as `host:port`.
    address: String,
}

/// The text of a backend has the wrong form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have the form NAMESPACE/NAME[:PORT]=HOST:PORT, for example default/my-webhook=127.0.0.1:9443")]
pub struct ServiceBackendError;

impl FromStr for ServiceBackend {
    type Err = ServiceBackendError;

    fn from_str(text: &str) -> Result<Self, ServiceBackendError> {
        read(text).ok_or(ServiceBackendError)
    }
}

fn read(text: &str) -> Option<ServiceBackend> {
    let (service, address) = text.split_once('=')?;
    let (namespace, name) = service.split_once('/')?;
    let (name, port) = match name.split_once(':') {
        None => (name, None),
        Some((name, port)) => (name, Some(u16::from_str(port).ok().filter(|port| *port > 0)?)),
    };
    let (host, dialled) = address.rsplit_once(':')?;
    let is_named = !namespace.is_empty() && !name.is_empty() && !host.is_empty();
    u16::from_str(dialled).ok().filter(|port| is_named && *port > 0)?;
    Some(ServiceBackend { namespace: namespace.into(), name: name.into(), port, address: address.into() })
}

impl ServiceBackends {
    /// A table of backends. The first of several backends of one Service is used.
    pub fn new(backends: Vec<ServiceBackend>) -> Self {
        Self(backends)
    }

    /// Whether the table has a backend for this port of a Service.
    pub fn serves(&self, namespace: &str, name: &str, port: u16) -> bool {
        self.address(namespace, name, port).is_some()
    }

    fn address(&self, namespace: &str, name: &str, port: u16) -> Option<&str> {
        let serves = |backend: &&ServiceBackend| {
            backend.namespace == namespace
                && backend.name == name
                && backend.port.is_none_or(|only| only == port)
        };
        self.0.iter().find(serves).map(|backend| backend.address.as_str())
    }
}

/// Where a Service is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// The address, as `host:port`.
    pub(super) address: String,
    /// The pod that has the address; `None` for other endpoints.
    pub(super) pod: Option<PodPort>,
}

impl Destination {
    /// An address that is no pod's.
    pub(super) fn of_address(address: impl Into<String>) -> Self {
        Self { address: address.into(), pod: None }
    }
}

/// Resolves a port of a Service to the address of its first ready endpoint, and the pod that has it.
///
/// # Errors
/// Kubernetes' text: the Service, its port or its endpoints do not exist.
pub(super) fn resolve(
    cluster: &dyn Lookup,
    backends: &ServiceBackends,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Destination, String> {
    if let Some(address) = backends.address(namespace, name, port) {
        return Ok(Destination::of_address(address));
    }
    let service = cluster.get(row("", "services"), namespace, name);
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    if service["spec"]["type"] == "ExternalName" {
        let host = service["spec"]["externalName"].as_str().unwrap_or_default();
        return Ok(Destination::of_address(format!("{host}:{port}")));
    }
    let port_name = named_port(&service, port);
    let port_name = port_name.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let slices = slices(cluster, namespace, name);
    let ready = slices.iter().find_map(|slice| ready_endpoint(slice, port_name));
    ready.ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

/// The name of a Service's port; `None` if it has no such port.
fn named_port(service: &Value, port: u16) -> Option<&str> {
    let ports = service["spec"]["ports"].as_array();
    let named = ports.into_iter().flatten().find(|candidate| candidate["port"] == port);
    named.map(|named| named["name"].as_str().unwrap_or_default())
}

/// The EndpointSlices of a Service.
fn slices(cluster: &dyn Lookup, namespace: &str, name: &str) -> Vec<Arc<Value>> {
    let mut slices = cluster.list(row("discovery.k8s.io", "endpointslices"), namespace);
    slices.retain(|slice| meta::label(slice, "kubernetes.io/service-name") == Some(name));
    slices
}

/// The reason for which a Service cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The Service does not exist.
    NoService,
    /// The Service lacks the port.
    NoPort,
    /// The Service has no EndpointSlice.
    NoSlices,
    /// No endpoint with the port of this name is ready.
    NoAddresses(String),
}

impl ServiceBackends {
    /// Checks, by the cluster's objects, whether a port of a Service can be dialled.
    ///
    /// # Errors
    /// The missing object or endpoint.
    pub(super) fn check(
        &self,
        cluster: &dyn Lookup,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<(), Unreachable> {
        if self.address(namespace, name, port).is_some() {
            return Ok(());
        }
        let service = cluster.get(row("", "services"), namespace, name).ok_or(Unreachable::NoService)?;
        if service["spec"]["type"] == "ExternalName" {
            return Ok(());
        }
        let port_name = named_port(&service, port).ok_or(Unreachable::NoPort)?;
        let slices = slices(cluster, namespace, name);
        match slices.iter().any(|slice| ready_endpoint(slice, port_name).is_some()) {
            true => Ok(()),
            false if slices.is_empty() => Err(Unreachable::NoSlices),
            false => Err(Unreachable::NoAddresses(port_name.to_owned())),
        }
    }
}

/// The first ready endpoint of a slice, at the port with this name.
fn ready_endpoint(slice: &Arc<Value>, port_name: &str) -> Option<Destination> {
    let ports = slice["ports"].as_array()?;
    let port = ports.iter().find(|port| port["name"].as_str().unwrap_or_default() == port_name)?;
    let port = port["port"].as_u64()?;
    let endpoints = slice["endpoints"].as_array()?;
    let ready = endpoints.iter().find(|endpoint| endpoint["conditions"]["ready"] != false)?;
    let address = ready["addresses"].as_array()?.first()?.as_str()?;
    let text =
        if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    Some(Destination { address: text, pod: pod_of(meta::namespace(slice), ready, u16::try_from(port).ok()?) })
}

/// The pod that an endpoint stands for, if it is on a node.
fn pod_of(namespace: &str, endpoint: &Value, port: u16) -> Option<PodPort> {
    let target = &endpoint["targetRef"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(PodPort {
        node: text(&endpoint["nodeName"])?,
        namespace: namespace.to_owned(),
        name: text(&target["name"]).filter(|_| target["kind"] == "Pod")?,
        uid: text(&target["uid"])?,
        port,
    })
}

fn row(group: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, "v1", plural).expect("Services and EndpointSlices are in the table of kinds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapLookup;
    use serde_json::json;

    fn cluster() -> Arc<MapLookup> {
        let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "ns"}, "spec": spec});
        let slice = |name: &str, service: &str, endpoints: Value| {
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": name, "namespace": "ns", "labels": {"kubernetes.io/service-name": service}},
                "ports": [{"name": "web", "port": 8443}], "endpoints": endpoints})
        };
        let ports = json!({"ports": [{"name": "web", "port": 443}]});
        MapLookup::of([
            service("up", ports.clone()),
            service("down", ports.clone()),
            service("six", ports),
            service("away", json!({"type": "ExternalName", "externalName": "hook.example.com"})),
            slice(
                "up-1",
                "up",
                json!([
                    {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
                    {"addresses": ["10.0.0.2"], "conditions": {"ready": true}, "nodeName": "n",
                        "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}},
                ]),
            ),
            slice("down-1", "down", json!([{"addresses": ["10.0.0.3"], "conditions": {"ready": false}}])),
            slice("six-1", "six", json!([{"addresses": ["fd00::1"]}])),
        ])
    }

    #[test]
    fn services_resolve_to_addresses_or_fail_with_kubernetes_messages() {
        let backends = ["ns/mine=127.0.0.1:9443", "ns/up:8080=127.0.0.1:1"];
        let backends = ServiceBackends::new(backends.map(|text| text.parse().unwrap()).into());
        let cluster = cluster();
        let cases = [
            (("mine", 443), Ok("127.0.0.1:9443")),
            (("up", 443), Ok("10.0.0.2:8443")),
            (("up", 8080), Ok("127.0.0.1:1")),
            (("six", 443), Ok("[fd00::1]:8443")),
            (("away", 443), Ok("hook.example.com:443")),
            (("none", 443), Err("service \"none\" not found")),
            (("up", 80), Err("no service port 80 found for service \"up\"")),
            (("down", 443), Err("no endpoints available for service \"down\"")),
        ];
        for ((name, port), expected) in cases {
            let resolved = resolve(&*cluster, &backends, "ns", name, port);
            let pod = resolved.as_ref().ok().and_then(|destination| destination.pod.clone());
            let address = resolved.map(|destination| destination.address);
            assert_eq!(address, expected.map(str::to_owned).map_err(str::to_owned), "{name}:{port}");
            assert_eq!(pod.is_some(), (name, port) == ("up", 443), "{name}:{port}: {pod:?}");
        }
        let pod = resolve(&*cluster, &backends, "ns", "up", 443).unwrap().pod.unwrap();
        let expected = ["n", "ns", "p", "u"].map(str::to_owned);
        assert_eq!(([pod.node, pod.namespace, pod.name, pod.uid], pod.port), (expected, 8443));
    }

    #[test]
    fn malformed_service_backends_are_refused() {
        let bad = [
            "ns=1.2.3.4:5",
            "ns/name",
            "/name=1.2.3.4:5",
            "ns/=a:1",
            "ns/n=a",
            "ns/n=a:0",
            "ns/n:x=a:1",
            "ns/n=:1",
        ];
        for text in bad {
            assert_eq!(text.parse::<ServiceBackend>(), Err(ServiceBackendError), "{text}");
        }
    }
}
