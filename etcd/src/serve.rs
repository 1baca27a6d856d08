//! The server: the services behind one router, on one listener.

use crate::budget::Budget;
use crate::calls::{self, Calls};
use crate::connection;
use crate::limits::{self, MESSAGE_BYTES};
use crate::listener::Listener;
use crate::metrics::ExtraMetrics;
use crate::node::{Member, Node};
use crate::pages::{self, PageState};
use crate::service::Service;
use axum::Router;
use kstore_proto::etcd::etcdserverpb::auth_server::AuthServer;
use kstore_proto::etcd::etcdserverpb::cluster_server::ClusterServer;
use kstore_proto::etcd::etcdserverpb::kv_server::KvServer;
use kstore_proto::etcd::etcdserverpb::lease_server::LeaseServer;
use kstore_proto::etcd::etcdserverpb::maintenance_server::MaintenanceServer;
use kstore_store::Store;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

/// Default name of the member.
const MEMBER_NAME: &str = "kstore";

/// Options of the API server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the only member in the member list.
    pub name: String,
    /// The URL that clients use. Clients replace their endpoints by it, so it must not be a wildcard, and the
    /// certificate must cover its name.
    pub advertised: String,
    /// TLS configuration, which also authenticates clients. It must offer the protocols `h2` and `http/1.1`. Without
    /// it, every client that can connect can read and write everything.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Most concurrent connections, if fewer than the server's own limit: well below the limit of open files.
    pub connections: usize,
    /// Additional metrics for the `/metrics` page.
    pub extra_metrics: ExtraMetrics,
}

impl Options {
    /// Options for plain text at this URL.
    pub fn plain(advertised: impl Into<String>) -> Self {
        let (tls, extra_metrics) = (None, ExtraMetrics::default());
        let (name, advertised) = (MEMBER_NAME.to_owned(), advertised.into());
        Self { name, advertised, tls, connections: limits::CONNECTIONS, extra_metrics }
    }
}

/// Serves the etcd v3 API of `store` until `stop` is cancelled, then lets calls finish; streams end with "server
/// stopped". Does not close the store.
// Boxed, so that the future's code is generated in this crate and not in every program that serves.
pub fn serve(
    store: Store,
    listener: impl Into<Listener>,
    options: Options,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    serve_listener(store, listener.into(), options, stop)
}

fn serve_listener(
    store: Store,
    listener: Listener,
    options: Options,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let member = Member { name: &options.name, url: &options.advertised };
    let service = service(store, member, options.extra_metrics, &stop);
    Box::pin(connection::accept(listener, options.tls, options.connections, service, stop))
}

/// The etcd v3 API of a store without a listener, for clients with their own connections, such as pipes within the
/// process.
#[derive(Clone)]
pub struct EmbeddedServer {
    service: Service,
    stop: CancellationToken,
}

impl EmbeddedServer {
    /// Creates the API until `stop` is cancelled. `advertised` is the URL that clients see.
    pub fn new(store: Store, advertised: &str, stop: CancellationToken) -> Self {
        let member = Member { name: MEMBER_NAME, url: advertised };
        Self { service: service(store, member, ExtraMetrics::default(), &stop), stop }
    }

    /// Serves one connection until it closes.
    pub async fn serve_connection<T>(&self, socket: T)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        connection::serve_connection(socket, self.service.clone(), self.stop.clone()).await;
    }
}

fn service(
    store: Store,
    member: Member<'_>,
    extra_metrics: ExtraMetrics,
    stop: &CancellationToken,
) -> Service {
    let node = Node::new(store, member, stop.clone());
    let calls = Calls::default();
    let pages = pages::pages(PageState { node: node.clone(), calls: calls.clone(), extra_metrics });
    let router = router(&node).merge(pages.clone()).fallback(calls::unknown);
    let pages = pages.fallback(calls::unknown);
    Service { node, router, pages, calls, budget: Budget::default(), activity: Arc::default() }
}

/// The gRPC services that are not answered on a connection's task.
fn router(node: &Node) -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    // A new reporter says SERVING for the whole server, which is true while connections are accepted.
    drop(reporter);
    Routes::new(KvServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(LeaseServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(MaintenanceServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(ClusterServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(AuthServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(health)
        .into_axum_router()
}
