//! Tests of the API through real connections, checked against recorded results of etcd.

mod kv;
mod lease;
mod metrics;
mod others;
mod quota;
mod transport;
mod watch;

use kstore_nondet::Nondet;
use kstore_proto::etcd::etcdserverpb::cluster_client::ClusterClient;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use kstore_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_proto::etcd::etcdserverpb::{self as pb, RequestOp};
use kstore_store::{Config, Store};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A served store and a connection to it.
struct Server {
    store: Store,
    stop: CancellationToken,
    url: String,
    channel: Channel,
}

impl Server {
    async fn start() -> Self {
        Self::with(Config::memory()).await
    }

    async fn with(config: Config) -> Self {
        let store = Store::open(config, Nondet::real()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(crate::serve(store.clone(), listener, crate::Options::plain(&url), stop.clone()));
        let channel = Endpoint::new(url.clone()).unwrap().connect().await.unwrap();
        Self { store, stop, url, channel }
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone())
    }

    fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone())
    }

    fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    async fn put(&self, key: &'static str, value: &'static str) -> i64 {
        let response = self.kv().put(put(key, value)).await.unwrap().into_inner();
        response.header.unwrap().revision
    }

    async fn txn(&self, success: Vec<RequestOp>) -> pb::TxnResponse {
        let request = pb::TxnRequest { success, ..Default::default() };
        self.kv().txn(request).await.unwrap().into_inner()
    }
}

fn put(key: &'static str, value: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn range(key: &'static str, range_end: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: key.into(), range_end: range_end.into(), ..Default::default() }
}

fn delete(key: &'static str, range_end: &'static str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: false }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn put_op(key: &'static str, value: &'static str) -> RequestOp {
    op(Request::RequestPut(put(key, value)))
}

fn range_op(key: &'static str, range_end: &'static str) -> RequestOp {
    op(Request::RequestRange(range(key, range_end)))
}

fn delete_op(key: &'static str, range_end: &'static str) -> RequestOp {
    op(Request::RequestDeleteRange(delete(key, range_end)))
}

/// Code and text of an error, as a client sees it.
fn seen<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), status.message().to_owned())
}
