//! The KV service: reads and writes. The store completes a write even if the call is cancelled or times out.

use crate::error::EtcdError;
use crate::node::Node;
use crate::range_stream::{self, RangeStream};
use crate::{check, convert};
use kstore_proto::etcd::etcdserverpb::kv_server::Kv;
use kstore_proto::etcd::etcdserverpb::{
    self as pb, CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use kstore_store::{Op, OpResult, RangeResult, Revision, Txn, TxnResult};
use tonic::{Request, Response, Status, async_trait};

#[async_trait]
impl Kv for Node {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let result = range(self, request.into_inner())?;
        Ok(Response::new(convert::range_response(&result, self.header(result.revision))))
    }

    type RangeStreamStream = RangeStream;

    async fn range_stream(&self, request: Request<RangeRequest>) -> Result<Response<RangeStream>, Status> {
        range_stream::range_stream(self, request)
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (result, header) = self.single(put(request.into_inner())?).await?;
        let OpResult::Put(result) = result else { unreachable!("a put was answered with {result:?}") };
        Ok(Response::new(convert::put_response(&result, header)))
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let (result, header) = self.single(delete(request.into_inner())?).await?;
        let OpResult::Delete(result) = result else {
            unreachable!("a deletion was answered with {result:?}")
        };
        Ok(Response::new(convert::delete_response(&result, header)))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let result = self.store.txn(txn(request.into_inner())?).await.map_err(EtcdError::from)?;
        Ok(Response::new(convert::txn_response(&result, self.header(result.revision))))
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let CompactionRequest { revision, physical } = request.into_inner();
        if physical {
            self.store.compact_physical(Revision(revision)).await.map_err(EtcdError::from)?;
        } else {
            self.store.compact(Revision(revision)).await.map_err(EtcdError::from)?;
        }
        Ok(Response::new(CompactionResponse { header: self.header_now() }))
    }
}

/// Evaluates a range request.
pub(crate) fn range(node: &Node, request: RangeRequest) -> Result<RangeResult, EtcdError> {
    Ok(node.store.range(&convert::range(request)?)?)
}

/// Checks and converts a put, with etcd's errors.
pub(crate) fn put(request: PutRequest) -> Result<Op, EtcdError> {
    check::put(&request)?;
    check::size(&request)?;
    Ok(Op::Put(convert::put(request)))
}

/// Checks and converts a deletion, with etcd's errors.
pub(crate) fn delete(request: DeleteRangeRequest) -> Result<Op, EtcdError> {
    check::size(&request)?;
    Ok(Op::Delete(convert::delete(request)?))
}

/// Checks and converts a transaction, with etcd's errors.
pub(crate) fn txn(request: TxnRequest) -> Result<Txn, EtcdError> {
    check::txn(&request)?;
    check::size(&request)?;
    convert::txn(request)
}

impl Node {
    /// Executes one operation as a transaction.
    async fn single(&self, op: Op) -> Result<(OpResult, Option<pb::ResponseHeader>), EtcdError> {
        let TxnResult { revision, mut responses, .. } = self.store.txn(Txn::of(vec![op])).await?;
        let result = responses.pop().expect("each operation has an answer");
        Ok((result, self.header(revision)))
    }
}
