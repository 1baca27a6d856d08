//! Calls that are answered on the connection's own task: reads and writes of keys, which are nearly all calls. They
//! need no task, router or body stream.

use crate::budget::StreamBudget;
use crate::calls::MethodIndex;
use crate::codec::KvResponse;
use crate::error::{self, EtcdError};
use crate::large_read::{self, EncodedResponse};
use crate::limits::{MESSAGE_BYTES, SMALL_PART_BYTES};
use crate::node::Node;
use crate::{check as request_check, convert, kv};
use bytes::{Buf, Bytes};
use kstore_store::{OpResult, Range, Revision, Txn};
use prost::Message;
use std::sync::LazyLock;
use tonic::Status;

/// Size of a gRPC message prefix: the compression flag and the length.
pub(super) const PREFIX: usize = 5;

/// A KV method that is answered on the connection's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Range,
    Put,
    DeleteRange,
    Txn,
}

impl Method {
    /// The method at `path`, if it is one of these.
    pub(super) fn at(path: &[u8]) -> Option<Self> {
        Some(match path.strip_prefix(b"/etcdserverpb.KV/")? {
            b"Range" => Self::Range,
            b"Put" => Self::Put,
            b"DeleteRange" => Self::DeleteRange,
            b"Txn" => Self::Txn,
            _ => return None,
        })
    }

    /// The method's index in the call counters.
    pub(super) fn index(self) -> MethodIndex {
        static INDEXES: LazyLock<[MethodIndex; 4]> = LazyLock::new(|| {
            [Method::Range, Method::Put, Method::DeleteRange, Method::Txn]
                .map(|method| MethodIndex::of(method.path()).expect("the method is one of ours"))
        });
        INDEXES[self as usize]
    }

    /// The method's path.
    fn path(self) -> &'static str {
        match self {
            Self::Range => "/etcdserverpb.KV/Range",
            Self::Put => "/etcdserverpb.KV/Put",
            Self::DeleteRange => "/etcdserverpb.KV/DeleteRange",
            Self::Txn => "/etcdserverpb.KV/Txn",
        }
    }
}

/// How a call continues after its request was decoded.
#[derive(Debug)]
pub(super) enum StartedCall {
    /// The response is available.
    Finished(RevisedResult),
    /// The range reads many keys, or large values of old versions.
    Read(Range),
    /// The store must execute this transaction; the flag tells whether the response is that of its only operation.
    Write(Txn, SingleOp),
}

/// Whether a transaction stands for a single operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SingleOp {
    Yes,
    No,
}

/// A result with the revision of its header.
pub(super) type RevisedResult = (Revision, OpResult);

/// The result of a finished call.
#[derive(Debug)]
pub(super) enum CallResult {
    /// A result that is to be encoded.
    Result(RevisedResult),
    /// An encoded response, with its budget.
    Encoded(EncodedResponse),
}

/// The length in the message prefix, once the prefix has arrived.
pub(super) fn announced(body: &[u8]) -> Result<Option<usize>, Status> {
    let Some(&[compressed, a, b, c, d]) = body.first_chunk::<PREFIX>() else { return Ok(None) };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    if len > MESSAGE_BYTES {
        return Err(error::too_large(len));
    }
    if compressed != 0 {
        return Err(Status::unimplemented("grpc: Decompressor is not installed for grpc-encoding"));
    }
    Ok(Some(len))
}

/// Checks the received part of a body, so that an oversized body is refused before it is complete.
pub(super) fn check(body: &[u8]) -> Result<(), Status> {
    match announced(body)? {
        Some(len) if body.len() > PREFIX + len => {
            Err(Status::internal("cardinality violation: more than one message in a unary call"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Starts a call with a complete and checked body.
pub(super) fn begin(node: &Node, method: Method, mut body: Bytes) -> Result<StartedCall, Status> {
    if announced(&body)?.is_none_or(|len| body.len() < PREFIX + len) {
        return Err(Status::internal("unexpected end of the request"));
    }
    body.advance(PREFIX);
    let txn = |op| StartedCall::Write(Txn::of(vec![op]), SingleOp::Yes);
    Ok(match method {
        Method::Range => {
            let range = convert::range(decode(body)?)?;
            match large_read::small(node, &range)? {
                Some(result) => StartedCall::Finished((result.revision, OpResult::Range(result))),
                None => StartedCall::Read(range),
            }
        }
        Method::Put => txn(kv::put(decode(body)?)?),
        Method::DeleteRange => txn(kv::delete(decode(body)?)?),
        Method::Txn => {
            request_check::items(&body)?;
            StartedCall::Write(kv::txn(decode(body)?)?, SingleOp::No)
        }
    })
}

fn decode<M: Message + Default>(body: Bytes) -> Result<M, Status> {
    M::decode(body).map_err(|error| Status::internal(format!("grpc: error unmarshalling request: {error}")))
}

/// Executes a transaction, and waits for budget for a result that is not small: it cannot be refused any more. The store completes the
/// transaction even if the future is dropped.
pub(super) async fn write(
    node: Node,
    txn: Txn,
    single: SingleOp,
    budget: StreamBudget,
) -> Result<CallResult, Status> {
    let mut result = node.store.txn(txn).await.map_err(EtcdError::from)?;
    let revision = result.revision;
    let answer = match single {
        SingleOp::Yes => result.responses.pop().expect("each operation has an answer"),
        SingleOp::No => OpResult::Txn(result),
    };
    let header = node.header(revision).unwrap_or_default();
    let response = KvResponse { header, result: &answer };
    let size = response.size();
    if size <= SMALL_PART_BYTES {
        return Ok(CallResult::Result((revision, answer)));
    }
    large_read::fits(size)?;
    let permits = budget.acquire_response(size).await;
    Ok(CallResult::Encoded(EncodedResponse::of(&response, permits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_their_paths() {
        for method in [Method::Range, Method::Put, Method::DeleteRange, Method::Txn] {
            assert_eq!(Method::at(method.path().as_bytes()), Some(method));
        }
        assert_eq!(Method::at(b"/etcdserverpb.KV/Compact"), None);
        assert_eq!(Method::at(b"/etcdserverpb.Lease/Put"), None);
    }

    #[test]
    fn an_invalid_body_is_refused_before_it_is_complete() {
        let prefix = |compressed, len: usize| [&[compressed][..], &(len as u32).to_be_bytes()].concat();
        assert!(check(&[0, 0, 0]).is_ok());
        assert!(check(&prefix(0, MESSAGE_BYTES)).is_ok());
        let large = check(&prefix(0, MESSAGE_BYTES + 1)).unwrap_err();
        assert_eq!(large.message(), "grpc: received message larger than max (2097153 vs. 2097152)");
        assert_eq!(large.code(), tonic::Code::ResourceExhausted);
        assert_eq!(check(&prefix(1, 3)).unwrap_err().code(), tonic::Code::Unimplemented);
        assert_eq!(check(&[&prefix(0, 1)[..], b"ab"].concat()).unwrap_err().code(), tonic::Code::Internal);
    }
}
