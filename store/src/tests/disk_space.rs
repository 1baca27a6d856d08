//! Tests of a full file system: the alarm is raised in time, no acknowledged write is lost, operations that free space
//! work, and the store recovers.

use super::conformance::{block_on, tiny};
use crate::disk::sim::{CrashPolicy, Fault, OperationKind, SimDisk};
use crate::{
    Alarm, Config, Delete, EngineKind, KeyRange, Limits, NoSpaceReason, Op, Range, Revision, Store,
    StoreStatus, Txn, TxnError,
};
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/data";

fn config(disk_free_bytes: u64, reserve_bytes: u64) -> Config {
    let config = tiny(Config { engine: EngineKind::Segments, ..Config::durable(DIR) }, 3);
    let engine_file_bytes = 16 << 10;
    let limits = Limits { disk_free_bytes, reserve_bytes, engine_file_bytes, ..config.limits };
    Config { limits, ..config }
}

fn open(disk: &SimDisk, config: &Config) -> Store {
    Store::open_stepped(Arc::new(disk.clone()), config, &Rng::seeded(1)).unwrap()
}

async fn put(store: &Store, key: String, size: usize) -> Result<Revision, TxnError> {
    store.txn(Txn::of(vec![Op::put(key, vec![7; size])])).await.map(|result| result.revision)
}

async fn delete_all(store: &Store) {
    let all = Op::Delete(Delete { keys: KeyRange::all(), prev_kv: false });
    store.txn(Txn::of(vec![all])).await.unwrap();
}

fn state(store: &Store) -> BTreeMap<Vec<u8>, usize> {
    let found = store.range(&Range::new(KeyRange::all())).unwrap();
    found.kvs.iter().map(|kv| (kv.key().to_vec(), kv.value().len())).collect()
}

/// Writes until the store refuses for lack of space. Returns the acknowledged content.
async fn fill(store: &Store, size: usize) -> BTreeMap<Vec<u8>, usize> {
    let mut acknowledged = state(store);
    for at in 0.. {
        let key = format!("{at:04}");
        match put(store, key.clone(), size).await {
            Ok(_) => drop(acknowledged.insert(key.into_bytes(), size)),
            Err(error) => {
                assert_eq!(error, TxnError::NoSpace, "after {at} writes");
                break;
            }
        }
    }
    acknowledged
}

/// Waits until the engine is tried again.
async fn retry() {
    tokio::time::sleep(Limits::default().engine_retry).await;
}

fn has_reserve(disk: &SimDisk) -> bool {
    disk.files(Path::new(DIR)).iter().any(|(name, _)| name == "RESERVE")
}

#[test]
fn the_alarm_is_raised_before_the_disk_is_full_and_freeing_space_works() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(100 << 10, 10 << 10);
        let store = open(&disk, &config);
        disk.set_capacity(Some(400 << 10));
        let acknowledged = fill(&store, 500).await;
        assert_eq!(store.alarms(), [Alarm::NoSpace]);
        assert!(disk.used() < 380 << 10, "{} bytes are used", disk.used());
        assert!(has_reserve(&disk));
        assert_eq!(state(&store), acknowledged);

        delete_all(&store).await;
        store.compact_physical(store.revision()).await.unwrap();
        store.defragment().await.unwrap();
        assert!(disk.used() < 200 << 10, "{} bytes are used", disk.used());
        assert!(put(&store, "k".to_owned(), 1).await.is_ok(), "there is room again");
        assert_eq!((store.alarms(), store.no_space_reason()), (vec![], None));
        assert_eq!(state(&open(&disk.crash(CrashPolicy::Nothing, 1), &config)).len(), 1);
    });
}

#[test]
fn a_store_on_a_nearly_full_disk_opens_with_the_alarm_and_serves_reads() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(100 << 10, 10 << 10);
        let store = open(&disk, &config);
        let acknowledged: BTreeMap<_, _> = [(b"k".to_vec(), 10)].into();
        put(&store, "k".to_owned(), 10).await.unwrap();
        store.close().await;
        // Less than the next start wants for its first log file.
        disk.set_capacity(Some(disk.used() + (15 << 10)));
        let store = open(&disk, &config);
        assert_eq!((store.alarms(), state(&store)), (vec![Alarm::NoSpace], acknowledged));
        delete_all(&store).await;
    });
}

#[test]
fn a_low_disk_alarm_names_directory_and_threshold_and_ends_when_space_is_free() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(100 << 10, 10 << 10);
        disk.set_capacity(Some(60 << 10));
        let store = open(&disk, &config);
        assert_eq!(put(&store, "k".to_owned(), 1).await, Err(TxnError::NoSpace));
        assert_eq!(store.alarms(), [Alarm::NoSpace]);
        let reason = store.no_space_reason().unwrap();
        let NoSpaceReason::LowDisk { dir, free, least } = &reason else { panic!("{reason:?}") };
        assert_eq!((dir.as_path(), *least), (Path::new(DIR), 100 << 10));
        assert!(*free < 60 << 10);
        let text = reason.to_string();
        assert!(text.contains("/data has") && text.contains("less than the 102400 bytes"), "{text}");
        assert!(text.ends_with("writes go on by themselves once there is enough"), "{text}");

        let reopened = open(&disk.crash(CrashPolicy::Nothing, 1), &config);
        assert_eq!(reopened.alarms(), [Alarm::NoSpace], "it is durable");
        disk.set_capacity(None);
        delete_all(&store).await;
        assert_eq!(store.alarms(), [], "also if nothing is written: the background looks");
    });
}

#[test]
fn a_low_disk_alarm_ends_with_the_first_write_after_a_restart_with_space() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(100 << 10, 10 << 10);
        disk.set_capacity(Some(60 << 10));
        let store = open(&disk, &config);
        assert_eq!(put(&store, "k".to_owned(), 1).await, Err(TxnError::NoSpace));
        store.close().await;
        disk.set_capacity(None);
        let store = open(&disk, &config);
        assert_eq!(store.no_space_reason(), None);
        assert!(put(&store, "k".to_owned(), 1).await.is_ok());
        assert_eq!(store.alarms(), []);
    });
}

#[test]
fn free_disk_space_ends_neither_a_manual_alarm_nor_the_quotas() {
    block_on(async {
        for by_quota in [false, true] {
            let disk = SimDisk::default();
            let mut config = config(100 << 10, 10 << 10);
            config.limits.quota_bytes = by_quota.then_some(10 << 10);
            let store = open(&disk, &config);
            if by_quota {
                fill(&store, 500).await;
            }
            disk.set_capacity(Some(disk.used() + (50 << 10)));
            if !by_quota {
                fill(&store, 500).await;
                assert_eq!(store.alarm_raise(Alarm::NoSpace).await, Ok(true), "for one more reason");
            }
            disk.set_capacity(None);
            assert_eq!(put(&store, "k".to_owned(), 1).await, Err(TxnError::NoSpace));
            let reason = store.no_space_reason().unwrap();
            let NoSpaceReason::Raised { dir, .. } = &reason else { panic!("{reason:?}") };
            assert_eq!(dir.as_deref(), Some(Path::new(DIR)));
            assert!(reason.to_string().ends_with("delete and compact, then disarm it"), "{reason}");
            delete_all(&store).await;
            store.compact_physical(store.revision()).await.unwrap();
            assert_eq!(store.alarm_disarm(Alarm::NoSpace).await, Ok(true));
            assert!(put(&store, "k".to_owned(), 1).await.is_ok());
        }
    });
}

#[test]
fn the_reserve_lets_deletions_finish_on_a_full_disk() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(0, 24 << 10);
        let store = open(&disk, &config);
        for at in 0..40 {
            put(&store, format!("{at:04}"), 500).await.unwrap();
        }
        assert!(has_reserve(&disk), "it is made with the first log file that is prepared");
        disk.set_capacity(Some(disk.used()));
        let acknowledged = fill(&store, 500).await;
        assert_eq!(store.alarms(), [Alarm::NoSpace]);
        assert!(!has_reserve(&disk), "it is used up");
        assert_eq!(state(&store), acknowledged);
        delete_all(&store).await;
        store.compact(store.revision()).await.unwrap();
        assert_eq!(state(&store).len(), 0);

        disk.set_capacity(None);
        retry().await;
        store.alarm_disarm(Alarm::NoSpace).await.unwrap();
        for at in 0..200 {
            put(&store, format!("{at:04}"), 500).await.unwrap();
        }
        assert!(has_reserve(&disk), "it is laid in again");
        let expected = state(&store);
        let status = store.status();
        let store = open(&disk.crash(CrashPolicy::Nothing, 1), &config);
        let StoreStatus { revision, compacted, seq, .. } = store.status();
        assert_eq!((revision, compacted, seq), (status.revision, status.compacted, status.seq));
        assert_eq!(state(&store), expected);
    });
}

#[test]
fn an_engine_without_space_falls_behind_and_catches_up() {
    block_on(async {
        let disk = SimDisk::default();
        let mut config = config(0, 0);
        // One log file is large enough for everything.
        config.limits.first_segment_bytes = 256 << 10;
        config.limits.segment_bytes = 256 << 10;
        let store = open(&disk, &config);
        put(&store, "first".to_owned(), 500).await.unwrap();
        disk.set_capacity(Some(disk.used()));
        put(&store, "second".to_owned(), 500).await.unwrap();
        assert_eq!(store.alarms(), [Alarm::NoSpace]);
        let revision = store.revision();
        delete_all(&store).await;
        let past = Range::new(KeyRange::all()).at(revision);
        assert_eq!(store.range(&past).unwrap().kvs.len(), 2, "it is read from where it waits");
        let waiting = store.driver().core().usage.pending();
        assert!(waiting > 500, "{waiting} bytes wait");

        disk.set_capacity(None);
        retry().await;
        store.alarm_disarm(Alarm::NoSpace).await.unwrap();
        assert_eq!(store.driver().core().usage.pending(), 0);
        assert_eq!(store.range(&past).unwrap().kvs.len(), 2);
    });
}

#[test]
fn a_store_without_space_for_its_engine_opens_from_the_log_and_catches_up() {
    block_on(async {
        let disk = SimDisk::default();
        let mut config = config(0, 0);
        config.limits.first_segment_bytes = 256 << 10;
        config.limits.segment_bytes = 256 << 10;
        let store = open(&disk, &config);
        put(&store, "first".to_owned(), 500).await.unwrap();
        let lease = store.lease_grant(100, crate::LeaseId::NONE).await.unwrap().id;
        disk.set_capacity(Some(disk.used()));
        put(&store, "second".to_owned(), 50_000).await.unwrap();
        let _ = store.alarm_disarm(Alarm::NoSpace).await;
        put(&store, "third".to_owned(), 50_000).await.unwrap();
        let (expected, revision) = (state(&store), store.revision());

        // The process is killed. The next start has space for a log file, but not for the engine's missing commits.
        let disk = disk.crash(CrashPolicy::Nothing, 1);
        for seed in 0..3 {
            disk.set_capacity(Some(disk.used() + (60 << 10)));
            let store = open(&disk, &config);
            assert_eq!((state(&store), store.alarms()), (expected.clone(), vec![Alarm::NoSpace]), "{seed}");
            let past = Range::new(KeyRange::all()).at(Revision(revision.0 - 1));
            assert_eq!(store.range(&past).unwrap().kvs.len(), 2);
            let waiting = store.driver().core().usage.pending();
            assert!(seed > 0 || waiting > 100_000, "{waiting} bytes wait");
            assert_eq!(store.leases().await.unwrap(), [lease]);
            std::mem::forget(store);
        }
        disk.set_capacity(None);
        let store = open(&disk, &config);
        assert_eq!(store.driver().core().usage.pending(), 0);
        store.alarm_disarm(Alarm::NoSpace).await.unwrap();
        put(&store, "fourth".to_owned(), 1).await.unwrap();
        store.lease_revoke(lease).await.unwrap();
        store.close().await;
        let store = open(&disk, &config);
        assert_eq!((state(&store).len(), store.leases().await.unwrap().len()), (4, 0));
    });
}

#[test]
fn a_start_on_a_full_disk_uses_the_reserve() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(0, 24 << 10);
        let store = open(&disk, &config);
        for at in 0..40 {
            put(&store, format!("{at:04}"), 500).await.unwrap();
        }
        let expected = state(&store);
        assert!(has_reserve(&disk));
        let disk = disk.crash(CrashPolicy::Nothing, 1);
        disk.set_capacity(Some(disk.used()));
        let store = open(&disk, &config);
        assert_eq!((has_reserve(&disk), state(&store)), (false, expected));
        assert_eq!(store.alarms(), [Alarm::NoSpace]);
        delete_all(&store).await;
    });
}

#[test]
fn a_snapshot_file_is_in_the_data_directory_if_it_has_enough_space() {
    block_on(async {
        let disk = SimDisk::default();
        let config = config(100 << 10, 10 << 10);
        let store = open(&disk, &config);
        put(&store, "k".to_owned(), 20_000).await.unwrap();
        assert_eq!(store.snapshot_dir().unwrap().as_deref(), Some(Path::new(DIR)));
        disk.set_capacity(Some(disk.used() + (110 << 10)));
        let refused = store.snapshot_dir().unwrap_err().to_string();
        assert!(refused.contains("/data") && refused.contains("needs"), "{refused}");
        let memory = Store::open(Config::memory(), kstore_nondet::Nondet::simulated(1)).await.unwrap();
        assert_eq!(memory.snapshot_dir().unwrap(), None);
    });
}

/// The writes that are acknowledged while one operation of the disk finds no space.
async fn story(store: &Store) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for at in 0..24 {
        let key = format!("{at:02}");
        if put(store, key.clone(), 700).await.is_ok() {
            acknowledged.push(key);
        }
        let _ = store.alarm_disarm(Alarm::NoSpace).await;
        if at % 8 == 7 {
            let _ = store.compact(store.revision()).await;
        }
    }
    acknowledged
}

#[test]
fn a_single_disk_full_error_loses_no_acknowledged_write() {
    let config = config(0, 4 << 10);
    let disk = SimDisk::default();
    let mut opening = 0;
    block_on(async {
        let store = open(&disk, &config);
        opening = disk.ops();
        story(&store).await;
    });
    let mut harmless_ops = 0;
    let log = disk.log();
    for (at, operation) in (0..).zip(&log) {
        block_on(async {
            let disk = SimDisk::default();
            disk.set_fault(Some(Fault::NoSpaceAt(at)));
            let opened = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1));
            let acknowledged = match &opened {
                Ok(store) => story(store).await,
                Err(_) => Vec::new(),
            };
            let survived = opened.is_ok_and(|store| store.range(&Range::key("k")).is_ok());
            // Writing the engine or a manifest, or creating a file, may fail without stopping the store.
            let harmless = match operation.verb {
                OperationKind::Create => at > opening,
                OperationKind::Write => ["engine", "MANIFEST.tmp", "RESERVE"].iter().any(|part| {
                    at > opening && operation.path.to_str().is_some_and(|path| path.contains(part))
                }),
                OperationKind::CreateDir
                | OperationKind::Sync
                | OperationKind::Rename
                | OperationKind::Remove
                | OperationKind::SyncDir => false,
            };
            assert!(survived || !harmless, "the store stopped at {operation}");
            harmless_ops += u32::from(harmless);
            let crashed = disk.crash(CrashPolicy::Nothing, at);
            let found = state(&open(&crashed, &config));
            let lost = acknowledged.iter().find(|key| !found.contains_key(key.as_bytes()));
            assert_eq!(lost, None, "space ran out at operation {at}");
        });
    }
    assert!(harmless_ops > 30, "{harmless_ops}");
}

/// The error text of a start that the disk refuses.
fn refusal(disk: &SimDisk, config: &Config) -> String {
    let opened = Store::open_stepped(Arc::new(disk.clone()), config, &Rng::seeded(1));
    opened.map(drop).expect_err("the disk refuses the start").to_string()
}

#[test]
fn a_start_on_a_full_disk_reports_how_much_space_to_free() {
    let disk = SimDisk::default();
    disk.set_capacity(Some(0));
    let text = refusal(&disk, &config(100 << 20, 0));
    let (before, after) = text.split_once(" at ").expect("it names the file");
    assert!(before.starts_with("the file system of /data is full, and the store cannot start: "), "{text}");
    assert!(after.starts_with("/data/"), "{text}");
    let advice = "No data is lost. Free at least 100 MiB there, but remove nothing in the data directory, and start again";
    assert!(after.ends_with(advice), "{text}");
}
