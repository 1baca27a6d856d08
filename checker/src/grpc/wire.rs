//! Conversion of operations to etcd's messages and of responses to replies; pure, except for the calls at the end.

use crate::history::{
    Blob, Compare, Event, EventKind, Field, KeyValue, Keys, Op, OpReply, Operation, Outcome, Range,
    RangeReply, Refusal, Relation, Reply, Txn, WatchRequest,
};
use kstore_proto::etcd::etcdserverpb::compare::TargetUnion;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use kstore_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::response_op::Response;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use kstore_proto::etcd::mvccpb;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Converts bytes of a history to bytes of a message.
fn bytes<T: From<Vec<u8>>>(blob: &Blob) -> T {
    blob.as_bytes().to_vec().into()
}

fn range(range: &Range) -> pb::RangeRequest {
    let Range { keys, revision, limit, keys_only, count_only, serializable } = range;
    pb::RangeRequest {
        key: bytes(&keys.key),
        range_end: bytes(&keys.end),
        revision: *revision,
        limit: *limit,
        keys_only: *keys_only,
        count_only: *count_only,
        serializable: *serializable,
        ..Default::default()
    }
}

fn put(key: &Blob, value: &Blob, lease: i64, prev_kv: bool) -> pb::PutRequest {
    pb::PutRequest { key: bytes(key), value: bytes(value), lease, prev_kv, ..Default::default() }
}

fn delete(keys: &Keys, prev_kv: bool) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: bytes(&keys.key), range_end: bytes(&keys.end), prev_kv }
}

fn op(op: &Op) -> pb::RequestOp {
    let request = match op {
        Op::Range(of) => Request::RequestRange(range(of)),
        Op::Put { key, value, lease, prev_kv } => Request::RequestPut(put(key, value, *lease, *prev_kv)),
        Op::Delete { keys, prev_kv } => Request::RequestDeleteRange(delete(keys, *prev_kv)),
    };
    pb::RequestOp { request: Some(request) }
}

fn compare(compare: &Compare) -> pb::Compare {
    use pb::compare::{CompareResult, CompareTarget};
    let result = match compare.relation {
        Relation::Equal => CompareResult::Equal,
        Relation::NotEqual => CompareResult::NotEqual,
        Relation::Greater => CompareResult::Greater,
        Relation::Less => CompareResult::Less,
    };
    let (target, given) = match &compare.field {
        Field::Version(given) => (CompareTarget::Version, TargetUnion::Version(*given)),
        Field::Create(given) => (CompareTarget::Create, TargetUnion::CreateRevision(*given)),
        Field::Mod(given) => (CompareTarget::Mod, TargetUnion::ModRevision(*given)),
        Field::Lease(given) => (CompareTarget::Lease, TargetUnion::Lease(*given)),
        Field::Value(given) => (CompareTarget::Value, TargetUnion::Value(bytes(given))),
    };
    let (result, target) = (result.into(), target.into());
    pb::Compare { result, target, key: bytes(&compare.key), target_union: Some(given), ..Default::default() }
}

fn txn(txn: &Txn) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: txn.compares.iter().map(compare).collect(),
        success: txn.then.iter().map(op).collect(),
        failure: txn.or_else.iter().map(op).collect(),
    }
}

/// The request that creates a watch.
pub(super) fn watch(request: &WatchRequest, progress_notify: bool) -> pb::WatchCreateRequest {
    use pb::watch_create_request::FilterType;
    let filters = [(request.no_put, FilterType::Noput), (request.no_delete, FilterType::Nodelete)];
    pb::WatchCreateRequest {
        key: bytes(&request.keys.key),
        range_end: bytes(&request.keys.end),
        start_revision: request.start,
        prev_kv: request.prev_kv,
        progress_notify,
        filters: filters.into_iter().filter(|(set, _)| *set).map(|(_, filter)| filter.into()).collect(),
        ..Default::default()
    }
}

fn kv(kv: mvccpb::KeyValue) -> KeyValue {
    let mvccpb::KeyValue { key, create_revision, mod_revision, version, value, lease } = kv;
    KeyValue { key: key.into(), value: value.into(), create_revision, mod_revision, version, lease }
}

/// Converts an event of a watch; none if its type is unknown.
pub(super) fn event(event: mvccpb::Event) -> Option<Event> {
    let kind = match event.r#type() {
        mvccpb::event::EventType::Put => EventKind::Put,
        mvccpb::event::EventType::Delete => EventKind::Delete,
    };
    Some(Event { kind, kv: kv(event.kv?), prev_kv: event.prev_kv.map(kv) })
}

/// The revision in a header; zero without one.
pub(super) fn revision(header: Option<&pb::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

fn range_reply(response: pb::RangeResponse) -> RangeReply {
    let revision = revision(response.header.as_ref());
    let kvs = response.kvs.into_iter().map(kv).collect();
    RangeReply { revision, kvs, more: response.more, count: response.count }
}

fn delete_reply(response: pb::DeleteRangeResponse) -> OpReply {
    OpReply::Delete { deleted: response.deleted, prev_kvs: response.prev_kvs.into_iter().map(kv).collect() }
}

/// The error for a response that etcd never sends.
fn nonsense(what: &str) -> Status {
    Status::internal(format!("the answer makes no sense: {what}"))
}

fn op_reply(response: pb::ResponseOp) -> Result<OpReply, Status> {
    match response.response {
        Some(Response::ResponseRange(response)) => Ok(OpReply::Range(range_reply(response))),
        Some(Response::ResponsePut(response)) => Ok(OpReply::Put(response.prev_kv.map(kv))),
        Some(Response::ResponseDeleteRange(response)) => Ok(delete_reply(response)),
        Some(Response::ResponseTxn(_)) | None => Err(nonsense("an operation of another kind")),
    }
}

/// The outcome that a gRPC status means.
pub(super) fn failure(status: &Status) -> Outcome {
    let refusal = match status.message() {
        "etcdserver: mvcc: required revision has been compacted" => Refusal::Compacted,
        "etcdserver: mvcc: required revision is a future revision" => Refusal::FutureRevision,
        "etcdserver: requested lease not found" => Refusal::LeaseNotFound,
        "etcdserver: lease already exists" => Refusal::LeaseExists,
        other => match status.code() {
            // etcd checks these before it executes anything.
            Code::InvalidArgument
            | Code::Unimplemented
            | Code::ResourceExhausted
            | Code::FailedPrecondition => Refusal::Other(other.into()),
            _ => return Outcome::Unknown,
        },
    };
    Outcome::Failed(refusal)
}

/// Makes a call and waits for the response.
pub(super) async fn call(channel: Channel, operation: &Operation) -> Result<Reply, Status> {
    match operation {
        Operation::Range(of) => {
            let response = KvClient::new(channel).range(range(of)).await?.into_inner();
            Ok(Reply::Range(range_reply(response)))
        }
        Operation::Txn(of) => write(channel, of).await,
        Operation::LeaseGrant { id, ttl } => {
            let request = pb::LeaseGrantRequest { id: *id, ttl: *ttl };
            let response = LeaseClient::new(channel).lease_grant(request).await?.into_inner();
            Ok(Reply::LeaseGrant { revision: revision(response.header.as_ref()), ttl: response.ttl })
        }
        Operation::LeaseRevoke { id } => {
            let request = pb::LeaseRevokeRequest { id: *id };
            let response = LeaseClient::new(channel).lease_revoke(request).await?.into_inner();
            Ok(Reply::LeaseRevoke { revision: revision(response.header.as_ref()) })
        }
        Operation::LeaseKeepAlive { id } => {
            let requests = tokio_stream::once(pb::LeaseKeepAliveRequest { id: *id });
            let mut responses = LeaseClient::new(channel).lease_keep_alive(requests).await?.into_inner();
            let response = responses.message().await?.ok_or_else(|| Status::unavailable("no answer"))?;
            Ok(Reply::LeaseKeepAlive { ttl: response.ttl })
        }
        Operation::Compact { revision: to } => {
            let request = pb::CompactionRequest { revision: *to, physical: false };
            let response = KvClient::new(channel).compact(request).await?.into_inner();
            Ok(Reply::Compact { revision: revision(response.header.as_ref()) })
        }
        Operation::Defragment => {
            MaintenanceClient::new(channel).defragment(pb::DefragmentRequest {}).await?;
            Ok(Reply::Defragment)
        }
    }
}

/// Makes a writing call. A transaction of one operation without compares uses that operation's own call.
async fn write(channel: Channel, of: &Txn) -> Result<Reply, Status> {
    let mut client = KvClient::new(channel);
    let (revision, succeeded, results) = match (&of.compares[..], &of.then[..]) {
        ([], [Op::Put { key, value, lease, prev_kv }]) => {
            let response = client.put(put(key, value, *lease, *prev_kv)).await?.into_inner();
            (revision(response.header.as_ref()), true, vec![OpReply::Put(response.prev_kv.map(kv))])
        }
        ([], [Op::Delete { keys, prev_kv }]) => {
            let response = client.delete_range(delete(keys, *prev_kv)).await?.into_inner();
            (revision(response.header.as_ref()), true, vec![delete_reply(response)])
        }
        _ => {
            let response = client.txn(txn(of)).await?.into_inner();
            let results = response.responses.into_iter().map(op_reply).collect::<Result<_, _>>()?;
            (revision(response.header.as_ref()), response.succeeded, results)
        }
    };
    Ok(Reply::Txn { revision, succeeded, results })
}
