//! The Maintenance service: what there is to know of a member. What has no meaning for one kstore, or is not built, says so.

use std::pin::Pin;

use futures::stream::Stream;
use kstore_proto::etcd::etcdserverpb::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeInfo, DowngradeRequest,
    DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest,
    MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
    alarm_request::AlarmAction, downgrade_request::DowngradeAction, maintenance_server::Maintenance,
};
use tonic::{Request, Response, Status, async_trait};

use crate::error::{self, unimplemented};
use crate::node::{Node, TERM};

/// The etcd whose API this is. Clients decide by it what they ask for: Kubernetes reads consistently from its cache from
/// 3.5.13 on.
const VERSION: &str = "3.6.0";

#[async_trait]
impl Maintenance for Node {
    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<SnapshotResponse, Status>> + Send + 'static>>;

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let (revision, size) = (self.store.revision(), self.store.size());
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        // Without raft, the revision is what says how far a member is.
        let index = revision.0.cast_unsigned();
        Ok(Response::new(StatusResponse {
            header: self.header(revision),
            version: VERSION.to_owned(),
            // Zero means "unknown" to clients.
            db_size: bytes(size.allocated).max(1),
            leader: self.member,
            raft_index: index,
            raft_term: TERM,
            raft_applied_index: index,
            errors: Vec::new(),
            db_size_in_use: bytes(size.live),
            is_learner: false,
            storage_version: VERSION.to_owned(),
            db_size_quota: 0,
            downgrade_info: Some(DowngradeInfo::default()),
        }))
    }

    /// There are no alarms: a full or failing disk stops the store.
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        match request.into_inner().action() {
            AlarmAction::Get | AlarmAction::Deactivate => {
                Ok(Response::new(AlarmResponse { header: self.header_now(), alarms: Vec::new() }))
            }
            AlarmAction::Activate => Err(unimplemented("alarms cannot be raised by hand")),
        }
    }

    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        Err(unimplemented("there is nothing to defragment; space comes back by itself after a compaction"))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        Err(unimplemented("the hash of the data is not served"))
    }

    async fn hash_kv(&self, _: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        Err(unimplemented("the hash of the history is not served"))
    }

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(unimplemented("snapshots are not served; copy the data directory of a stopped server"))
    }

    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        if request.into_inner().target_id == self.member {
            Ok(Response::new(MoveLeaderResponse { header: None }))
        } else {
            Err(error::BAD_TRANSFEREE.into())
        }
    }

    async fn downgrade(
        &self,
        request: Request<DowngradeRequest>,
    ) -> Result<Response<DowngradeResponse>, Status> {
        match request.into_inner().action() {
            DowngradeAction::Validate | DowngradeAction::Enable => Err(error::INVALID_DOWNGRADE.into()),
            DowngradeAction::Cancel => Err(error::NO_DOWNGRADE.into()),
        }
    }
}
