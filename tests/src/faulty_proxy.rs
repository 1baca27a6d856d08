//! [`Middleman`]: passes calls of the etcd API on to a server, and does one thing wrong on purpose. It shows that a checker
//! behind it can see that. Only calls that a checker makes are passed on.

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kstore_proto::etcd::etcdserverpb::{
    self as pb, kv_client::KvClient, kv_server::Kv, lease_client::LeaseClient, lease_server::Lease,
    watch_client::WatchClient, watch_server::Watch,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming, async_trait};

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing.
    Nothing,
    /// A response of a watch is not passed on.
    Drop,
    /// It is passed on twice.
    Repeat,
    /// It changes places with the next one.
    Reorder,
    /// A read of the present is answered from an older revision.
    Stale,
    /// The version before an event is an older one.
    PrevKv,
    /// A deletion is not passed on, and yet answered.
    Forget,
}

impl Wrong {
    /// One in so many is treated so: the rarer it is, the more often.
    fn every(self) -> u64 {
        match self {
            Self::Nothing | Self::Drop | Self::Repeat | Self::Reorder | Self::PrevKv => 40,
            Self::Stale => 20,
            Self::Forget => 5,
        }
    }
}

/// How many revisions back is old.
const BACK: i64 = 30;

/// A server between a client and a server.
#[derive(Clone)]
pub struct Middleman {
    channel: Channel,
    wrong: Wrong,
    count: Arc<AtomicU64>,
}

impl Middleman {
    /// Stands in front of the server at `url` until `stop`; its own URL.
    pub async fn start(url: &str, wrong: Wrong, stop: CancellationToken) -> String {
        let channel =
            Endpoint::new(url.to_owned()).expect("a URL").connect().await.expect("the server is up");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = format!("http://{}", listener.local_addr().expect("it is bound"));
        let this = Self { channel, wrong, count: Arc::default() };
        let router = Server::builder()
            .add_service(pb::kv_server::KvServer::new(this.clone()))
            .add_service(pb::watch_server::WatchServer::new(this.clone()))
            .add_service(pb::lease_server::LeaseServer::new(this));
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()));
        own
    }

    /// Whether it is time to do this wrong.
    fn does(&self, wrong: Wrong) -> bool {
        let every = wrong.every();
        self.wrong == wrong && self.count.fetch_add(1, Ordering::Relaxed) % every == every - 1
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    /// What is passed on for a response.
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
        if self.wrong == Wrong::PrevKv {
            let before = response.events.iter_mut().filter_map(|event| event.prev_kv.as_mut());
            for kv in before.filter(|kv| kv.version > 1 && self.does(Wrong::PrevKv)) {
                (kv.version, kv.value) = (kv.version - 1, "older".into());
            }
            return vec![response];
        }
        if self.does(Wrong::Drop) {
            return Vec::new();
        }
        if self.does(Wrong::Repeat) {
            return vec![response.clone(), response];
        }
        if held.is_none() && self.does(Wrong::Reorder) {
            *held = Some(response);
            return Vec::new();
        }
        vec![response]
    }
}

#[async_trait]
impl Kv for Middleman {
    type RangeStreamStream = BoxStream<'static, Result<pb::RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("no checker asks for streamed reads"))
    }

    async fn range(&self, request: Request<pb::RangeRequest>) -> Result<Response<pb::RangeResponse>, Status> {
        let mut request = request.into_inner();
        if request.revision == 0 && !request.serializable && self.does(Wrong::Stale) {
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
        if self.does(Wrong::Forget) {
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

/// Responses on their way.
struct Passing {
    middleman: Middleman,
    from: Streaming<pb::WatchResponse>,
    ready: VecDeque<pb::WatchResponse>,
    held: Option<pb::WatchResponse>,
}

impl Passing {
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
impl Watch for Middleman {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let from = WatchClient::new(self.channel.clone()).watch(requests(request)).await?.into_inner();
        let passing = Passing { middleman: self.clone(), from, ready: VecDeque::new(), held: None };
        let responses = stream::unfold(passing, |mut passing| async {
            let response = passing.next().await?;
            Some((response, passing))
        });
        Ok(Response::new(responses.boxed()))
    }
}

#[async_trait]
impl Lease for Middleman {
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
