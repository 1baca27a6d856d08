//! `--forward`: listeners on loopback whose connections lead to ports of pods, through the tunnels of their nodes as `kubectl port-forward`
//! does. The Service or pod is looked up for each connection, so a forward may be older than its target.

use crate::args::{Forward, ForwardPort, ForwardTarget};
use crate::pki;
use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_access::rate_limited::RateLimited;
use kstore_apiserver::ApiServer;
use kstore_client::{Client, ListParams};
use kstore_registry::pod_dialer::{ByteStream, PodConnection, PodDialer, PodPort};
use kstore_storage::limits::{REPEATED_WARNING, TUNNEL_STREAMS_OF_USER};
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The pause of a listener after a failed accept, for example with too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A forward whose listener is bound.
#[derive(Debug)]
pub(crate) struct BoundForward {
    listener: TcpListener,
    address: SocketAddr,
    forward: Forward,
}

/// Binds the listeners of all forwards.
///
/// # Errors
/// The first address that cannot be bound, with a fix.
pub(crate) async fn bind(forwards: &[Forward]) -> anyhow::Result<Vec<BoundForward>> {
    let mut bound = Vec::with_capacity(forwards.len());
    for forward in forwards {
        let listener = match TcpListener::bind(forward.listen).await {
            Ok(listener) => listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
                "--forward: port {} of {} is in use by another process; choose another, or 0 for a free one",
                forward.listen.port(),
                forward.listen.ip()
            ),
            Err(error) => {
                let why = format!("--forward: cannot listen on {}", forward.listen);
                return Err(error).context(why);
            }
        };
        let address = listener.local_addr().context("the listener has no address")?;
        bound.push(BoundForward { listener, address, forward: forward.clone() });
    }
    Ok(bound)
}

/// A forward as the ready message and the command of `run` see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownForward {
    /// The address of the listener.
    pub(crate) address: SocketAddr,
    /// The target.
    pub(crate) target: String,
    /// The variable that has the address.
    pub(crate) variable: String,
}

impl fmt::Display for ShownForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.address, self.target)
    }
}

impl BoundForward {
    /// Its address and target.
    pub(crate) fn shown(&self) -> ShownForward {
        let (target, variable) = (self.forward.to_string(), self.forward.variable());
        ShownForward { address: self.address, target, variable }
    }

    /// Accepts connections until `stop`; then the open ones end. Failures are logged, some a minute.
    pub(crate) async fn serve(self, api: ApiServer, client: Client, stop: CancellationToken) {
        let Self { listener, forward, .. } = self;
        let forwarder =
            Forwarder { forward: Arc::new(forward), dialer: api.pod_dialer(pki::ADMIN.user), client };
        let mut connections = JoinSet::new();
        let mut log_limit = RateLimited::every(REPEATED_WARNING);
        let mut turn = 0;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(done) = connections.join_next() => {
                    if let Ok(Err(reason)) = done && let Some(suppressed) = log_limit.allow() {
                        warn!(target = %forwarder.forward, reason, suppressed, "a forwarded connection failed");
                    }
                }
                accepted = listener.accept(), if connections.len() < TUNNEL_STREAMS_OF_USER => match accepted {
                    Ok((socket, _)) => {
                        connections.spawn(forwarder.clone().carry(socket, turn));
                        turn = turn.wrapping_add(1);
                    }
                    Err(error) => {
                        if let Some(suppressed) = log_limit.allow() {
                            warn!(%error, suppressed, "cannot accept a connection to forward");
                        }
                        tokio::time::sleep(ACCEPT_REST).await;
                    }
                }
            }
        }
    }
}

/// What the connections of one forward need. Cheap to clone.
#[derive(Clone)]
struct Forwarder {
    forward: Arc<Forward>,
    dialer: Arc<dyn PodDialer>,
    client: Client,
}

impl Forwarder {
    /// Carries the bytes of one connection until the pod sends no more or the client is gone. `turn` chooses among the pods of a Service.
    /// A connection that reaches no pod is reset.
    async fn carry(self, mut socket: TcpStream, turn: usize) -> Result<(), String> {
        let opened = async {
            let to = self.resolve(turn).await?;
            self.dialer.dial(to).await
        };
        let failed = match opened.await {
            Ok(PodConnection { stream, refused }) => {
                copy(&mut socket, stream).await;
                refused.get().cloned()
            }
            Err(reason) => Some(reason),
        };
        match failed {
            None => {
                // The client may be gone.
                let _ = socket.shutdown().await;
                Ok(())
            }
            Some(reason) => {
                let _ = socket.set_zero_linger();
                Err(reason)
            }
        }
    }

    /// The pod and port for a connection.
    async fn resolve(&self, turn: usize) -> Result<PodPort, String> {
        let Forward { namespace, target, port, .. } = &*self.forward;
        match target {
            ForwardTarget::Pod(name) => {
                let pod = self.client.api::<Pod>().get(namespace, name).await;
                port_of_pod(&pod.map_err(|error| error.to_string())?, port.as_ref())
            }
            ForwardTarget::Service(name) => {
                let service = self.client.api::<Service>().get(namespace, name).await;
                let service = service.map_err(|error| error.to_string())?;
                let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
                let slices = self.client.api::<EndpointSlice>().list(namespace, &params).await;
                let (slices, _) = slices.map_err(|error| error.to_string())?;
                let port = port_of_service(&service, port.as_ref())?;
                let mut pods = ready_pods(&slices, port.name.as_deref().unwrap_or_default());
                match pods.len() {
                    0 => Err(format!("no endpoints available for service \"{name}\"")),
                    count => Ok(pods.swap_remove(turn % count)),
                }
            }
        }
    }
}

/// Copies in both directions until the pod's side ends, or the client's side fails.
async fn copy(socket: &mut TcpStream, stream: Box<dyn ByteStream>) {
    let (mut from_client, mut to_client) = socket.split();
    let (mut from_pod, mut to_pod) = tokio::io::split(stream);
    let upward = async {
        let copied = tokio::io::copy(&mut from_client, &mut to_pod).await;
        // The pod reads the end, and may still send.
        if copied.is_ok() && to_pod.shutdown().await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        // Either side may be gone: that is the end.
        _ = tokio::io::copy(&mut from_pod, &mut to_client) => {}
        () = upward => {}
    }
}

/// The port of a Service that is forwarded.
fn port_of_service<'s>(
    service: &'s Service,
    wanted: Option<&ForwardPort>,
) -> Result<&'s ServicePort, String> {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports: Vec<&ServicePort> =
        ports.filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP").collect();
    let is_wanted = |port: &ServicePort| match wanted {
        None => true,
        Some(ForwardPort::Number(number)) => port.port == i32::from(*number),
        Some(ForwardPort::Name(name)) => port.name.as_deref() == Some(name.as_str()),
    };
    let mut found = ports.iter().filter(|port| is_wanted(port));
    match (found.next(), found.next()) {
        (Some(port), None) => Ok(port),
        _ => {
            let shown = |port: &&ServicePort| match &port.name {
                Some(name) => format!("{name} ({})", port.port),
                None => port.port.to_string(),
            };
            let all: Vec<String> = ports.iter().map(shown).collect();
            Err(format!(
                "service \"{name}\" has the TCP ports {}: name one of them in --forward",
                all.join(", ")
            ))
        }
    }
}

/// The ready pods of a Service, with their port behind the Service's port of this name.
fn ready_pods(slices: &[EndpointSlice], port_name: &str) -> Vec<PodPort> {
    let of_slice = |slice: &EndpointSlice| {
        let mut ports = slice.ports.iter().flatten();
        let port = ports.find(|port| port.name.as_deref().unwrap_or_default() == port_name)?;
        let port = u16::try_from(port.port?).ok()?;
        let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
            endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
        });
        let of_endpoint = |endpoint: &Endpoint| {
            let pod = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?;
            Some(PodPort {
                node: endpoint.node_name.clone()?,
                namespace: slice.metadata.namespace.clone()?,
                name: pod.name.clone()?,
                uid: pod.uid.clone()?,
                port,
            })
        };
        Some(ready.filter_map(of_endpoint).collect::<Vec<_>>())
    };
    slices.iter().filter_map(of_slice).flatten().collect()
}

/// The port of a pod that is forwarded: by number, by the name that a container declares, or the only declared one.
fn port_of_pod(pod: &Pod, wanted: Option<&ForwardPort>) -> Result<PodPort, String> {
    let ObjectMeta { name, namespace, uid, .. } = pod.metadata.clone();
    let name = name.unwrap_or_default();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let declared: Vec<_> = containers.flat_map(|container| container.ports.iter().flatten()).collect();
    let number = match wanted {
        Some(ForwardPort::Number(number)) => Some(i32::from(*number)),
        Some(ForwardPort::Name(wanted)) => {
            let named = declared.iter().find(|port| port.name.as_deref() == Some(wanted.as_str()));
            named.map(|port| port.container_port)
        }
        None => match declared[..] {
            [only] => Some(only.container_port),
            _ => None,
        },
    };
    let port = number.and_then(|number| u16::try_from(number).ok());
    let port = port.ok_or_else(|| {
        let all: Vec<String> = declared.iter().map(|port| port.container_port.to_string()).collect();
        format!("pod \"{name}\" declares the ports [{}]: give the number of one in --forward", all.join(", "))
    })?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let node = node.ok_or_else(|| format!("pod \"{name}\" is not assigned to a node"))?;
    let (namespace, uid) = (namespace.unwrap_or_default(), uid.unwrap_or_default());
    Ok(PodPort { node, namespace, name, uid, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(ports: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"ports": ports}})).unwrap()
    }

    #[test]
    fn a_port_of_a_service_is_named_unless_it_is_the_only_one() {
        let both = service(json!([{"name": "http", "port": 80}, {"name": "admin", "port": 81},
            {"name": "dns", "port": 53, "protocol": "UDP"}]));
        let of = |service: &Service, wanted: Option<ForwardPort>| {
            port_of_service(service, wanted.as_ref()).map(|port| port.port)
        };
        let name = |text: &str| Some(ForwardPort::Name(text.to_owned()));
        assert_eq!(of(&both, name("admin")), Ok(81));
        assert_eq!(of(&both, Some(ForwardPort::Number(80))), Ok(80));
        assert_eq!(of(&service(json!([{"port": 80}])), None), Ok(80));
        let text = "service \"web\" has the TCP ports http (80), admin (81): name one of them in --forward";
        for wanted in [None, name("dns"), Some(ForwardPort::Number(53))] {
            assert_eq!(of(&both, wanted), Err(text.to_owned()));
        }
    }

    #[test]
    fn connections_of_a_service_lead_to_its_ready_pods() {
        let pod = |name: &str| json!({"kind": "Pod", "name": name, "uid": "u"});
        let slice = json!({"metadata": {"namespace": "ns"}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}], "endpoints": [
                {"addresses": ["10.0.0.1"], "nodeName": "n", "targetRef": pod("a")},
                {"addresses": ["10.0.0.2"], "nodeName": "n", "targetRef": pod("b"), "conditions": {"ready": false}},
                {"addresses": ["10.0.0.3"], "nodeName": "n", "targetRef": pod("c"), "conditions": {"ready": true}},
                {"addresses": ["10.0.0.4"], "nodeName": "n"}]});
        let slices: Vec<EndpointSlice> = vec![serde_json::from_value(slice).unwrap()];
        let names: Vec<_> = ready_pods(&slices, "http").into_iter().map(|pod| (pod.name, pod.port)).collect();
        assert_eq!(names, [("a".to_owned(), 8080), ("c".to_owned(), 8080)]);
        assert_eq!(ready_pods(&slices, ""), []);
    }

    #[test]
    fn a_port_of_a_pod_is_a_number_or_a_declared_one() {
        let pod = |ports: Value| -> Pod {
            let spec = json!({"nodeName": "n", "containers": [{"name": "c", "ports": ports}]});
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}))
                .unwrap()
        };
        let of = |pod: &Pod, wanted: Option<ForwardPort>| port_of_pod(pod, wanted.as_ref()).map(|to| to.port);
        let declares = pod(json!([{"name": "http", "containerPort": 8080}]));
        assert_eq!(of(&declares, None), Ok(8080));
        assert_eq!(of(&declares, Some(ForwardPort::Name("http".to_owned()))), Ok(8080));
        assert_eq!(of(&declares, Some(ForwardPort::Number(9))), Ok(9));
        let text = "pod \"p\" declares the ports []: give the number of one in --forward";
        assert_eq!(of(&pod(json!([])), None), Err(text.to_owned()));
    }
}
