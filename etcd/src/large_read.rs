//! Ranges of many keys, and of old versions with large values. They are evaluated on blocking threads, a few at a time, and their
//! responses are encoded at once, so that nothing but the budgeted bytes waits for the client.

use crate::budget::{BudgetPermits, StreamBudget};
use crate::codec::KvResponse;
use crate::error::{EtcdError, STOPPED, TOO_MANY_REQUESTS};
use crate::limits::{ANSWER_MAX, CHUNK_BYTES, KEYS_AT_ONCE};
use crate::node::Node;
use crate::range_stream::RangeParts;
use bytes::Bytes;
use kstore_store::{End, OpResult, Range, RangeResult, Revision, SortOrder, SortTarget};
use prost::Message;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Status;

/// An encoded response in parts, which form one message, with the budget that it holds until the client has taken it.
#[derive(Debug)]
pub(crate) struct EncodedResponse {
    pub(crate) parts: Vec<Bytes>,
    pub(crate) permits: BudgetPermits,
}

impl EncodedResponse {
    /// Encodes a response for which budget was acquired.
    pub(crate) fn of(response: &KvResponse<'_>, permits: BudgetPermits) -> Self {
        let mut body = Vec::with_capacity(response.size());
        response.write(&mut body);
        Self { parts: vec![body.into()], permits }
    }

    /// Length of the message.
    pub(crate) fn size(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }
}

/// Evaluates a range at once if few keys are read, and few bytes of old versions; `None` if it is large.
pub(crate) fn small(node: &Node, range: &Range) -> Result<Option<RangeResult>, EtcdError> {
    if range.keys.end == End::Single || range.count_only {
        return Ok(Some(node.store.range(range)?));
    }
    if !reads_few(node, range)? {
        return Ok(None);
    }
    if range.revision <= Revision::CURRENT {
        return Ok(Some(node.store.range(range)?));
    }
    if !is_in_key_order(range) {
        return Ok(None);
    }
    // The values of old versions are copied, so that they are bounded as well.
    let result = node.store.range(&range.clone().max_bytes(CHUNK_BYTES))?;
    let is_cut = result.more && (range.limit <= 0 || (result.kvs.len() as i64) < range.limit);
    Ok((!is_cut).then_some(result))
}

/// Whether a range reads no more than [`KEYS_AT_ONCE`] keys.
fn reads_few(node: &Node, range: &Range) -> Result<bool, EtcdError> {
    let has_limit = (1..=KEYS_AT_ONCE as i64).contains(&range.limit);
    Ok(has_limit && is_in_key_order(range) || node.count(&range.keys)? <= KEYS_AT_ONCE)
}

/// Whether a range is in key order without filters, so that it can be read in parts.
fn is_in_key_order(range: &Range) -> bool {
    let filters = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    range.sort_target == SortTarget::Key
        && range.sort_order == SortOrder::Ascending
        && filters.iter().all(|bound| bound.0 == 0)
}

/// Evaluates a large range on a blocking thread once it has the permits for it, and encodes the response.
///
/// # Errors
/// The store's, or "too many requests" if there is no budget for the response.
pub(crate) async fn read(
    node: Node,
    range: Range,
    budget: StreamBudget,
    [own, all]: [Arc<Semaphore>; 2],
) -> Result<EncodedResponse, Status> {
    let own = own.acquire_owned().await.map_err(|_| Status::from(STOPPED))?;
    let all = all.acquire_owned().await.map_err(|_| Status::from(STOPPED))?;
    let evaluated = tokio::task::spawn_blocking(move || {
        // A call that was cancelled is evaluated to its end, and counts as long.
        let _permits = (own, all);
        if range.revision > Revision::CURRENT && is_in_key_order(&range) {
            in_parts(&node, range, &budget)
        } else {
            whole(&node, &range, &budget)
        }
    });
    evaluated.await.map_err(|_| Status::from(STOPPED))?
}

/// Reads a range of newest versions, which are shared with the store, or one that must be sorted or filtered.
fn whole(node: &Node, range: &Range, budget: &StreamBudget) -> Result<EncodedResponse, Status> {
    let result = node.store.range(range).map_err(EtcdError::from)?;
    let header = node.header(result.revision).unwrap_or_default();
    let result = OpResult::Range(result);
    let response = KvResponse { header, result: &result };
    fits(response.size())?;
    let mut permits = Vec::new();
    if !budget.extend(&mut permits, 0, response.size()) {
        return Err(TOO_MANY_REQUESTS.into());
    }
    Ok(EncodedResponse::of(&response, permits))
}

/// Reads a range of old versions part by part: each is encoded before the next is read. Encoded messages in a row are one message with
/// the fields of all.
fn in_parts(node: &Node, range: Range, budget: &StreamBudget) -> Result<EncodedResponse, Status> {
    let mut parts = RangeParts::of(node.clone(), range);
    let (mut response, mut size) = (EncodedResponse { parts: Vec::new(), permits: Vec::new() }, 0);
    loop {
        let (part, is_last) = parts.next()?;
        let part = part.range_response.unwrap_or_default();
        let bytes = part.encoded_len();
        fits(size + bytes)?;
        if !budget.extend(&mut response.permits, size, bytes) {
            return Err(TOO_MANY_REQUESTS.into());
        }
        size += bytes;
        response.parts.push(part.encode_to_vec().into());
        if is_last {
            return Ok(response);
        }
    }
}

/// Refuses a message that no client accepts.
pub(crate) fn fits(bytes: usize) -> Result<(), Status> {
    if bytes <= ANSWER_MAX {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "grpc: trying to send message larger than max ({bytes} vs. {ANSWER_MAX})"
    )))
}
