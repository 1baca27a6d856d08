//! Tests of the quota and the alarms: what they refuse and permit, and that they survive a crash.

use super::conformance::{block_on, tiny};
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::{
    Alarm, CompactError, Compare, CompareOp, Config, Delete, EngineKind, KeyRange, LeaseError, LeaseId,
    Limits, Op, Put, Range, Revision, Store, Target, Txn, TxnError,
};
use kstore_nondet::{Nondet, Rng};
use std::sync::Arc;
use std::time::Duration;

const LEASE: LeaseId = LeaseId(5);

fn with_quota(config: Config, quota: u64) -> Config {
    Config { limits: Limits { quota_bytes: Some(quota), ..config.limits }, ..config }
}

async fn in_memory(quota: u64) -> Store {
    Store::open(with_quota(Config::memory(), quota), Nondet::simulated(1)).await.unwrap()
}

fn on_disk(disk: &SimDisk, engine: EngineKind, quota: u64) -> Store {
    let config = Config { engine, ..Config::durable("/data") };
    let config = with_quota(tiny(config, 3), quota);
    Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap()
}

async fn put(store: &Store, key: &'static str, size: usize) -> Result<Revision, TxnError> {
    store.txn(Txn::of(vec![Op::put(key, vec![7; size])])).await.map(|result| result.revision)
}

fn delete(keys: KeyRange) -> Op {
    Op::Delete(Delete { keys, prev_kv: false })
}

/// Writes one key until a write is refused. Returns the number of accepted writes.
async fn fill(store: &Store, size: usize) -> usize {
    let mut written = 0;
    loop {
        match put(store, "filler", size).await {
            Ok(_) => written += 1,
            Err(error) => {
                assert_eq!(error, TxnError::NoSpace);
                return written;
            }
        }
    }
}

#[test]
fn the_write_that_would_reach_the_quota_is_refused_and_raises_the_alarm() {
    block_on(async {
        let store = in_memory(10_000).await;
        assert_eq!(fill(&store, 1_000).await, 9);
        assert_eq!((store.alarms(), store.revision()), (vec![Alarm::NoSpace], Revision(10)));
        let status = store.status();
        assert_eq!((status.quota, status.alarms), (Some(10_000), vec![Alarm::NoSpace]));
        assert!(status.size.live < 10_000 && status.size.live > 9_000, "{:?}", status.size);
    });
}

#[test]
fn without_a_quota_no_write_is_refused() {
    block_on(async {
        let mut config = Config::memory();
        config.limits.quota_bytes = None;
        let store = Store::open(config, Nondet::simulated(1)).await.unwrap();
        for _ in 0..50 {
            put(&store, "k", 100_000).await.unwrap();
        }
        assert_eq!(store.alarms(), []);
    });
}

#[test]
fn the_nospace_alarm_refuses_only_requests_that_may_write() {
    block_on(async {
        let store = in_memory(10_000).await;
        store.lease_grant(60, LEASE).await.unwrap();
        store.txn(Txn::of(vec![Op::Put(Put { lease: LEASE, ..Put::new("leased", "v") })])).await.unwrap();
        fill(&store, 1_000).await;
        let current = store.revision();

        // A small write that would fit is refused as well, in either branch, and in a nested transaction.
        assert_eq!(put(&store, "tiny", 1).await, Err(TxnError::NoSpace));
        let exists = Compare::key("filler", CompareOp::Greater, Target::Version(0));
        let untaken = Txn { compares: vec![exists], failure: vec![Op::put("k", "v")], ..Txn::default() };
        assert_eq!(store.txn(untaken.clone()).await, Err(TxnError::NoSpace));
        assert_eq!(store.txn(Txn::of(vec![Op::Txn(untaken)])).await, Err(TxnError::NoSpace));
        assert_eq!(store.lease_grant(60, LeaseId::NONE).await, Err(LeaseError::NoSpace));
        assert_eq!(store.revision(), current);

        // Everything else works.
        assert_eq!(store.range(&Range::key("filler")).unwrap().count, 1);
        assert!(store.lease_keep_alive(LEASE).await.is_ok());
        let gone = Txn::of(vec![Op::Range(Range::key("filler")), delete(KeyRange::single("filler"))]);
        assert!(store.txn(gone).await.is_ok());
        assert!(store.lease_revoke(LEASE).await.is_ok());
        let current = store.revision();
        assert!(store.compact(current).await.is_ok());
        assert_eq!(store.range(&Range::new(KeyRange::all())).unwrap().count, 0);
    });
}

#[test]
fn an_alarm_stays_until_disarmed_and_is_raised_again_while_its_cause_persists() {
    block_on(async {
        let store = in_memory(10_000).await;
        fill(&store, 1_000).await;
        let refill = store.alarm_disarm(Alarm::NoSpace).await;
        assert_eq!((refill, store.alarms()), (Ok(true), vec![]));
        assert_eq!(fill(&store, 1_000).await, 0);
        assert_eq!(store.alarms(), [Alarm::NoSpace]);

        store.compact(store.revision()).await.unwrap();
        assert_eq!(
            put(&store, "k", 1).await,
            Err(TxnError::NoSpace),
            "there is space, but the alarm is raised"
        );
        assert_eq!(store.alarm_disarm(Alarm::NoSpace).await, Ok(true));
        assert_eq!(store.alarm_disarm(Alarm::NoSpace).await, Ok(false));
        assert!(put(&store, "k", 1).await.is_ok());
    });
}

#[test]
fn the_corrupt_alarm_refuses_changes_but_not_reads() {
    block_on(async {
        let store = in_memory(1 << 20).await;
        put(&store, "k", 3).await.unwrap();
        store.lease_grant(60, LEASE).await.unwrap();
        assert_eq!(store.alarm_raise(Alarm::Corrupt).await, Ok(true));
        assert_eq!(store.alarm_raise(Alarm::Corrupt).await, Ok(false));
        assert_eq!(store.alarms(), [Alarm::Corrupt]);

        assert_eq!(put(&store, "k", 3).await, Err(TxnError::Corrupt));
        let delete = Txn::of(vec![delete(KeyRange::all())]);
        assert_eq!(store.txn(delete).await, Err(TxnError::Corrupt));
        assert_eq!(store.compact(Revision(2)).await, Err(CompactError::Corrupt));
        assert_eq!(store.lease_grant(60, LeaseId::NONE).await, Err(LeaseError::Corrupt));
        assert_eq!(store.lease_revoke(LEASE).await, Err(LeaseError::Corrupt));

        assert_eq!(store.range(&Range::key("k")).unwrap().count, 1);
        let read = Txn::of(vec![Op::Range(Range::key("k"))]);
        assert!(store.txn(read).await.unwrap().succeeded);

        assert_eq!(store.alarm_raise(Alarm::NoSpace).await, Ok(true));
        assert_eq!(store.alarms(), [Alarm::NoSpace, Alarm::Corrupt]);
        assert_eq!(put(&store, "k", 3).await, Err(TxnError::Corrupt), "the worse one answers");
    });
}

#[test]
fn a_lease_that_expires_under_the_corrupt_alarm_is_revoked_after_disarming() {
    block_on(async {
        let store = in_memory(1 << 20).await;
        store.lease_grant(10, LEASE).await.unwrap();
        store.txn(Txn::of(vec![Op::Put(Put { lease: LEASE, ..Put::new("k", "v") })])).await.unwrap();
        store.alarm_raise(Alarm::Corrupt).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(store.range(&Range::key("k")).unwrap().count, 1);
        store.alarm_disarm(Alarm::Corrupt).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(store.range(&Range::key("k")).unwrap().count, 0);
    });
}

#[test]
fn alarms_survive_a_crash_from_the_log_and_from_the_manifest() {
    for checkpointed in [false, true] {
        block_on(async {
            let disk = SimDisk::default();
            let store = on_disk(&disk, EngineKind::Segments, 20_000);
            fill(&store, 100).await;
            assert_eq!(store.alarms(), [Alarm::NoSpace]);
            if checkpointed {
                store.close().await;
            }
            let disk = disk.crash(CrashPolicy::Nothing, 1);
            let store = on_disk(&disk, EngineKind::Segments, 20_000);
            assert_eq!(store.alarms(), [Alarm::NoSpace], "checkpointed: {checkpointed}");
            assert_eq!(put(&store, "k", 1).await, Err(TxnError::NoSpace));
            assert_eq!(store.alarm_disarm(Alarm::NoSpace).await, Ok(true));
            let disk = disk.crash(CrashPolicy::Nothing, 2);
            let store = on_disk(&disk, EngineKind::Segments, 20_000);
            assert_eq!(store.alarms(), [], "checkpointed: {checkpointed}");
        });
    }
}

#[test]
fn the_used_bytes_are_the_same_after_a_restart() {
    for engine in [EngineKind::Segments, EngineKind::Memory] {
        block_on(async {
            let disk = SimDisk::default();
            let store = on_disk(&disk, engine, 1 << 20);
            for size in [1, 500, 3_000] {
                put(&store, "k", size).await.unwrap();
                put(&store, "l", size).await.unwrap();
            }
            store.txn(Txn::of(vec![delete(KeyRange::single("l"))])).await.unwrap();
            store.compact(Revision(5)).await.unwrap();
            let before = store.status();
            store.close().await;
            let after = on_disk(&disk, engine, 1 << 20).status();
            assert_eq!(after.size.live, before.size.live, "{engine:?}");
            assert_eq!(
                (after.seq, after.revision, after.compacted),
                (before.seq, before.revision, before.compacted)
            );
        });
    }
}

/// A deletion of everything would be a commit of any size. etcd's clients handle "request is too large" by deleting
/// smaller ranges.
#[test]
fn a_deletion_larger_than_a_commit_is_refused_and_smaller_ranges_are_not() {
    block_on(async {
        let mut config = Config::memory();
        config.limits.commit_bytes = 50 * (crate::types::event::Event::COST + 4);
        let store = Store::open(config, Nondet::simulated(1)).await.unwrap();
        for at in 0..80 {
            store.put(format!("k{at:03}"), "v").await.unwrap();
        }
        let current = store.revision();
        let half = || delete(KeyRange::between("k000", "k040"));
        let rest = || delete(KeyRange::between("k040", "k080"));
        assert_eq!(
            store.txn(Txn::of(vec![Op::put("a", "1"), delete(KeyRange::all())])).await,
            Err(TxnError::TooLarge)
        );
        assert_eq!(
            store.txn(Txn::of(vec![half(), Op::Txn(Txn::of(vec![rest()]))])).await,
            Err(TxnError::TooLarge)
        );
        assert_eq!(store.delete_range(KeyRange::prefix("k")).await, Err(TxnError::TooLarge));
        let state = || store.range(&Range::new(KeyRange::all())).unwrap().count;
        assert_eq!((store.revision(), state()), (current, 80), "nothing was done");
        store.txn(Txn::of(vec![half()])).await.unwrap();
        assert_eq!(store.delete_range(KeyRange::all()).await, Ok(40));
        assert_eq!(state(), 0);
    });
}

#[test]
fn requests_with_large_changes_do_not_share_one_log_write() {
    block_on(async {
        let disk = crate::disk::sim::SimDisk::default();
        let mut config = Config::durable("/data");
        config.limits.commit_bytes = 4_000;
        let open = || {
            Store::open_stepped(std::sync::Arc::new(disk.clone()), &config, &kstore_nondet::Rng::seeded(1))
        };
        let store = open().unwrap();
        let request = |at: usize| {
            crate::runtime::request::Request::Txn(Txn::of(vec![Op::put(format!("{at}"), vec![7; 1_000])]))
        };
        let groups = store.metrics().groups;
        let answers = store.driver().submit_group((0..16).map(request).collect()).unwrap();
        assert_eq!((answers.len(), store.revision().0), (16, 17));
        let groups = store.metrics().groups - groups;
        assert!((4..=6).contains(&groups), "{groups} writes");
        store.close().await;
        assert_eq!(open().unwrap().revision().0, 17);
    });
}

/// sled's files never shrink, so the quota counts their content.
#[test]
fn with_sled_deleting_and_compacting_frees_quota_also_after_a_crash() {
    use crate::tests::conformance::block_on_real;
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let config = |dir: &std::path::Path| {
        let mut config = Config { engine: EngineKind::Sled, ..Config::durable(dir) };
        config.limits = Limits { quota_bytes: Some(400_000), checkpoint_bytes: 64 << 10, ..config.limits };
        config
    };
    block_on_real(async {
        let store = Store::open(config(&data), Nondet::real()).await.unwrap();
        let written = fill(&store, 4_000).await;
        assert!((50..100).contains(&written), "{written} writes of 4 kB");
        // The process is killed here; a copy of its files is opened.
        copy_settled(&data, &copy);
        let copied = Store::open(config(&copy), Nondet::real()).await.unwrap();
        for store in [store, copied] {
            assert_eq!(store.alarms(), [Alarm::NoSpace]);
            assert_eq!(put(&store, "k", 4_000).await, Err(TxnError::NoSpace));
            store.delete_range(KeyRange::all()).await.unwrap();
            store.compact_physical(store.revision()).await.unwrap();
            let size = store.size();
            assert!(size.live < 100_000, "{size:?}");
            store.alarm_disarm(Alarm::NoSpace).await.unwrap();
            for _ in 0..20 {
                put(&store, "k", 4_000).await.unwrap();
            }
            assert_eq!(store.alarms(), []);
            let live = store.size().live;
            store.close().await;
            assert!(live > 80_000, "{live} bytes");
        }
        let counted = Store::open(config(&data), Nondet::real()).await.unwrap().size().live;
        assert!((80_000..200_000).contains(&counted), "a start counts the same: {counted}");
    });
}

/// Copies a directory whose files may change, as sled's background thread creates and deletes snapshots. Repeats until
/// no file changed during the copy, so that the copy is a state that the directory had.
fn copy_settled(from: &std::path::Path, to: &std::path::Path) {
    for _ in 0..1_000 {
        let before = files(from);
        let copied = before.iter().try_for_each(|(path, ..)| {
            let target = to.join(path.strip_prefix(from).expect("a path of this folder"));
            std::fs::create_dir_all(target.parent().expect("a file has a folder"))?;
            std::fs::copy(path, target).map(drop)
        });
        if copied.is_ok() && files(from) == before {
            return;
        }
        let _ = std::fs::remove_dir_all(to);
    }
    panic!("{} never came to rest", from.display());
}

/// The files below a directory with their lengths and modification times, sorted by path.
fn files(dir: &std::path::Path) -> Vec<(std::path::PathBuf, u64, Option<std::time::SystemTime>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => found.extend(files(&entry.path())),
            Ok(metadata) => found.push((entry.path(), metadata.len(), metadata.modified().ok())),
            Err(_) => {} // It was deleted meanwhile.
        }
    }
    found.sort();
    found
}
