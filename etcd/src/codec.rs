//! Encoding of read and write responses directly from the stored form of versions, which is the wire's form, so that no
//! version is decoded. Pure. `convert` builds the same responses as values; a test compares the two.

use kstore_proto::etcd::etcdserverpb::ResponseHeader;
use kstore_store::{DeleteResult, KeyValue, OpResult, PutResult, RangeResult, Revision, TxnResult};
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

/// Receives encoded bytes.
pub(crate) trait Sink {
    /// Appends the bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A response: one result with a full header. Results inside a transaction have reduced headers (see [`inner_header`]).
#[derive(Debug)]
pub(crate) struct KvResponse<'a> {
    pub(crate) header: ResponseHeader,
    pub(crate) result: &'a OpResult,
}

impl KvResponse<'_> {
    /// Length of the encoded response.
    pub(crate) fn size(&self) -> usize {
        result_size(self.result, &self.header)
    }

    /// Encodes the response.
    pub(crate) fn write(&self, out: &mut impl Sink) {
        write_result(self.result, &self.header, out);
    }
}

// Field numbers of the four response messages.
const HEADER: u32 = 1;
const RANGE_KVS: u32 = 2;
const RANGE_MORE: u32 = 3;
const RANGE_COUNT: u32 = 4;
const PUT_PREV: u32 = 2;
const DELETE_COUNT: u32 = 2;
const DELETE_PREV: u32 = 3;
const TXN_SUCCEEDED: u32 = 2;
const TXN_RESPONSES: u32 = 3;

/// Field number of a result in the union of a transaction's responses.
fn response_field(result: &OpResult) -> u32 {
    match result {
        OpResult::Range(_) => 1,
        OpResult::Put(_) => 2,
        OpResult::Delete(_) => 3,
        OpResult::Txn(_) => 4,
    }
}

/// The header of a result inside a transaction: only the revision, and nothing for a nested transaction.
fn inner_header(result: &OpResult) -> ResponseHeader {
    let revision = match result {
        OpResult::Range(range) => range.revision,
        OpResult::Put(put) => put.revision,
        OpResult::Delete(delete) => delete.revision,
        OpResult::Txn(_) => Revision(0),
    };
    ResponseHeader { revision: revision.0, ..ResponseHeader::default() }
}

fn result_size(result: &OpResult, header: &ResponseHeader) -> usize {
    let rest = match result {
        OpResult::Range(range) => range_size(range),
        OpResult::Put(put) => put.prev_kv.as_ref().map_or(0, |kv| kv_size(kv)),
        OpResult::Delete(delete) => {
            number_size(delete.deleted) + delete.prev_kvs.iter().map(|kv| kv_size(kv)).sum::<usize>()
        }
        OpResult::Txn(txn) => txn_size(txn),
    };
    message_size(header.encoded_len()) + rest
}

fn range_size(range: &RangeResult) -> usize {
    let kvs: usize = range.kvs.iter().map(|kv| kv_size(kv)).sum();
    kvs + number_size(i64::from(range.more)) + number_size(range.count)
}

fn txn_size(txn: &TxnResult) -> usize {
    let op = |result: &OpResult| message_size(message_size(result_size(result, &inner_header(result))));
    number_size(i64::from(txn.succeeded)) + txn.responses.iter().map(op).sum::<usize>()
}

fn write_result(result: &OpResult, header: &ResponseHeader, out: &mut impl Sink) {
    write_header(header, out);
    match result {
        OpResult::Range(range) => write_range(range, out),
        OpResult::Put(PutResult { prev_kv, .. }) => {
            prev_kv.iter().for_each(|kv| write_kv(PUT_PREV, kv, out));
        }
        OpResult::Delete(DeleteResult { deleted, prev_kvs, .. }) => {
            number(DELETE_COUNT, *deleted, out);
            prev_kvs.iter().for_each(|kv| write_kv(DELETE_PREV, kv, out));
        }
        OpResult::Txn(txn) => write_txn(txn, out),
    }
}

fn write_header(header: &ResponseHeader, out: &mut impl Sink) {
    // Four integers of at most eleven bytes each.
    let mut bytes = [0; 44];
    let len = header.encoded_len();
    header.encode(&mut &mut bytes[..]).expect("a header has room");
    prefix(HEADER, len, out);
    out.put(&bytes[..len]);
}

fn write_range(range: &RangeResult, out: &mut impl Sink) {
    range.kvs.iter().for_each(|kv| write_kv(RANGE_KVS, kv, out));
    number(RANGE_MORE, i64::from(range.more), out);
    number(RANGE_COUNT, range.count, out);
}

fn write_txn(txn: &TxnResult, out: &mut impl Sink) {
    number(TXN_SUCCEEDED, i64::from(txn.succeeded), out);
    for result in &txn.responses {
        let header = inner_header(result);
        let size = result_size(result, &header);
        prefix(TXN_RESPONSES, message_size(size), out);
        prefix(response_field(result), size, out);
        write_result(result, &header, out);
    }
}

/// Length of a message in a field below 16, with its tag and length prefix.
pub(crate) fn message_size(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

pub(crate) fn kv_size(kv: &KeyValue) -> usize {
    message_size(kv.encoded().len())
}

pub(crate) fn write_kv(field: u32, kv: &KeyValue, out: &mut impl Sink) {
    prefix(field, kv.encoded().len(), out);
    out.put(kv.encoded());
}

/// Writes the tag and length prefix of a message.
pub(crate) fn prefix(field: u32, len: usize, out: &mut impl Sink) {
    tagged(field << 3 | 2, len as u64, out);
}

fn number_size(value: i64) -> usize {
    if value == 0 { 0 } else { 1 + encoded_len_varint(value as u64) }
}

/// Writes an integer field; omits zero.
pub(crate) fn number(field: u32, value: i64, out: &mut impl Sink) {
    if value != 0 {
        tagged(field << 3, value as u64, out);
    }
}

fn tagged(tag: u32, value: u64, out: &mut impl Sink) {
    let mut bytes = [0; 11];
    bytes[0] = tag as u8;
    let mut rest = &mut bytes[1..];
    encode_varint(value, &mut rest);
    let len = 11 - rest.len();
    out.put(&bytes[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;
    use kstore_proto::etcd::etcdserverpb as pb;
    use kstore_store::{LeaseId, Stamp};
    use std::sync::Arc;

    fn kv(n: i64) -> Arc<KeyValue> {
        let stamp = Stamp {
            create_revision: Revision(n),
            mod_revision: Revision(n * 1000),
            version: n,
            lease: LeaseId(n % 2),
        };
        Arc::new(KeyValue::new(format!("key{n}").as_bytes(), &vec![7; (n * 50) as usize], stamp))
    }

    fn results() -> Vec<OpResult> {
        let range = |kvs, more, count| RangeResult { revision: Revision(700), kvs, more, count };
        let put = |prev_kv| OpResult::Put(PutResult { revision: Revision(9), kv: kv(1), prev_kv });
        let delete =
            |prev_kvs, deleted| OpResult::Delete(DeleteResult { revision: Revision(8), deleted, prev_kvs });
        let mut results = vec![
            OpResult::Range(range(vec![], false, 0)),
            OpResult::Range(range(vec![kv(1), kv(2), kv(3)], true, 900)),
            put(None),
            put(Some(kv(4))),
            delete(vec![], 0),
            delete(vec![kv(5), kv(6)], 2),
        ];
        for depth in 1..4 {
            let responses = results.clone();
            let txn = TxnResult { succeeded: depth % 2 == 0, revision: Revision(77), responses };
            results.push(OpResult::Txn(txn));
        }
        results
    }

    #[test]
    fn encoded_responses_equal_those_of_prost() {
        for header in [
            ResponseHeader::default(),
            ResponseHeader { cluster_id: u64::MAX, member_id: 3, revision: 1 << 40, raft_term: 2 },
        ] {
            for result in results() {
                let answer = KvResponse { header, result: &result };
                let mut bytes = Vec::new();
                answer.write(&mut bytes);
                assert_eq!(bytes.len(), answer.size(), "{result:?}");
                let header = Some(header);
                let expected = match &result {
                    OpResult::Range(range) => convert::range_response(range, header).encode_to_vec(),
                    OpResult::Put(put) => convert::put_response(put, header).encode_to_vec(),
                    OpResult::Delete(delete) => convert::delete_response(delete, header).encode_to_vec(),
                    OpResult::Txn(txn) => convert::txn_response(txn, header).encode_to_vec(),
                };
                assert_eq!(bytes, expected, "{result:?}");
            }
        }
        assert_eq!(pb::ResponseHeader::default().encoded_len(), 0);
    }
}
