//! Compaction of an external etcd, as kube-apiserver does it: history older than one to two intervals is
//! dropped. Several apiservers, kstore's or Kubernetes', coordinate through one agreed key: the first to
//! increment its version compacts, and the others learn the round from it.

use super::call_error::{CallError, Refusal};
use super::link::{Link, Member};
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::response_op::Response;
use kstore_proto::etcd::etcdserverpb::{
    CompactionRequest, Compare, PutRequest, RangeRequest, RequestOp, TxnRequest, compare,
};
use std::sync::Arc;
use std::time::Duration;

/// The key that kube-apiservers agree on; it has no prefix.
const KEY: &str = "compact_rev_key";

/// The compaction round, as far as this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CompactionRound {
    /// Version of the key: the number of rounds so far.
    number: i64,
    /// The newest revision when this server last read the key: the next round compacts to it.
    revision: i64,
}

/// Compacts once per interval until the link is closed. A zero interval disables compaction.
pub(super) async fn run(link: Arc<Link>, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let mut last = CompactionRound::default();
    while link.or_closed(tokio::time::sleep(interval)).await.is_some() {
        match round(&link, last).await {
            Ok(next) => last = next,
            // The next round compacts what this one did not.
            Err(error) => tracing::warn!(?error, "the compaction of etcd failed"),
        }
    }
}

async fn round(link: &Link, last: CompactionRound) -> Result<CompactionRound, CallError> {
    let request = claim(last);
    let ask = |member: Member| {
        let request = member.request(request.clone());
        async move { member.kv().txn(request).await }
    };
    // A claim that succeeded although its reply was lost looks like another server's: that round is skipped.
    let answer = link.call(ask).await?;
    let revision = answer.header.as_ref().map_or(0, |header| header.revision);
    link.saw_revision(revision);
    if !answer.succeeded {
        let number = answer.responses.into_iter().find_map(|response| match response.response? {
            Response::ResponseRange(range) => range.kvs.first().map(|kv| kv.version),
            _ => None,
        });
        return Ok(CompactionRound { number: number.unwrap_or_default(), revision });
    }
    if last.revision > 0 {
        compact(link, last.revision).await?;
        tracing::info!(revision = last.revision, "history of etcd compacted");
    }
    Ok(CompactionRound { number: last.number + 1, revision })
}

/// The transaction that claims the next round, if no other server has claimed one since `last`.
fn claim(last: CompactionRound) -> TxnRequest {
    let op = |request| vec![RequestOp { request: Some(request) }];
    TxnRequest {
        compare: vec![Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Version.into(),
            key: KEY.into(),
            target_union: Some(compare::TargetUnion::Version(last.number)),
            ..Default::default()
        }],
        success: op(Request::RequestPut(PutRequest {
            key: KEY.into(),
            value: last.revision.to_string().into(),
            ..Default::default()
        })),
        failure: op(Request::RequestRange(RangeRequest { key: KEY.into(), ..Default::default() })),
    }
}

async fn compact(link: &Link, revision: i64) -> Result<(), CallError> {
    let request = CompactionRequest { revision, physical: false };
    let ask = |member: Member| async move { member.kv().compact(member.request(request)).await };
    match link.call(ask).await {
        Ok(_) => tracing::info!(revision, "etcd was compacted"),
        // Another client has compacted to this revision or later.
        Err(CallError::Refused(Refusal::Compacted)) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
