//! Random actions of the conformance tests, independent of the state before: keys from a small alphabet, revisions as
//! fractions of the existing history.

use crate::{
    Compare, CompareOp, Delete, KeyRange, LeaseId, Op, Put, Range, Revision, SortOrder, SortTarget, Target,
    Txn, WatchRequest,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};

#[derive(Clone, Debug)]
pub(super) enum Action {
    Txn(Txn),
    /// Transactions that are executed one after the other as one request.
    Each(Vec<Txn>),
    Range(Range, HistoryPosition),
    Compact(HistoryPosition),
    Grant(i64),
    Revoke(i64),
    /// Starts a watch; none starts at the next revision.
    Watch(WatchRequest, Option<HistoryPosition>),
    /// Reads all pending batches of the watches and compares them.
    Drain,
    /// Closes the store and opens it again.
    Reopen,
}

/// A position in the existing history, from its start (0) to just after its end (1).
pub(super) type HistoryPosition = f64;

pub(super) fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..12).prop_map(|n| vec![b'a' + n / 4, b'0' + n % 4]),
        (0u8..3).prop_map(|n| vec![b'a' + n]),
    ]
}

pub(super) fn keys() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        4 => key().prop_map(KeyRange::single),
        2 => key().prop_map(|key| KeyRange::prefix(key[..1].to_vec())),
        1 => key().prop_map(KeyRange::from_key),
        1 => (key(), key()).prop_map(|(a, b)| KeyRange::between(a, b)),
        1 => Just(KeyRange::all()),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => vec(any::<u8>(), 0..4), 1 => vec(any::<u8>(), 200..400)]
}

fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0i64), 1 => 1i64..4]
}

fn put() -> impl Strategy<Value = Put> {
    (key(), value(), lease(), any::<bool>(), 0u8..20).prop_map(|(key, value, lease, prev_kv, keep)| {
        let (ignore_value, ignore_lease) = (keep == 0, keep == 1);
        Put {
            key: key.into(),
            value: if ignore_value { vec![] } else { value }.into(),
            lease: LeaseId(if ignore_lease { 0 } else { lease }),
            prev_kv,
            ignore_value,
            ignore_lease,
        }
    })
}

fn small() -> impl Strategy<Value = Revision> {
    prop_oneof![3 => Just(Revision(0)), 1 => (1i64..40).prop_map(Revision)]
}

pub(super) fn range() -> impl Strategy<Value = Range> {
    let targets = prop_oneof![
        2 => Just(SortTarget::Key),
        5 => proptest::sample::select(SortTarget::ALL.to_vec()),
    ];
    let order = prop_oneof![2 => Just(SortOrder::Ascending), 1 => Just(SortOrder::Descending)];
    let bounds = (small(), small(), small(), small());
    (keys(), -1i64..6, targets, order, any::<(bool, bool)>(), bounds).prop_map(
        |(keys, limit, sort_target, sort_order, (keys_only, count_only), bounds)| Range {
            keys,
            revision: Revision(0),
            limit,
            max_bytes: 0,
            sort_target,
            sort_order,
            keys_only,
            count_only,
            min_mod_revision: bounds.0,
            max_mod_revision: bounds.1,
            min_create_revision: bounds.2,
            max_create_revision: bounds.3,
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let op = prop_oneof![
        3 => Just(CompareOp::Equal),
        1 => Just(CompareOp::Greater),
        1 => Just(CompareOp::Less),
        1 => Just(CompareOp::NotEqual),
    ];
    let target = prop_oneof![
        (0i64..3).prop_map(Target::Version),
        small().prop_map(Target::Create),
        small().prop_map(Target::Mod),
        vec(any::<u8>(), 0..2).prop_map(|value| Target::Value(value.into())),
        lease().prop_map(|id| Target::Lease(LeaseId(id))),
    ];
    (keys(), op, target).prop_map(|(keys, op, target)| Compare { keys, op, target })
}

fn op(depth: u32) -> BoxedStrategy<Op> {
    let plain = prop_oneof![
        2 => range().prop_map(Op::Range),
        4 => put().prop_map(Op::Put),
        2 => (keys(), any::<bool>()).prop_map(|(keys, prev_kv)| Op::Delete(Delete { keys, prev_kv })),
    ];
    if depth == 0 {
        return plain.boxed();
    }
    prop_oneof![6 => plain, 1 => txn(depth - 1).prop_map(Op::Txn)].boxed()
}

pub(super) fn txn(depth: u32) -> BoxedStrategy<Txn> {
    let note = option::weighted(0.3, vec(any::<u8>(), 1..5).prop_map(Into::into));
    (vec(compare(), 0..3), vec(op(depth), 0..4), vec(op(depth), 0..3), note)
        .prop_map(|(compares, success, failure, note)| Txn { compares, success, failure, note })
        .boxed()
}

fn watch() -> impl Strategy<Value = WatchRequest> {
    (keys(), any::<bool>(), 0u8..8).prop_map(|(keys, prev_kv, filter)| WatchRequest {
        keys,
        start: Revision(0),
        prev_kv,
        no_put: filter == 1,
        no_delete: filter == 2,
    })
}

pub(super) fn action() -> impl Strategy<Value = Action> {
    let part = || 0.0..=1.0;
    prop_oneof![
        10 => put().prop_map(|put| Action::Txn(Txn::of(vec![Op::Put(put)]))),
        8 => txn(2).prop_map(Action::Txn),
        2 => vec(txn(1), 0..5).prop_map(Action::Each),
        6 => (range(), part()).prop_map(|(range, part)| Action::Range(range, part)),
        1 => (0.0..0.9).prop_map(Action::Compact),
        1 => (1i64..4).prop_map(Action::Grant),
        1 => (1i64..4).prop_map(Action::Revoke),
        2 => (watch(), option::of(part())).prop_map(|(watch, part)| Action::Watch(watch, part)),
        2 => Just(Action::Drain),
        1 => Just(Action::Reopen),
    ]
}
