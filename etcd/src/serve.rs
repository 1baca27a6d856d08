//! The server: the services behind one router, on one listener. Not the services, nor how bytes travel.

use std::sync::Arc;

use axum::Router;
use kstore_proto::etcd::etcdserverpb::{
    cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer,
    maintenance_server::MaintenanceServer, watch_server::WatchServer,
};
use kstore_store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::util::MapResponseLayer;

use crate::limits::MESSAGE_BYTES;
use crate::node::Node;
use crate::{connection, error};

/// How the API is offered.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL at which clients reach the API. Clients replace their endpoints by it, so it must work for them: no
    /// wildcard, and a name that the certificate has.
    pub advertised: String,
    /// Encrypts connections, and says which clients may come. Must offer the protocols `h2` and `http/1.1`. Without it,
    /// everybody who can connect can read and write everything.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Options {
    /// In plain text, at this URL.
    pub fn plain(advertised: impl Into<String>) -> Self {
        Self { advertised: advertised.into(), tls: None }
    }
}

/// Serves the etcd v3 API of `store` until `stop` is cancelled, then lets calls finish; streams are told that the server
/// stopped. Does not close the store.
pub async fn serve(store: Store, listener: TcpListener, options: Options, stop: CancellationToken) {
    let node = Node::new(store, &options.advertised, stop.clone());
    connection::accept(listener, options.tls, router(&node), stop).await;
}

fn router(node: &Node) -> Router {
    Routes::new(KvServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(WatchServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(LeaseServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(MaintenanceServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .add_service(ClusterServer::new(node.clone()).max_decoding_message_size(MESSAGE_BYTES))
        .into_axum_router()
        .layer(MapResponseLayer::new(recode_oversized))
}

/// See [`error::oversized`].
fn recode_oversized(mut response: axum::response::Response) -> axum::response::Response {
    if response.headers().get("grpc-status").is_none_or(|status| status != "11") {
        return response;
    }
    let status = Status::from_header_map(response.headers());
    if let Some(status) =
        status.filter(|status| status.code() == Code::OutOfRange).as_ref().and_then(error::oversized)
        && status.add_header(response.headers_mut()).is_err()
    {
        tracing::debug!("a refusal could not be put into headers; the original one stays");
    }
    response
}
