//! The rules of transactions and ranges, each tested against an independent second formulation.

use super::conformance::{block_on, cases};
use crate::txn::check::check;
use crate::{
    Compare, CompareOp, Config, Delete, End, KeyRange, LeaseId, Limits, Op, Put, Range, Revision, Store,
    Target, Txn, TxnError,
};
use kstore_nondet::Nondet;
use proptest::collection::vec;
use proptest::prelude::{
    BoxedStrategy, Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use std::cmp::Ordering;

async fn store() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

fn op(depth: u32) -> BoxedStrategy<Op> {
    let key = || (0u8..4).prop_map(|n| vec![b'a' + n]);
    let keys = prop_oneof![
        4 => key().prop_map(KeyRange::single),
        2 => (key(), key()).prop_map(|(a, b)| KeyRange::between(a, b)),
        1 => key().prop_map(KeyRange::from_key),
    ];
    let plain = prop_oneof![
        4 => key().prop_map(|key| Op::put(key, "")),
        2 => keys.prop_map(|keys| Op::Delete(Delete { keys, prev_kv: false })),
        1 => key().prop_map(|key| Op::Range(Range::key(key))),
    ];
    if depth == 0 {
        plain.boxed()
    } else {
        prop_oneof![3 => plain, 2 => txn(depth - 1).prop_map(Op::Txn)].boxed()
    }
}

fn txn(depth: u32) -> BoxedStrategy<Txn> {
    let branch = || vec(op(depth), 0..4);
    let compares = vec(Just(Compare::key("k", CompareOp::Equal, Target::Version(0))), 0..4);
    (compares, branch(), branch())
        .prop_map(|(compares, success, failure)| Txn { compares, success, failure, note: None })
        .boxed()
}

/// A put or a deletion with its position: the branch and the index at each level.
struct Change<'a> {
    way: Vec<(bool, usize)>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Put(&'a [u8]),
    Delete(&'a KeyRange),
}

fn changes<'a>(txn: &'a Txn, way: &[(bool, usize)], all: &mut Vec<Change<'a>>) {
    for (branch, ops) in [(true, &txn.success), (false, &txn.failure)] {
        for (at, op) in ops.iter().enumerate() {
            let way = [way, &[(branch, at)]].concat();
            match op {
                Op::Range(_) => {}
                Op::Put(put) => all.push(Change { way, kind: Kind::Put(&put.key) }),
                Op::Delete(delete) => all.push(Change { way, kind: Kind::Delete(&delete.keys) }),
                Op::Txn(inner) => changes(inner, &way, all),
            }
        }
    }
}

/// Whether two changes may not be in one transaction; `a` is before `b`. Decides per pair, whereas the store collects.
fn clash(a: &Change<'_>, b: &Change<'_>) -> bool {
    let fork = a.way.iter().zip(&b.way).position(|(a, b)| a != b).expect("two places differ");
    if a.way[fork].0 != b.way[fork].0 {
        // Only one of two branches is executed.
        return false;
    }
    let both_nested = a.way.len() > fork + 1 && b.way.len() > fork + 1;
    let deletes = |keys: &KeyRange, key: &[u8]| keys.end != End::Unbounded && keys.contains(key);
    match (&a.kind, &b.kind) {
        (Kind::Put(a), Kind::Put(b)) => a == b,
        (Kind::Delete(keys), Kind::Put(key)) => deletes(keys, key),
        // A later operation may delete what a nested transaction puts.
        (Kind::Put(key), Kind::Delete(keys)) => !both_nested && deletes(keys, key),
        (Kind::Delete(_), Kind::Delete(_)) => false,
    }
}

fn changes_a_key_twice(txn: &Txn) -> bool {
    let mut all = Vec::new();
    changes(txn, &[], &mut all);
    (0..all.len()).any(|b| (0..b).any(|a| clash(&all[a], &all[b])))
}

/// The sum of the longest lists of all levels.
fn longest_way(txn: &Txn) -> usize {
    let deeper = txn.success.iter().chain(&txn.failure).map(|op| match op {
        Op::Txn(inner) => longest_way(inner),
        Op::Range(_) | Op::Put(_) | Op::Delete(_) => 0,
    });
    txn.compares.len().max(txn.success.len()).max(txn.failure.len()) + deeper.max().unwrap_or(0)
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn a_transaction_is_refused_exactly_if_it_changes_a_key_twice(txn in txn(3)) {
        let expected = if changes_a_key_twice(&txn) { Err(TxnError::DuplicateKey) } else { Ok(()) };
        prop_assert_eq!(check(&txn, &Limits::default()).map(drop), expected);
    }

    #[test]
    fn a_transaction_is_too_long_exactly_if_its_longest_path_is(txn in txn(3), txn_ops in 0usize..10) {
        let limits = Limits { txn_ops, ..Limits::default() };
        let refused = check(&txn, &limits) == Err(TxnError::TooManyOps);
        prop_assert_eq!(refused, longest_way(&txn) > txn_ops);
    }

    #[test]
    fn etcds_range_end_convention_round_trips(
        key in vec(any::<u8>(), 0..3),
        end in vec(prop_oneof![Just(0), any::<u8>()], 0..3),
        other in vec(any::<u8>(), 0..4),
    ) {
        let keys = KeyRange::from_etcd(key.clone().into(), end.clone().into());
        let inside = match &end[..] {
            [] => other == key,
            [0] => other >= key,
            end => key <= other && &other[..] < end,
        };
        prop_assert_eq!(keys.contains(&other), inside);
        prop_assert!(!(keys.is_empty() && inside));
        prop_assert!(!(keys.is_past(&other) && inside));
    }

    #[test]
    fn a_prefix_is_the_keys_that_begin_with_it(
        prefix in vec(prop_oneof![Just(0xff), Just(0), any::<u8>()], 0..4),
        rest in vec(any::<u8>(), 0..3),
        other in vec(prop_oneof![Just(0xff), any::<u8>()], 0..5),
    ) {
        let keys = KeyRange::prefix(prefix.clone());
        prop_assert!(keys.contains(&[&prefix[..], &rest].concat()));
        prop_assert_eq!(keys.contains(&other), other.starts_with(&prefix));
    }
}

/// Whether `stored op given` holds for each order of the two.
fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::Less => order.is_lt(),
    }
}

/// The five targets at `number`; the value target has it as one byte.
fn targets(number: i64) -> [Target; 5] {
    let value = vec![(b'0' as i64 + number) as u8];
    [
        Target::Version(number),
        Target::Create(Revision(number)),
        Target::Mod(Revision(number)),
        Target::Lease(LeaseId(number)),
        Target::Value(value.into()),
    ]
}

#[test]
fn compares_follow_the_truth_table() {
    block_on(async {
        let store = store().await;
        // Both keys have version 2, create revision 2, mod revision 3, lease 5 and the value "4".
        store.lease_grant(60, LeaseId(5)).await.unwrap();
        for _ in 0..2 {
            let put = |key| Op::Put(Put { lease: LeaseId(5), ..Put::new(key, "4") });
            store.txn(Txn::of(vec![put("k1"), put("k2")])).await.unwrap();
        }
        let stored = [2, 2, 3, 5, 4];
        let present = [KeyRange::single("k1"), KeyRange::prefix("k"), KeyRange::all()];
        let missing = [KeyRange::single("x"), KeyRange::prefix("x"), KeyRange::between("b", "a")];
        let ops = [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less];
        for (given, op) in (0..8).flat_map(|given| ops.map(|op| (given, op))) {
            for (target, stored) in targets(given).into_iter().zip(stored) {
                let is_value = matches!(target, Target::Value(_));
                let table = [
                    (&present, holds(op, stored.cmp(&given))),
                    (&missing, !is_value && holds(op, 0.cmp(&given))),
                ];
                for (ranges, expected) in table {
                    for keys in ranges {
                        let compare = Compare { keys: keys.clone(), op, target: target.clone() };
                        let txn = Txn { compares: vec![compare.clone()], ..Txn::default() };
                        assert_eq!(store.txn(txn).await.unwrap().succeeded, expected, "{compare:?}");
                    }
                }
            }
        }
        // One key that fails suffices.
        store.txn(Txn::of(vec![Op::put("k2", "5")])).await.unwrap();
        let all =
            Compare { keys: KeyRange::prefix("k"), op: CompareOp::Equal, target: Target::Value("4".into()) };
        assert!(!store.txn(Txn { compares: vec![all], ..Txn::default() }).await.unwrap().succeeded);
    });
}

#[test]
fn keys_and_values_are_any_bytes() {
    block_on(async {
        let store = store().await;
        let long = vec![0xfe; 1 << 20];
        let table: [(&[u8], &[u8]); 6] = [
            (b"\0", b""),
            (b"\0\0", b"\0"),
            (b"\xff\xff\xff", b"\xff"),
            (b"a\0b", &[0; 300]),
            (&[b'k'; 3_000], b"long key"),
            (b"large", &long),
        ];
        for (key, value) in table {
            store.txn(Txn::of(vec![Op::put(key.to_vec(), value.to_vec())])).await.unwrap();
        }
        for (key, value) in table {
            let read = store.range(&Range::key(key.to_vec())).unwrap();
            assert_eq!((read.kvs[0].key(), read.kvs[0].value()), (key, value));
        }
        let all = store.range(&Range::new(KeyRange::from_etcd(vec![0].into(), vec![0].into()))).unwrap();
        let keys: Vec<_> = all.kvs.iter().map(|kv| kv.key().to_vec()).collect();
        assert!(keys.len() == table.len() && keys.is_sorted(), "{} keys", keys.len());
    });
}
