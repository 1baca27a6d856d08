//! The networks of pods whose containers run programs of this machine: each pod has a namespace of its own, whose gateway joins it to the
//! network of the simulated pods. A program connects as its pod, with the pod's policies, names and Services. Pods with `hostNetwork` share
//! the namespace of their simulated node, which has the node's address.

use super::network::{Asker, Connection, PodNetwork};
use super::outside::OutsideAccess;
use super::{Snapshot, Streams};
use crate::limits::DATAGRAM_TIME;
use crate::plan::etc::DNS;
use k8s_openapi::api::core::v1::Node;
use kstore_container_sim::{BufferAllowance, NetworkFailure};
use kstore_fabric::{Host, Stream};
use kstore_host_runtime::gateway::{Boxed, ByteStream, Datagram, Opened, OuterNetwork, PodPort, Unreached};
use kstore_host_runtime::{HostPrograms, PodLink};
use std::collections::BTreeMap;
use std::io::Result;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

/// The port of name servers.
const DNS_PORT: u16 = 53;
/// The beginning of the keys of nodes' networks, which no uid of a pod has.
const NODE: &str = "node/";

/// Networks with their addresses, by the uids of pods and the names of nodes.
type LinksByKey = BTreeMap<String, (IpAddr, Weak<PodLink>)>;

/// The networks of pods with running programs, by the pods' uids, and of nodes, by their names behind [`NODE`]. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct HostLinks {
    all: Arc<Mutex<LinksByKey>>,
    /// Held while a network is made, so that the containers of a pod get one.
    making: Arc<tokio::sync::Mutex<()>>,
}

impl HostLinks {
    /// The network of a pod while one of its programs runs, or one of another pod in the same network.
    pub(super) fn of(&self, snapshot: &Snapshot) -> Option<Arc<PodLink>> {
        self.all().get(&key(snapshot))?.1.upgrade()
    }

    /// The network of the node with an address, while a program of a pod with `hostNetwork` runs there.
    pub(super) fn at_node(&self, address: IpAddr) -> Option<Arc<PodLink>> {
        let all = self.all();
        let mut nodes = all.range(NODE.to_owned()..).take_while(|(key, _)| key.starts_with(NODE));
        nodes.find(|(_, (own, _))| *own == address)?.1.1.upgrade()
    }

    /// The address of the node in whose network the programs of a pod with `hostNetwork` run.
    fn node_address(&self, snapshot: &Snapshot) -> Option<IpAddr> {
        let all = self.all();
        let (address, link) = all.get(&key(snapshot)).filter(|_| snapshot.record.pod.spec.host_network)?;
        (link.strong_count() > 0).then_some(*address)
    }

    fn add(&self, key: String, address: IpAddr, link: &Arc<PodLink>) {
        let mut all = self.all();
        all.retain(|_, (_, link)| link.strong_count() > 0);
        all.insert(key, (address, Arc::downgrade(link)));
    }

    fn all(&self) -> MutexGuard<'_, LinksByKey> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network of a pod: its uid, or its node's name.
fn key(snapshot: &Snapshot) -> String {
    let pod = &snapshot.record.pod;
    match pod.spec.host_network {
        true => format!("{NODE}{}", pod.spec.node_name),
        false => pod.metadata.uid.clone(),
    }
}

impl Streams {
    /// The network of a pod, which is made if there is none, for a program that is about to start. `None`: the program has the network of
    /// this machine, because namespaces cannot be had, or the API server is not in this process, and a flag says that this is meant.
    pub(super) async fn host_link(
        &self,
        programs: &Arc<HostPrograms>,
        snapshot: &Snapshot,
    ) -> std::result::Result<Option<Arc<PodLink>>, String> {
        if !self.has_host_networks() {
            // Pods are refused before; nothing may reach the machine's network by another way.
            let refusal = programs.refusal(self.api_server.is_some());
            return refusal.map_or(Ok(None), |why| Err(why.to_string()));
        }
        let _making = self.host_links.making.lock().await;
        if let Some(link) = self.host_links.of(snapshot) {
            return Ok(Some(link));
        }
        let is_of_node = snapshot.record.pod.spec.host_network;
        let address = match is_of_node {
            true => self.address_of_node(&snapshot.record.pod.spec.node_name).await,
            false => snapshot.machine.ip,
        };
        let address = address.ok_or("the pod, or its node, has no address")?;
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let network = PodNetwork::new(self, snapshot, namespace.allowance(), Asker::Command);
        let network = network.with_outside(OutsideAccess::new(snapshot));
        let network = if is_of_node { network.on_node(address) } else { network };
        let host = network.attach().map_err(|_| "the pod has no address".to_owned())?;
        let outer = Arc::new(ProgramNetwork { network, host });
        let (programs, seed) = (Arc::clone(programs), self.rng.below(u64::MAX));
        let link = tokio::task::spawn_blocking(move || programs.link(address, outer, seed)).await;
        let link = link.map_err(|error| error.to_string())?;
        let link = Arc::new(link.map_err(|error| format!("cannot make the network of the pod: {error}"))?);
        self.host_links.add(key(snapshot), address, &link);
        Ok(Some(link))
    }

    /// Whether programs of this machine have networks of their own, once they run.
    pub(super) fn has_host_networks(&self) -> bool {
        self.api_server.is_some() && self.programs.as_ref().is_some_and(|programs| programs.network().is_ok())
    }

    /// The place of a simulated pod in the network: its own, or with `hostNetwork` that of its node.
    pub(super) async fn network_of(
        &self,
        snapshot: &Snapshot,
        memory: BufferAllowance,
        asker: Asker,
    ) -> PodNetwork {
        let network = PodNetwork::new(self, snapshot, memory, asker);
        let spec = &snapshot.record.pod.spec;
        if network.address.is_some() || !spec.host_network {
            return network;
        }
        match self.address_of_node(&spec.node_name).await {
            Some(address) => network.on_node(address),
            None => network,
        }
    }

    /// The address of a node.
    async fn address_of_node(&self, name: &str) -> Option<IpAddr> {
        let node = self.client.api::<Node>().get("", name).await.ok()?;
        let addresses = node.status?.addresses.into_iter().flatten();
        addresses.filter(|one| one.type_ == "InternalIP").find_map(|one| one.address.parse().ok())
    }

    /// The place of a pod's kubelet, or of a client of the pod's loopback interface. `None` if the pod has no network: it has that of its
    /// node, in which no program runs.
    pub(super) fn kubelet_network(&self, snapshot: &Snapshot) -> Option<(IpAddr, PodNetwork)> {
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let network = PodNetwork::new(self, snapshot, namespace.allowance(), Asker::Kubelet);
        match snapshot.machine.ip {
            Some(address) => Some((address, network)),
            None => {
                let address = self.host_links.node_address(snapshot)?;
                Some((address, network.on_node(address)))
            }
        }
    }
}

impl PodNetwork {
    /// Connects to a port of a node, at which a program of a pod with `hostNetwork` listens, or which is that of a pod.
    pub(super) async fn connect_to_node(
        &self,
        host: &Host,
        to: SocketAddr,
    ) -> std::result::Result<Connection, NetworkFailure> {
        let own = own_address(host, to);
        let node = own.unwrap_or(to.ip());
        if let Some(link) = self.streams.host_links.at_node(node) {
            match dial(&link, (host, own.is_some()), to).await {
                // A simulated pod may have the port.
                Err(NetworkFailure::Refused(_)) => {}
                done => return done,
            }
        }
        self.connect_to_pod_of_node(host, node, to).await
    }

    /// Answers the questions of a connection, in order, until it ends.
    async fn answer_questions(self, mut stream: Stream) -> Result<()> {
        loop {
            // Each message has its length before it.
            let mut bytes = vec![0; stream.read_u16().await?.into()];
            stream.read_exact(&mut bytes).await?;
            let Some(answer) = self.answer_question(&bytes, false).await else { return Ok(()) };
            let Ok(length) = u16::try_from(answer.len()) else { return Ok(()) };
            stream.write_u16(length).await?;
            stream.write_all(&answer).await?;
        }
    }
}

/// The address of `host` if it connects to itself.
pub(super) fn own_address(host: &Host, to: SocketAddr) -> Option<IpAddr> {
    let ip = to.ip();
    (ip.is_loopback() || ip.is_unspecified() || ip == host.address()).then(|| host.address())
}

/// Connects `host` to a port of a pod's programs. The program sees the address of the client, or of its gateway if the client is the pod
/// itself or its kubelet.
pub(super) async fn dial(
    link: &PodLink,
    (host, is_own): (&Host, bool),
    to: SocketAddr,
) -> std::result::Result<Connection, NetworkFailure> {
    let (stream, end) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
    let from: Option<IpAddr> = (!is_own).then(|| host.address());
    let port = match to.ip().is_loopback() {
        true => PodPort::Loopback(to.port()),
        false => PodPort::Pod(to.port()),
    };
    match link.gateway().dial(from, port, Box::new(FabricStream(end))).await {
        Ok(()) => Ok(Connection { stream, serving: None }),
        Err(Unreached::Refused) => Err(NetworkFailure::Refused(to.ip())),
        Err(Unreached::Vanished | Unreached::NoRoute) => Err(NetworkFailure::NoRoute(to.ip())),
    }
}

/// The network of simulated pods, as the programs of one of them reach it.
struct ProgramNetwork {
    network: PodNetwork,
    /// The pod's place in it while its programs run.
    host: Host,
}

impl OuterNetwork for ProgramNetwork {
    fn connect(&self, to: SocketAddr) -> Boxed<std::result::Result<Opened, Unreached>> {
        let (network, host) = (self.network.clone(), self.host.clone());
        Box::pin(async move {
            if is_name_server(to) {
                let (stream, end) = host.open(to).map_err(|_| Unreached::Refused)?;
                let serving: Boxed<()> = Box::pin(async move { drop(network.answer_questions(end).await) });
                return Ok(Opened { stream: Box::new(FabricStream(stream)), serving: Some(serving) });
            }
            match network.connect(&host, to).await {
                Ok(Connection { stream, serving }) => {
                    Ok(Opened { stream: Box::new(FabricStream(stream)), serving })
                }
                Err(NetworkFailure::TimedOut(_)) => Err(Unreached::Vanished),
                Err(NetworkFailure::NoRoute(_)) => Err(Unreached::NoRoute),
                Err(_) => Err(Unreached::Refused),
            }
        })
    }

    fn send(&self, datagram: Datagram) -> Boxed<()> {
        let (network, host) = (self.network.clone(), self.host.clone());
        Box::pin(async move {
            let passing = async {
                if is_name_server(datagram.to) {
                    if let Some(answer) = network.answer_question(&datagram.bytes, true).await {
                        datagram.answers.send(answer);
                    }
                    return;
                }
                Box::pin(network.pass(&host, datagram)).await;
            };
            // What was not answered by then will not be.
            let _ = timeout(DATAGRAM_TIME, passing).await;
        })
    }
}

/// Whether an address is that of the cluster's DNS.
fn is_name_server(to: SocketAddr) -> bool {
    to.port() == DNS_PORT && DNS.parse() == Ok(to.ip())
}

/// A stream of the network in memory, for a gateway.
pub(super) struct FabricStream(pub(super) Stream);

impl ByteStream for FabricStream {
    fn reset(self: Box<Self>) {
        self.0.reset();
    }
}

impl AsyncRead for FabricStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for FabricStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
