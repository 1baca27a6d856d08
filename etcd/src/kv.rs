//! The KV service: reads and writes. A write is an owned job of the store, so that a call that is cancelled or runs out of
//! time never leaves half of it.

use kstore_proto::etcd::etcdserverpb::{
    self as pb, CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse, kv_server::Kv,
};
use kstore_store::{Op, OpResult, RangeResult, Revision, Txn, TxnResult};
use tonic::{Request, Response, Status, async_trait};

use crate::check;
use crate::convert;
use crate::error::EtcdError;
use crate::node::Node;
use crate::range_stream::{self, RangeStream};

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

/// Reads.
pub(crate) fn range(node: &Node, request: RangeRequest) -> Result<RangeResult, EtcdError> {
    Ok(node.store.range(&convert::range(request)?)?)
}

/// A put that etcd would do.
pub(crate) fn put(request: PutRequest) -> Result<Op, EtcdError> {
    check::put(&request)?;
    check::size(&request)?;
    Ok(Op::Put(convert::put(request)))
}

/// A deletion that etcd would do.
pub(crate) fn delete(request: DeleteRangeRequest) -> Result<Op, EtcdError> {
    check::size(&request)?;
    Ok(Op::Delete(convert::delete(request)?))
}

/// A transaction that etcd would do.
pub(crate) fn txn(request: TxnRequest) -> Result<Txn, EtcdError> {
    check::txn(&request)?;
    check::size(&request)?;
    convert::txn(request)
}

impl Node {
    /// One operation as a transaction of its own.
    async fn single(&self, op: Op) -> Result<(OpResult, Option<pb::ResponseHeader>), EtcdError> {
        let TxnResult { revision, mut responses, .. } = self.store.txn(Txn::of(vec![op])).await?;
        let result = responses.pop().expect("each operation has an answer");
        Ok((result, self.header(revision)))
    }
}
