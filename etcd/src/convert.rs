//! Conversion between the wire's requests and the store's, and of results to responses. Pure. It checks only what the
//! store's types cannot express.

use crate::error::{EMPTY_KEY, EtcdError, INVALID_SORT, KEY_NOT_FOUND};
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::compare::TargetUnion;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::response_op::Response;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use kstore_proto::etcd::mvccpb;
use kstore_store::{
    Compare, CompareOp, Delete, DeleteResult, KeyRange, KeyValue, LeaseId, Op, OpResult, Put, PutResult,
    Range, RangeResult, Revision, SortOrder, SortTarget, Target, Txn, TxnResult,
};

/// Converts a key range. etcd requires a key even if the range has an end.
fn keys(key: Bytes, range_end: Bytes) -> Result<KeyRange, EtcdError> {
    if key.is_empty() { Err(EMPTY_KEY) } else { Ok(KeyRange::from_etcd(key, range_end)) }
}

pub(crate) fn range(request: pb::RangeRequest) -> Result<Range, EtcdError> {
    use pb::range_request as wire;
    let keys = keys(request.key, request.range_end)?;
    let sort_target = match wire::SortTarget::try_from(request.sort_target) {
        Ok(wire::SortTarget::Key) => SortTarget::Key,
        Ok(wire::SortTarget::Version) => SortTarget::Version,
        Ok(wire::SortTarget::Create) => SortTarget::Create,
        Ok(wire::SortTarget::Mod) => SortTarget::Mod,
        Ok(wire::SortTarget::Value) => SortTarget::Value,
        Err(_) => return Err(INVALID_SORT),
    };
    let sort_order = match wire::SortOrder::try_from(request.sort_order) {
        Ok(wire::SortOrder::None | wire::SortOrder::Ascend) => SortOrder::Ascending,
        Ok(wire::SortOrder::Descend) => SortOrder::Descending,
        Err(_) => return Err(INVALID_SORT),
    };
    Ok(Range {
        keys,
        revision: Revision(request.revision),
        limit: request.limit,
        max_bytes: 0,
        sort_target,
        sort_order,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: Revision(request.min_mod_revision),
        max_mod_revision: Revision(request.max_mod_revision),
        min_create_revision: Revision(request.min_create_revision),
        max_create_revision: Revision(request.max_create_revision),
    })
}

pub(crate) fn put(request: pb::PutRequest) -> Put {
    let pb::PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease } = request;
    Put { key, value, lease: LeaseId(lease), prev_kv, ignore_value, ignore_lease }
}

pub(crate) fn delete(request: pb::DeleteRangeRequest) -> Result<Delete, EtcdError> {
    Ok(Delete { keys: keys(request.key, request.range_end)?, prev_kv: request.prev_kv })
}

/// Converts a transaction. The recursion is bounded, because the decoder refuses messages that are nested too deeply.
pub(crate) fn txn(request: pb::TxnRequest) -> Result<Txn, EtcdError> {
    let ops = |list: Vec<pb::RequestOp>| list.into_iter().map(op).collect::<Result<Vec<_>, _>>();
    let compares = request.compare.into_iter().map(compare).collect::<Result<_, _>>()?;
    Ok(Txn { compares, success: ops(request.success)?, failure: ops(request.failure)?, note: None })
}

fn op(op: pb::RequestOp) -> Result<Op, EtcdError> {
    match op.request {
        Some(Request::RequestRange(request)) => range(request).map(Op::Range),
        Some(Request::RequestPut(request)) => Ok(Op::Put(put(request))),
        Some(Request::RequestDeleteRange(request)) => delete(request).map(Op::Delete),
        Some(Request::RequestTxn(request)) => txn(request).map(Op::Txn),
        None => Err(KEY_NOT_FOUND),
    }
}

fn compare(compare: pb::Compare) -> Result<Compare, EtcdError> {
    use pb::compare::{CompareResult, CompareTarget};
    let keys = keys(compare.key, compare.range_end)?;
    let op = match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => CompareOp::Equal,
        Ok(CompareResult::Greater) => CompareOp::Greater,
        Ok(CompareResult::Less) => CompareOp::Less,
        Ok(CompareResult::NotEqual) => CompareOp::NotEqual,
        // In etcd an unknown relation holds, except that a compare of the value of a missing key never does.
        Err(_) if compare.target == CompareTarget::Value as i32 => {
            return Ok(Compare { keys, op: CompareOp::Greater, target: Target::Version(0) });
        }
        Err(_) => return Ok(constant(keys, true)),
    };
    // A value for another field than the target's counts as missing, which means zero or empty.
    let given = compare.target_union;
    let target = match CompareTarget::try_from(compare.target) {
        Ok(CompareTarget::Version) => Target::Version(match given {
            Some(TargetUnion::Version(version)) => version,
            _ => 0,
        }),
        Ok(CompareTarget::Create) => Target::Create(Revision(match given {
            Some(TargetUnion::CreateRevision(revision)) => revision,
            _ => 0,
        })),
        Ok(CompareTarget::Mod) => Target::Mod(Revision(match given {
            Some(TargetUnion::ModRevision(revision)) => revision,
            _ => 0,
        })),
        Ok(CompareTarget::Value) => Target::Value(match given {
            Some(TargetUnion::Value(value)) => value,
            _ => Bytes::new(),
        }),
        Ok(CompareTarget::Lease) => Target::Lease(LeaseId(match given {
            Some(TargetUnion::Lease(lease)) => lease,
            _ => 0,
        })),
        // In etcd an unknown field is equal to any given value.
        Err(_) => return Ok(constant(keys, op == CompareOp::Equal)),
    };
    Ok(Compare { keys, op, target })
}

/// A compare that always or never holds, since no version is negative.
fn constant(keys: KeyRange, holds: bool) -> Compare {
    let op = if holds { CompareOp::Greater } else { CompareOp::Less };
    Compare { keys, op, target: Target::Version(-1) }
}

pub(crate) fn key_value(kv: &KeyValue) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: kv.key_bytes(),
        create_revision: kv.create_revision().0,
        mod_revision: kv.mod_revision().0,
        version: kv.version(),
        value: kv.value_bytes(),
        lease: kv.lease().0,
    }
}

pub(crate) fn range_response(result: &RangeResult, header: Option<pb::ResponseHeader>) -> pb::RangeResponse {
    let kvs = result.kvs.iter().map(|kv| key_value(kv)).collect();
    pb::RangeResponse { header, kvs, more: result.more, count: result.count }
}

pub(crate) fn put_response(result: &PutResult, header: Option<pb::ResponseHeader>) -> pb::PutResponse {
    pb::PutResponse { header, prev_kv: result.prev_kv.as_ref().map(|kv| key_value(kv)) }
}

pub(crate) fn delete_response(
    result: &DeleteResult,
    header: Option<pb::ResponseHeader>,
) -> pb::DeleteRangeResponse {
    let prev_kvs = result.prev_kvs.iter().map(|kv| key_value(kv)).collect();
    pb::DeleteRangeResponse { header, deleted: result.deleted, prev_kvs }
}

pub(crate) fn txn_response(result: &TxnResult, header: Option<pb::ResponseHeader>) -> pb::TxnResponse {
    let responses = result.responses.iter().map(op_response).collect();
    pb::TxnResponse { header, succeeded: result.succeeded, responses }
}

/// A result inside a transaction. Its header has only the revision, and nothing for a nested transaction.
fn op_response(result: &OpResult) -> pb::ResponseOp {
    let at = |revision: Revision| Some(pb::ResponseHeader { revision: revision.0, ..Default::default() });
    let response = match result {
        OpResult::Range(range) => Response::ResponseRange(range_response(range, at(range.revision))),
        OpResult::Put(put) => Response::ResponsePut(put_response(put, at(put.revision))),
        OpResult::Delete(delete) => {
            Response::ResponseDeleteRange(delete_response(delete, at(delete.revision)))
        }
        OpResult::Txn(txn) => Response::ResponseTxn(txn_response(txn, Some(Default::default()))),
    };
    pb::ResponseOp { response: Some(response) }
}
