//! The simulated runtime as an endpoint for clients of CRI: kubelets and `crictl`. Their sandboxes and containers are pods of the
//! simulation without an object of the API; the pods of a simulated node are shown beside them, and only the API changes those.
//!
//! [`Endpoint`] is the server: `runtime` and `images` are its calls, `life` starts and ends containers, and `streaming` serves the streams
//! of commands and ports. `table` has the states, `pod`, `environment` and `mounts` make pods of what clients ask.

mod connection;
mod environment;
mod images;
mod life;
mod log_writer;
mod mounts;
mod pod;
mod ports;
mod runtime;
mod session;
mod shown;
mod stats;
mod streaming;
mod table;
mod tokens;
mod websocket;

use super::{AddressOwner, Feed, ManagerMessage, Streams};
use crate::behavior::Delay;
use crate::config::Network;
use crate::cri_socket::CriSocket;
use crate::limits::{
    ENDPOINT_CONNECTIONS, ENDPOINT_EVENTS, ENDPOINT_MESSAGE, ENDPOINT_STOP, MANAGER_MESSAGES,
};
use crate::record::PodRecord;
use images::Images;
use k8s_openapi::api::core::v1::Pod;
use kstore_informer::TaskGroup;
use kstore_proto::cri::v1::ContainerEventResponse;
use kstore_proto::cri::v1::image_service_server::ImageServiceServer;
use kstore_proto::cri::v1::runtime_service_server::RuntimeServiceServer;
use mounts::HostMounts;
pub(crate) use pod::EndpointPod;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::Table;
use tokens::Tokens;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};
use tonic::Status;

/// The addresses of sandboxes until a kubelet says which are those of its node.
const SANDBOXES: Network = Network { base: Ipv4Addr::new(10, 201, 0, 0), prefix: 16 };

/// What a pod of a client of CRI is beside its state: no object of the API says it.
#[derive(Clone)]
pub(crate) struct EndpointView {
    pub(super) pod: Arc<EndpointPod>,
    pub(super) mounts: Arc<HostMounts>,
}

impl EndpointView {
    /// The pod as the API's own type.
    pub(super) fn object(&self, record: &PodRecord) -> Pod {
        self.pod.object(record)
    }
}

/// The addresses of the pods of clients, for connections of other pods.
pub(crate) type EndpointAddresses = Arc<Mutex<BTreeMap<IpAddr, Feed>>>;

/// The pods of a simulated node, and the images that it has by full name and size.
#[derive(Default)]
pub(crate) struct NodeContents {
    pub(crate) pods: Vec<Feed>,
    pub(crate) images: Vec<(String, u64)>,
}

/// What an endpoint is made of.
pub(crate) struct EndpointParts {
    pub(crate) socket: Arc<CriSocket>,
    /// The node whose pods it shows.
    pub(crate) node: String,
    /// Patterns of images that do not exist.
    pub(crate) missing_images: Vec<String>,
    /// From a stop signal until a container without a process ends.
    pub(crate) stop_delay: Delay,
    pub(crate) addresses: EndpointAddresses,
}

/// The server of CRI. Clones share it.
#[derive(Clone)]
pub(crate) struct Endpoint(Arc<Shared>);

/// What all calls of an endpoint share.
pub(crate) struct Shared {
    /// Streams to the pods of clients.
    streams: Streams,
    /// Streams to the pods of the simulation.
    simulation: Streams,
    node: String,
    missing_images: Vec<String>,
    stop_delay: Delay,
    addresses: EndpointAddresses,
    table: Mutex<Table>,
    images: Mutex<Images>,
    events: broadcast::Sender<ContainerEventResponse>,
    tokens: Tokens,
    /// Where the streaming server listens.
    streaming: SocketAddr,
    /// Permits for commands that run to their end for a client.
    commands: Semaphore,
    tasks: TaskGroup,
}

impl Deref for Endpoint {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The error of something that is wrong in the endpoint.
fn problem(why: &dyn std::fmt::Display) -> Status {
    Status::internal(why.to_string())
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn images(&self) -> MutexGuard<'_, Images> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pods and images of the node; none if it is not simulated.
    async fn node_contents(&self) -> NodeContents {
        let (answer, contents) = oneshot::channel();
        let question = ManagerMessage::Contents(self.node.clone(), answer);
        match self.simulation.messages.send(question).await {
            Ok(()) => contents.await.unwrap_or_default(),
            Err(_) => NodeContents::default(),
        }
    }

    fn set_address(&self, address: IpAddr, feed: Option<Feed>) {
        let mut all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        match feed {
            Some(feed) => drop(all.insert(address, feed)),
            None => drop(all.remove(&address)),
        }
    }
}

impl Endpoint {
    /// Passes on what the streams of clients' pods ask and say.
    async fn serve_messages(&self, mut messages: mpsc::Receiver<ManagerMessage>) {
        loop {
            let message = tokio::select! {
                biased;
                () = self.tasks.stop().cancelled() => return,
                message = messages.recv() => message,
            };
            match message {
                Some(ManagerMessage::Query(query)) => {
                    let feed = self.table().sandboxes.get(&query.request.uid).map(table::Sandbox::feed);
                    if let Some(feed) = feed {
                        // The requester may have gone away.
                        let _ = query.answer.send(feed);
                    }
                }
                Some(ManagerMessage::Address(address, answer)) => {
                    let own = owner_of(&self.addresses, address);
                    match own {
                        Some(own) => drop(answer.send(own)),
                        None => {
                            // The simulation may have ended.
                            let _ =
                                self.simulation.messages.send(ManagerMessage::Address(address, answer)).await;
                        }
                    }
                }
                Some(ManagerMessage::Exit(exit)) => {
                    let id = exit.run.trim_start_matches("sim://").to_owned();
                    self.finish(&id, (exit.code.into(), exit.oom)).await;
                }
                Some(ManagerMessage::Logged(line)) => {
                    let outputs = self.table().sandboxes.get(&line.uid).map(table::Sandbox::outputs);
                    if let Some(outputs) = outputs {
                        outputs.log(&line, self.streams.clock.now());
                    }
                }
                Some(ManagerMessage::Warned(warning)) => {
                    tracing::warn!(pod = %warning.pod, reason = warning.reason, "{}", warning.message);
                }
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// The pod of a client that has an address.
pub(crate) fn owner_of(addresses: &EndpointAddresses, address: IpAddr) -> Option<AddressOwner> {
    let all = addresses.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(&address).map(|feed| AddressOwner::Pod(Arc::clone(feed)))
}

/// Serves CRI at a socket until the stop of `tasks`.
pub(crate) async fn serve(simulation: Streams, parts: EndpointParts, tasks: TaskGroup) {
    let path = parts.socket.path().display().to_string();
    if let Err(error) = Box::pin(run(simulation, parts, tasks)).await {
        tracing::error!(%error, socket = path, "the endpoint of the simulated container runtime is not served");
    }
}

async fn run(
    simulation: Streams,
    parts: EndpointParts,
    tasks: TaskGroup,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let listener = UnixListener::from_std(parts.socket.listener()?)?;
    let streaming = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (messages, asked) = mpsc::channel(MANAGER_MESSAGES);
    let streams = Streams { messages, ..simulation.clone() };
    let endpoint = Endpoint(Arc::new(Shared {
        streams,
        simulation,
        table: Mutex::new(Table::new(parts.node.clone(), SANDBOXES)),
        node: parts.node,
        missing_images: parts.missing_images,
        stop_delay: parts.stop_delay,
        addresses: parts.addresses,
        images: Mutex::default(),
        events: broadcast::channel(ENDPOINT_EVENTS).0,
        tokens: Tokens::default(),
        streaming: streaming.local_addr()?,
        commands: Semaphore::new(crate::limits::ENDPOINT_COMMANDS),
        tasks: tasks.clone(),
    }));
    let served = endpoint.clone();
    tasks.spawn(async move { served.serve_messages(asked).await });
    let served = endpoint.clone();
    tasks.spawn(async move { served.serve_streams(streaming).await });
    tracing::info!(socket = %parts.socket.path().display(), node = endpoint.node, "serving the simulated container runtime");
    let runtime = RuntimeServiceServer::new(endpoint.clone()).max_decoding_message_size(ENDPOINT_MESSAGE);
    let images = ImageServiceServer::new(endpoint.clone()).max_decoding_message_size(ENDPOINT_MESSAGE);
    let permits = Arc::new(Semaphore::new(ENDPOINT_CONNECTIONS));
    let incoming = futures::stream::unfold((listener, permits), async |(listener, permits)| {
        // The semaphore is never closed.
        let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
        let accepted = listener.accept().await.map(|(stream, _)| connection::Held::new(stream, permit));
        Some((accepted, (listener, permits)))
    });
    let stop = tasks.stop().clone();
    let serving = tonic::transport::Server::builder()
        .add_service(runtime)
        .add_service(images)
        .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
    tokio::select! {
        biased;
        done = serving => done?,
        // Calls that wait, such as a stream of events, do not hold up the end.
        () = async {
            stop.cancelled().await;
            tokio::time::sleep(ENDPOINT_STOP).await;
        } => {}
    }
    Ok(())
}
