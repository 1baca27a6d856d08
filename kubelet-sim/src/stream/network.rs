//! The network of simulated pods: connections of their commands and of the API server, over a fabric in memory. Servers of known images
//! have no task: a connection looks whether one listens at its port, and the task of the client serves the connection, too.

use super::host_network;
use super::host_port;
use super::outside::OutsideAccess;
use super::real;
use super::runner::{ContainerBudget, ProgramRun};
use super::services::Destination;
use super::tls;
use super::{Feed, ManagerMessage, Snapshot, Streams};
use crate::limits::{CONNECT_TIME, CONNECTION_WORK, HANDSHAKE_WORK, NETWORK_BUFFER};
use kstore_container_sim::{
    BufferAllowance, DnsQuestion, Environment, NetworkCall, NetworkEnd, NetworkFailure, NetworkReply,
    ProgramNotFound, Received, ReceivedEnd, Reservation,
};
use kstore_fabric::{Attachment, Host, NetError, Stream};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// The port of name servers.
const DNS_PORT: u16 = 53;

/// What has an address.
pub(crate) enum AddressOwner {
    /// A pod on a simulated node.
    Pod(Feed),
    /// Nothing, in the networks of pods: packets to it vanish.
    Nobody,
    /// A simulated node.
    Node,
    /// There is no way to it.
    Outside,
}

/// A boxed future, which ends the circle of types between clients and servers.
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A connection: the client's end, and what serves the other end, if a dormant server does.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) serving: Option<Boxed<()>>,
}

/// The place of a pod's commands in the network.
#[derive(Clone)]
pub(super) struct PodNetwork {
    pub(super) streams: Streams,
    pub(super) address: Option<IpAddr>,
    owner: Arc<str>,
    /// The namespace of the pod.
    pub(super) tenant: Arc<str>,
    /// The name of the pod.
    pub(super) name: Arc<str>,
    pub(super) node: Arc<str>,
    pub(super) memory: BufferAllowance,
    pub(super) asker: Asker,
    /// Whether it is the network of the pod's node, which the pod shares.
    pub(super) is_of_node: bool,
    /// The way out of the cluster, which programs of this machine have.
    pub(super) outside: Option<Arc<OutsideAccess>>,
}

/// How bytes reach a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// A connection.
    Tcp,
    /// A datagram.
    Udp,
}

impl Transport {
    /// Its name in the API.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A command of a container.
    Command,
    /// A server of a known image. The servers that it asks make no calls of their own, so that requests do not multiply.
    Server,
    /// A kubelet, for a probe or for the API server: it reaches programs, and not the ports that scripted containers only declare.
    Kubelet,
}

impl Streams {
    /// Starts a command of a pod, with its network, in which it connects as `asker`.
    pub(super) async fn start_program(
        &self,
        (snapshot, asker): (&Snapshot, Asker),
        budget: Arc<ContainerBudget>,
        environment: Environment,
        argv: Vec<String>,
    ) -> Result<ProgramRun, ProgramNotFound> {
        let network = self.network_of(snapshot, environment.memory.clone(), asker).await;
        let run = self.runner.start(budget, environment, argv).await?;
        Ok(run.connected(network))
    }

    /// What has an address.
    pub(super) async fn owner_of(&self, address: IpAddr) -> AddressOwner {
        let (answer, owner) = oneshot::channel();
        match self.messages.send(ManagerMessage::Address(address, answer)).await {
            Ok(()) => owner.await.unwrap_or(AddressOwner::Outside),
            Err(_) => AddressOwner::Outside,
        }
    }
}

impl PodNetwork {
    /// The place of the pod of `snapshot`. What its commands receive counts against `memory`.
    pub(super) fn new(streams: &Streams, snapshot: &Snapshot, memory: BufferAllowance, asker: Asker) -> Self {
        let meta = &snapshot.record.pod.metadata;
        Self {
            streams: streams.clone(),
            address: snapshot.machine.ip,
            owner: Arc::from(meta.uid.as_str()),
            tenant: Arc::from(meta.namespace.as_str()),
            name: Arc::from(meta.name.as_str()),
            node: Arc::from(snapshot.record.pod.spec.node_name.as_str()),
            memory,
            asker,
            is_of_node: false,
            outside: None,
        }
    }

    /// The same in the network of its node, which has this address.
    pub(super) fn on_node(self, address: IpAddr) -> Self {
        // All of the node's pods in its network are one host.
        let owner = Arc::from(format!("node/{}", self.node));
        Self { address: Some(address), owner, is_of_node: true, ..self }
    }

    /// The same with a way out of the cluster.
    pub(super) fn with_outside(self, outside: OutsideAccess) -> Self {
        Self { outside: Some(Arc::new(outside)), ..self }
    }

    /// The pod's host in the fabric, while it is used.
    pub(super) fn attach(&self) -> Result<Host, NetworkFailure> {
        let Some(address) = self.address else { return Err(NetworkFailure::Exhausted) };
        let (owner, tenant) = (Arc::clone(&self.owner), Arc::clone(&self.tenant));
        Ok(self.streams.fabric.attach(Attachment { address, owner, tenant }))
    }

    /// Carries out a call. Not an `async fn`: servers make calls, too, and the type of its future would contain itself.
    pub(super) fn perform(self, call: NetworkCall) -> Boxed<NetworkReply> {
        Box::pin(async move {
            if let NetworkEnd::Lookup(question) = &call.end {
                return self.looked_up(question).await;
            }
            if let NetworkEnd::Datagram(name, port) = &call.end {
                return self.datagram(&call, (name, *port)).await;
            }
            let mut progress = Progress { peer: None, bytes: Vec::new(), room: self.memory.hold(0) };
            let within = call.within;
            let end = tokio::select! {
                biased;
                end = self.exchange(call, &mut progress) => end,
                () = sleep(within.unwrap_or_default()), if within.is_some() => Ok(ReceivedEnd::TimedOut),
            };
            progress.reply(end)
        })
    }

    /// The answer to a question about a name.
    async fn looked_up(&self, question: &DnsQuestion) -> NetworkReply {
        let answer = Box::pin(self.streams.lookup(question)).await;
        let (peer, bytes) = (SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), DNS_PORT), Vec::new());
        let result = Ok(Received { peer, bytes, end: ReceivedEnd::Done });
        NetworkReply { result, room: None, answer: Some(answer) }
    }

    async fn exchange(
        &self,
        call: NetworkCall,
        progress: &mut Progress,
    ) -> Result<ReceivedEnd, NetworkFailure> {
        let host = self.attach()?;
        let limit = call.connect_within.unwrap_or(Duration::MAX);
        let connection = match &call.end {
            NetworkEnd::Accept(port) => {
                let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port);
                let mut listener = host.listen(at).map_err(|error| match error {
                    NetError::AddressInUse => NetworkFailure::InUse,
                    _ => NetworkFailure::Exhausted,
                })?;
                let accepted = timeout(limit, listener.accept()).await;
                let stream = accepted.ok().flatten().ok_or(NetworkFailure::TimedOut(at.ip()))?;
                Connection { stream, serving: None }
            }
            NetworkEnd::Lookup(_) | NetworkEnd::Datagram(..) => return Err(NetworkFailure::UnknownName),
            NetworkEnd::Connect(name, port) => {
                let ip = self.address_of(name).await.ok_or(NetworkFailure::UnknownName)?;
                progress.peer = Some(SocketAddr::new(ip, *port));
                match timeout(limit, self.connect(&host, SocketAddr::new(ip, *port))).await {
                    Ok(connection) => connection?,
                    Err(_) => return Err(NetworkFailure::TimedOut(ip)),
                }
            }
        };
        // The client sees the address that it has asked, also of a Service.
        progress.peer = progress.peer.or(Some(connection.stream.peer()));
        if call.most == 0 {
            return Ok(ReceivedEnd::Done);
        }
        transfer(connection, call, progress).await
    }

    /// The address that a name means for the pod.
    pub(super) async fn address_of(&self, name: &str) -> Option<IpAddr> {
        match resolved(name) {
            Some(ip) => Some(ip),
            None => Box::pin(self.streams.resolve(name, &self.tenant)).await,
        }
    }

    /// Connects to a listener of a command, to a server of a known image, or to a pod behind a Service.
    pub(super) async fn connect(&self, host: &Host, to: SocketAddr) -> Result<Connection, NetworkFailure> {
        let client = (&*self.node, host.address());
        let backend = match self.connect_to_pod(host, to).await {
            Err(Unconnected::Outside) => Box::pin(self.streams.backend((to, Transport::Tcp), client)).await,
            Err(Unconnected::Node) => Box::pin(self.streams.node_backend((to, Transport::Tcp), client)).await,
            done => return done.map_err(|why| why.failure(to.ip())),
        };
        match backend.transpose()? {
            // An endpoint is never the client's own loopback, such as that of a server on this machine.
            Some(Destination::Endpoint(endpoint)) if !endpoint.ip().is_loopback() => {
                match self.connect_to_pod(host, endpoint).await {
                    Err(Unconnected::Outside) => self.connect_outside(host, (to, endpoint)).await,
                    Err(Unconnected::Node) => self.connect_to_node(host, endpoint).await,
                    done => done.map_err(|why| why.failure(endpoint.ip())),
                }
            }
            Some(Destination::Endpoint(_)) => Err(NetworkFailure::Refused(to.ip())),
            Some(Destination::ApiServer) => self.connect_to_api_server(host, to).await,
            None if matches!(
                self.streams.owner_of(host_network::own_address(host, to).unwrap_or(to.ip())).await,
                AddressOwner::Node
            ) =>
            {
                self.connect_to_node(host, to).await
            }
            None if self.streams.is_api_server(to).await => self.connect_to_api_server(host, to).await,
            None => self.connect_outside(host, (to, to)).await,
        }
    }

    /// A connection to the API server, which the task of the client serves. Its handshake counts as work of the namespace, because no
    /// container serves it. Servers of images make no such requests of their own, so that requests do not multiply.
    async fn connect_to_api_server(&self, host: &Host, to: SocketAddr) -> Result<Connection, NetworkFailure> {
        if !Box::pin(self.is_let_through((to, Transport::Tcp), None)).await {
            return Err(vanish(to.ip()).await);
        }
        let listener = self.streams.api_server.clone().filter(|_| self.asker == Asker::Command);
        let listener = listener.ok_or(NetworkFailure::Refused(to.ip()))?;
        let (stream, end) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
        let budget = ContainerBudget::new(&self.streams.runner.namespace(&self.tenant));
        let serving: Boxed<()> = Box::pin(async move {
            budget.pay(CONNECTION_WORK + HANDSHAKE_WORK).await;
            listener.serve(end).await;
        });
        Ok(Connection { stream, serving: Some(serving) })
    }

    /// Connects to a pod, or to a listener of the own host.
    pub(super) async fn connect_to_pod(
        &self,
        host: &Host,
        to: SocketAddr,
    ) -> Result<Connection, Unconnected> {
        let failed = |why| Err(Unconnected::Failed(why));
        let ip = to.ip();
        let own = host_network::own_address(host, to);
        let is_own = own.is_some();
        let owner = self.streams.owner_of(own.unwrap_or(ip)).await;
        if let AddressOwner::Pod(feed) = &owner
            && !is_own
            && !Box::pin(self.is_let_through((to, Transport::Tcp), Some(&feed.get().1))).await
        {
            return failed(vanish(ip).await);
        }
        match host.connect(to) {
            Ok(stream) => return Ok(Connection { stream, serving: None }),
            Err(NetError::Exhausted) => return failed(NetworkFailure::Exhausted),
            // A server without a listener may be there.
            Err(_) => {}
        }
        let feed = match owner {
            AddressOwner::Pod(feed) if feed.get().1.reachable => feed,
            AddressOwner::Pod(_) | AddressOwner::Nobody => return failed(vanish(ip).await),
            AddressOwner::Node => return Err(Unconnected::Node),
            AddressOwner::Outside => return Err(Unconnected::Outside),
        };
        let (_, snapshot) = feed.get();
        if real::is_real(&snapshot.record.pod) {
            return real::connect(host, &snapshot, to).await.map_err(Unconnected::Failed);
        }
        let is_declared = host_port::is_open(&snapshot, to.port());
        match self.streams.host_links.of(&snapshot) {
            Some(link) => match host_network::dial(&link, (host, is_own), to).await {
                // A simulated container of the pod may listen.
                Err(NetworkFailure::Refused(_)) if !is_declared => {}
                done => return done.map_err(Unconnected::Failed),
            },
            None if is_declared => {
                let opened = host_port::connect(host, to).await;
                return opened.map_err(Unconnected::Failed);
            }
            None => {}
        }
        let served = Box::pin(self.streams.listener(feed, (to.port(), Transport::Tcp), self.asker)).await;
        let Some(served) = served else { return failed(NetworkFailure::Refused(ip)) };
        let opened = host.open(to).map_err(|_| Unconnected::Failed(NetworkFailure::Exhausted));
        let (stream, end) = opened?;
        Ok(Connection { stream, serving: Some(served.serve(end)) })
    }
}

/// Waits as long as a connection to an address whose packets vanish does, and returns its failure.
pub(super) async fn vanish(address: IpAddr) -> NetworkFailure {
    sleep(CONNECT_TIME).await;
    NetworkFailure::TimedOut(address)
}

/// Why there is no connection to a pod.
pub(super) enum Unconnected {
    /// The address is that of a node.
    Node,
    /// The address is neither that of a pod nor of a node.
    Outside,
    /// There is a pod, or might be one.
    Failed(NetworkFailure),
}

impl Unconnected {
    /// What the program is told that asked for this address.
    pub(super) fn failure(self, address: IpAddr) -> NetworkFailure {
        match self {
            Self::Node => NetworkFailure::Refused(address),
            Self::Outside => NetworkFailure::NoRoute(address),
            Self::Failed(why) => why,
        }
    }
}

/// The address that a host is without a look at the API. The command has read its pod's `/etc/hosts` already.
fn resolved(name: &str) -> Option<IpAddr> {
    match name {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        _ => name.parse().ok(),
    }
}

/// What a call has received so far.
struct Progress {
    peer: Option<SocketAddr>,
    bytes: Vec<u8>,
    room: Option<Reservation>,
}

impl Progress {
    /// Keeps bytes, as far as they are wanted; says how the call ends if it does.
    fn take(&mut self, bytes: &[u8], most: usize) -> Option<ReceivedEnd> {
        let wanted = &bytes[..bytes.len().min(most - self.bytes.len())];
        if !self.room.as_mut().is_some_and(|room| room.grow(wanted.len())) {
            return Some(ReceivedEnd::NoMemory);
        }
        self.bytes.extend_from_slice(wanted);
        (self.bytes.len() >= most).then_some(ReceivedEnd::Done)
    }

    fn reply(self, end: Result<ReceivedEnd, NetworkFailure>) -> NetworkReply {
        let Self { peer, bytes, room } = self;
        let received = |end| Some(Received { peer: peer?, bytes, end });
        let result = match end {
            Ok(end) => received(end).ok_or(NetworkFailure::UnknownName),
            Err(why) => Err(why),
        };
        NetworkReply { result, room: room.map(Arc::new), answer: None }
    }
}

/// Sends and receives over a connection, while its other end is served.
async fn transfer(
    connection: Connection,
    call: NetworkCall,
    progress: &mut Progress,
) -> Result<ReceivedEnd, NetworkFailure> {
    let Connection { stream, serving } = connection;
    let exchange = async {
        match &call.tls {
            None => Ok(exchange(stream, &call, progress).await),
            Some(tls) => match tls::connect(stream, tls).await {
                Ok(stream) => Ok(exchange(stream, &call, progress).await),
                Err(why) => Err(NetworkFailure::Tls(why)),
            },
        }
    };
    tokio::select! {
        biased;
        end = exchange => end,
        () = served(serving) => unreachable!("it does not return"),
    }
}

/// Sends and receives over a stream.
async fn exchange<S: AsyncRead + AsyncWrite>(
    stream: S,
    call: &NetworkCall,
    progress: &mut Progress,
) -> ReceivedEnd {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sending = async {
        // The other end may be gone; what it has sent is read all the same.
        if writer.write_all(&call.send).await.is_ok() && writer.flush().await.is_ok() {
            let _ = writer.shutdown().await;
        }
    };
    let receiving = receive(&mut reader, call, progress);
    let (mut sending, mut receiving) = (pin!(sending), pin!(receiving));
    let mut is_sent = false;
    let end = loop {
        tokio::select! {
            biased;
            end = &mut receiving => break end,
            () = &mut sending, if !is_sent => is_sent = true,
        }
    };
    if end == ReceivedEnd::Done && !is_sent {
        // The other end sends no more, and may still read.
        tokio::select! {
            biased;
            () = &mut sending => {}
            () = sleep(call.idle.unwrap_or(CONNECT_TIME)) => {}
        }
    }
    end
}

async fn receive<S: AsyncRead>(
    reader: &mut tokio::io::ReadHalf<S>,
    call: &NetworkCall,
    progress: &mut Progress,
) -> ReceivedEnd {
    let mut buffer = vec![0; NETWORK_BUFFER];
    loop {
        let read = match call.idle {
            Some(idle) => timeout(idle, reader.read(&mut buffer)).await,
            None => Ok(reader.read(&mut buffer).await),
        };
        match read {
            // A client that only waits for silence has all that it wanted.
            Err(_) => return ReceivedEnd::TimedOut,
            Ok(Err(_)) => return ReceivedEnd::Reset,
            Ok(Ok(0)) => return ReceivedEnd::Done,
            Ok(Ok(count)) => {
                if let Some(end) = progress.take(&buffer[..count], call.most) {
                    return end;
                }
            }
        }
    }
}

/// Serves the other end of a connection; does not return, because the client may still read.
pub(super) async fn served(serving: Option<impl Future<Output = ()>>) {
    if let Some(serving) = serving {
        serving.await;
    }
    std::future::pending::<()>().await;
}

/// The work that a connection is for the container that serves it.
pub(super) async fn pay_connection(budget: &ContainerBudget) {
    budget.pay(CONNECTION_WORK).await;
}

/// When a command's call on the network has ended.
pub(super) struct Arrived {
    pub(super) number: u64,
    pub(super) reply: NetworkReply,
    pub(super) unslept: Duration,
}

/// What is left of a sleep.
pub(super) fn unslept(time: Duration, begun: Instant) -> Duration {
    time.saturating_sub(begun.elapsed())
}
