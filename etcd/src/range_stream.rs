//! RangeStream: a range in parts, so that a large one fits into the memory of both sides. All parts are of one
//! revision; a compaction past it ends the stream.

use crate::convert;
use crate::error::{EtcdError, unimplemented};
use crate::limits::{CHUNK_BYTES, CHUNK_KEYS};
use crate::node::Node;
use futures::stream::{self, Stream};
use kstore_proto::etcd::etcdserverpb::{
    RangeRequest, RangeResponse, RangeStreamResponse, ResponseHeader, range_request,
};
use kstore_store::{End, KeyRange, Range, Revision};
use std::pin::Pin;
use tonic::{Request, Response, Status};

pub(crate) type RangeStream =
    Pin<Box<dyn Stream<Item = Result<RangeStreamResponse, Status>> + Send + 'static>>;

/// The remaining parts of a range in key order. All are of one revision.
pub(crate) struct RangeParts {
    node: Node,
    range: Range,
    /// Header and count of the first part, which also fixes the revision if the request has none.
    pinned: Option<FirstPart>,
    /// Keys that may still be sent; zero means any number.
    limit: i64,
    /// Number of keys in the next part.
    keys: i64,
}

/// Header and count of the first part.
#[derive(Clone, Copy)]
struct FirstPart {
    header: Option<ResponseHeader>,
    count: i64,
}

/// Checks the request and starts the stream.
pub(crate) fn range_stream(
    node: &Node,
    request: Request<RangeRequest>,
) -> Result<Response<RangeStream>, Status> {
    let request = request.into_inner();
    refuse(&request)?;
    let range = convert::range(request)?;
    let rest = RangeParts::of(node.clone(), range);
    let parts = stream::unfold(Some(rest), |rest| async {
        let mut rest = rest?;
        match rest.next() {
            Ok((response, true)) => Some((Ok(response), None)),
            Ok((response, false)) => Some((Ok(response), Some(rest))),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    Ok(Response::new(Box::pin(parts)))
}

/// Refuses requests that a stream in key order cannot serve.
///
/// The pattern names all fields, so that a new one is judged here.
fn refuse(request: &RangeRequest) -> Result<(), Status> {
    let RangeRequest {
        key: _,
        range_end: _,
        limit: _,
        revision: _,
        sort_order,
        sort_target,
        serializable: _,
        keys_only: _,
        count_only: _,
        min_mod_revision,
        max_mod_revision,
        min_create_revision,
        max_create_revision,
    } = request;
    let sorted = *sort_order != range_request::SortOrder::None as i32
        || *sort_target != range_request::SortTarget::Key as i32;
    if sorted {
        return Err(unimplemented("RangeStream does not support custom sort orders"));
    }
    if [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision]
        .iter()
        .any(|bound| **bound != 0)
    {
        return Err(unimplemented("RangeStream does not support revision filters"));
    }
    Ok(())
}

impl RangeParts {
    /// The parts of a range without filters. Each has at most [`CHUNK_BYTES`], or one key: budget for so many bytes is reserved for it,
    /// and a few keys may have large values.
    pub(crate) fn of(node: Node, range: Range) -> Self {
        let limit = range.limit.max(0);
        Self { node, range: range.max_bytes(CHUNK_BYTES), pinned: None, limit, keys: CHUNK_KEYS }
    }

    /// Reads the next part. Also returns whether it is the last, which alone has header and count.
    pub(crate) fn next(&mut self) -> Result<(RangeStreamResponse, bool), EtcdError> {
        self.range.limit = if self.limit > 0 { self.keys.min(self.limit) } else { self.keys };
        let result = self.node.store.range(&self.range)?;
        let pinned = *self.pinned.get_or_insert_with(|| FirstPart {
            header: self.node.header(result.revision),
            count: result.count,
        });
        if self.range.revision <= Revision::CURRENT {
            self.range.revision = result.revision;
        }
        let sent = result.kvs.len() as i64;
        let is_cut = result.more && sent < self.range.limit;
        let wanted = self.limit > 0 && sent == self.limit;
        let last = self.range.count_only || !result.more || wanted;
        if let (false, Some(kv)) = (last, result.kvs.last()) {
            self.go_on_behind(&kv.key_bytes());
            self.limit = if self.limit > 0 { self.limit - sent } else { 0 };
        }
        let part = convert::range_response(&result, None);
        let bytes: usize = part.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        // The number of keys adapts until a part has about the intended size.
        if is_cut {
            self.keys = sent;
        } else if bytes < CHUNK_BYTES / 2 {
            self.keys = self.keys.saturating_mul(2);
        }
        let (header, count) = if last { (pinned.header, pinned.count) } else { (None, 0) };
        let response = RangeResponse { header, kvs: part.kvs, more: last && result.more, count };
        Ok((RangeStreamResponse { range_response: Some(response) }, last))
    }

    /// Continues after `key`, from the smallest larger key, which has a zero byte appended.
    fn go_on_behind(&mut self, key: &[u8]) {
        let start = [key, &[0]].concat().into();
        let end = std::mem::replace(&mut self.range.keys.end, End::Unbounded);
        self.range.keys = KeyRange { start, end };
    }
}
