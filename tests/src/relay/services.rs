//! The etcd calls that a [`Relay`] forwards: those that kstore's client makes.

use super::Relay;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kstore_proto::etcd::etcdserverpb::kv_server::Kv;
use kstore_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use kstore_proto::etcd::etcdserverpb::lease_server::Lease;
use kstore_proto::etcd::etcdserverpb::watch_server::Watch;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use tonic::{Request, Response, Status, Streaming, async_trait};

fn unknown<T>() -> Result<T, Status> {
    Err(Status::unimplemented("our client does not call this"))
}

#[async_trait]
impl Kv for Relay {
    type RangeStreamStream = BoxStream<'static, Result<pb::RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        _: Request<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        unknown()
    }

    async fn range(&self, request: Request<pb::RangeRequest>) -> Result<Response<pb::RangeResponse>, Status> {
        let (mut kv, request) = (self.kv(), request.into_inner());
        self.ask(async move { kv.range(request).await }, |answer| &answer.header)
    }

    async fn put(&self, _: Request<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        unknown()
    }

    async fn delete_range(
        &self,
        _: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        unknown()
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Result<Response<pb::TxnResponse>, Status> {
        let (mut kv, request) = (self.kv(), request.into_inner());
        self.ask(async move { kv.txn(request).await }, |answer| &answer.header)
    }

    async fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        let (mut kv, request) = (self.kv(), request.into_inner());
        self.ask(async move { kv.compact(request).await }, |answer| &answer.header)
    }
}

#[async_trait]
impl Watch for Relay {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut requests = request.into_inner();
        let (stream, events) = self.open_stream();
        self.tasks.spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                stream.send(request);
            }
        });
        let responses = stream::unfold(events, |mut events| async { Some((events.next().await?, events)) });
        Ok(Response::new(responses.boxed()))
    }
}

#[async_trait]
impl Lease for Relay {
    type LeaseKeepAliveStream = BoxStream<'static, Result<pb::LeaseKeepAliveResponse, Status>>;

    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let (mut lease, request) = (LeaseClient::new(self.channel.clone()), request.into_inner());
        self.ask(async move { lease.lease_grant(request).await }, |answer| &answer.header)
    }

    async fn lease_revoke(
        &self,
        _: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        unknown()
    }

    async fn lease_keep_alive(
        &self,
        _: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        unknown()
    }

    async fn lease_time_to_live(
        &self,
        _: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        unknown()
    }

    async fn lease_leases(
        &self,
        _: Request<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        unknown()
    }
}
