//! The networks of pods whose containers run programs of this machine: each pod has a namespace of its own, whose gateway joins it to the
//! network of the simulated pods. A program connects as its pod, with the pod's policies, names and Services.

use super::network::{Asker, Connection, PodNetwork};
use super::{Snapshot, Streams};
use crate::dns_message::DnsMessage;
use crate::limits::DATAGRAM_TIME;
use crate::plan::etc::DNS;
use kstore_container_sim::NetworkFailure;
use kstore_fabric::{Host, Stream};
use kstore_host_runtime::gateway::{Boxed, ByteStream, Datagram, Opened, OuterNetwork, Unreached};
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

/// The networks of pods with running programs, by the pods' uids. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct HostLinks {
    all: Arc<Mutex<BTreeMap<String, Weak<PodLink>>>>,
    /// Held while a network is made, so that the containers of a pod get one.
    making: Arc<tokio::sync::Mutex<()>>,
}

impl HostLinks {
    /// The network of a pod while one of its programs runs.
    pub(super) fn of(&self, uid: &str) -> Option<Arc<PodLink>> {
        self.all().get(uid)?.upgrade()
    }

    fn add(&self, uid: &str, link: &Arc<PodLink>) {
        let mut all = self.all();
        all.retain(|_, link| link.strong_count() > 0);
        all.insert(uid.to_owned(), Arc::downgrade(link));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Weak<PodLink>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// The network of a pod, which is made if there is none, for a program that is about to start. `None`: the program has the network of
    /// this machine, because namespaces cannot be had, the pod has the network of its node, or the API server is not in this process.
    pub(super) async fn host_link(
        &self,
        programs: &Arc<HostPrograms>,
        snapshot: &Snapshot,
    ) -> std::result::Result<Option<Arc<PodLink>>, String> {
        let Some(address) = snapshot.machine.ip else { return Ok(None) };
        if self.api_server.is_none() || programs.network().is_err() {
            return Ok(None);
        }
        let uid = &snapshot.record.pod.metadata.uid;
        let _making = self.host_links.making.lock().await;
        if let Some(link) = self.host_links.of(uid) {
            return Ok(Some(link));
        }
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let network = PodNetwork::new(self, snapshot, namespace.allowance(), Asker::Command);
        let host = network.attach().map_err(|_| "the pod has no address".to_owned())?;
        let outer = Arc::new(ProgramNetwork { network, host });
        let (programs, seed) = (Arc::clone(programs), self.rng.below(u64::MAX));
        let link = tokio::task::spawn_blocking(move || programs.link(address, outer, seed)).await;
        let link = link.map_err(|error| error.to_string())?;
        let link = Arc::new(link.map_err(|error| format!("cannot make the network of the pod: {error}"))?);
        self.host_links.add(uid, &link);
        Ok(Some(link))
    }

    /// The bytes of an answer to a question about a name; `None` if there is none.
    async fn answer_question(&self, bytes: &[u8], is_udp: bool) -> Option<Vec<u8>> {
        match DnsMessage::read(bytes) {
            Ok(message) => {
                let answer = Box::pin(self.lookup(&message.question())).await;
                message.answer(&answer, is_udp)
            }
            Err(refusal) => refusal,
        }
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

/// Connects `host` to a port of a pod's programs. The program sees the address of the client, or of its gateway if the client is the pod
/// itself or its kubelet.
pub(super) async fn dial(
    link: &PodLink,
    (host, is_own): (&Host, bool),
    to: SocketAddr,
) -> std::result::Result<Connection, NetworkFailure> {
    let (stream, end) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
    let from: Option<IpAddr> = (!is_own).then(|| host.address());
    match link.gateway().dial(from, to.port(), Box::new(FabricStream(end))).await {
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
                let streams = network.streams.clone();
                let serving: Boxed<()> = Box::pin(async move { drop(streams.answer_questions(end).await) });
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
                    if let Some(answer) = network.streams.answer_question(&datagram.bytes, true).await {
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
struct FabricStream(Stream);

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
