//! Tests of damage in the engine: repaired from a copy, otherwise reported and never served, while everything else
//! works.

use super::conformance::block_on;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::{Config, Limits, Op, Range, RangeError, Revision, Store, Txn};
use kstore_nondet::Rng;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/data";

/// A configuration that keeps only the newest revision in memory.
fn config(checkpoint_bytes: u64) -> Config {
    let limits = Limits {
        window_revisions: 1,
        first_segment_bytes: 8 << 10,
        segment_bytes: 8 << 10,
        checkpoint_bytes,
        log_budget_bytes: 1 << 30,
        engine_file_bytes: 2 << 10,
        reserve_bytes: 1 << 10,
        ..Limits::default()
    };
    Config { limits, ..Config::durable(DIR) }
}

fn open(disk: &SimDisk, checkpoint_bytes: u64) -> Store {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Store::open_stepped(disk, &config(checkpoint_bytes), &Rng::seeded(1)).unwrap()
}

async fn fill(store: &Store) {
    for at in 0..60 {
        let value = format!("value {at} {}", "x".repeat(300));
        store.txn(Txn::of(vec![Op::put("k", value)]).noted(format!("note {at}"))).await.unwrap();
    }
}

fn value_at(store: &Store, revision: i64) -> Result<Vec<u8>, RangeError> {
    let read = store.range(&Range::key("k").at(Revision(revision)))?;
    Ok(read.kvs[0].value().to_vec())
}

/// Damages the record of a revision in the engine's files, at the start of its value.
fn damage(disk: &SimDisk, revision: i64) {
    let dir = Path::new(DIR).join("engine");
    let needle = format!("value {} ", revision - 2).into_bytes();
    let mut hit = false;
    for (name, _) in disk.files(&dir) {
        let path = dir.join(name);
        let bytes = crate::disk::read_all(&*disk.open(&path).unwrap()).unwrap();
        for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&needle)) {
            disk.damage(&path, at);
            hit = true;
        }
    }
    assert!(hit, "revision {revision} is in the engine");
}

#[test]
fn a_damaged_record_is_repaired_from_the_log() {
    block_on(async {
        let disk = SimDisk::default();
        let store = open(&disk, 1 << 30);
        fill(&store).await;
        let expected = store.hash_kv(Revision(0)).unwrap();
        let before: Vec<_> = (2..60).map(|at| value_at(&store, at).unwrap()).collect();
        for at in [2, 7, 30, 31] {
            damage(&disk, at);
        }
        assert_eq!(value_at(&store, 7).unwrap(), before[5]);
        assert_eq!(store.hash_kv(Revision(0)).unwrap(), expected, "a scan heals what it meets");
        assert_eq!((2..60).map(|at| value_at(&store, at).unwrap()).collect::<Vec<_>>(), before);
        assert_eq!(store.alarms(), []);
        // The record was repaired in place, so reading it needs no log.
        let engine = &store.driver().core().engine;
        let wal = Path::new(DIR).join("wal");
        for (name, _) in disk.files(&wal) {
            disk.remove(&wal.join(name)).unwrap();
        }
        assert!(
            crate::engine::Engine::get(&**engine, crate::types::record::RecordKey::new(Revision(7), 0))
                .is_ok()
        );
        assert_eq!(store.hash_kv(Revision(0)).unwrap(), expected);
    });
}

/// A historical read is the only part of a transaction that can fail on the disk, so it precedes the first change.
#[test]
fn a_transaction_whose_historical_read_fails_changes_nothing() {
    block_on(async {
        let disk = SimDisk::default();
        let store = open(&disk, 4 << 10);
        fill(&store).await;
        damage(&disk, 3);
        let (revision, old) = (store.revision(), || Op::Range(Range::key("k").at(Revision(3))));
        let nested = |op| Op::Txn(Txn::of(vec![op]));
        let lease = store.lease_grant(100, crate::LeaseId::NONE).await.unwrap().id;
        let put = Op::Put(crate::Put { lease, ..crate::Put::new("new", "v") });
        for ops in [
            vec![put.clone(), Op::delete("k"), old()],
            vec![put.clone(), nested(old())],
            vec![nested(put.clone()), old(), Op::put("newer", "v")],
        ] {
            let refused = store.txn(Txn::of(ops)).await;
            let damaged = RangeError::Damaged { revision: Revision(3) };
            assert_eq!(refused, Err(crate::TxnError::Range(damaged)));
            assert_eq!((store.revision(), store.get("new").unwrap()), (revision, None));
        }
        assert_eq!(store.revision(), revision);
        assert_eq!(store.lease_time_to_live(lease, true).await.unwrap().keys.len(), 0);
        assert_eq!(store.range(&Range::new(crate::KeyRange::all())).unwrap().count, 1);
    });
}

#[test]
fn a_damaged_record_without_a_copy_is_reported_and_only_its_reads_fail() {
    block_on(async {
        let disk = SimDisk::default();
        let mut store = open(&disk, 4 << 10);
        fill(&store).await;
        damage(&disk, 3);
        let damaged = Err(RangeError::Damaged { revision: Revision(3) });
        for life in 0..3 {
            assert_eq!(value_at(&store, 3), damaged, "life {life}");
            assert_eq!(store.hash_kv(Revision(0)).map(|_| Vec::new()), damaged);
            store.put("k", format!("after {life}")).await.expect("writes go on");
            assert_eq!(store.alarms(), []);
            let named = store.damage();
            assert_eq!(named.len(), 1, "{named:?}");
            assert_eq!((named[0].key.as_deref(), named[0].revision), (Some(&b"k"[..]), Revision(3)));
            assert!(named[0].file.starts_with(Path::new(DIR).join("engine")) && named[0].offset > 0);
            assert_eq!(store.metrics().records_damaged, 1);
            assert!((4..60).all(|at| value_at(&store, at).is_ok()), "others are served");
            assert!(value_at(&store, 2).is_ok(), "also those before");
            store.close().await;
            store = open(&disk, 4 << 10);
        }
        store.compact_physical(Revision(5)).await.unwrap();
        assert_eq!(store.damage(), [], "compaction ends it");
        assert!(store.hash_kv(Revision(0)).is_ok());
        store.close().await;
        let store = open(&disk, 4 << 10);
        assert_eq!(store.damage(), []);
        assert_eq!(store.range(&Range::key("k")).unwrap().kvs[0].value(), b"after 2");
    });
}

/// Regression: one damaged record kept its file from being copied, and so all space from being freed.
#[test]
fn a_damaged_record_does_not_block_defragmentation() {
    block_on(async {
        let disk = SimDisk::default();
        let store = open(&disk, 4 << 10);
        fill(&store).await;
        damage(&disk, 31);
        store.compact_physical(Revision(31)).await.unwrap();
        store.put("k", "newest").await.unwrap();
        store.compact_physical(Revision(60)).await.unwrap();
        damage(&disk, 60);
        store.put("other", "x").await.unwrap();
        for _ in 0..3 {
            store.defragment().await.unwrap();
        }
        let size = store.size();
        assert!(size.allocated < 8 << 10, "{size:?}");
        assert_eq!(value_at(&store, 60), Err(RangeError::Damaged { revision: Revision(60) }));
        assert_eq!(store.damage().len(), 1);
        assert_eq!(value_at(&store, 0).unwrap(), b"newest");
        store.close().await;
        let store = open(&disk, 4 << 10);
        assert_eq!((store.damage().len(), value_at(&store, 0).unwrap()), (1, b"newest".to_vec()));
    });
}

/// Regression: defragmentation chose an unreadable file again and again, and freed no space of other files.
#[test]
fn an_unreadable_file_does_not_block_defragmentation_of_others() {
    block_on(async {
        let disk = SimDisk::default();
        let mut config = config(4 << 10);
        config.limits.scrub_interval = Duration::from_millis(1);
        config.limits.scrub_pass = Duration::from_millis(1);
        let open =
            |disk: &SimDisk| Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap();
        let store = open(&disk);
        store.put("kept", "x".repeat(100)).await.unwrap();
        fill(&store).await;
        let dir = Path::new(DIR).join("engine");
        let files = disk.files(&dir);
        let (first, len) = files.first().unwrap();
        assert!(files.len() > 5);
        disk.set_unreadable(Some(&dir.join(first)));
        store.compact_physical(store.revision()).await.unwrap();
        for _ in 0..3 {
            store.defragment().await.unwrap();
        }
        let size = store.size();
        assert!(size.allocated < *len as u64 + (4 << 10), "{size:?}");
        assert_eq!(store.get("kept").unwrap().unwrap().value().len(), 100);
        assert!(disk.files(&dir).iter().any(|(name, _)| name == first), "it holds a record that is wanted");

        disk.set_unreadable(None);
        tokio::time::advance(Duration::from_millis(2)).await;
        store.driver().wake();
        for _ in 0..3 {
            store.defragment().await.unwrap();
        }
        assert!(disk.files(&dir).iter().all(|(name, _)| name != first), "it can be read again");

        // All its records are removed, so the file is deleted without being read.
        fill(&store).await;
        let (last, _) = disk.files(&dir).into_iter().rev().nth(3).unwrap();
        disk.set_unreadable(Some(&dir.join(&last)));
        store.delete("k").await.unwrap();
        store.compact_physical(store.revision()).await.unwrap();
        for _ in 0..3 {
            store.defragment().await.unwrap();
        }
        assert!(disk.files(&dir).iter().all(|(name, _)| *name != last));
        store.close().await;
        let store = open(&disk.crash(crate::disk::sim::CrashPolicy::Nothing, 1));
        assert_eq!(store.range(&Range::new(crate::KeyRange::all())).unwrap().count, 1);
    });
}

/// Regression: snapshots failed at a damaged record until it was compacted.
#[test]
fn a_snapshot_leaves_damaged_records_out_and_is_compacted_past_them() {
    use crate::maintenance::tests::{request, restore_to};
    block_on(async {
        for (damaged, is_known) in [(&[3][..], true), (&[3, 4, 20], true), (&[3, 40], false), (&[30], false)]
        {
            let disk = SimDisk::default();
            let store = open(&disk, 4 << 10);
            fill(&store).await;
            store.put("other", "x").await.unwrap();
            store.put("k", "newest").await.unwrap();
            damaged.iter().for_each(|revision| damage(&disk, *revision));
            if is_known {
                assert!(damaged.iter().all(|revision| value_at(&store, *revision).is_err()));
            }
            let mut to = std::io::Cursor::new(Vec::new());
            let info = store.snapshot(&mut to).unwrap();
            let last = damaged.last().unwrap() + 1;
            assert_eq!((info.revision, info.compacted), (store.revision(), Revision(last)));
            assert_eq!((info.left_out, info.bytes), (damaged.len() as u64, to.get_ref().len() as u64));
            assert_eq!(store.damage().len(), damaged.len(), "they are named");

            let restored = SimDisk::default();
            restore_to(&restored, to.get_ref(), &request(crate::EngineKind::Segments)).unwrap();
            let restored = open(&restored, 4 << 10);
            assert_eq!((restored.revision(), restored.compacted()), (store.revision(), Revision(last)));
            for at in (last..=store.revision().0).map(Revision) {
                let all = Range::new(crate::KeyRange::all()).at(at);
                assert_eq!(restored.range(&all).unwrap(), store.range(&all).unwrap(), "at {at}");
            }
            let next = restored.put("k", "next").await.unwrap();
            let kv = restored.get("k").unwrap().unwrap();
            assert_eq!((kv.mod_revision(), kv.create_revision()), (next, Revision(2)));
            assert_eq!(kv.version(), 62);
        }
    });
}

/// The newest version of a key is in memory.
#[test]
fn defragmentation_repairs_a_damaged_record_from_memory() {
    block_on(async {
        let disk = SimDisk::default();
        let store = open(&disk, 4 << 10);
        fill(&store).await;
        for at in 0..80 {
            store.put("filler", format!("{at} {}", "x".repeat(200))).await.unwrap();
        }
        damage(&disk, 61);
        store.compact_physical(store.revision()).await.unwrap();
        store.defragment().await.unwrap();
        assert_eq!(store.metrics().records_healed, 1);
        assert_eq!(store.damage(), []);
        let expected = value_at(&store, 0).unwrap();
        store.close().await;
        let store = open(&disk, 4 << 10);
        assert_eq!((value_at(&store, 0).unwrap(), store.damage().len()), (expected, 0));
    });
}

/// Checks the outcome of random damage: everything served is right, everything else is reported, and all other
/// operations work, also after a restart.
async fn judge_random_damage(seed: u64, hits: u64) {
    let (disk, rng) = (SimDisk::default(), Rng::seeded(seed));
    let mut config = config(4 << 10);
    config.limits.scrub_interval = Duration::from_millis(1);
    config.limits.scrub_pass = Duration::from_millis(1);
    let open = || {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        Store::open_stepped(disk, &config, &Rng::seeded(1))
    };
    let store = open().unwrap();
    let mut values = Vec::new();
    for at in 0..60u64 {
        let (key, value) =
            (format!("key {}", rng.below(5)), format!("{at} {}", "y".repeat(rng.below(300) as usize)));
        if rng.below(8) == 0 {
            store.delete(key.clone()).await.unwrap();
        } else {
            store.txn(Txn::of(vec![Op::put(key, value)]).noted(format!("note {at}"))).await.unwrap();
        }
        let all = store.range(&Range::new(crate::KeyRange::all())).unwrap();
        values.resize(store.revision().0 as usize + 1, all.kvs);
    }
    let compacted = Revision(rng.below(30) as i64 + 2);
    store.compact_physical(compacted).await.unwrap();
    let dir = Path::new(DIR).join("engine");
    for _ in 0..hits {
        let files = disk.files(&dir);
        let (name, len) = &files[rng.below(files.len() as u64) as usize];
        disk.damage(&dir.join(name), rng.below(*len as u64) as usize);
    }
    let judge = |store: &Store| {
        for at in compacted.0..values.len() as i64 {
            match store.range(&Range::new(crate::KeyRange::all()).at(Revision(at))) {
                Ok(read) => assert_eq!(read.kvs, values[at as usize], "at {at}, seed {seed}"),
                Err(RangeError::Damaged { revision }) => {
                    assert!(store.damage().iter().any(|damaged| damaged.revision == revision), "seed {seed}");
                }
                Err(error) => panic!("{error}, seed {seed}"),
            }
        }
    };
    judge(&store);
    tokio::time::advance(Duration::from_millis(2)).await;
    store.driver().wake();
    judge(&store);
    store.put("after", "goes on").await.unwrap();
    store.defragment().await.unwrap();
    judge(&store);
    let named = store.damage();
    store.close().await;
    let store = open().unwrap_or_else(|error| panic!("{error}, seed {seed}"));
    judge(&store);
    assert_eq!(store.damage().len(), named.len(), "seed {seed}");
    assert_eq!(store.get("after").unwrap().unwrap().value(), b"goes on");
    store.close().await;
}

#[test]
fn under_random_damage_served_data_is_right_and_lost_records_are_reported() {
    for seed in 0..40 {
        block_on(judge_random_damage(seed, 1 + seed % 6));
    }
}

/// Regression: one bit that flipped while the store was closed kept it from opening.
#[test]
fn a_store_with_one_flipped_bit_in_an_engine_file_opens_completely() {
    block_on(async {
        let disk = SimDisk::default();
        let store = open(&disk, 4 << 10);
        fill(&store).await;
        store.compact_physical(Revision(20)).await.unwrap();
        let expected = store.hash_kv(Revision(0)).unwrap();
        store.close().await;
        let dir = Path::new(DIR).join("engine");
        for (name, len) in disk.files(&dir) {
            for at in (0..len).step_by(211).chain((0..30.min(len)).step_by(3)) {
                let copy = disk.crash(crate::disk::sim::CrashPolicy::Everything, 1);
                let byte = copy.content(&dir.join(&name))[at] ^ (1 << (at % 8));
                copy.overwrite(&dir.join(&name), at, &[byte]);
                // The log has no copies.
                let store = open(&copy, 4 << 10);
                assert_eq!(store.hash_kv(Revision(0)), Ok(expected), "byte {at} of {name}");
                assert_eq!(store.damage(), []);
            }
        }
    });
}
