//! Logs, commands and ports of simulated containers for those who ask the server for them. The server reaches the nodes through
//! a tunnel that is opened here, one for all of them; each stream in it is a task that follows its pod through a [`Feed`]. What a
//! stream sends is computed by `kstore-container-sim`, which touches nothing on the host.

mod disks;
mod environment;
mod exec;
mod http;
mod kubelet;
mod latest;
mod log;
mod outputs;
mod port;
mod program;
mod tokens;

use crate::identities::Identities;
use crate::limits::{LOOK_QUEUE, PROGRAM_STARTS, TUNNEL_RETRY_BASE, TUNNEL_RETRY_MAX};
use crate::manager::record::PodRecord;
use crate::pod::Pod;
pub(crate) use disks::Disks;
use kstore_api::status::{Details, Reason, Status};
use kstore_client::{
    ApiError, Client, NodeStream, RefusedNode, StreamKind, StreamRequest, Tunnel, TunnelEvent,
};
use kstore_container_sim::{BufferCapacity, DiskCapacity};
use kstore_informer::Key;
use kstore_nondet::{Clock, Rng};
use kubelet::NodeCounters;
pub(crate) use latest::Latest;
pub(crate) use outputs::Outputs;
pub(crate) use program::Launch;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A pod as a stream sees it.
pub(crate) struct Snapshot {
    pub(crate) record: Arc<PodRecord>,
    pub(crate) machine: Pod,
    pub(crate) disks: Arc<Disks>,
    pub(crate) outputs: Option<Arc<Outputs>>,
    /// Its node answers.
    pub(crate) reachable: bool,
    /// The object is gone.
    pub(crate) gone: bool,
}

/// How a stream hears of its pod.
pub(crate) type Feed = Arc<Latest<Snapshot>>;

/// A stream asks the manager for its pod; nothing is answered if there is none.
pub(crate) struct Look {
    pub(crate) request: StreamRequest,
    pub(crate) answer: oneshot::Sender<Feed>,
}

/// The process of a container has ended by itself.
pub(crate) struct Exit {
    /// Its pod.
    pub(crate) pod: Key,
    /// Its pod's uid.
    pub(crate) uid: String,
    /// Its container.
    pub(crate) container: String,
    /// Which run.
    pub(crate) run: String,
    pub(crate) code: u8,
}

/// What streams say to the manager.
pub(crate) enum Word {
    Look(Look),
    Exit(Exit),
    /// The server refuses the tunnel, for the reason in this text.
    Refused(String),
    /// The server refuses these nodes, and serves the others.
    RefusedNodes(Vec<RefusedNode>),
}

/// What the streams of all nodes have in common. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Streams {
    client: Client,
    identities: Identities,
    clock: Clock,
    rng: Rng,
    serving: Arc<Latest<Vec<String>>>,
    words: mpsc::Sender<Word>,
    /// The bytes that all disks of simulated containers hold together.
    disk_capacity: DiskCapacity,
    /// The bytes that all commands buffer together.
    buffer_capacity: BufferCapacity,
    /// Commands of containers that are being begun.
    program_starts: Arc<Semaphore>,
    /// Processor time of the nodes that were asked for it.
    cpu_counters: NodeCounters,
}

impl Streams {
    /// Streams for the nodes that `serving` names, now and later, and where they ask for pods.
    pub(crate) fn new(
        (client, identities): (Client, Identities),
        clock: Clock,
        rng: Rng,
        serving: Arc<Latest<Vec<String>>>,
    ) -> (Self, mpsc::Receiver<Word>) {
        let (words, said) = mpsc::channel(LOOK_QUEUE);
        let program_starts = Arc::new(Semaphore::new(PROGRAM_STARTS));
        (
            Self {
                client,
                identities,
                clock,
                rng,
                serving,
                words,
                disk_capacity: DiskCapacity::default(),
                buffer_capacity: BufferCapacity::default(),
                program_starts,
                cpu_counters: NodeCounters::default(),
            },
            said,
        )
    }

    /// A client of the node that the pod is on.
    fn client_of(&self, snapshot: &Snapshot) -> Client {
        self.identities.client(&snapshot.record.pod.spec.node_name, &self.client)
    }

    /// Keeps a tunnel open until `stop`.
    pub(crate) async fn run(self, stop: &CancellationToken) {
        let mut wait = TUNNEL_RETRY_BASE;
        while !stop.is_cancelled() {
            let (seen, nodes) = self.serving.get();
            let opened = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                opened = self.client.tunnel(nodes.to_vec()) => opened,
            };
            let ended = match opened {
                Ok(tunnel) => {
                    wait = TUNNEL_RETRY_BASE;
                    self.carry(tunnel, seen, stop).await
                }
                Err(error) => Some(error),
            };
            let Some(error) = ended else { return };
            tracing::debug!(%error, "no tunnel to the server");
            // Other errors pass, or are told by the writes of the nodes, which meet them too.
            if error.is_already_exists() || error.is_forbidden() {
                // The manager may have ended.
                let _ = self.words.send(Word::Refused(error.to_string())).await;
            }
            let pause = self.jittered(wait);
            wait = wait.saturating_mul(2).min(TUNNEL_RETRY_MAX);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Between half of a wait and all of it.
    fn jittered(&self, wait: Duration) -> Duration {
        wait.mul_f64(0.5 + self.rng.unit() / 2.0)
    }

    /// Serves what comes through a tunnel until it ends, and says why; nothing at a stop. Nodes that are refused are asked for again
    /// after waits that double.
    async fn carry(&self, mut tunnel: Tunnel, mut seen: u64, stop: &CancellationToken) -> Option<ApiError> {
        let mut tasks = JoinSet::new();
        let (mut wait, mut ask_again) = (TUNNEL_RETRY_BASE, None);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                (number, nodes) = self.serving.after(seen) => {
                    seen = number;
                    (wait, ask_again) = (TUNNEL_RETRY_BASE, None);
                    tunnel.serve(nodes.to_vec());
                }
                () = tokio::time::sleep_until(ask_again.unwrap_or_else(Instant::now)), if ask_again.is_some() => {
                    ask_again = None;
                    tunnel.serve(self.serving.get().1.to_vec());
                }
                event = tunnel.next() => match event {
                    Ok(TunnelEvent::Opened(stream)) => drop(tasks.spawn(self.clone().serve(*stream))),
                    Ok(TunnelEvent::Refused(nodes)) => {
                        ask_again = Some(Instant::now() + self.jittered(wait));
                        wait = wait.saturating_mul(2).min(TUNNEL_RETRY_MAX);
                        // The manager may have ended.
                        let _ = self.words.send(Word::RefusedNodes(nodes)).await;
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
        let look = Look { request: stream.request.clone(), answer };
        let feed = match self.words.send(Word::Look(look)).await {
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

/// What the server says when a kubelet answers 404.
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
