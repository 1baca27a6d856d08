//! The apiserver as a whole: both doors on one service, reached over TLS or in process. Starts nothing by itself but what its
//! caller spawns.

mod activity;
mod connection;
mod connections;
mod image;

use crate::access::AccessRecord;
use crate::aggregator::{self, Aggregator};
use crate::authn::{FrontProxies, Peer, UserInfo};
use crate::authz::Authorizer;
use crate::body_budget::BodyBudget;
use crate::bootstrap::{self, ServerIdentity};
use crate::cache::{Cache, FillError};
use crate::definitions;
use crate::grpc::Grpc;
use crate::grpc::authenticate::CallAuthenticator;
use crate::identity;
use crate::limits;
use crate::metrics::{Metrics, Page};
use crate::outbound::Outbound;
use crate::pipeline::{LocalComponents, Pipeline};
use crate::provenance::Provenance;
use crate::rate_limited::RateLimited;
use crate::rest::Rest;
use crate::restart;
use crate::service_ranges::ServiceRanges;
use crate::settings::Settings;
use crate::storage::{RawBatch, ReadError, SharedStorage};
use crate::token::Tokens;
use crate::tunnel::Tunnels;
use axum::Router;
use axum::body::Body;
use connections::{Connections, Place};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either};
use http::{Request, Response};
pub use image::ServerImage;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use kstore_proto::kstore::v1::kstore_server::{Kstore, KstoreServer};
use kstore_proto::kstore::v1::{self as pb, FILE_DESCRIPTOR_SET};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::Service;
use tracing::Instrument as _;

/// After a failed accept (too many open files) the listener rests this long.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Open connections end by themselves within this time after a stop; then they are cut.
const DRAIN: Duration = Duration::from_millis(800);

/// The common name of the certificate that this server shows API servers behind it.
pub const FRONT_PROXY: &str = "front-proxy-client";

/// What an apiserver is made of besides its storage.
#[derive(Clone)]
pub struct Options {
    /// Time and chance.
    pub nondet: Nondet,
    /// Ends watches and listeners.
    pub stop: CancellationToken,
    /// `host:port` under which clients reach the server; discovery tells it.
    pub advertised: String,
    /// PEM of the authority whose client certificates are good: extension API servers are told it.
    pub client_ca: Option<String>,
    /// PEM of the authority of the certificate that `outbound` shows API servers behind this one: they are told it, and that its name is
    /// [`FRONT_PROXY`].
    pub front_proxy_ca: Option<String>,
    /// The key for tokens of service accounts; without one no token is issued, and none is accepted.
    pub tokens: Option<Arc<Tokens>>,
    /// The networks of services.
    pub service_ranges: ServiceRanges,
    /// The components that run in the same process: the server warns of objects on which none of them acts.
    pub local_components: LocalComponents,
    /// Whether requests without credentials are served as the user `system:anonymous`; otherwise they are refused with 401.
    pub anonymous: bool,
    /// The way to webhooks.
    pub outbound: Arc<dyn Outbound>,
    /// What kube-apiserver has further flags for.
    pub settings: Settings,
    /// Network connections that may be open at a time, at most [`limits::CONNECTIONS`] and well below the limit of open files.
    pub connections: usize,
}

/// Work that the caller of this library spawns.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A running apiserver. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    pipeline: Arc<Pipeline>,
    router: Router,
    grpc: Grpc,
    tunnels: Arc<Tunnels>,
    grpc_calls: CallAuthenticator,
    front_proxies: Option<Arc<FrontProxies>>,
    /// Connections that may be open.
    capacity: usize,
    stop: CancellationToken,
}

/// Why an apiserver did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The stored objects cannot be read.
    #[error("the stored objects cannot be read: {0}")]
    Fill(#[from] FillError),
    /// The objects that every cluster has cannot be created.
    #[error("the initial objects cannot be created: {}", .0.message)]
    Bootstrap(Status),
}

impl ApiServer {
    /// Reads what is stored, creates what every cluster has, and is ready to answer. The returned future keeps the watch cache
    /// up to date: spawn it; it ends when the storage closes. It must already run while this function waits, so it is handed to
    /// `spawn` first.
    ///
    /// # Errors
    /// If what is stored cannot be read, or the initial objects cannot be created.
    // Boxed, as are the other futures here: the code of an async function is generated where it is awaited, and every program that
    // starts a server would compile the server once more.
    pub fn start<'a>(
        storage: SharedStorage,
        options: Options,
        spawn: impl FnOnce(Task) + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send + 'a>> {
        Self::starting(storage, options, None, Box::new(spawn))
    }

    /// The memory of this server at its newest revision, for servers over copies of its storage.
    pub fn image(&self) -> ServerImage {
        ServerImage::of(&self.pipeline)
    }

    /// As [`ApiServer::start`], but with the memory of another server instead of reading and preparing the storage, which takes no longer
    /// for many objects than for few. `storage` must be a copy of that server's storage which was made after the image. Watches of the
    /// other server are not inherited. The options should be the other server's, but for `nondet` and `stop`.
    ///
    /// # Errors
    /// If the storage does not have the history since the image.
    pub fn start_from<'a>(
        image: &'a ServerImage,
        storage: SharedStorage,
        options: Options,
        spawn: impl FnOnce(Task) + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send + 'a>> {
        Self::starting(storage, options, Some(image), Box::new(spawn))
    }

    /// The same server with a layer around its REST and gRPC endpoints: `layer` gets the service of all requests and returns the one to
    /// use. Each request has its [`Peer`] as an extension. Calls of gRPC on network connections and [`InProcess::watch`] do not pass it.
    #[must_use]
    pub fn layered(self, layer: impl FnOnce(Router) -> Router) -> Self {
        Self { router: layer(self.router), ..self }
    }

    /// Not generic, so that the future's layout is this crate's matter: in others it is deeper than compilers follow by default.
    fn starting<'a>(
        storage: SharedStorage,
        options: Options,
        image: Option<&'a ServerImage>,
        spawn: Box<dyn FnOnce(Task) + Send + 'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send + 'a>> {
        Box::pin(Self::start_with(storage, options, image, spawn))
    }

    async fn start_with(
        storage: SharedStorage,
        options: Options,
        image: Option<&ServerImage>,
        spawn: Box<dyn FnOnce(Task) + Send + '_>,
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::default());
        let storage = metrics.measure(storage);
        let (memory, follow) = match image {
            None => Memory::read(storage, metrics.clone()).await?,
            Some(image) => image.memory(storage, metrics.clone()).await?,
        };
        let Memory { cache, provenance } = memory;
        let (hand_over, started) = tokio::sync::oneshot::channel();
        spawn(Box::pin(async move {
            tokio::join!(follow, keep(started));
        }));
        let outbound = options.outbound;
        let settings = options.settings;
        let modes = settings.authorization;
        let authorizer = match image {
            None => Authorizer::of_modes(cache.clone(), modes.clone()),
            Some(image) => image.authorizer(cache.clone()),
        };
        let outward = outbound.clone();
        let pipeline = Pipeline::counted(cache, provenance, options.nondet, metrics, outward, authorizer);
        let bearers = settings.bearers;
        let measured = (bearers.clone(), modes);
        pipeline.metrics().append(move |out| {
            measured.0.render_metrics(&mut Page::new(out));
            measured.1.render_metrics(&mut Page::new(out));
        });
        let pipeline = pipeline.with_bearers(bearers).with_plugins(settings.plugins);
        let pipeline = pipeline.with_tokens(options.tokens).with_service_ranges(options.service_ranges);
        let pipeline = pipeline.with_local_components(options.local_components);
        let pipeline = Arc::new(pipeline.with_anonymous(options.anonymous));
        let mut here = ServerIdentity::new(&options.advertised, options.client_ca, options.front_proxy_ca);
        if settings.leaves_endpoints {
            here = here.without_endpoints();
        }
        let front_proxies = settings.front_proxies;
        if let Some(proxies) = &front_proxies {
            here = here.with_front_proxies(proxies.authorities_pem.clone(), proxies.allowed_names.clone());
        }
        if image.is_none() {
            bootstrap::run(&pipeline, &here).await.map_err(StartError::Bootstrap)?;
        }
        let aggregator = Arc::new(Aggregator::new(pipeline.cache().clone(), outbound));
        let measured = aggregator.clone();
        pipeline.metrics().append(move |out| measured.render_metrics(&mut Page::new(out)));
        let audit = settings.audit;
        if let Some(audit) = audit.clone() {
            pipeline.metrics().append(move |out| audit.render_metrics(&mut Page::new(out)));
        }
        // Received unless the task above has ended with the storage.
        let _ = hand_over.send((pipeline.clone(), aggregator.clone()));
        let tunnels = Arc::new(Tunnels::new(crate::grpc::tunnel::may_serve(pipeline.clone())));
        let bodies = BodyBudget::default();
        let stop = options.stop.clone();
        let address = settings.external_address.unwrap_or(options.advertised);
        let rest = Rest::new(pipeline.clone(), aggregator, tunnels.clone(), address, stop);
        let rest = Arc::new(rest.with_body_budget(bodies.clone()).with_audit(audit.clone()));
        let grpc = Grpc::new(pipeline.clone(), tunnels.clone(), options.stop.clone()).with_audit(audit);
        let grpc_calls = CallAuthenticator::new(grpc.clone(), bodies);
        let (router, capacity, stop) = (router(rest, grpc.clone()), options.connections, options.stop);
        Ok(Self { router, grpc, pipeline, tunnels, grpc_calls, front_proxies, capacity, stop })
    }

    /// Both doors for a component in this process. It is `user` to authentication's eyes; everything after that is as for
    /// anybody else.
    pub fn in_process(&self, user: UserInfo) -> InProcess {
        self.for_peer(Peer::InProcess(Arc::new(user)))
    }

    /// Both doors for the client at the other end of a connection that the embedder has accepted and authenticated itself.
    pub fn for_peer(&self, peer: Peer) -> InProcess {
        InProcess { router: self.router.clone(), grpc: self.grpc.clone(), peer }
    }

    /// The pipeline, for embedders that need no encoding.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Keeps the Lease that says that a server runs on the machine of this name, and removes those of servers that are no more, until
    /// the stop token is cancelled. Spawn it where others may ask which servers there are.
    pub fn keep_identity(&self, hostname: String) -> Task {
        let (pipeline, stop) = (self.pipeline.clone(), self.stop.clone());
        Box::pin(async move { identity::keep(&pipeline, hostname, stop).await })
    }

    /// Accepts TLS connections until the stop token is cancelled, then lets open ones end.
    pub fn serve(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) -> Task {
        let server = self.clone();
        Box::pin(async move { server.accept(listener, tls).await })
    }

    async fn accept(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        let acceptor = TlsAcceptor::from(tls);
        let connections = TaskTracker::new();
        let open = Connections::new(self.capacity.min(limits::CONNECTIONS));
        let mut complaint = RateLimited::every(limits::REPEATED_WARNING);
        loop {
            let next = async {
                let accepted = listener.accept().await?;
                let place = open.place(accepted.1.ip()).await;
                std::io::Result::Ok((accepted, place))
            };
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                next = next => next,
            };
            match accepted {
                Ok(((socket, address), place)) => {
                    let span = tracing::debug_span!("server", %address);
                    let serving = self.clone().connected(acceptor.clone(), socket, address, place);
                    connections.spawn(serving.instrument(span));
                }
                Err(error) => {
                    if let Some(unsaid) = complaint.allow() {
                        tracing::warn!(%error, unsaid, "cannot accept a connection");
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
            tracing::info!(open = connections.len(), "connections are cut");
        }
    }
}

impl ApiServer {
    /// Serves one accepted connection.
    async fn connected(self, acceptor: TlsAcceptor, socket: TcpStream, address: SocketAddr, place: Place) {
        let evicted = place.activity.evicted.clone();
        let shaking = self.stop.run_until_cancelled(connection::handshake(acceptor, socket, address));
        // A client that has not finished its handshake is not waited for when the server stops or needs its place.
        match evicted.run_until_cancelled(shaking).await.flatten() {
            Some(Some(tls)) => {
                let Self { router, grpc_calls, front_proxies, pipeline, stop, .. } = self;
                let (grpc, clock) = (Some(grpc_calls), pipeline.nondet().clock);
                let shared = connection::Shared { router, grpc, stop, front_proxies, clock };
                connection::serve(shared, tls, address, place).await;
            }
            Some(None) => self.pipeline.metrics().handshake_failed(),
            None => {}
        }
    }
}

/// The work of an apiserver that has started, until the storage closes: it ends definitions, and follows other API servers.
async fn keep(started: oneshot::Receiver<(Arc<Pipeline>, Arc<Aggregator>)>) {
    let Ok((pipeline, aggregator)) = started.await else { return };
    let restarts = || pipeline.metrics().restarts().clone();
    let definitions =
        restart::until_done(definitions::TASK, restarts(), || definitions::run(pipeline.clone()));
    let aggregator = restart::until_done(aggregator::TASK, restarts(), || {
        aggregator::run(aggregator.clone(), pipeline.clone())
    });
    tokio::join!(definitions, aggregator);
}

/// What a server has in memory of its storage.
struct Memory {
    cache: Arc<Cache>,
    provenance: Arc<Provenance>,
}

impl Memory {
    /// Reads everything. The returned task keeps it current.
    async fn read(storage: SharedStorage, metrics: Arc<Metrics>) -> Result<(Self, Task), StartError> {
        let provenance = Arc::new(Provenance::default());
        let recalled = recall(provenance.clone(), storage.clone()).await.map_err(FillError::from)?;
        let observer = provenance.clone();
        let observe = move |batch: &RawBatch| observer.observe(batch);
        let (cache, follow) = Cache::fill_counted(storage, metrics, observe).await?;
        // Before anything new can come: what is told is told in the order in which it happened.
        recalled.await.map_err(FillError::from)?;
        Ok((Self { cache, provenance }, Box::pin(follow)))
    }
}

/// Begins to read what was written before, and returns what waits for the end of it. The caller does something else meanwhile.
async fn recall(
    provenance: Arc<Provenance>,
    storage: SharedStorage,
) -> Result<impl Future<Output = Result<(), ReadError>>, ReadError> {
    let upto = storage.revision().await?;
    let read = tokio::spawn(async move { provenance.recall(&storage, upto).await });
    let read = AbortOnDropHandle::new(read);
    Ok(async move { read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) })
}

fn router(rest: Arc<Rest>, grpc: Grpc) -> Router {
    let (health, health_service) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors were compiled with this program");
    // A fresh reporter says SERVING for the whole server ("" service): true from here on.
    drop(health);
    let max = limits::BODY_BYTES + limits::GRPC_OVERHEAD_BYTES;
    tonic::service::Routes::new(KstoreServer::new(grpc).max_decoding_message_size(max))
        .add_service(health_service)
        .add_service(reflection)
        .into_axum_router()
        .fallback(move |request: Request<Body>| {
            let rest = rest.clone();
            async move { rest.serve(request).await }
        })
}

/// The service of [`ApiServer::in_process`]. Any tower client can call it; no socket is involved.
#[derive(Clone)]
pub struct InProcess {
    router: Router,
    grpc: Grpc,
    peer: Peer,
}

impl InProcess {
    /// The gRPC door's `Watch` without a wire: batches as values, whose objects share the watch cache's bytes. Who asks is
    /// checked, and a reader who falls behind is ended, exactly as for a client on a connection.
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
mod tests;
