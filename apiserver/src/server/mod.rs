//! The API server as a whole: REST and gRPC front ends in one service, reached over TLS or in process. It
//! spawns no tasks by itself, except through its caller.

mod activity;
mod answer;
mod bridged;
mod connection;
mod connections;
mod edge;
mod image;
mod open_sockets;
mod reflection;
mod stream_executor;
mod streams;

use crate::access::AccessRecord;
use crate::aggregator::{self, Aggregator};
use crate::body_budget::BodyBudget;
use crate::config::{CompletedConfig, ServerConfig};
use crate::grpc::Grpc;
use crate::grpc::authenticate::{CallAuthenticator, is_call_of_unknown_service};
use crate::memory_shares::MemoryBudget;
use crate::rest::Rest;
use crate::tunnel::{TunnelDialer, Tunnels};
use crate::{definitions, identity};
use axum::Router;
use axum::body::Body;
pub use bridged::{CallerRecord, EmbedderService, ResetAnswer};
use connections::{ConnectionSlot, Connections};
pub use edge::{EdgeActivity, EdgeWork};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either};
use http::{Request, Response};
pub use image::ServerImage;
use kstore_access::audit::Audit;
use kstore_access::authn::FrontProxies;
use kstore_access::authz::Authorizer;
use kstore_access::peer::Peer;
use kstore_access::rate_limited::RateLimited;
use kstore_api::status::Status;
use kstore_metrics_text::Page;
use kstore_pipeline::bootstrap::{self, ServerIdentity};
use kstore_pipeline::pipeline::{Pipeline, PipelineState, fairness_upkeep};
use kstore_proto::kstore::v1::kstore_server::{Kstore, KstoreServer};
use kstore_proto::kstore::v1::{self as pb};
use kstore_registry::cache::{Cache, FillError};
use kstore_registry::kinds::Kinds;
use kstore_registry::pod_dialer::PodDialer;
use kstore_registry::provenance::Provenance;
use kstore_registry::user::UserInfo;
use kstore_storage::encryption::Encryption;
use kstore_storage::metrics::Metrics;
use kstore_storage::storage::{RawBatch, ReadError, SharedStorage};
use kstore_storage::{limits, restart};
pub use open_sockets::{OpenSocket, OpenSockets};
use reflection::Reflection;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
pub use streams::StreamListener;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::Service;
use tracing::Instrument as _;

/// The pause of the listener after a failed accept, for example with too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long open connections may take to end after a stop; then they are closed.
const DRAIN: Duration = Duration::from_millis(800);

/// A future that the caller must spawn.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The storage, with encryption in front of it if it is configured.
fn encrypted(storage: SharedStorage, encryption: Option<&Arc<Encryption>>) -> SharedStorage {
    match encryption {
        Some(encryption) => encryption.over(storage),
        None => storage,
    }
}

/// Appends the metrics of the aggregator and the audit log to those of a server.
fn append_metrics(pipeline: &Pipeline, aggregator: Arc<Aggregator>, audit: Option<Arc<Audit>>) {
    pipeline.metrics().append(move |out| aggregator.render_metrics(&mut Page::new(out)));
    if let Some(audit) = audit {
        pipeline.metrics().append(move |out| audit.render_metrics(&mut Page::new(out)));
    }
}

/// A running apiserver. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    pipeline: Arc<Pipeline>,
    rest: Arc<Rest>,
    router: Router,
    grpc: Grpc,
    tunnels: Arc<Tunnels>,
    grpc_calls: CallAuthenticator,
    /// To which listeners pass all requests, see [`ApiServer::behind`].
    embedder: Option<EmbedderService>,
    /// Counts what listeners do, see [`ApiServer::observed`].
    edge: Option<Arc<EdgeActivity>>,
    sockets: Arc<OpenSockets>,
    /// Memory of answers that clients have not taken.
    unsent: MemoryBudget,
    front_proxies: Option<Arc<FrontProxies>>,
    identity: Arc<ServerIdentity>,
    /// The largest number of open connections.
    capacity: usize,
    /// TLS of connections over streams of this process.
    streams: Option<Arc<rustls::ServerConfig>>,
    stop: CancellationToken,
}

/// An API server did not start: the reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The stored objects cannot be read.
    #[error("the stored objects cannot be read: {0}")]
    Fill(#[from] FillError),
    /// The initial objects of every cluster cannot be created.
    #[error("the initial objects cannot be created: {}", .0.message)]
    Bootstrap(Status),
}

impl ApiServer {
    /// Loads the stored objects and creates the initial objects of every cluster; on return the server
    /// accepts requests. The future passed to `spawn` keeps the watch cache up to date and ends when the
    /// storage closes. It must already run while this function waits, so `spawn` is called first.
    ///
    /// # Errors
    /// If the stored objects cannot be loaded, or the initial objects cannot be created.
    // Boxed, as are the other futures here: the code of an async function is generated where it is awaited,
    // so every program that starts a server would compile the server again.
    pub fn start<'a>(
        storage: SharedStorage,
        config: ServerConfig,
        spawn: impl FnOnce(Task) + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send + 'a>> {
        Self::starting(storage, config, None, Box::new(spawn))
    }

    /// An image of this server's memory at its newest revision, for servers over copies of its storage.
    pub fn image(&self) -> ServerImage {
        ServerImage::of(&self.pipeline, &self.rest)
    }

    /// Starts like [`ApiServer::start`], but from the memory of another server instead of loading and
    /// preparing the storage; this takes the same time for any number of objects. `storage` must be a copy of
    /// that server's storage that was made after the image. Watches of the other server are not inherited.
    /// The configuration should equal the other server's, except [`ServerConfig::nondet`] and [`ServerConfig::stop`].
    ///
    /// # Errors
    /// If the storage lacks the history since the image.
    pub fn start_from<'a>(
        image: &'a ServerImage,
        storage: SharedStorage,
        config: ServerConfig,
        spawn: impl FnOnce(Task) + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send + 'a>> {
        Self::starting(storage, config, Some(image), Box::new(spawn))
    }

    /// Wraps the REST and gRPC endpoints: `layer` receives the service of all requests and returns the one to
    /// use. Each request has its [`Peer`] as an extension. gRPC calls on network connections and
    /// [`InProcess::watch`] bypass the layer.
    #[must_use]
    pub fn layered(self, layer: impl FnOnce(Router) -> Router) -> Self {
        Self { router: layer(self.router), ..self }
    }

    /// This function is not generic, so that this crate compiles the future's layout: in other crates it
    /// exceeds the compiler's default depth.
    fn starting<'a>(
        storage: SharedStorage,
        config: ServerConfig,
        image: Option<&'a ServerImage>,
        spawn: Box<dyn FnOnce(Task) + Send + 'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send + 'a>> {
        Box::pin(Self::start_with(storage, config.complete(), image, spawn))
    }

    async fn start_with(
        storage: SharedStorage,
        config: CompletedConfig,
        image: Option<&ServerImage>,
        spawn: Box<dyn FnOnce(Task) + Send + '_>,
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::counting(&config.storage.load_progress));
        let storage = metrics.measure(encrypted(storage, config.storage.encryption.as_ref()));
        let (ServerMemory { cache, provenance }, follow) = match image {
            None => {
                let kept = Provenance::new(config.storage.explain_bytes);
                ServerMemory::read(storage, config.kinds(), kept, metrics.clone()).await?
            }
            Some(image) => image.memory(storage, metrics.clone()).await?,
        };
        let (hand_over, started) = tokio::sync::oneshot::channel();
        let stopping = config.stop.clone();
        spawn(Box::pin(async move {
            tokio::join!(follow, run_background_until(stopping, started));
        }));
        let authorizer = match image {
            None => Authorizer::of_modes(cache.clone(), config.pipeline.access.authorization.clone()),
            Some(image) => image.authorizer(cache.clone()),
        };
        let outbound = config.pipeline.outbound.clone();
        let state = PipelineState { cache, provenance, metrics, authorizer };
        let pipeline = Arc::new(Pipeline::new(state, config.pipeline));
        let identity = config.identity;
        if !config.storage.creates_initial_objects {
            pipeline.freeze();
        } else if image.is_none() {
            bootstrap::run(&pipeline, &identity).await.map_err(StartError::Bootstrap)?;
        }
        pipeline.configure_fairness();
        let aggregator = Arc::new(Aggregator::new(pipeline.cache().clone(), outbound));
        let audit = config.audit;
        append_metrics(&pipeline, aggregator.clone(), audit.clone());
        // The receiver is alive unless the task above has ended with the storage.
        let _ = hand_over.send((pipeline.clone(), aggregator.clone()));
        let tunnels = Arc::new(Tunnels::new(crate::grpc::tunnel::may_serve(pipeline.clone())));
        pipeline.cache().reach_pods_by(Arc::new(TunnelDialer::of_calls(&tunnels)));
        let bodies = BodyBudget::default();
        let (stop, address) = (config.stop.clone(), config.document_address);
        let known = image.map(ServerImage::documents);
        let rest = Rest::new(pipeline.clone(), aggregator, tunnels.clone(), (address, known), stop);
        let rest = rest.with_body_budget(bodies.clone()).with_audit(audit.clone());
        let rest = rest.with_attempts(config.attempts);
        let rest = Arc::new(rest.with_compressed_watches(config.compresses_watches));
        let grpc = Grpc::new(pipeline.clone(), tunnels.clone(), config.stop.clone()).with_audit(audit);
        let grpc_calls = CallAuthenticator::new(grpc.clone(), bodies);
        let router = router(rest.clone(), grpc.clone(), Reflection::with(config.services_in_front));
        Ok(Self {
            rest,
            router,
            grpc,
            pipeline,
            tunnels,
            grpc_calls,
            embedder: None,
            edge: None,
            sockets: Arc::default(),
            unsent: MemoryBudget::new(limits::UNSENT_BYTES, limits::UNSENT_BYTES_OF_USER, 0),
            front_proxies: config.front_proxies,
            identity: Arc::new(identity),
            capacity: config.connections,
            streams: config.streams,
            stop: config.stop,
        })
    }

    /// REST and gRPC for a component in this process. Authentication takes it for `user`; all later stages
    /// treat it like any client.
    pub fn in_process(&self, user: UserInfo) -> InProcess {
        self.for_peer(Peer::InProcess(Arc::new(user)))
    }

    /// REST and gRPC for the client of a connection that the embedder has accepted and authenticated itself.
    pub fn for_peer(&self, peer: Peer) -> InProcess {
        InProcess { router: self.router.clone(), grpc: self.grpc.clone(), peer }
    }

    /// The pipeline, for embedders that pass decoded requests.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Renews the Lease that shows that a server runs on this host, and deletes expired Leases of other
    /// servers, until the stop token is cancelled. Spawn it if clients may look for the cluster's servers.
    pub fn keep_identity(&self, hostname: String) -> Task {
        let (pipeline, stop) = (self.pipeline.clone(), self.stop.clone());
        Box::pin(async move { identity::keep(&pipeline, hostname, stop).await })
    }

    /// Publishes other authorities of client certificates for extension API servers: PEM of those of users and of
    /// front proxies. `None` leaves those of the start.
    ///
    /// # Errors
    /// The storage refuses the ConfigMap.
    pub async fn publish_authorities(
        &self,
        client_ca: Option<String>,
        front_proxy_ca: Option<String>,
    ) -> Result<(), Status> {
        bootstrap::publish_authorities(&self.pipeline, &self.identity, client_ca, front_proxy_ca).await
    }

    /// Connects to ports of pods as `kubectl port-forward` of this user does. The caller has checked what the user may do.
    pub fn pod_dialer(&self, user: &str) -> Arc<dyn PodDialer> {
        Arc::new(TunnelDialer::of_user(&self.tunnels, user))
    }

    /// Serves connections over streams of this process; `None` if [`NetworkConfig::streams`](crate::config::NetworkConfig::streams) is.
    pub fn stream_listener(&self) -> Option<StreamListener> {
        let tls = self.streams.clone()?;
        Some(StreamListener::new(self.clone(), tls, self.capacity))
    }

    /// Accepts TLS connections until the stop token is cancelled, then lets open connections end.
    pub fn serve(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) -> Task {
        let server = self.clone();
        Box::pin(async move { server.accept(listener, tls).await })
    }

    async fn accept(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        let acceptor = TlsAcceptor::from(tls);
        let connections = TaskTracker::new();
        let open = Connections::new(self.capacity);
        let mut log_limit = RateLimited::every(limits::REPEATED_WARNING);
        loop {
            let next = async {
                let (socket, address, known) = self.sockets.accept(&listener).await?;
                let slot = open.slot(address.ip()).await.with_socket(known);
                std::io::Result::Ok((socket, address, slot))
            };
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                next = next => next,
            };
            match accepted {
                Ok((socket, address, slot)) => {
                    let span = tracing::debug_span!("server", %address);
                    let handshake = connection::handshake(acceptor.clone(), socket, address);
                    let serving = self.clone().connected(handshake, address, slot, false);
                    let serving = EdgeActivity::observe(self.edge.clone(), serving);
                    connections.spawn(serving.instrument(span));
                }
                Err(error) => {
                    if let Some(suppressed) = log_limit.allow() {
                        tracing::warn!(%error, suppressed, "cannot accept a connection");
                    }
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
        drop(listener);
        connections.close();
        self.tunnels.tasks().close();
        let ended = async { tokio::join!(connections.wait(), self.tunnels.tasks().wait()) };
        if tokio::time::timeout(DRAIN, ended).await.is_err() {
            tracing::info!(open = connections.len(), "closing connections that did not end in time");
        }
    }
}

impl ApiServer {
    /// Serves one accepted connection after its handshake.
    async fn connected<T>(
        self,
        handshake: impl Future<Output = Option<TlsStream<T>>>,
        address: SocketAddr,
        slot: ConnectionSlot,
        answers_half_closed: bool,
    ) where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let evicted = slot.activity.evicted.clone();
        let shaking = self.stop.run_until_cancelled(handshake);
        // The server does not wait for a client's handshake when it stops or needs the slot for another
        // connection.
        match evicted.run_until_cancelled(shaking).await.flatten() {
            Some(Some(tls)) => {
                let Self {
                    router, embedder, grpc_calls, unsent, front_proxies, pipeline, stop, edge, ..
                } = self;
                let (grpc, clock) = (embedder.is_none().then_some(grpc_calls), pipeline.nondet().clock);
                let shared = connection::ListenerState {
                    router,
                    embedder,
                    grpc,
                    unsent,
                    stop,
                    front_proxies,
                    clock,
                    edge,
                    answers_half_closed,
                };
                connection::serve(shared, tls, address, slot).await;
            }
            Some(None) => self.pipeline.metrics().handshake_failed(),
            None => {}
        }
    }
}

/// Runs [`run_background`] until the listeners stop: the storage may close at any time afterwards. The stop comes first, since a task that
/// was not polled in between would find both, and warn of the storage.
async fn run_background_until(
    stopping: CancellationToken,
    started: oneshot::Receiver<(Arc<Pipeline>, Arc<Aggregator>)>,
) {
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = run_background(started) => {}
    }
}

/// The background work of a started API server until the storage closes: finishes the deletion of
/// definitions, tracks aggregated API servers, and follows priority levels.
async fn run_background(started: oneshot::Receiver<(Arc<Pipeline>, Arc<Aggregator>)>) {
    let Ok((pipeline, aggregator)) = started.await else { return };
    let restarts = || pipeline.metrics().restarts().clone();
    let definitions =
        restart::until_done(definitions::TASK, restarts(), || definitions::run(pipeline.clone()));
    let aggregator = restart::until_done(aggregator::TASK, restarts(), || {
        aggregator::run(aggregator.clone(), pipeline.clone())
    });
    let fairness = async {
        let Some(fairness) = pipeline.fairness() else { return };
        restart::until_done(fairness_upkeep::TASK, restarts(), || {
            fairness_upkeep::run(fairness.clone(), pipeline.clone())
        })
        .await;
    };
    tokio::join!(definitions, aggregator, fairness);
}

/// The parts of a storage that a server keeps in memory.
struct ServerMemory {
    cache: Arc<Cache>,
    provenance: Arc<Provenance>,
}

impl ServerMemory {
    /// Loads everything. The returned task keeps it up to date.
    async fn read(
        storage: SharedStorage,
        kinds: Kinds,
        provenance: Provenance,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Task), StartError> {
        let provenance = Arc::new(provenance);
        let recalled = recall(provenance.clone(), storage.clone()).await.map_err(FillError::from)?;
        let observer = provenance.clone();
        let observe = move |batch: &RawBatch| observer.observe(batch);
        let (cache, follow) = Cache::fill_counted(storage, kinds, metrics, observe).await?;
        // Provenance is complete before the first new batch is observed, so it is in the order of revisions.
        recalled.await.map_err(FillError::from)?;
        Ok((Self { cache, provenance }, Box::pin(follow)))
    }
}

/// Starts loading the provenance, and returns a future that waits for it. The caller does other work
/// meanwhile.
async fn recall(
    provenance: Arc<Provenance>,
    storage: SharedStorage,
) -> Result<impl Future<Output = Result<(), ReadError>>, ReadError> {
    let upto = storage.revision().await?;
    let read = tokio::spawn(async move { provenance.recall(&storage, upto).await });
    let read = AbortOnDropHandle::new(read);
    Ok(async move { read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) })
}

fn router(rest: Arc<Rest>, grpc: Grpc, reflection: Reflection) -> Router {
    let (health, health_service) = tonic_health::server::health_reporter();
    // A new reporter reports SERVING for the whole server (the service ""), which is true from here on.
    drop(health);
    let max = limits::BODY_BYTES + limits::GRPC_OVERHEAD_BYTES;
    tonic::service::Routes::new(KstoreServer::new(grpc.clone()).max_decoding_message_size(max))
        .add_service(health_service)
        .add_service(reflection)
        .into_axum_router()
        .fallback(move |request: Request<Body>| {
            let (rest, grpc) = (rest.clone(), grpc.clone());
            async move {
                match is_call_of_unknown_service(&request) {
                    true => Box::pin(grpc.refuse_unknown(request)).await,
                    false => rest.serve(request).await,
                }
            }
        })
}

/// The service of [`ApiServer::in_process`]. Any tower client can call it without a socket.
#[derive(Clone)]
pub struct InProcess {
    router: Router,
    grpc: Grpc,
    peer: Peer,
}

impl InProcess {
    /// Calls `Watch` of the gRPC front end without encoding: batches are values, whose objects share the
    /// watch cache's bytes. Authorization and the bound on slow readers are the same as for clients on a
    /// connection.
    pub fn watch(
        &self,
        mut request: tonic::Request<pb::WatchRequest>,
    ) -> impl Future<Output = Result<WatchBatches, tonic::Status>> + Send + use<> {
        request.extensions_mut().insert(self.peer.clone());
        let grpc = self.grpc.clone();
        async move { Ok(Kstore::watch(&grpc, request).await?.into_inner()) }
    }
}

/// The batches of one watch.
pub type WatchBatches = <Grpc as Kstore>::WatchStream;

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<
        <Router as Service<Request<B>>>::Future,
        BoxFuture<'static, Result<Response<Body>, Infallible>>,
    >;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let record = AccessRecord::begin(&self.peer, &mut request);
        request.extensions_mut().insert(self.peer.clone());
        let answering = self.router.call(request);
        match record {
            None => Either::Left(answering),
            Some(record) => Either::Right(async move { Ok(record.answered(answering.await?)) }.boxed()),
        }
    }
}

#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod stalled_tests;
#[cfg(test)]
mod start_tests;
#[cfg(test)]
mod tests;
