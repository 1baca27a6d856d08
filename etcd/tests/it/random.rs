//! Random calls from a seed, over few keys, so that they interact. Each seed makes one long history.

use crate::call::Call;
use crate::calls::op;
use crate::comparison::Comparison;
use kstore_proto::etcd::etcdserverpb::compare::TargetUnion;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use kstore_store::SortTarget;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Calls per seed.
const CALLS: usize = 1_500;
const SEEDS: [u8; 3] = [1, 2, 3];

/// The current revision when a call is made; its revisions are chosen around it.
type At = i64;

pub(crate) fn key() -> impl Strategy<Value = bytes::Bytes> {
    let keys: [&'static [u8]; 10] = [b"a", b"b", b"c", b"d", b"e", b"ab", b"\0", b"\xff", b"b\0", b""];
    prop::sample::select(keys.to_vec()).prop_map(bytes::Bytes::from_static)
}

pub(crate) fn end() -> impl Strategy<Value = bytes::Bytes> {
    prop_oneof![3 => Just(bytes::Bytes::new()), 2 => key(), 1 => Just(bytes::Bytes::from_static(b"\0"))]
}

fn value() -> impl Strategy<Value = bytes::Bytes> {
    prop::sample::select(vec!["", "1", "2", "longer"]).prop_map(|value| value.into())
}

pub(crate) fn flag() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

/// Mostly the current revision; otherwise one around it, far below, or above.
fn revision(at: At) -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(0), 3 => at - 8..=at + 2, 1 => -2..=3_i64]
}

fn bound(at: At) -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0), 1 => at - 12..=at]
}

fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0), 1 => 1..=4_i64]
}

fn range(at: At) -> impl Strategy<Value = pb::RangeRequest> {
    let bounds = (bound(at), bound(at), bound(at), bound(at));
    // Left out on purpose: unknown orders and targets, which etcd refuses since 3.6. Also a target without an order but
    // with a limit, for which etcd sorts only the keys that it sends.
    let sort = prop_oneof![1 => Just((0, 0)), 2 => (1..=2_i32, 0..SortTarget::ALL.len() as i32)];
    let flags = (flag(), flag(), flag());
    let limit = prop_oneof![2 => Just(0), 2 => 1..=5_i64, 1 => Just(-3)];
    (key(), end(), limit, revision(at), sort, flags, bounds).prop_map(
        |(key, range_end, limit, revision, (sort_order, sort_target), flags, bounds)| pb::RangeRequest {
            key,
            range_end,
            limit,
            revision,
            sort_order,
            sort_target,
            serializable: flags.0,
            keys_only: flags.1,
            count_only: flags.2,
            min_mod_revision: bounds.0,
            max_mod_revision: bounds.1,
            min_create_revision: bounds.2,
            max_create_revision: bounds.3,
        },
    )
}

fn put() -> impl Strategy<Value = pb::PutRequest> {
    let ignore = prop::bool::weighted(0.1);
    (key(), value(), lease(), flag(), ignore, ignore).prop_map(
        |(key, value, lease, prev_kv, ignore_value, ignore_lease)| pb::PutRequest {
            key,
            value,
            // If both the kept key and the lease are missing, etcd's error depends on details of the request.
            lease: if ignore_value && !ignore_lease { 0 } else { lease },
            prev_kv,
            ignore_value,
            ignore_lease,
        },
    )
}

fn delete() -> impl Strategy<Value = pb::DeleteRangeRequest> {
    (key(), end(), flag()).prop_map(|(key, range_end, prev_kv)| pb::DeleteRangeRequest {
        key,
        range_end,
        prev_kv,
    })
}

fn compare(at: At) -> impl Strategy<Value = pb::Compare> {
    let union = prop_oneof![
        Just(None),
        (0..=3_i64).prop_map(|version| Some(TargetUnion::Version(version))),
        bound(at).prop_map(|revision| Some(TargetUnion::CreateRevision(revision))),
        bound(at).prop_map(|revision| Some(TargetUnion::ModRevision(revision))),
        value().prop_map(|value| Some(TargetUnion::Value(value))),
        lease().prop_map(|lease| Some(TargetUnion::Lease(lease))),
    ];
    let rare_end = prop_oneof![3 => Just(bytes::Bytes::new()), 1 => end()];
    (key(), rare_end, 0..=4_i32, 0..=5_i32, union).prop_map(
        |(key, range_end, result, target, target_union)| pb::Compare {
            key,
            range_end,
            result,
            target,
            target_union,
        },
    )
}

fn txn(at: At) -> impl Strategy<Value = pb::TxnRequest> {
    let leaf = prop_oneof![
        2 => range(at).prop_map(Request::RequestRange),
        4 => put().prop_map(Request::RequestPut),
        2 => delete().prop_map(Request::RequestDeleteRange),
    ];
    let request = leaf.prop_recursive(3, 12, 3, move |inner| {
        let branch = || prop::collection::vec(inner.clone().prop_map(op), 0..3);
        (prop::collection::vec(compare(at), 0..2), branch(), branch()).prop_map(
            |(compare, success, failure)| Request::RequestTxn(pb::TxnRequest { compare, success, failure }),
        )
    });
    let request = prop_oneof![40 => request.prop_map(op), 1 => Just(pb::RequestOp { request: None })];
    let branch = || prop::collection::vec(request.clone(), 0..4);
    (prop::collection::vec(compare(at), 0..3), branch(), branch())
        .prop_map(|(compare, success, failure)| pb::TxnRequest { compare, success, failure })
}

pub(crate) fn call(at: At) -> BoxedStrategy<Call> {
    let keys = flag();
    prop_oneof![
        8 => range(at).prop_map(Call::Range),
        8 => put().prop_map(Call::Put),
        4 => delete().prop_map(Call::Delete),
        12 => txn(at).prop_map(Call::Txn),
        // Not the current revision: for a history that was just compacted, etcd returns the previous hash. Nor zero,
        // after which etcd returns the hash of an empty history for ever.
        1 => (prop_oneof![5 => at - 20..=at - 1, 1 => Just(at + 1)], flag())
            .prop_filter("see above", |(revision, _)| *revision != 0)
            .prop_map(|(revision, physical)| Call::Compact(pb::CompactionRequest { revision, physical })),
        2 => (0..=4_i64, 900..=1000_i64)
            .prop_filter("an id that both choose alike", |(id, _)| *id != 0)
            .prop_map(|(id, ttl)| Call::Grant(pb::LeaseGrantRequest { ttl, id })),
        1 => (0..=5_i64).prop_map(|id| Call::Revoke(pb::LeaseRevokeRequest { id })),
        1 => (0..=5_i64, keys)
            .prop_map(|(id, keys)| Call::TimeToLive(pb::LeaseTimeToLiveRequest { id, keys })),
        1 => Just(Call::Leases),
        1 => Just(Call::HashKv(0)),
    ]
    .boxed()
}

#[tokio::test]
async fn random_calls_have_the_same_answers_and_end_with_the_same_history() {
    for seed in SEEDS {
        let Some(comparison) = Comparison::begin().await else { return };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut at = 1;
        for number in 0..CALLS {
            let call = call(at).new_tree(&mut runner).unwrap().current();
            let answer = comparison.both(&format!("call {number} of seed {seed}"), &call).await;
            at = revision_in(&answer).unwrap_or(at);
        }
        comparison.both("the end", &Call::HashKv(0)).await;
    }
}

/// The revision in the header, which is the first field.
pub(crate) fn revision_in(answer: &str) -> Option<i64> {
    let (_, rest) = answer.split_once(" revision: ")?;
    rest.split(',').next()?.parse().ok()
}
