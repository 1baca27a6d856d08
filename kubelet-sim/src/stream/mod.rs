//! Streams of simulated nodes: logs, exec, attach and port-forward. One tunnel to the server, opened here, carries the streams of all
//! nodes; each stream is a task that follows its pod through a [`Feed`]. `kstore-container-sim` computes the bytes that a stream sends;
//! nothing on the host is touched but for containers whose images are mapped to programs of it, `host` and its siblings, and for those that
//! a container runtime runs: `real`.

mod console;
mod datagrams;
mod disks;
mod endpoint;
mod environment;
mod exec;
mod execution;
mod external_usage;
mod health;
mod host;
mod host_attach;
mod host_exec;
mod host_network;
mod host_port;
mod host_resize;
mod host_volumes;
mod http;
mod kubelet;
mod latest;
mod log;
mod network;
mod node_ports;
mod outputs;
mod outside;
mod pipe;
mod policies;
mod port;
mod program;
mod real;
mod request;
mod runner;
mod service_cache;
mod services;
mod serving;
mod termination;
mod tls;
mod tokens;
mod trust_bundles;
mod volumes;

use crate::affinity::Affinities;
use crate::api_server::ApiServerListener;
use crate::egress::Egress;
use crate::identities::Identities;
use crate::limits::{MANAGER_MESSAGES, PROGRAM_STARTS, TUNNEL_BACKOFF};
use crate::pod::Pod;
use crate::record::PodRecord;
pub(crate) use console::Console;
pub(crate) use disks::Disks;
pub(crate) use endpoint::{
    EndpointAddresses, EndpointParts, EndpointView, NodeContents, owner_of as endpoint_owner_of,
    serve as serve_endpoint,
};
pub(crate) use execution::{ExecutionDone, PodExecution};
pub(crate) use external_usage::UsageCaches;
use host_network::HostLinks;
use jiff::Timestamp;
use kstore_api::status::{Details, Reason, Status};
use kstore_api::version::Minor;
use kstore_client::{
    ApiError, Client, NodeStream, RefusedNode, StreamKind, StreamRequest, Tunnel, TunnelEvent,
};
use kstore_container_sim::ServerCertificate;
use kstore_fabric::Fabric;
use kstore_host_runtime::HostPrograms;
use kstore_informer::Key;
use kstore_nondet::{Clock, Rng};
use kubelet::NodeCounters;
pub(crate) use latest::Latest;
pub(crate) use network::AddressOwner;
pub(crate) use outputs::Outputs;
pub(crate) use policies::Policies;
pub(crate) use program::Launch;
pub(crate) use real::{RealNode, RuntimeReport, RuntimeState};
use runner::ProgramRunner;
pub(crate) use service_cache::ServiceCache;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
pub(crate) use termination::TerminationMessageSource;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
pub(crate) use trust_bundles::trust_bundles_of;

/// The HTTP code of an API server that has no tunnels.
const NO_TUNNELS: u16 = 405;

/// The state of a pod, for its streams.
pub(crate) struct Snapshot {
    pub(crate) record: Arc<PodRecord>,
    pub(crate) machine: Pod,
    pub(crate) disks: Arc<Disks>,
    pub(crate) outputs: Option<Arc<Outputs>>,
    /// Whether the pod's node answers.
    pub(crate) reachable: bool,
    /// Whether the Pod object is deleted.
    pub(crate) gone: bool,
    /// What the pod is, if a client of CRI has made it: there is no object of the API then.
    pub(crate) endpoint: Option<EndpointView>,
}

/// The channel through which a stream learns the state of its pod.
pub(crate) type Feed = Arc<Latest<Snapshot>>;

/// A stream's request for the feed of its pod. The manager drops `answer` if it has no such pod.
pub(crate) struct PodQuery {
    pub(crate) request: StreamRequest,
    pub(crate) answer: oneshot::Sender<Feed>,
}

/// Report that the process of a container ended by itself.
pub(crate) struct Exit {
    /// Name and namespace of the pod.
    pub(crate) pod: Key,
    pub(crate) uid: String,
    /// Name of the container.
    pub(crate) container: String,
    /// ID of the run.
    pub(crate) run: String,
    pub(crate) code: u8,
    /// Whether it was killed for want of memory.
    pub(crate) oom: bool,
    /// When it ended; `None`: now.
    pub(crate) at: Option<Timestamp>,
}

/// A warning about a container, for an Event of its pod.
pub(crate) struct ContainerWarning {
    /// Name and namespace of the pod.
    pub(crate) pod: Key,
    pub(crate) uid: String,
    /// Index of the container in its pod; `None`: the warning is about the pod.
    pub(crate) index: Option<usize>,
    /// The reason of the Event.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// A line that a server of an image logs about a request, in a container that runs no command.
pub(crate) struct ServerLine {
    /// Name and namespace of the pod.
    pub(crate) pod: Key,
    pub(crate) uid: String,
    /// Name of the container.
    pub(crate) container: String,
    /// ID of the run.
    pub(crate) run: String,
    /// Whether it goes to standard error.
    pub(crate) is_error: bool,
    /// The line, with its end.
    pub(crate) line: String,
}

/// A message of a stream to the manager.
pub(crate) enum ManagerMessage {
    Query(PodQuery),
    Exit(Exit),
    Executed(Box<ExecutionDone>),
    Logged(Box<ServerLine>),
    Warned(Box<ContainerWarning>),
    /// A container runtime has done something for a pod.
    Runtime(Box<RuntimeReport>),
    /// The state of a container runtime.
    RuntimeState(Box<RuntimeState>),
    /// Asks what has an address.
    Address(IpAddr, oneshot::Sender<AddressOwner>),
    /// Asks what a simulated node has.
    Contents(String, oneshot::Sender<NodeContents>),
    /// Asks which pods are in the network of the node with an address, or have ports there.
    NodePods(IpAddr, oneshot::Sender<Vec<Feed>>),
    /// The server refuses the tunnel, for the reason in this text.
    Refused(String),
    /// The server refuses these nodes, and serves the others.
    RefusedNodes(Vec<RefusedNode>),
}

/// What simulated pods reach beside each other, and what restricts them.
pub(crate) struct NetworkAccess {
    /// Serves connections to the API server; `None`: they are refused.
    pub(crate) api_server: Option<ApiServerListener>,
    /// The policies that restrict connections; `None`: they are not enforced.
    pub(crate) policies: Option<Policies>,
    /// The Services of the cluster.
    pub(crate) services: ServiceCache,
    /// What programs of this machine reach outside of the cluster.
    pub(crate) egress: Arc<Egress>,
}

/// State that the streams of all nodes share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Streams {
    client: Client,
    identities: Identities,
    clock: Clock,
    rng: Rng,
    /// The Kubernetes version of the API server.
    minor: Minor,
    serving: Arc<Latest<Vec<String>>>,
    messages: mpsc::Sender<ManagerMessage>,
    /// Threads and budgets of commands.
    runner: ProgramRunner,
    /// The network of the pods.
    fabric: Fabric,
    /// Serves connections of pods to the API server.
    api_server: Option<ApiServerListener>,
    /// The policies that restrict connections; `None`: they are not enforced.
    policies: Option<Policies>,
    /// The Services of the cluster.
    services: ServiceCache,
    /// What programs of this machine reach outside of the cluster.
    egress: Arc<Egress>,
    /// Endpoints that clients of Services with session affinity use.
    affinities: Arc<Mutex<Affinities>>,
    /// The certificate that images bring with servers, once one was asked for it.
    own_certificate: Arc<OnceLock<ServerCertificate>>,
    /// Permits for starting commands of containers.
    program_starts: Arc<Semaphore>,
    /// Images that are mapped to programs of this machine.
    programs: Option<Arc<HostPrograms>>,
    /// The container runtime of a node.
    real: Option<Arc<RealNode>>,
    /// The networks of the pods that run them.
    host_links: HostLinks,
    /// Processor time of the nodes whose metrics were read.
    cpu_counters: NodeCounters,
    /// What decides about the usage of pods besides their annotations, if the cluster has the API of simulations.
    usage_caches: Option<UsageCaches>,
}

impl Streams {
    /// Creates the streams of the nodes that `serving` names, now and later; returns the receiver of their messages to the manager.
    /// Pods connect as `access` says.
    pub(crate) fn new(
        (client, identities, minor): (Client, Identities, Minor),
        clock: Clock,
        rng: Rng,
        (serving, access): (Arc<Latest<Vec<String>>>, NetworkAccess),
    ) -> (Self, mpsc::Receiver<ManagerMessage>) {
        let (messages, receiver) = mpsc::channel(MANAGER_MESSAGES);
        let program_starts = Arc::new(Semaphore::new(PROGRAM_STARTS));
        (
            Self {
                client,
                identities,
                clock,
                rng,
                minor,
                serving,
                messages,
                runner: ProgramRunner::new(),
                fabric: Fabric::default(),
                api_server: access.api_server,
                policies: access.policies,
                services: access.services,
                egress: access.egress,
                affinities: Arc::default(),
                own_certificate: Arc::default(),
                program_starts,
                programs: None,
                real: None,
                host_links: HostLinks::default(),
                cpu_counters: NodeCounters::default(),
                usage_caches: None,
            },
            receiver,
        )
    }

    /// Lets these objects decide about the usage of pods, too.
    pub(crate) fn with_usage_caches(self, usage_caches: Option<UsageCaches>) -> Self {
        Self { usage_caches, ..self }
    }

    /// Lets containers whose images are mapped run programs of this machine.
    pub(crate) fn with_programs(self, programs: Option<Arc<HostPrograms>>) -> Self {
        Self { programs, ..self }
    }

    /// Lets the containers of a node be those of a container runtime.
    pub(crate) fn with_runtime(self, real: Option<RealNode>) -> Self {
        Self { real: real.map(Arc::new), ..self }
    }

    /// The certificate for `localhost` of servers whose image brings one.
    fn own_certificate(&self) -> Result<&ServerCertificate, String> {
        if let Some(known) = self.own_certificate.get() {
            return Ok(known);
        }
        let made = tls::self_signed(&self.rng)?;
        Ok(self.own_certificate.get_or_init(|| made))
    }

    /// A client of the node that the pod is on.
    fn client_of(&self, snapshot: &Snapshot) -> Client {
        self.identities.client(&snapshot.record.pod.spec.node_name, &self.client)
    }

    /// Keeps a tunnel to the server open until `stop`. Returns early if the server has no tunnels.
    pub(crate) async fn run(self, stop: &CancellationToken) {
        let mut waits = TUNNEL_BACKOFF.waits();
        while !stop.is_cancelled() {
            let (seen, nodes) = self.serving.get();
            let opened = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                opened = self.client.tunnel(nodes.to_vec()) => opened,
            };
            let ended = match opened {
                Ok(tunnel) => {
                    waits.reset();
                    self.carry(tunnel, seen, stop).await
                }
                Err(error) => Some(error),
            };
            let Some(error) = ended else { return };
            if error.code() == Some(NO_TUNNELS) {
                tracing::info!(
                    "logs, exec, attach and port-forward of simulated pods are not served: the API server dials kubelets instead of using tunnels"
                );
                return;
            }
            tracing::debug!(%error, "no tunnel to the server");
            // Other errors are temporary, or the writes of the nodes fail with them as well and report them.
            if error.is_already_exists() || error.is_forbidden() {
                // The manager may have ended.
                let _ = self.messages.send(ManagerMessage::Refused(error.to_string())).await;
            }
            let pause = self.jittered(waits.advance());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// A random time between half of `wait` and `wait`.
    fn jittered(&self, wait: Duration) -> Duration {
        self.rng.scaled(wait, 0.5..1.0)
    }

    /// Serves the streams of a tunnel until the tunnel ends; returns the error that ended it, `None` at a stop. Refused nodes are
    /// requested again after waits that double.
    async fn carry(&self, mut tunnel: Tunnel, mut seen: u64, stop: &CancellationToken) -> Option<ApiError> {
        let mut tasks = JoinSet::new();
        let (mut waits, mut ask_again) = (TUNNEL_BACKOFF.waits(), None);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                (number, nodes) = self.serving.after(seen) => {
                    seen = number;
                    (waits, ask_again) = (TUNNEL_BACKOFF.waits(), None);
                    tunnel.serve(nodes.to_vec());
                }
                () = tokio::time::sleep_until(ask_again.unwrap_or_else(Instant::now)), if ask_again.is_some() => {
                    ask_again = None;
                    tunnel.serve(self.serving.get().1.to_vec());
                }
                event = tunnel.next() => match event {
                    Ok(TunnelEvent::Opened(stream)) => drop(tasks.spawn(self.clone().serve(*stream))),
                    Ok(TunnelEvent::Refused(nodes)) => {
                        ask_again = Some(Instant::now() + self.jittered(waits.advance()));
                        // The manager may have ended.
                        let _ = self.messages.send(ManagerMessage::RefusedNodes(nodes)).await;
                    }
                    Err(error) => return Some(error),
                },
                Some(done) = tasks.join_next() => {
                    if let Err(error) = done {
                        tracing::error!(%error, "a stream of a simulated container failed");
                    }
                }
            }
        }
    }

    async fn serve(self, stream: NodeStream) {
        if stream.request.kind == StreamKind::Kubelet {
            return self.kubelet(stream).await;
        }
        let (answer, feed) = oneshot::channel();
        let look = PodQuery { request: stream.request.clone(), answer };
        let feed = match self.messages.send(ManagerMessage::Query(look)).await {
            Ok(()) => feed.await.ok(),
            Err(_) => None,
        };
        let Some(feed) = feed else {
            let status = unknown_pod(&stream.request);
            return stream.refuse(&status);
        };
        match stream.request.kind.clone() {
            StreamKind::Log(options) => self.log(&feed, &options, stream).await,
            StreamKind::Exec(argv, terminal) => self.exec(&feed, &argv, terminal, stream).await,
            StreamKind::Attach(terminal) => self.attach(&feed, terminal, stream).await,
            StreamKind::Port(port) => self.port(&feed, port, stream).await,
            StreamKind::Kubelet => unreachable!("it is about no pod, see above"),
        }
    }
}

/// The server's status when a kubelet answers 404.
fn unknown_pod(request: &StreamRequest) -> Status {
    let resource = match request.kind {
        StreamKind::Log(_) => "pods/log",
        StreamKind::Exec(..) => "pods/exec",
        StreamKind::Attach(_) => "pods/attach",
        StreamKind::Port(_) | StreamKind::Kubelet => "pods/portforward",
    };
    let name = &request.pod;
    let mut status =
        Status::bad_request(format!("the server could not find the requested resource ( {resource} {name})"));
    status.code = 404;
    status.reason = Reason::NotFound;
    let (name, kind) = (name.clone(), resource.to_owned());
    status.details = Some(Box::new(Details { name, kind, ..Details::default() }));
    status
}
