//! Tables of results that clients rely on exactly.

use super::conformance::block_on;
use crate::{
    Compare, CompareOp, Config, Delete, KeyRange, LeaseId, Limits, Op, OpResult, Put, Range, RangeError,
    Revision, Store, Target, Txn, TxnError,
};
use kstore_nondet::Nondet;

async fn store() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

fn delete(keys: KeyRange) -> Op {
    Op::Delete(Delete { keys, prev_kv: false })
}

fn range(key: &'static str) -> Op {
    Op::Range(Range::key(key))
}

async fn put(store: &Store, key: &'static str, value: &'static str) -> Revision {
    store.txn(Txn::of(vec![Op::put(key, value)])).await.unwrap().revision
}

/// The revision in each result.
fn revisions(responses: &[OpResult]) -> Vec<i64> {
    let revision = |response: &OpResult| match response {
        OpResult::Range(range) => range.revision.0,
        OpResult::Put(put) => put.revision.0,
        OpResult::Delete(delete) => delete.revision.0,
        OpResult::Txn(inner) => inner.revision.0,
    };
    responses.iter().map(revision).collect()
}

#[test]
fn a_new_store_is_at_revision_one_and_only_changes_raise_it() {
    block_on(async {
        let store = store().await;
        assert_eq!((store.revision(), store.compacted()), (Revision(1), Revision(-1)));
        assert_eq!(put(&store, "a", "1").await, Revision(2));
        let nothing = [
            Txn::default(),
            Txn::of(vec![Op::delete("missing")]),
            Txn::of(vec![range("a")]),
            Txn::if_unchanged("a", Revision(9), Op::put("a", "2")),
        ];
        for txn in nothing {
            assert_eq!(store.txn(txn).await.unwrap().revision, Revision(2));
        }
        assert_eq!(put(&store, "a", "1").await, Revision(3), "the same value is a change");
    });
}

#[test]
fn an_operations_header_has_the_transactions_current_revision() {
    block_on(async {
        let store = store().await;
        let ops = vec![range("no"), Op::delete("no"), Op::put("o1", "x"), range("no"), Op::delete("no")];
        let result = store.txn(Txn::of(ops)).await.unwrap();
        assert_eq!(revisions(&result.responses), [1, 1, 2, 2, 2]);
        assert_eq!(result.revision, Revision(2));
    });
}

#[test]
fn a_create_or_read_transaction_takes_its_branch() {
    block_on(async {
        let store = store().await;
        let create = || Txn::if_unchanged("k", Revision(0), Op::put("k", "1")).noted("who");
        assert!(store.txn(create()).await.unwrap().succeeded);
        let lost = store.txn(create()).await.unwrap();
        assert!(!lost.succeeded);
        let found = lost.responses.into_iter().next().unwrap().into_range().unwrap();
        assert_eq!((found.kvs[0].value(), found.kvs[0].mod_revision()), (&b"1"[..], Revision(2)));
        assert_eq!(store.note(Revision(2)).as_deref(), Some(&b"who"[..]));
    });
}

#[test]
fn compares_of_a_missing_key_see_zeros_and_no_value() {
    block_on(async {
        let store = store().await;
        put(&store, "k", "v").await;
        let missing = KeyRange::single("missing");
        let none = KeyRange::prefix("none/");
        let table = [
            (missing.clone(), CompareOp::Equal, Target::Version(0), true),
            (missing.clone(), CompareOp::Greater, Target::Version(0), false),
            (missing.clone(), CompareOp::Less, Target::Mod(Revision(1)), true),
            (missing.clone(), CompareOp::Equal, Target::Lease(LeaseId(0)), true),
            (missing.clone(), CompareOp::Equal, Target::Value("".into()), false),
            (missing, CompareOp::NotEqual, Target::Value("x".into()), false),
            (none.clone(), CompareOp::Equal, Target::Version(0), true),
            (none, CompareOp::Greater, Target::Version(0), false),
            (KeyRange::prefix("k"), CompareOp::Equal, Target::Value("v".into()), true),
            (KeyRange::all(), CompareOp::Equal, Target::Create(Revision(2)), true),
        ];
        for (keys, op, target, expected) in table {
            let compare = Compare { keys, op, target };
            let txn = Txn { compares: vec![compare.clone()], ..Txn::default() };
            assert_eq!(store.txn(txn).await.unwrap().succeeded, expected, "{compare:?}");
        }
    });
}

#[test]
fn nested_compares_see_the_state_before_the_transaction() {
    block_on(async {
        let store = store().await;
        let inner = Txn {
            compares: vec![Compare::key("n", CompareOp::Equal, Target::Version(0))],
            success: vec![range("n")],
            ..Txn::default()
        };
        let result = store.txn(Txn::of(vec![Op::put("n", "1"), Op::Txn(inner)])).await.unwrap();
        let OpResult::Txn(inner) = &result.responses[1] else { panic!("{result:?}") };
        assert!(inner.succeeded);
        let OpResult::Range(read) = &inner.responses[0] else { panic!("{inner:?}") };
        assert_eq!(read.kvs[0].version(), 1, "but its reads see what was done");
    });
}

#[test]
fn malformed_transactions_are_refused_without_effect() {
    let limits = Limits::default();
    let many = |n| Txn::of((0..n).map(|at| Op::put(format!("k{at}"), "")).collect());
    let keep = |value: &'static str, lease| {
        let put =
            Put { ignore_value: true, ignore_lease: true, lease: LeaseId(lease), ..Put::new("k", value) };
        Txn::of(vec![Op::Put(put)])
    };
    let nested = |ops| Op::Txn(Txn::of(ops));
    let twice = || vec![Op::put("a", "1"), Op::put("a", "2")];
    let table = [
        (Txn::of(vec![Op::put("", "v")]), Err(TxnError::EmptyKey)),
        (Txn::of(vec![range("")]), Err(TxnError::EmptyKey)),
        (keep("v", 0), Err(TxnError::ValueProvided)),
        (keep("", 1), Err(TxnError::LeaseProvided)),
        (many(limits.txn_ops), Ok(())),
        (many(limits.txn_ops + 1), Err(TxnError::TooManyOps)),
        (Txn::of(vec![Op::Txn(many(limits.txn_ops - 1))]), Ok(())),
        (Txn::of(vec![Op::Txn(many(limits.txn_ops))]), Err(TxnError::TooManyOps)),
        (Txn::of(vec![Op::put("k", vec![0; limits.request_bytes])]), Err(TxnError::TooLarge)),
        (Txn::of(twice()), Err(TxnError::DuplicateKey)),
        (Txn::of(vec![Op::put("a", "1"), Op::delete("a")]), Err(TxnError::DuplicateKey)),
        (Txn::of(vec![Op::put("a", "1"), nested(vec![Op::put("a", "2")])]), Err(TxnError::DuplicateKey)),
        (Txn::of(vec![nested(vec![Op::delete("a")]), Op::put("a", "1")]), Err(TxnError::DuplicateKey)),
        (Txn::of(vec![nested(vec![Op::put("a", "1")]), nested(vec![Op::delete("a")])]), Ok(())),
        (Txn::of(vec![delete(KeyRange::prefix("a")), delete(KeyRange::prefix("a"))]), Ok(())),
        (Txn::of(vec![Op::put("x", ""), delete(KeyRange::from_key("w"))]), Ok(())),
        (Txn { success: twice(), ..Txn::default() }, Err(TxnError::DuplicateKey)),
        (Txn { failure: twice(), ..Txn::default() }, Err(TxnError::DuplicateKey)),
        (Txn { success: vec![Op::put("a", "")], failure: vec![Op::put("a", "")], ..Txn::default() }, Ok(())),
    ];
    for (txn, expected) in table {
        assert_eq!(crate::txn::check::check(&txn, &limits).map(drop), expected, "{txn:?}");
    }
}

#[test]
fn only_the_chosen_branch_can_fail_and_a_failure_has_no_effect() {
    block_on(async {
        let store = store().await;
        put(&store, "k", "v").await;
        let leased = Op::Put(Put { lease: LeaseId(5), ..Put::new("l", "v") });
        let kept = Op::Put(Put { ignore_value: true, ..Put::new("missing", "") });
        let future = Op::Range(Range::key("k").at(Revision(9)));
        let past = Op::Range(Range::key("k").at(Revision(-2)));
        let current = store.revision();
        let ahead = RangeError::Future { requested: Revision(9), current };
        let behind = RangeError::Compacted { requested: Revision(-2), compacted: Revision(-1) };
        let table = [
            (leased, TxnError::LeaseNotFound(LeaseId(5))),
            (kept, TxnError::KeyNotFound),
            (future, TxnError::Range(ahead)),
            (past, TxnError::Range(behind)),
        ];
        for (op, error) in table {
            let taken = Txn::of(vec![Op::put("other", "v"), op.clone()]);
            assert_eq!(store.txn(taken).await, Err(error));
            let untaken = Txn { failure: vec![op], ..Txn::default() };
            assert!(store.txn(untaken).await.unwrap().succeeded);
        }
        assert_eq!(store.revision(), Revision(2));
    });
}

#[test]
fn the_compacted_revision_stays_readable() {
    block_on(async {
        let store = store().await;
        for value in ["1", "2", "3"] {
            put(&store, "k", value).await;
        }
        store.compact(Revision(3)).await.unwrap();
        let read = |at| store.range(&Range::key("k").at(Revision(at)));
        assert_eq!(read(3).unwrap().kvs[0].value(), b"2");
        assert_eq!(read(3).unwrap().revision, Revision(4), "the header says where the store is");
        let (requested, compacted) = (Revision(2), Revision(3));
        assert_eq!(read(2), Err(RangeError::Compacted { requested, compacted }));
    });
}

#[test]
fn reads_of_old_versions_are_bounded_and_can_be_made_in_parts() {
    block_on(async {
        let limits =
            Limits { window_revisions: 1, window_calm_bytes: 0, read_bytes: 3_000, ..Limits::default() };
        let store = Store::open(Config { limits, ..Config::memory() }, Nondet::simulated(1)).await.unwrap();
        let write = async |value: usize| {
            let puts = (0..10).map(|key| Op::put(format!("k{key}"), vec![7; value]));
            store.txn(Txn::of(puts.collect())).await.unwrap().revision
        };
        let old = write(500).await;
        write(1).await;
        // The window forgets old commits when new ones arrive and the engine has them.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        write(2).await;
        put(&store, "other", "v").await;
        let all = Range::new(KeyRange::prefix("k"));
        let past = all.clone().at(old);
        assert_eq!(store.range(&past), Err(RangeError::TooLarge));
        assert_eq!(
            store.txn(Txn::of(vec![Op::Range(past.clone())])).await,
            Err(TxnError::Range(RangeError::TooLarge))
        );
        let halves = [past.clone().limit(5), past.clone().limit(5)].map(Op::Range);
        assert_eq!(
            store.txn(Txn::of(halves.to_vec())).await,
            Err(TxnError::Range(RangeError::TooLarge)),
            "together"
        );
        assert_eq!(store.range(&all).unwrap().kvs.len(), 10, "newest versions are shared");
        let bare = store.range(&Range { keys_only: true, ..past.clone() }).unwrap();
        assert_eq!((bare.kvs.len(), bare.kvs[0].value(), bare.more), (10, &b""[..], false));
        let part = store.range(&past.clone().max_bytes(1_200)).unwrap();
        assert_eq!((part.kvs.len(), part.more, part.count), (2, true, 10));
        let one = store.range(&past.clone().max_bytes(1)).unwrap();
        assert_eq!((one.kvs.len(), one.more), (1, true), "one version in any case");
        let filtered = Range { min_mod_revision: old, ..past.limit(2).max_bytes(1_200) };
        assert_eq!(store.range(&filtered), Err(RangeError::TooLarge), "filters need all versions");
    });
}

#[test]
fn a_limit_does_not_affect_the_count() {
    block_on(async {
        let store = store().await;
        for key in ["p/1", "p/2", "p/3", "q"] {
            put(&store, key, "v").await;
        }
        let page = store.range(&Range::new(KeyRange::prefix("p/")).limit(2)).unwrap();
        assert_eq!((page.kvs.len(), page.more, page.count), (2, true, 3));
        let filtered = Range { min_mod_revision: Revision(4), ..Range::new(KeyRange::prefix("p/")).limit(1) };
        let page = store.range(&filtered).unwrap();
        assert_eq!((page.kvs[0].key(), page.more, page.count), (&b"p/3"[..], false, 3));
        let bare = store.range(&Range { keys_only: true, ..Range::key("q") }).unwrap();
        assert_eq!((bare.kvs[0].value(), bare.kvs[0].mod_revision()), (&b""[..], Revision(5)));
    });
}

#[test]
fn each_of_several_transactions_has_a_revision_of_its_own() {
    block_on(async {
        let store = store().await;
        put(&store, "a", "1").await;
        let at_once = vec![
            Txn::if_unchanged("b", Revision(0), Op::put("b", "2")),
            // Not executed: the key exists.
            Txn::if_unchanged("a", Revision(0), Op::put("a", "2")),
            Txn::of(vec![Op::put("c", "3"), delete(KeyRange::single("a"))]),
        ];
        let results = store.each(at_once).await.unwrap();
        let outcomes: Vec<_> = results
            .into_iter()
            .map(Result::unwrap)
            .map(|result| (result.succeeded, result.revision.0))
            .collect();
        assert_eq!(outcomes, [(true, 3), (false, 3), (true, 4)]);
        assert_eq!(store.get("c").unwrap().unwrap().mod_revision(), Revision(4));
        // What no store would accept refuses all of them.
        let refused = vec![Txn::of(vec![Op::put("d", "4")]), Txn::of(vec![Op::put("", "5")])];
        assert_eq!(store.each(refused).await, Err(TxnError::EmptyKey));
        let many = Limits::default().txn_ops + 1;
        assert_eq!(store.each(vec![Txn::of(vec![]); many]).await, Err(TxnError::TooManyOps));
        assert_eq!(store.revision(), Revision(4));
    });
}
