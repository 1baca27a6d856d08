//! Validation of requests, independent of the store's content. Pure. The checks run in etcd's order, because the first
//! of several faults determines the error. The store detects keys that a transaction changes twice.

use crate::error::{
    EMPTY_KEY, EtcdError, KEY_NOT_FOUND, LEASE_PROVIDED, TOO_LARGE, TOO_MANY_OPS, VALUE_PROVIDED,
};
use crate::limits::{REQUEST_BYTES, TXN_ITEMS, TXN_OPS};
use kstore_proto::MessageFields;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};
use prost::Message;

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

/// Counts the comparisons and operations of an encoded transaction, with those of nested ones, before it is decoded: an empty operation of
/// two bytes becomes a value of some hundred.
pub(crate) fn items(txn: &[u8]) -> Result<(), EtcdError> {
    // Numbers of fields in rpc.proto.
    const COMPARE: u64 = 1;
    const SUCCESS: u64 = 2;
    const FAILURE: u64 = 3;
    const NESTED: u64 = 4;
    let (mut count, mut transactions) = (0, vec![txn]);
    while let Some(transaction) = transactions.pop() {
        let mut lists = [0; 3];
        for (field, item) in MessageFields::of(transaction) {
            let list = match field {
                COMPARE => 0,
                SUCCESS => 1,
                FAILURE => 2,
                _ => continue,
            };
            lists[list] += 1;
            count += 1;
            if lists[list] > TXN_OPS || count > TXN_ITEMS {
                return Err(TOO_MANY_OPS);
            }
            if field != COMPARE {
                transactions.extend(
                    MessageFields::of(item).filter(|(field, _)| *field == NESTED).map(|(_, txn)| txn),
                );
            }
        }
    }
    Ok(())
}

pub(crate) fn txn(request: &TxnRequest) -> Result<(), EtcdError> {
    transaction(request, TXN_OPS)
}

/// Checks one level of a transaction. `most` bounds its operations, including those of deeper levels.
fn transaction(request: &TxnRequest, most: usize) -> Result<(), EtcdError> {
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
        Some(Request::RequestTxn(request)) => transaction(request, left),
        None => Err(KEY_NOT_FOUND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(ops: usize, depth: usize) -> TxnRequest {
        let request = (depth > 0).then(|| Request::RequestTxn(nested(ops, depth - 1)));
        TxnRequest { success: vec![RequestOp { request }; ops], ..TxnRequest::default() }
    }

    #[test]
    fn items_of_transactions_are_counted_at_all_levels_before_they_are_decoded() {
        let counted = |txn: &TxnRequest| items(&txn.encode_to_vec());
        assert_eq!(counted(&nested(TXN_OPS, 0)), Ok(()));
        assert_eq!(counted(&nested(TXN_OPS + 1, 0)), Err(TOO_MANY_OPS));
        // The largest transaction with one nested level, and one of etcd's depth with too many items in all.
        assert_eq!(counted(&nested(TXN_OPS / 2, 1)), Ok(()));
        assert_eq!(counted(&nested(TXN_OPS / 4, 2)), Err(TOO_MANY_OPS));
        let failure = TxnRequest { failure: nested(TXN_OPS + 1, 0).success, ..TxnRequest::default() };
        assert_eq!(counted(&failure), Err(TOO_MANY_OPS));
        assert_eq!(items(&[0xff; 30]), Ok(()), "decoding refuses it");
    }
}
