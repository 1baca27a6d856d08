//! The Lease service. The store expires leases.

use crate::error::{self, EtcdError};
use crate::node::Node;
use futures::stream::{self, Stream};
use kstore_proto::etcd::etcdserverpb::lease_server::Lease;
use kstore_proto::etcd::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use kstore_store::{LeaseError, LeaseId};
use std::pin::Pin;
use tonic::{Request, Response, Status, Streaming, async_trait};

#[async_trait]
impl Lease for Node {
    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send + 'static>>;

    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        let granted = self.store.lease_grant(ttl, LeaseId(id)).await.map_err(EtcdError::from)?;
        let header = self.header(granted.revision);
        let (id, ttl) = (granted.id.0, granted.ttl);
        Ok(Response::new(LeaseGrantResponse { header, id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let id = LeaseId(request.into_inner().id);
        let revision = self.store.lease_revoke(id).await.map_err(EtcdError::from)?;
        Ok(Response::new(LeaseRevokeResponse { header: self.header(revision) }))
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let state = Some((self.clone(), request.into_inner()));
        // After an error the state is dropped, which ends the stream.
        let answers = stream::unfold(state, |state| async {
            let (node, mut requests) = state?;
            match node.next_renewal(&mut requests).await {
                Ok(None) => None,
                Ok(Some(response)) => Some((Ok(response), Some((node, requests)))),
                Err(status) => Some((Err(*status), None)),
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        Ok(Response::new(match self.store.lease_time_to_live(LeaseId(id), keys).await {
            Ok(status) => LeaseTimeToLiveResponse {
                header: self.header(status.revision),
                id,
                ttl: status.ttl,
                granted_ttl: status.granted_ttl,
                keys: status.keys,
            },
            Err(LeaseError::NotFound(_)) => {
                LeaseTimeToLiveResponse { header: self.header_now(), id, ttl: -1, ..Default::default() }
            }
            Err(error) => return Err(EtcdError::from(error).into()),
        }))
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let leases = self.store.leases().await.map_err(EtcdError::from)?;
        let leases = leases.into_iter().map(|id| LeaseStatus { id: id.0 }).collect();
        Ok(Response::new(LeaseLeasesResponse { header: self.header_now(), leases }))
    }
}

impl Node {
    /// Waits for the next renewal and answers it; none when the client has closed its side.
    async fn next_renewal(
        &self,
        requests: &mut Streaming<LeaseKeepAliveRequest>,
    ) -> Result<Option<LeaseKeepAliveResponse>, Box<Status>> {
        let request = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Box::new(error::STOPPED.into())),
            request = requests.message() => {
                request.map_err(|status| Box::new(error::oversized(&status).unwrap_or(status)))?
            }
        };
        match request {
            None => Ok(None),
            Some(LeaseKeepAliveRequest { id }) => {
                self.renew(LeaseId(id)).await.map(Some).map_err(|error| Box::new(error.into()))
            }
        }
    }

    /// Renews a lease. A lease that does not exist is reported with a time to live of zero, and the stream continues.
    async fn renew(&self, id: LeaseId) -> Result<LeaseKeepAliveResponse, EtcdError> {
        let before = self.store.revision();
        let (revision, ttl) = match self.store.lease_keep_alive(id).await {
            Ok(renewed) => (renewed.revision, renewed.ttl),
            Err(LeaseError::NotFound(_)) => (before, 0),
            Err(error) => return Err(error.into()),
        };
        Ok(LeaseKeepAliveResponse { header: self.header(revision), id: id.0, ttl })
    }
}
