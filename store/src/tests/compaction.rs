//! Tests of compaction: what is removed, what stays, and that removal is invisible to readers.

use super::conformance::{block_on, tiny};
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::engine::Engine;
use crate::{
    CompactError, Config, EngineKind, EventKind, KeyRange, Op, Range, RangeError, Revision, Store, Txn,
    WatchRequest, manifest,
};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kstore_nondet::{Nondet, Rng};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

async fn in_memory() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

fn on_disk(disk: &SimDisk) -> Store {
    let config = tiny(Config { engine: EngineKind::Segments, ..Config::durable("/data") }, 3);
    Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap()
}

async fn put(store: &Store, key: &str, value: &str) -> Revision {
    store.txn(Txn::of(vec![Op::put(key.to_owned(), value.to_owned())])).await.unwrap().revision
}

async fn delete(store: &Store, key: &str) -> Revision {
    store.txn(Txn::of(vec![Op::delete(key.to_owned())])).await.unwrap().revision
}

/// The content at a revision.
fn state(store: &Store, revision: Revision) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, RangeError> {
    let found = store.range(&Range::new(KeyRange::all()).at(revision))?;
    Ok(found.kvs.iter().map(|kv| (kv.key().to_vec(), kv.value().to_vec())).collect())
}

/// The revisions of the records in the engine, without notes.
fn kept(store: &Store) -> Vec<i64> {
    let scan = store.driver().core().engine.scan(Revision(0), Revision(i64::MAX - 1), usize::MAX).unwrap();
    let versions = scan.records.iter().filter(|record| !record.key.is_note());
    versions.map(|record| record.key.main.0).collect()
}

/// Writes a history: a is put at 2, 3 and 4; b at 5, deleted at 6; c at 7, deleted at 8; d at 9.
async fn history(store: &Store) {
    for (at, value) in (2..).zip(["1", "2", "3"]) {
        assert_eq!(put(store, "a", value).await, Revision(at));
    }
    for key in ["b", "c"] {
        put(store, key, "v").await;
        delete(store, key).await;
    }
    assert_eq!(put(store, "d", "v").await, Revision(9));
}

#[test]
fn compaction_keeps_the_newest_version_and_a_tombstone_at_its_revision() {
    // A version superseded exactly at the revision stays too, so that the event there has its previous version.
    let table: [(i64, &[i64]); 6] = [
        (2, &[2, 3, 4, 5, 6, 7, 8, 9]),
        (3, &[2, 3, 4, 5, 6, 7, 8, 9]),
        (4, &[3, 4, 5, 6, 7, 8, 9]),
        (6, &[4, 5, 6, 7, 8, 9]),
        (8, &[4, 7, 8, 9]),
        (9, &[4, 9]),
    ];
    for (revision, expected) in table {
        block_on(async {
            let store = in_memory().await;
            history(&store).await;
            store.compact(Revision(revision)).await.unwrap();
            assert_eq!(kept(&store), expected, "compacted at {revision}");
        });
    }
}

#[test]
fn a_watch_from_the_compacted_revision_gets_its_deletion_with_the_previous_version() {
    block_on(async {
        let store = in_memory().await;
        history(&store).await;
        store.compact_physical(Revision(8)).await.unwrap();
        let request = WatchRequest { prev_kv: true, ..WatchRequest::new(KeyRange::all()) };
        let mut watcher = store.watch(request.from(Revision(8))).unwrap();
        let batch = watcher.next().await.unwrap().unwrap();
        let event = &batch.events[0];
        assert_eq!((batch.revision, event.kind, event.key()), (Revision(8), EventKind::Delete, &b"c"[..]));
        assert_eq!(event.prev_kv.as_ref().unwrap().value(), b"v");
    });
}

#[test]
fn a_compaction_is_refused_at_a_compacted_or_future_revision() {
    block_on(async {
        let store = in_memory().await;
        assert_eq!(store.compact(Revision(0)).await, Ok(()), "a fresh store was compacted at -1");
        let (requested, compacted) = (Revision(0), Revision(0));
        assert_eq!(store.compact(requested).await, Err(CompactError::Compacted { requested, compacted }));
        history(&store).await;
        let (requested, current) = (Revision(10), Revision(9));
        assert_eq!(store.compact(requested).await, Err(CompactError::Future { requested, current }));
        assert_eq!(store.compact_physical(requested).await, Err(CompactError::Future { requested, current }));
        assert_eq!(store.compact(current).await, Ok(()), "the current revision can be compacted");
        assert_eq!(store.revision(), current);
    });
}

#[test]
fn the_progress_of_removal_is_not_observable() {
    block_on(async {
        let store = in_memory().await;
        for round in 0..12 {
            for key in 0..400 {
                put(&store, &format!("{key:03}"), &format!("{round}")).await;
            }
            delete(&store, &format!("{round:03}")).await;
        }
        let (at, current) = (Revision(4_000), store.revision());
        let sample: Vec<_> = (at.0..=current.0).step_by(131).map(Revision).collect();
        let expected: Vec<_> = sample.iter().map(|revision| state(&store, *revision)).collect();
        let mut compaction: LocalBoxFuture<'_, _> = store.compact(at).boxed_local();
        let mut steps = 0;
        loop {
            let done = futures::poll!(&mut compaction).is_ready();
            steps += 1;
            let compacted = Err(RangeError::Compacted { requested: at.previous(), compacted: at });
            assert_eq!(state(&store, at.previous()), compacted);
            let now: Vec<_> = sample.iter().map(|revision| state(&store, *revision)).collect();
            assert!(now == expected, "something changed in step {steps}");
            put(&store, "elsewhere", "is not held up").await;
            if done {
                break;
            }
        }
        assert!(steps > 4, "it was done in {steps} steps");
        assert!(kept(&store).len() < 2_000);
    });
}

#[test]
fn removal_resumes_after_a_crash() {
    block_on(async {
        let disk = SimDisk::default();
        let store = on_disk(&disk);
        history(&store).await;
        let crashed = disk.crash(CrashPolicy::Nothing, 1);
        store.compact(Revision(8)).await.unwrap();
        let swept = |disk: &SimDisk| {
            let found = manifest::load(disk, Path::new("/data")).unwrap().unwrap();
            found.newest.swept
        };
        assert!(swept(&disk) < 8, "no caller waits for it");
        drop(crashed);
        let store = on_disk(&disk.crash(CrashPolicy::Nothing, 2));
        assert_eq!((store.compacted(), store.revision()), (Revision(8), Revision(9)));
        assert_eq!(kept(&store), [4, 7, 8, 9]);
    });
}

#[test]
fn a_physical_compaction_is_durable_on_return() {
    block_on(async {
        let disk = SimDisk::default();
        let store = on_disk(&disk);
        history(&store).await;
        store.compact_physical(Revision(8)).await.unwrap();
        let disk = disk.crash(CrashPolicy::Nothing, 1);
        let found = manifest::load(&disk, Path::new("/data")).unwrap().unwrap();
        assert_eq!(found.newest.swept, 8, "there is nothing to take up again");
        assert_eq!(kept(&on_disk(&disk)), [4, 7, 8, 9]);
    });
}

#[test]
fn a_note_is_removed_when_no_key_is_of_its_revision() {
    block_on(async {
        let store = in_memory().await;
        let noted = |key: &'static str| Txn::of(vec![Op::put(key, "v")]).noted("why");
        for key in ["a", "a", "a", "b"] {
            store.txn(noted(key)).await.unwrap();
        }
        store.txn(Txn::of(vec![Op::delete("b")]).noted("why")).await.unwrap();
        put(&store, "c", "v").await;
        store.compact(store.revision()).await.unwrap();
        let notes: Vec<_> = (2..=7).filter(|revision| store.note(Revision(*revision)).is_some()).collect();
        assert_eq!(notes, [2, 4], "the one that created a and the one that changed it last");
    });
}

#[test]
fn defragmenting_an_idle_store_frees_space_and_changes_nothing() {
    block_on(async {
        let disk = SimDisk::default();
        let store = on_disk(&disk);
        for round in 0..20 {
            for key in 0..10 {
                put(&store, &format!("{key}"), &format!("{round:0300}")).await;
            }
        }
        let at = store.revision();
        let expected = state(&store, at);
        store.compact(at).await.unwrap();
        let before = store.status().size;
        store.defragment().await.unwrap();
        let after = store.status().size;
        assert!(after.allocated <= before.allocated && after.log <= before.log, "{before:?}, {after:?}");
        assert!(after.allocated < 3 * after.live, "{after:?}");
        assert_eq!(state(&store, at), expected);
        assert_eq!(state(&on_disk(&disk.crash(CrashPolicy::Nothing, 1)), at), expected);
        assert_eq!(in_memory().await.defragment().await, Ok(()));
    });
}

#[test]
fn the_background_thread_compacts_and_defragments_for_waiters() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Config::durable(dir.path()), Nondet::real()).await.unwrap();
        history(&store).await;
        store.compact_physical(Revision(8)).await.unwrap();
        assert_eq!(kept(&store), [4, 7, 8, 9]);
        let pin = store.driver().core().pins.pin();
        let mut waiting = store.compact_physical(Revision(9)).boxed_local();
        assert!(futures::poll!(&mut waiting).is_pending());
        let reader = std::thread::scope(|scope| scope.spawn(|| drop(pin)).join());
        reader.unwrap();
        assert_eq!((waiting.await, kept(&store)), (Ok(()), vec![4, 9]));
        let other = store.clone();
        let (first, second) = futures::join!(store.defragment(), other.defragment());
        assert_eq!((first, second), (Ok(()), Ok(())));
        assert_eq!(kept(&store), [4, 9]);
        store.close().await;
        assert!(store.defragment().await.is_err() && store.compact_physical(Revision(9)).await.is_err());
    });
}
