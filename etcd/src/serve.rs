//! The server: the services on one listener, with the transport settings that etcd's clients need. Not the services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kstore_proto::etcd::etcdserverpb::{
    cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer,
    maintenance_server::MaintenanceServer, watch_server::WatchServer,
};
use kstore_store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower::util::MapResponseLayer;

use crate::node::Node;
use crate::{error, limits};

/// Serves the etcd v3 API of `store` in plain text until `stop` is cancelled, then lets calls finish; streams are told that
/// the server stopped. Does not close the store. Everybody who can connect can read and write everything.
pub async fn serve(store: Store, listener: TcpListener, stop: CancellationToken) {
    let node = Node::new(store, &url(&listener), stop.clone());
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let router = Server::builder()
        .max_concurrent_streams(limits::STREAMS)
        .http2_max_pending_accept_reset_streams(Some(limits::PENDING_RESETS))
        .http2_keepalive_interval(Some(limits::PING_AFTER))
        .http2_keepalive_timeout(Some(limits::PING_TIMEOUT))
        .layer(MapResponseLayer::new(recode_oversized))
        .add_service(KvServer::new(node.clone()).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(WatchServer::new(node.clone()).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(LeaseServer::new(node.clone()).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(MaintenanceServer::new(node.clone()).max_decoding_message_size(limits::MESSAGE_BYTES))
        .add_service(ClusterServer::new(node).max_decoding_message_size(limits::MESSAGE_BYTES));
    if let Err(error) = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()).await {
        tracing::error!(%error, "the etcd API ended");
    }
}

/// Where clients on this machine reach us. Clients replace their endpoints by this, so a wildcard will not do.
fn url(listener: &TcpListener) -> String {
    let Ok(mut address) = listener.local_addr() else { return String::new() };
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    format!("http://{address}")
}

/// See [`error::oversized`].
fn recode_oversized(mut response: http::Response<Body>) -> http::Response<Body> {
    let status = Status::from_header_map(response.headers());
    if let Some(status) = status.as_ref().and_then(error::oversized)
        && status.add_header(response.headers_mut()).is_err()
    {
        tracing::debug!("a refusal could not be put into headers; the original one stays");
    }
    response
}
