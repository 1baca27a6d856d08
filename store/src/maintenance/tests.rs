//! Tests of restore: snapshots of kstore and etcd, crashing disks, and hostile bytes.

use super::fuzz::{BytesFile, fuzz_restore};
use super::restore::{Observers, restore_from};
use super::snapshot_file::SnapshotFile;
use super::{Restore, RestoreError, RestoreReport, SnapshotFileError, restore, snapshot_status};
use crate::disk::Disk;
use crate::disk::sim::{CrashPolicy, Fault, SimDisk};
use crate::tests::conformance::{block_on, block_on_real};
use crate::tests::etcd::{Etcd, output, program};
use crate::tests::samples::{fill, image, memory};
use crate::{
    Config, EngineKind, KeyRange, LeaseId, Limits, OpenError, Range, Revision, Store, WatchError,
    WatchRequest,
};
use kstore_nondet::{Nondet, Rng};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::sample::Index;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub(super) const DIR: &str = "/data";

pub(crate) fn request(engine: EngineKind) -> Restore {
    Restore { snapshot: "snapshot".into(), dir: DIR.into(), engine, unchecked: true, bump: 0 }
}

/// A snapshot file with these bytes.
pub(super) fn held(bytes: &[u8]) -> SnapshotFile {
    SnapshotFile::of(Path::new("snapshot"), Arc::new(BytesFile(bytes.to_vec()))).unwrap()
}

pub(crate) fn restore_to(
    disk: &SimDisk,
    bytes: &[u8],
    request: &Restore,
) -> Result<RestoreReport, RestoreError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir(Path::new(DIR)).map_err(|source| RestoreError::Write { dir: DIR.into(), source })?;
    let observers = Observers { visit: &mut |_, _| {}, progress: &mut |_, _| {} };
    restore_from(&disk, &held(bytes), request, &Rng::seeded(bytes.len() as u64), observers)
}

pub(super) fn open(disk: &SimDisk) -> Result<Store, OpenError> {
    // A simulated disk would hold a reserve of the default size in memory.
    let limits = Limits { reserve_bytes: 1 << 10, ..Limits::default() };
    let config = Config { limits, ..Config::durable(DIR) };
    Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(8))
}

/// Asserts that two stores have the same content.
pub(super) async fn assert_equal(restored: &Store, original: &Store) {
    assert_eq!(restored.revision(), original.revision());
    assert_eq!(restored.compacted(), original.compacted());
    for revision in (original.compacted().0.max(1)..=original.revision().0).map(Revision) {
        let all = Range::new(KeyRange::all()).at(revision);
        assert_eq!(restored.range(&all).unwrap(), original.range(&all).unwrap(), "at {revision}");
        assert_eq!(restored.note(revision), original.note(revision), "the note of {revision}");
    }
    assert_eq!(restored.hash_kv(Revision(0)).unwrap(), original.hash_kv(Revision(0)).unwrap());
    assert_eq!(restored.alarms(), original.alarms());
    let leases = original.leases().await.unwrap();
    assert_eq!(restored.leases().await.unwrap(), leases);
    for id in leases {
        let of = async |store: &Store| store.lease_time_to_live(id, true).await.unwrap();
        let (restored, original) = (of(restored).await, of(original).await);
        assert_eq!((restored.granted_ttl, restored.keys), (original.granted_ttl, original.keys));
        assert!(restored.ttl * 2 > original.granted_ttl, "a lease has its full time again");
    }
    assert_ne!(restored.identity(), original.identity());
}

#[test]
fn a_restored_store_equals_the_saved_one() {
    block_on(async {
        let original = memory().await;
        let disk = SimDisk::default();
        restore_to(&disk, &image(&original), &request(EngineKind::Segments)).unwrap();
        assert_equal(&open(&disk).unwrap(), &original).await;
        fill(&original).await;
        original.alarm_raise(crate::Alarm::NoSpace).await.unwrap();
        let disk = SimDisk::default();
        let restored = restore_to(&disk, &image(&original), &request(EngineKind::Segments)).unwrap();
        assert_eq!((restored.revision, restored.leases), (original.revision(), 2));
        let store = open(&disk).unwrap();
        assert_equal(&store, &original).await;
        drop(store);
        let store = open(&disk.crash(CrashPolicy::Nothing, 1)).unwrap();
        assert_equal(&store, &original).await;
        store.alarm_disarm(crate::Alarm::NoSpace).await.unwrap();
        store.txn(crate::Txn::of(vec![crate::Op::put("more", "x".repeat(5_000))])).await.unwrap();
        let again = SimDisk::default();
        restore_to(&again, &image(&store), &request(EngineKind::Segments)).unwrap();
        assert_equal(&open(&again).unwrap(), &store).await;
    });
}

#[test]
fn a_restored_directory_serves_with_either_engine() {
    block_on_real(async {
        let original = memory().await;
        fill(&original).await;
        let dir = tempfile::tempdir().unwrap();
        let snapshot = dir.path().join("snapshot.db");
        std::fs::write(&snapshot, image(&original)).unwrap();
        for engine in [EngineKind::Segments, EngineKind::Sled] {
            let data = dir.path().join(format!("{engine:?}"));
            let request = Restore { snapshot: snapshot.clone(), dir: data.clone(), ..request(engine) };
            let (mut last, mut calls) = (0, 0);
            let mut progress = |done, total| {
                assert!(last <= done && done <= total);
                (last, calls) = (done, calls + 1);
            };
            restore(&request, &Rng::seeded(1), &mut progress).unwrap();
            assert!(calls > 0, "{calls}");
            let config = Config { engine, ..Config::durable(&data) };
            let store = Store::open(config, Nondet::simulated(2)).await.unwrap();
            assert_equal(&store, &original).await;
            let again = restore(&request, &Rng::seeded(1), &mut |_, _| {});
            assert!(matches!(again, Err(RestoreError::Directory(OpenError::LockedBy { .. }))));
            store.close().await;
            drop(store);
            let again = restore(&request, &Rng::seeded(1), &mut |_, _| {});
            assert!(matches!(again, Err(RestoreError::Occupied { .. })));
        }
    });
}

#[test]
fn a_bumped_store_is_above_the_old_one_and_fails_its_watchers() {
    block_on(async {
        let original = memory().await;
        fill(&original).await;
        let disk = SimDisk::default();
        let bumped = Restore { bump: 1_000_000, ..request(EngineKind::Segments) };
        let restored = restore_to(&disk, &image(&original), &bumped).unwrap();
        let expected = Revision(original.revision().0 + 1_000_000);
        assert_eq!((restored.revision, restored.compacted), (expected, expected));
        let store = open(&disk).unwrap();
        let all = Range::new(KeyRange::all());
        assert_eq!(store.range(&all).unwrap().kvs, original.range(&all).unwrap().kvs);
        for from in [original.revision(), original.revision().next(), expected.previous()] {
            let request = WatchRequest { start: from, ..WatchRequest::new(KeyRange::all()) };
            let next = store.watch(request).unwrap().next().await;
            assert_eq!(next.unwrap().unwrap_err(), WatchError::Compacted { compacted: expected }, "{from}");
        }
        let put = crate::Txn::of(vec![crate::Op::put("new", "")]);
        assert_eq!(store.txn(put).await.unwrap().revision, expected.next());
        let disk = disk.crash(CrashPolicy::Nothing, 2);
        assert_eq!(open(&disk).unwrap().revision(), expected.next());
        for bump in [u64::MAX, 1 << 62] {
            let request = Restore { bump, ..bumped.clone() };
            let refused = restore_to(&SimDisk::default(), &image(&original), &request);
            assert!(matches!(refused, Err(RestoreError::Bump(_))), "{bump}");
        }
    });
}

/// Runs a future on its own thread, because a lazily created sample may be requested inside a runtime.
pub(super) fn apart<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| block_on(future)).join().unwrap())
}

/// A small snapshot.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    apart(async {
        let store = memory().await;
        store.lease_grant(60, LeaseId(5)).await.unwrap();
        for at in 0..20 {
            let txn = crate::Txn::of(vec![crate::Op::put(format!("k{}", at % 7), "value")]);
            store.txn(txn.noted("note")).await.unwrap();
        }
        store.txn(crate::Txn::of(vec![crate::Op::delete("k1")])).await.unwrap();
        store.compact(Revision(9)).await.unwrap();
        image(&store)
    })
});

#[test]
fn a_crash_during_restore_leaves_no_store_or_a_complete_one() {
    let (mut ops, mut expected) = (0, None);
    block_on(async {
        let disk = SimDisk::default();
        restore_to(&disk, &SMALL, &request(EngineKind::Segments)).unwrap();
        ops = disk.ops();
        expected = Some(open(&disk).unwrap().hash_kv(Revision(0)).unwrap());
    });
    assert!(ops > 20, "{ops}");
    for at in 0..ops {
        // One runtime per crash: the stores' tasks, and with them the memory of their disks, end with it.
        block_on(async {
            for policy in CrashPolicy::ALL {
                let disk = SimDisk::default();
                disk.set_fault(Some(Fault::CrashAt(at)));
                let crashed = restore_to(&disk, &SMALL, &request(EngineKind::Segments));
                let disk = disk.crash(policy, at);
                let complete = disk.list(Path::new(DIR)).unwrap().iter().any(|name| name == "MANIFEST");
                assert!(complete || crashed.is_err(), "op {at}, {policy:?}");
                if !complete {
                    restore_to(&disk, &SMALL, &request(EngineKind::Segments)).unwrap();
                }
                let hash = open(&disk).unwrap().hash_kv(Revision(0)).unwrap();
                assert_eq!(Some(hash), expected, "op {at}, {policy:?}");
            }
        });
    }
}

#[test]
fn a_disk_error_during_restore_is_reported_and_leaves_no_store() {
    block_on(async {
        let disk = SimDisk::default();
        restore_to(&disk, &SMALL, &request(EngineKind::Segments)).unwrap();
        for at in 0..disk.ops() {
            let disk = SimDisk::default();
            disk.set_fault(Some(Fault::ErrorAt(at)));
            let failed = restore_to(&disk, &SMALL, &request(EngineKind::Segments));
            assert!(matches!(failed, Err(RestoreError::Write { .. })), "op {at}: {failed:?}");
        }
    });
}

/// Regression: a restore that was interrupted before its log had a segment left a directory that opened as an empty
/// store.
#[test]
fn a_partially_restored_directory_does_not_open_as_an_empty_store() {
    block_on(async {
        let disk = SimDisk::default();
        restore_to(&disk, &SMALL, &request(EngineKind::Segments)).unwrap();
        let (ops, mut refused) = (disk.ops(), 0);
        for at in 0..ops {
            let disk = SimDisk::default();
            disk.set_fault(Some(Fault::CrashAt(at)));
            assert!(restore_to(&disk, &SMALL, &request(EngineKind::Segments)).is_err());
            let disk = disk.crash(CrashPolicy::Everything, 0);
            let names = disk.list(Path::new(DIR)).unwrap();
            if names.is_empty() || names.iter().any(|name| name == "MANIFEST") {
                continue;
            }
            let opened = open(&disk);
            assert!(matches!(opened, Err(OpenError::Damaged { .. })), "op {at}: {opened:?}, {names:?}");
            refused += 1;
        }
        assert!(refused > 5, "{refused} of {ops}");
    });
}

#[test]
fn a_directory_with_a_log_but_without_a_manifest_is_not_overwritten() {
    block_on(async {
        let disk = SimDisk::default();
        restore_to(&disk, &SMALL, &request(EngineKind::Segments)).unwrap();
        disk.remove(&Path::new(DIR).join("MANIFEST")).unwrap();
        let refused = restore_to(&disk, &SMALL, &request(EngineKind::Segments));
        assert!(
            matches!(refused, Err(RestoreError::Occupied { .. })),
            "it may be all that is left of a store"
        );
    });
}

fn with_checksum(image: &[u8]) -> Vec<u8> {
    [image, &Sha256::digest(image)[..]].concat()
}

#[test]
fn a_checksum_must_match_and_may_be_missing_only_if_unchecked() {
    let checked = Restore { unchecked: false, ..request(EngineKind::Segments) };
    let whole = with_checksum(&SMALL);
    assert_eq!(whole.len() % 512, 32);
    assert!(restore_to(&SimDisk::default(), &whole, &checked).is_ok());
    let refused = restore_to(&SimDisk::default(), &SMALL, &checked);
    assert!(matches!(refused, Err(RestoreError::Snapshot(SnapshotFileError::NoChecksum { .. }))));
    for at in [100, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        for request in [&checked, &request(EngineKind::Segments)] {
            let refused = restore_to(&SimDisk::default(), &damaged, request);
            let wrong = RestoreError::Snapshot(SnapshotFileError::WrongChecksum { path: "snapshot".into() });
            assert_eq!(refused.unwrap_err().to_string(), wrong.to_string(), "{at}");
        }
    }
}

#[test]
fn files_that_are_not_etcd_databases_are_refused() {
    for bytes in [vec![], b"not a database".repeat(999), SMALL[..SMALL.len() - 4096].to_vec()] {
        let refused = restore_to(&SimDisk::default(), &bytes, &request(EngineKind::Segments));
        let malformed = RestoreError::Snapshot(SnapshotFileError::Malformed {
            path: PathBuf::new(),
            detail: String::new(),
        });
        let same =
            std::mem::discriminant(&malformed) == std::mem::discriminant(refused.as_ref().unwrap_err());
        assert!(same, "{refused:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_snapshot_is_refused_or_restored_without_panic(
        hits in vec((any::<Index>(), any::<u8>()), 1..9),
        in_entries in any::<bool>(),
    ) {
        let mut bytes = SMALL.clone();
        for (at, value) in hits {
            let mut at = at.index(bytes.len());
            if in_entries {
                at = at / 4096 * 4096 + at % 512;
            }
            bytes[at] = value;
        }
        fuzz_restore(&bytes);
        let disk = SimDisk::default();
        if restore_to(&disk, &bytes, &request(EngineKind::Segments)).is_ok() {
            block_on(async {
                let store = open(&disk).unwrap();
                store.range(&Range::new(KeyRange::all())).unwrap();
                store.hash_kv(Revision(0)).unwrap();
            });
        }
    }
}

#[test]
fn a_snapshot_of_etcd_is_restored_and_served() {
    let (Some(etcd), Some(ctl)) = (program("etcd"), program("etcdctl")) else { return };
    block_on_real(async {
        let dir = tempfile::tempdir().unwrap();
        let etcd = Etcd::start(&etcd, &ctl, &dir.path().join("etcd"));
        etcd.ctl(&["lease", "grant", "500"]);
        let lease = etcd.ctl(&["lease", "list"]).lines().nth(1).unwrap().to_owned();
        for at in 0..40 {
            let (key, value) = (format!("key/{}", at % 9), "v".repeat(at * at * 20));
            match at % 6 {
                4 => etcd.ctl(&["del", &key]),
                5 => etcd.ctl(&["put", "--lease", &lease, &key, &value]),
                _ => etcd.ctl(&["put", &key, &value]),
            };
            if at == 20 {
                etcd.ctl(&["compact", "12"]);
            }
        }
        let snapshot = dir.path().join("snapshot.db");
        etcd.ctl(&["snapshot", "save", snapshot.to_str().unwrap()]);
        let data = dir.path().join("data");
        let request = Restore {
            snapshot: snapshot.clone(),
            dir: data.clone(),
            unchecked: false,
            ..request(EngineKind::Segments)
        };
        let restored = restore(&request, &Rng::seeded(1), &mut |_, _| {}).unwrap();
        assert!(!restored.users_left_out && restored.leases == 1);
        let store = Store::open(Config::durable(&data), Nondet::simulated(2)).await.unwrap();
        assert_eq!(store.hash_kv(Revision(0)).unwrap().hash, etcd.hash());
        let count = etcd.ctl(&["get", "", "--prefix", "--keys-only"]);
        let all = store.range(&Range::new(KeyRange::all())).unwrap();
        assert_eq!(all.kvs.len(), count.lines().filter(|line| !line.is_empty()).count());
        let lease = LeaseId(i64::from_str_radix(&lease, 16).unwrap());
        let lease = store.lease_time_to_live(lease, true).await.unwrap();
        assert!(lease.ttl > 400 && !lease.keys.is_empty(), "{lease:?}");
        store.close().await;
        if let Some(utl) = program("etcdutl") {
            let mut status = std::process::Command::new(utl);
            let theirs = output(status.args(["snapshot", "status", "-w", "json"]).arg(&snapshot));
            let ours = snapshot_status(&snapshot).unwrap();
            assert!(ours.checked);
            assert!(theirs.contains(&format!(r#""hash":{},"revision":{},"#, ours.hash, ours.revision)));
        }
    });
}
