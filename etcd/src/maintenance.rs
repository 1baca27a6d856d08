//! The Maintenance service: status, alarms, defragmentation, hashes and snapshots. Operations without meaning for
//! kstore respond as a cluster of one member does.

use crate::error::{self, EtcdError, unimplemented};
use crate::node::{CLUSTER_VERSION, Node, TERM, VERSION};
use crate::pages::alarm_name;
use crate::snapshot::{self, SnapshotStream};
use kstore_proto::etcd::etcdserverpb::alarm_request::AlarmAction;
use kstore_proto::etcd::etcdserverpb::downgrade_request::DowngradeAction;
use kstore_proto::etcd::etcdserverpb::maintenance_server::Maintenance;
use kstore_proto::etcd::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest,
    HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, StatusRequest, StatusResponse,
};
use kstore_store::{Alarm, DefragmentError, HashKv, Revision, StoreStatus};
use tonic::{Request, Response, Status, async_trait};

#[async_trait]
impl Maintenance for Node {
    type SnapshotStream = SnapshotStream;

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let StoreStatus { revision, seq, size, quota, alarms, engine_failure, .. } = self.store.status();
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let errors = alarms.into_iter().map(|alarm| {
            // etcd's text ends with a space.
            format!("memberID:{} alarm:{} ", self.member, alarm_name(alarm))
        });
        Ok(Response::new(StatusResponse {
            header: self.header(revision),
            version: VERSION.to_owned(),
            // Zero means "unknown" to clients, and some divide by it.
            db_size: bytes(size.allocated).max(1),
            leader: self.member,
            raft_index: seq,
            raft_term: TERM,
            raft_applied_index: seq,
            errors: errors.chain(engine_failure.map(|reason| format!("kstore: {reason}"))).collect(),
            db_size_in_use: bytes(size.live),
            is_learner: false,
            storage_version: CLUSTER_VERSION.to_owned(),
            db_size_quota: quota.map_or(0, bytes),
            downgrade_info: Some(DowngradeInfo::default()),
        }))
    }

    /// Lists, raises or disarms alarms of the store. The member id is ignored, since there is one member.
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        let alarm = wire_alarm(request.alarm)?;
        let alarms = match (AlarmAction::try_from(request.action), alarm) {
            (Ok(AlarmAction::Get), wanted) => {
                let wanted = |alarm: &Alarm| wanted.is_none_or(|wanted| wanted == *alarm);
                self.store.alarms().into_iter().filter(wanted).collect()
            }
            (Ok(AlarmAction::Activate), Some(alarm)) => {
                self.store.alarm_raise(alarm).await.map_err(EtcdError::from)?;
                vec![alarm]
            }
            (Ok(AlarmAction::Deactivate), Some(alarm)) => {
                let disarmed = self.store.alarm_disarm(alarm).await.map_err(EtcdError::from)?;
                disarmed.then_some(alarm).into_iter().collect()
            }
            (Ok(AlarmAction::Activate | AlarmAction::Deactivate), None) => Vec::new(),
            (Err(_), _) => return Err(unimplemented("unknown alarm action")),
        };
        let member = |alarm| AlarmMember { member_id: self.member, alarm: alarm_type(alarm).into() };
        let alarms = alarms.into_iter().map(member).collect();
        Ok(Response::new(AlarmResponse { header: self.header_now(), alarms }))
    }

    /// Defragments the store. Other calls do not wait for it.
    async fn defragment(
        &self,
        _: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        match self.store.defragment().await {
            Ok(()) => Ok(Response::new(DefragmentResponse { header: None })),
            Err(DefragmentError::Stopped(_)) => Err(error::STOPPED.into()),
            Err(error @ DefragmentError::Engine(_)) => Err(Status::unknown(format!("kstore: {error}"))),
        }
    }

    /// Hash of the whole history. Unlike etcd's, it is the same for every store with the same history.
    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let HashKv { hash, current, .. } = self.hash_history(Revision::CURRENT).await?;
        Ok(Response::new(HashResponse { header: self.header(current), hash }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let HashKv { hash, hashed, compacted, current } =
            self.hash_history(Revision(request.into_inner().revision)).await?;
        Ok(Response::new(HashKvResponse {
            header: self.header(current),
            hash,
            compact_revision: compacted.0,
            hash_revision: hashed.0,
        }))
    }

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        snapshot::snapshot(self).await
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
        let request = request.into_inner();
        match DowngradeAction::try_from(request.action) {
            Ok(DowngradeAction::Validate | DowngradeAction::Enable) if !is_version(&request.version) => {
                Err(error::DOWNGRADE_FORMAT.into())
            }
            Ok(DowngradeAction::Validate | DowngradeAction::Enable) => Err(error::INVALID_DOWNGRADE.into()),
            Ok(DowngradeAction::Cancel) => Err(error::NO_DOWNGRADE.into()),
            Err(_) => Err(error::UNKNOWN_METHOD.into()),
        }
    }
}

impl Node {
    /// Hashes the history on a blocking thread, because that reads all of it.
    async fn hash_history(&self, revision: Revision) -> Result<HashKv, EtcdError> {
        let permit = self.hashes.clone().acquire_owned().await.map_err(|_| error::STOPPED)?;
        let store = self.store.clone();
        let hashed = tokio::task::spawn_blocking(move || {
            // A call that was cancelled is computed to its end, and counts as long.
            let _permit = permit;
            store.hash_kv(revision)
        });
        let hashed = hashed.await;
        hashed.map_err(|_| error::STOPPED)?.map_err(EtcdError::from)
    }
}

fn wire_alarm(alarm: i32) -> Result<Option<Alarm>, Status> {
    match AlarmType::try_from(alarm) {
        Ok(AlarmType::None) => Ok(None),
        Ok(AlarmType::Nospace) => Ok(Some(Alarm::NoSpace)),
        Ok(AlarmType::Corrupt) => Ok(Some(Alarm::Corrupt)),
        Err(_) => Err(unimplemented("unknown alarm type")),
    }
}

fn alarm_type(alarm: Alarm) -> AlarmType {
    match alarm {
        Alarm::NoSpace => AlarmType::Nospace,
        Alarm::Corrupt => AlarmType::Corrupt,
    }
}

/// Whether `text` is `major.minor` or `major.minor.patch`.
fn is_version(text: &str) -> bool {
    let numbers = text.split('.');
    matches!(numbers.clone().count(), 2 | 3)
        && numbers.into_iter().all(|number| number.parse::<u32>().is_ok())
}
