//! The backend of a proxied request: Kubernetes' checks of pods, services and nodes, in its order and with
//! its texts.

use crate::pipeline::Pipeline;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::lookup::Lookup as _;
use kstore_registry::request::Target;
use pb::stream_open::What;
use serde_json::Value;
use std::sync::Arc;

/// The default port of a kubelet.
const KUBELET: u64 = 10250;

/// A backend: the stream to open through the tunnel, and its address.
#[derive(Debug)]
pub struct Backend {
    /// What the node is asked to connect to.
    pub open: pb::StreamOpen,
    /// The address and port of the backend.
    pub host: String,
    /// Whether the connection to it begins with TLS: the request names the scheme `https`.
    pub has_tls: bool,
}

impl Backend {
    /// 503 with the node's text about the port.
    pub fn refused(&self, text: &str) -> Status {
        match text.ends_with("connection refused") {
            true => unreachable(&format_args!("dial tcp {}: connect: connection refused", self.host)),
            false => unreachable(&text),
        }
    }
}

/// 503 with Kubernetes' text for failures to reach a backend.
pub fn unreachable(why: &dyn std::fmt::Display) -> Status {
    Status::service_unavailable(format!("error trying to reach service: {why}"))
}

/// The name in a proxy path: `[scheme:]name[:port]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackendName<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) name: &'a str,
    pub(crate) port: &'a str,
}

impl<'a> BackendName<'a> {
    /// Parses a name; `None` if it is malformed.
    pub(crate) fn read(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let id = match parts.as_slice() {
            [name] => Self { scheme: "", name, port: "" },
            [name, port] => Self { scheme: "", name, port },
            [scheme, name, port] => Self { scheme, name, port },
            _ => return None,
        };
        (!id.name.is_empty() && matches!(id.scheme, "" | "http" | "https")).then_some(id)
    }
}

fn core(plural: &str) -> &'static Resource {
    kind::lookup("", "v1", plural).expect("pods, services and nodes are in the table")
}

impl Pipeline {
    /// The backend that serves `target`.
    ///
    /// # Errors
    /// 400, 404 or 503 if there is none.
    pub fn proxy_backend(&self, target: &Target) -> Result<Backend, Status> {
        let what = target.resource.singular;
        let invalid = || Status::bad_request(format!("invalid {what} request {:?}", target.name));
        let id = BackendName::read(&target.name).ok_or_else(invalid)?;
        match target.resource.plural {
            "nodes" => self.node_backend(id),
            "services" => self.service_backend(&target.namespace, id, &target.name),
            _ => self.pod_backend(&target.namespace, id),
        }
    }

    fn get_object(&self, plural: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let resource = core(plural);
        let found = self.cache().get(resource, &resource.storage_key(namespace, name));
        found.map(|entry| Arc::new(entry.parse())).ok_or_else(|| Status::not_found(resource, name))
    }

    fn pod_backend(&self, namespace: &str, id: BackendName<'_>) -> Result<Backend, Status> {
        let pod = self.get_object("pods", namespace, id.name)?;
        let first = || {
            let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            containers.filter_map(|container| container["ports"][0]["containerPort"].as_u64()).next()
        };
        let port = match id.port {
            "" => first().map_or_else(|| default_port(id.scheme).to_owned(), |port| port.to_string()),
            port => port.to_owned(),
        };
        port_of(&pod, &port, id.scheme)
    }

    fn service_backend(
        &self,
        namespace: &str,
        id: BackendName<'_>,
        requested: &str,
    ) -> Result<Backend, Status> {
        let service = self.get_object("services", namespace, id.name)?;
        let port = match id.port.parse::<i64>() {
            Err(_) => id.port,
            Ok(number) => named_port(&service, number).ok_or_else(|| {
                let text = format!("no service port {number} found for service {:?}", id.name);
                Status::service_unavailable(text)
            })?,
        };
        let none =
            |name: &str| Status::service_unavailable(format!("no endpoints available for service {name:?}"));
        let slices = self.slices(namespace, id.name);
        if slices.iter().all(|slice| slice["endpoints"].as_array().is_none_or(Vec::is_empty)) {
            return Err(none(id.name));
        }
        let found = candidates(&slices, port);
        let start = match found.len() {
            0 => return Err(none(requested)),
            length => usize::try_from(self.nondet().rng.below(length as u64)).unwrap_or(0),
        };
        let (pod, number) = &found[start];
        let pod = self.get_object("pods", namespace, pod).map_err(|_| none(requested))?;
        port_of(&pod, &number.to_string(), id.scheme)
    }

    /// The EndpointSlices of a service.
    fn slices(&self, namespace: &str, service: &str) -> Vec<Arc<Value>> {
        let resource = kind::lookup("discovery.k8s.io", "v1", "endpointslices").expect("it is in the table");
        let mut slices = self.cache().list(resource, namespace);
        slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
        slices
    }

    fn node_backend(&self, id: BackendName<'_>) -> Result<Backend, Status> {
        let node = self.get_object("nodes", "", id.name)?;
        let kubelet = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
        let kubelet = kubelet.filter(|port| *port != 0).unwrap_or(KUBELET).to_string();
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let ip =
            addresses.filter(|address| address["type"] == "InternalIP").find_map(|a| a["address"].as_str());
        let host = |port: &str| host_port(ip.unwrap_or(id.name), port);
        if !id.port.is_empty() && id.port != kubelet {
            let refused = format!("dial tcp {}: connect: connection refused", host(id.port));
            return Err(unreachable(&refused));
        }
        let what = Some(What::Kubelet(pb::KubeletStream {}));
        let open = pb::StreamOpen { node: id.name.to_owned(), what, ..Default::default() };
        Ok(Backend { open, host: host(&kubelet), has_tls: false })
    }
}

fn default_port(scheme: &str) -> &'static str {
    if scheme == "https" { "443" } else { "80" }
}

/// The name of the service's port with this number.
fn named_port(service: &Value, number: i64) -> Option<&str> {
    let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.find(|port| port["port"] == number).map(|port| port["name"].as_str().unwrap_or_default())
}

/// The ready pods behind a service's port, each with the number of its own port.
fn candidates<'a>(slices: &'a [Arc<Value>], port: &str) -> Vec<(&'a str, u64)> {
    let mut found = Vec::new();
    for slice in slices {
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        let number = ports.find(|one| one["name"].as_str().unwrap_or_default() == port);
        let Some(number) = number.and_then(|port| port["port"].as_u64()) else { continue };
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let pods = ready.filter(|endpoint| endpoint["targetRef"]["kind"] == "Pod");
        found.extend(pods.filter_map(|endpoint| Some((endpoint["targetRef"]["name"].as_str()?, number))));
    }
    found
}

/// The backend of a pod's port.
fn port_of(pod: &Value, port: &str, scheme: &str) -> Result<Backend, Status> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ip = text(&pod["status"]["podIP"]);
    if ip.is_empty() {
        return Err(Status::bad_request("address not allowed"));
    }
    let host = host_port(&ip, port);
    let Ok(number) = port.parse::<u16>() else {
        return Err(unreachable(&format_args!("dial tcp: lookup tcp/{port}: unknown port")));
    };
    let open = pb::StreamOpen {
        id: 0,
        node: text(&pod["spec"]["nodeName"]),
        namespace: text(&pod["metadata"]["namespace"]),
        pod: text(&pod["metadata"]["name"]),
        uid: text(&pod["metadata"]["uid"]),
        container: String::new(),
        what: Some(What::Port(pb::PortStream { port: number.into() })),
    };
    Ok(Backend { open, host, has_tls: scheme == "https" })
}

fn host_port(ip: &str, port: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::BackendName;

    #[test]
    fn backend_names_may_have_a_scheme_and_a_port() {
        let id = |scheme, name, port| Some(BackendName { scheme, name, port });
        let cases = [
            ("web", id("", "web", "")),
            ("web:80", id("", "web", "80")),
            ("web:", id("", "web", "")),
            ("https:web:", id("https", "web", "")),
            ("http:web:http", id("http", "web", "http")),
            ("ftp:web:21", None),
            (":80", None),
            ("a:b:c:d", None),
        ];
        for (text, expected) in cases {
            assert_eq!(BackendName::read(text), expected, "{text}");
        }
    }
}
