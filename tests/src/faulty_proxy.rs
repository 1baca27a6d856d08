//! [`FaultyProxy`]: forwards calls of the etcd API to a server and injects one kind of fault, to show that a
//! checker behind it detects the fault. It forwards only the calls that the checker makes.

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::kv_server::Kv;
use kstore_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use kstore_proto::etcd::etcdserverpb::lease_server::Lease;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_proto::etcd::etcdserverpb::watch_server::Watch;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming, async_trait};

/// The injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    Nothing,
    /// A watch response is lost.
    Drop,
    /// A watch response is sent twice.
    Repeat,
    /// A watch response is swapped with the next one.
    Reorder,
    /// A read at the newest revision is answered from an older one.
    Stale,
    /// The previous value of an event is an older one.
    PrevKv,
    /// A deletion is acknowledged without being executed.
    Forget,
}

impl Fault {
    /// One in this many calls is affected; smaller for calls that occur rarely.
    fn every(self) -> u64 {
        match self {
            Self::Nothing | Self::Drop | Self::Repeat | Self::Reorder | Self::PrevKv => 40,
            Self::Stale => 20,
            Self::Forget => 5,
        }
    }
}

/// By how many revisions a stale read is behind.
const BACK: i64 = 30;

/// A proxy of the etcd API that injects faults.
#[derive(Clone)]
pub struct FaultyProxy {
    channel: Channel,
    fault: Fault,
    count: Arc<AtomicU64>,
}

impl FaultyProxy {
    /// Starts a proxy of the server at `url` until `stop`. Returns its URL.
    pub async fn start(url: &str, fault: Fault, stop: CancellationToken) -> String {
        let channel =
            Endpoint::new(url.to_owned()).expect("a URL").connect().await.expect("the server is up");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = format!("http://{}", listener.local_addr().expect("it is bound"));
        let this = Self { channel, fault, count: Arc::default() };
        let router = Server::builder()
            .add_service(pb::kv_server::KvServer::new(this.clone()))
            .add_service(pb::watch_server::WatchServer::new(this.clone()))
            .add_service(pb::lease_server::LeaseServer::new(this));
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()));
        own
    }

    /// Whether this call is affected by the fault.
    fn injects(&self, fault: Fault) -> bool {
        let every = fault.every();
        self.fault == fault && self.count.fetch_add(1, Ordering::Relaxed) % every == every - 1
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    /// The responses sent for one response.
    fn pass(
        &self,
        mut response: pb::WatchResponse,
        held: &mut Option<pb::WatchResponse>,
    ) -> Vec<pb::WatchResponse> {
        if response.events.is_empty() {
            return vec![response];
        }
        if let Some(held) = held.take_if(|held| held.watch_id == response.watch_id) {
            return vec![response, held];
        }
        if self.fault == Fault::PrevKv {
            let before = response.events.iter_mut().filter_map(|event| event.prev_kv.as_mut());
            for kv in before.filter(|kv| kv.version > 1 && self.injects(Fault::PrevKv)) {
                (kv.version, kv.value) = (kv.version - 1, "older".into());
            }
            return vec![response];
        }
        if self.injects(Fault::Drop) {
            return Vec::new();
        }
        if self.injects(Fault::Repeat) {
            return vec![response.clone(), response];
        }
        if held.is_none() && self.injects(Fault::Reorder) {
            *held = Some(response);
            return Vec::new();
        }
        vec![response]
    }
}

#[async_trait]
impl Kv for FaultyProxy {
    type RangeStreamStream = BoxStream<'static, Result<pb::RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("no checker asks for streamed reads"))
    }

    async fn range(&self, request: Request<pb::RangeRequest>) -> Result<Response<pb::RangeResponse>, Status> {
        let mut request = request.into_inner();
        if request.revision == 0 && !request.serializable && self.injects(Fault::Stale) {
            let count = pb::RangeRequest { count_only: true, ..request.clone() };
            let now = self.kv().range(count).await?.into_inner().header.map_or(0, |header| header.revision);
            request.revision = (now - BACK).max(1);
        }
        self.kv().range(request).await
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        self.kv().put(request.into_inner()).await
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        let request = request.into_inner();
        if self.injects(Fault::Forget) {
            let read =
                pb::RangeRequest { key: request.key, range_end: request.range_end, ..Default::default() };
            let found = self.kv().range(read).await?.into_inner();
            let header =
                found.header.map(|header| pb::ResponseHeader { revision: header.revision + 1, ..header });
            let deleted = found.count;
            return Ok(Response::new(pb::DeleteRangeResponse { header, deleted, prev_kvs: Vec::new() }));
        }
        self.kv().delete_range(request).await
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Result<Response<pb::TxnResponse>, Status> {
        self.kv().txn(request.into_inner()).await
    }

    async fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        self.kv().compact(request.into_inner()).await
    }
}

/// The responses of a watch, with injected faults.
struct FaultyResponses {
    middleman: FaultyProxy,
    from: Streaming<pb::WatchResponse>,
    ready: VecDeque<pb::WatchResponse>,
    held: Option<pb::WatchResponse>,
}

impl FaultyResponses {
    async fn next(&mut self) -> Option<Result<pb::WatchResponse, Status>> {
        while self.ready.is_empty() {
            match self.from.message().await {
                Ok(Some(response)) => self.ready.extend(self.middleman.pass(response, &mut self.held)),
                Ok(None) => return None,
                Err(status) => return Some(Err(status)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// The requests of a stream, without its errors.
fn requests<T: Send + 'static>(request: Request<Streaming<T>>) -> impl Stream<Item = T> + Send + 'static {
    request.into_inner().filter_map(|request| async { request.ok() })
}

#[async_trait]
impl Watch for FaultyProxy {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let from = WatchClient::new(self.channel.clone()).watch(requests(request)).await?.into_inner();
        let passing = FaultyResponses { middleman: self.clone(), from, ready: VecDeque::new(), held: None };
        let responses = stream::unfold(passing, |mut passing| async {
            let response = passing.next().await?;
            Some((response, passing))
        });
        Ok(Response::new(responses.boxed()))
    }
}

#[async_trait]
impl Lease for FaultyProxy {
    type LeaseKeepAliveStream = Streaming<pb::LeaseKeepAliveResponse>;

    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        LeaseClient::new(self.channel.clone()).lease_grant(request.into_inner()).await
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        LeaseClient::new(self.channel.clone()).lease_revoke(request.into_inner()).await
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        LeaseClient::new(self.channel.clone()).lease_keep_alive(requests(request)).await
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        LeaseClient::new(self.channel.clone()).lease_time_to_live(request.into_inner()).await
    }

    async fn lease_leases(
        &self,
        request: Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        LeaseClient::new(self.channel.clone()).lease_leases(request.into_inner()).await
    }
}
