//! Compaction of an external etcd, as kube-apiserver does it: what is older than one to two intervals goes away. Several
//! apiservers, ours or Kubernetes' own, do it together without getting in each other's way: whoever moves the version of one
//! agreed key on first compacts, the others learn the time from it.

use super::link::{Link, Member};
use super::trouble::{Refusal, Trouble};
use kstore_proto::etcd::etcdserverpb::{
    CompactionRequest, Compare, PutRequest, RangeRequest, RequestOp, TxnRequest, compare,
    request_op::Request, response_op::Response,
};
use std::sync::Arc;
use std::time::Duration;

/// The key that kube-apiservers agree on; it has no prefix.
const KEY: &str = "compact_rev_key";

/// How far the agreement has come, as far as this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// The version of the key: how many rounds there were.
    time: i64,
    /// The revision that was the newest at this server's last look: what the next round compacts to.
    revision: i64,
}

/// Compacts once per interval until the link is closed; never, if the interval is zero.
pub(super) async fn run(link: Arc<Link>, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let mut known = Known::default();
    while link.or_closed(tokio::time::sleep(interval)).await.is_some() {
        match round(&link, known).await {
            Ok(next) => known = next,
            // The next round makes up for it.
            Err(trouble) => tracing::warn!(?trouble, "etcd was not compacted"),
        }
    }
}

async fn round(link: &Link, known: Known) -> Result<Known, Trouble> {
    let request = claim(known);
    let ask = |member: Member| {
        let request = member.request(request.clone());
        async move { member.kv().txn(request).await }
    };
    // A claim that was carried out although its answer was lost looks like another server's: that round is skipped.
    let answer = link.call(ask).await?;
    let revision = answer.header.as_ref().map_or(0, |header| header.revision);
    link.heard(revision);
    if !answer.succeeded {
        let time = answer.responses.into_iter().find_map(|response| match response.response? {
            Response::ResponseRange(range) => range.kvs.first().map(|kv| kv.version),
            _ => None,
        });
        return Ok(Known { time: time.unwrap_or_default(), revision });
    }
    if known.revision > 0 {
        compact(link, known.revision).await?;
        tracing::info!(revision = known.revision, "history of etcd compacted");
    }
    Ok(Known { time: known.time + 1, revision })
}

/// "If nobody had a round since the one that we know of, this one is ours."
fn claim(known: Known) -> TxnRequest {
    let op = |request| vec![RequestOp { request: Some(request) }];
    TxnRequest {
        compare: vec![Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Version.into(),
            key: KEY.into(),
            target_union: Some(compare::TargetUnion::Version(known.time)),
            ..Default::default()
        }],
        success: op(Request::RequestPut(PutRequest {
            key: KEY.into(),
            value: known.revision.to_string().into(),
            ..Default::default()
        })),
        failure: op(Request::RequestRange(RangeRequest { key: KEY.into(), ..Default::default() })),
    }
}

async fn compact(link: &Link, revision: i64) -> Result<(), Trouble> {
    let request = CompactionRequest { revision, physical: false };
    let ask = |member: Member| async move { member.kv().compact(member.request(request)).await };
    match link.call(ask).await {
        Ok(_) => tracing::info!(revision, "etcd was compacted"),
        // Somebody else did; that is as good.
        Err(Trouble::Refused(Refusal::Compacted)) => {}
        Err(trouble) => return Err(trouble),
    }
    Ok(())
}
