//! Validation of requests, independent of the store's content. Pure. The checks run in etcd's order, because the first
//! of several faults determines the error. The store detects keys that a transaction changes twice.

use kstore_proto::etcd::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, request_op::Request,
};
use prost::Message;

use crate::error::{
    EMPTY_KEY, EtcdError, KEY_NOT_FOUND, LEASE_PROVIDED, TOO_LARGE, TOO_MANY_OPS, VALUE_PROVIDED,
};
use crate::limits::{REQUEST_BYTES, TXN_OPS};

/// Bytes that etcd's log adds to a request: an id and the request's kind.
const ENVELOPE: usize = 18;

/// Checks the size of a writing request.
pub(crate) fn size(request: &impl Message) -> Result<(), EtcdError> {
    if request.encoded_len() + ENVELOPE > REQUEST_BYTES { Err(TOO_LARGE) } else { Ok(()) }
}

pub(crate) fn put(request: &PutRequest) -> Result<(), EtcdError> {
    if request.key.is_empty() {
        Err(EMPTY_KEY)
    } else if request.ignore_value && !request.value.is_empty() {
        Err(VALUE_PROVIDED)
    } else if request.ignore_lease && request.lease != 0 {
        Err(LEASE_PROVIDED)
    } else {
        Ok(())
    }
}

pub(crate) fn txn(request: &TxnRequest) -> Result<(), EtcdError> {
    level(request, TXN_OPS)
}

/// Checks one level of a transaction. `most` bounds its operations, including those of deeper levels.
fn level(request: &TxnRequest, most: usize) -> Result<(), EtcdError> {
    let TxnRequest { compare, success, failure } = request;
    let longest = compare.len().max(success.len()).max(failure.len());
    let left = most.checked_sub(longest).ok_or(TOO_MANY_OPS)?;
    if compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(EMPTY_KEY);
    }
    success.iter().chain(failure).try_for_each(|op| operation(op, left))
}

fn operation(op: &RequestOp, left: usize) -> Result<(), EtcdError> {
    match &op.request {
        Some(Request::RequestRange(RangeRequest { key, .. })) if key.is_empty() => Err(EMPTY_KEY),
        Some(Request::RequestDeleteRange(DeleteRangeRequest { key, .. })) if key.is_empty() => Err(EMPTY_KEY),
        Some(Request::RequestRange(_) | Request::RequestDeleteRange(_)) => Ok(()),
        Some(Request::RequestPut(request)) => put(request),
        Some(Request::RequestTxn(request)) => level(request, left),
        None => Err(KEY_NOT_FOUND),
    }
}
