//! Tests of the history hash: etcd's published results as a table, and that the hash depends neither on the progress of
//! compaction nor on the engine.

use super::conformance::{block_on, block_on_real};
use crate::{Config, EngineKind, HashKv, Op, RangeError, Revision, Store, Txn};
use kstore_nondet::Nondet;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};

async fn memory() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

async fn run(store: &Store, ops: Vec<Op>) {
    store.txn(Txn::of(ops)).await.unwrap();
}

fn hash(store: &Store, revision: i64) -> (u32, i64, i64) {
    let HashKv { hash, hashed, compacted, .. } = store.hash_kv(Revision(revision)).unwrap();
    (hash, hashed.0, compacted.0)
}

#[test]
fn hashes_equal_etcds() {
    block_on(async {
        let store = memory().await;
        assert_eq!(hash(&store, 0), (1_084_519_789, 1, -1), "of nothing");
        run(&store, vec![Op::put("a", "1")]).await;
        run(&store, vec![Op::put("a", "2")]).await;
        run(&store, vec![Op::put("b", "")]).await;
        run(&store, vec![Op::delete("a")]).await;
        run(&store, vec![Op::put("c", "x"), Op::put("d", "y")]).await;
        assert_eq!(hash(&store, 4), (3_785_861_384, 4, -1));
        assert_eq!(hash(&store, 0), (4_064_563_363, 6, -1));
        assert_eq!(hash(&store, 6), (4_064_563_363, 6, -1));
        store.compact(Revision(5)).await.unwrap();
        assert_eq!(hash(&store, 6), (1_059_437_739, 6, 5), "the deletion at 5 is stored but does not count");
    });
}

#[test]
fn a_version_superseded_after_the_compaction_is_not_hashed() {
    block_on(async {
        let store = memory().await;
        run(&store, vec![Op::put("x", "1")]).await;
        store.compact(Revision(2)).await.unwrap();
        run(&store, vec![Op::put("x", "2")]).await;
        assert_eq!(hash(&store, 3), (1_482_150_912, 3, 2));
    });
}

#[test]
fn only_readable_revisions_can_be_hashed() {
    block_on(async {
        let store = memory().await;
        run(&store, vec![Op::put("x", "1")]).await;
        run(&store, vec![Op::put("x", "2")]).await;
        store.compact(Revision(3)).await.unwrap();
        let (requested, compacted, current) = (Revision(2), Revision(3), Revision(3));
        assert_eq!(store.hash_kv(requested), Err(RangeError::Compacted { requested, compacted }));
        assert_eq!(store.hash_kv(Revision(4)), Err(RangeError::Future { requested: Revision(4), current }));
        store.close().await;
        assert!(matches!(store.hash_kv(Revision(3)), Err(RangeError::Stopped(_))));
    });
}

/// Puts and deletes few keys, then compacts.
async fn play(store: &Store, steps: &[(u8, bool)], compact: usize) {
    for (at, (key, put)) in steps.iter().enumerate() {
        let key = format!("k{}", key % 5);
        let value = format!("v{at}");
        run(store, vec![if *put { Op::put(key, value) } else { Op::delete(key) }]).await;
    }
    let revision = Revision((compact as i64).min(store.revision().0));
    // The second compaction removes versions that the first kept for watchers.
    for revision in [revision.previous(), revision] {
        let _ = store.compact(revision).await;
    }
}

proptest! {
    #[test]
    fn neither_the_engine_nor_a_pin_changes_the_hash(
        steps in vec((any::<u8>(), any::<bool>()), 1..40),
        compact in 1..40_usize,
    ) {
        block_on(async {
            let (eager, held) = (memory().await, memory().await);
            play(&eager, &steps, compact).await;
            let core = held.driver().core().clone();
            let pin = core.pins.pin();
            play(&held, &steps, compact).await;
            let expected = eager.hash_kv(Revision(0));
            prop_assert_eq!(held.hash_kv(Revision(0)), expected);
            drop(pin);
            prop_assert_eq!(held.hash_kv(Revision(0)), expected);
            prop_assert_eq!(held.size(), eager.size());
            Ok(())
        })?;
    }
}

#[test]
fn the_hash_is_the_same_after_a_restart() {
    block_on_real(async {
        let steps: Vec<_> = (0..200_u8).map(|at| (at.wrapping_mul(7), at % 3 > 0)).collect();
        let reference = memory().await;
        play(&reference, &steps, 50).await;
        let expected = reference.hash_kv(Revision(0)).unwrap();
        for engine in [EngineKind::Segments, EngineKind::Sled] {
            let dir = tempfile::tempdir().unwrap();
            let config = Config { engine, ..Config::durable(dir.path()) };
            let store = Store::open(config.clone(), Nondet::simulated(2)).await.unwrap();
            play(&store, &steps, 50).await;
            assert_eq!(store.hash_kv(Revision(0)).unwrap(), expected, "{engine:?}");
            store.close().await;
            let store = Store::open(config, Nondet::simulated(3)).await.unwrap();
            assert_eq!(store.hash_kv(Revision(0)).unwrap(), expected, "{engine:?} again");
            store.close().await;
        }
    });
}
