//! Tests of offline verification, saving and rescue. `salvage_tests` has those of salvage.

use super::examine::{VerifyReport, examine};
use super::export::save_from;
use super::losses::Losses;
use super::survey::Survey;
use super::tests::{DIR, apart, assert_equal, open, request};
use super::{ExportError, Restore, SurveyError, rescue, restore, salvage, save, snapshot_to_file, verify};
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::disk::{Disk, read_all};
use crate::tests::conformance::{block_on, block_on_real};
use crate::tests::samples::{fill, memory};
use crate::{
    Config, EngineKind, KeyRange, LeaseId, Limits, Op, OpenError, Range, RangeResult, Revision, Store, Txn,
};
use kstore_nondet::{Nondet, Rng};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub(super) const FILE: &str = "/data/snapshot.db";

pub(super) fn survey(disk: &SimDisk) -> Survey {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Survey::on(&disk, Path::new(DIR)).unwrap()
}

pub(super) fn examined(disk: &SimDisk) -> VerifyReport {
    examine(survey(disk), &mut |_, _| {})
}

/// A configuration with small files, so that there are many.
pub(super) fn config() -> Config {
    let limits = Limits {
        first_segment_bytes: 12 << 10,
        segment_bytes: 12 << 10,
        checkpoint_bytes: 18 << 10,
        engine_file_bytes: 2 << 10,
        reserve_bytes: 1 << 10,
        ..Limits::default()
    };
    Config { limits, ..Config::durable(DIR) }
}

/// A store with several checkpoints, engine files and log segments, and its content at each revision.
pub(super) struct Sample {
    pub(super) disk: SimDisk,
    pub(super) compacted: Revision,
    /// The content at each revision from the compacted one on.
    pub(super) states: Vec<RangeResult>,
}

pub(super) static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    apart(async {
        let disk = SimDisk::default();
        let store = Store::open_stepped(Arc::new(disk.clone()), &config(), &Rng::seeded(3)).unwrap();
        let lease = store.lease_grant(100, LeaseId(3)).await.unwrap().id;
        for at in 0..120 {
            let put = crate::Put { lease, ..crate::Put::new(format!("k{}", at % 11), vec![b'v'; at * 4]) };
            let ops = match at % 9 {
                0 => vec![Op::delete(format!("k{}", at % 11)), Op::put("other", "")],
                1 => vec![Op::Put(put)],
                _ => vec![Op::put(put.key, put.value)],
            };
            store.txn(Txn { note: (at % 4 == 0).then(|| "note".into()), ..Txn::of(ops) }).await.unwrap();
            if at % 50 == 49 {
                store.compact(Revision(at as i64 - 20)).await.unwrap();
            }
        }
        let compacted = store.compacted();
        let all = |at| store.range(&Range::new(KeyRange::all()).at(Revision(at))).unwrap();
        let states = (compacted.0..=store.revision().0).map(all).collect();
        Sample { disk: disk.crash(CrashPolicy::Nothing, 1), compacted, states }
    })
});

/// Every file of the sample that may be damaged, with its length.
pub(super) fn files(disk: &SimDisk) -> Vec<(PathBuf, usize)> {
    let dirs = [DIR.to_owned(), format!("{DIR}/wal"), format!("{DIR}/engine")];
    let files = dirs.iter().flat_map(|dir| {
        let files = disk.files(Path::new(dir)).into_iter();
        files.map(move |(name, len)| (Path::new(dir).join(name), len))
    });
    files.filter(|(_, len)| *len > 0).collect()
}

/// A copy of a disk.
pub(super) fn copy(disk: &SimDisk) -> SimDisk {
    disk.crash(CrashPolicy::Everything, 0)
}

#[test]
fn an_intact_directory_has_no_problems_and_is_saved_offline() {
    block_on(async {
        let disk = copy(&SAMPLE.disk);
        let VerifyReport { status, problems } = examined(&disk);
        assert_eq!(problems, []);
        let last = SAMPLE.states.last().unwrap();
        assert_eq!((status.revision, status.compacted), (last.revision, SAMPLE.compacted));
        assert_eq!((status.keys, status.leases, status.engine), (last.count as u64, 1, "segments"));
        assert!(status.log.files > 1 && status.checkpoint > 1 && status.log.last > status.checkpoint);
        let before = files(&disk);
        save_from(survey(&disk), &disk, Path::new(FILE), &mut |_, _| {}).unwrap();
        disk.remove(Path::new(FILE)).unwrap();
        assert_eq!(files(&disk), before, "nothing else was changed");
    });
}

/// Restores the file at [`FILE`] to a new disk.
pub(super) fn restored(disk: &SimDisk) -> SimDisk {
    let bytes = read_all(&*disk.open(Path::new(FILE)).unwrap()).unwrap();
    let fresh = SimDisk::default();
    let checked = Restore { unchecked: false, ..request(EngineKind::Segments) };
    super::tests::restore_to(&fresh, &bytes, &checked).unwrap();
    fresh
}

/// Restores the file at [`FILE`] and opens the store.
pub(super) fn reopened(disk: &SimDisk) -> Store {
    open(&restored(disk)).unwrap()
}

#[test]
fn an_offline_snapshot_equals_the_stores_content() {
    block_on(async {
        let disk = copy(&SAMPLE.disk);
        save_from(survey(&disk), &disk, Path::new(FILE), &mut |_, _| {}).unwrap();
        let original = Store::open_stepped(Arc::new(disk.clone()), &config(), &Rng::seeded(4));
        assert_equal(&reopened(&disk), &original.unwrap()).await;
    });
}

#[test]
fn a_directory_in_use_and_one_without_a_store_are_refused() {
    block_on_real(async {
        let dir = tempfile::tempdir().unwrap();
        let nothing = verify(dir.path(), &mut |_, _| {});
        assert!(matches!(nothing, Err(SurveyError::NoStore { .. })));
        assert!(matches!(verify(&dir.path().join("x"), &mut |_, _| {}), Err(SurveyError::NoStore { .. })));
        let store = Store::open(Config::durable(dir.path()), Nondet::simulated(1)).await.unwrap();
        let refused = verify(dir.path(), &mut |_, _| {});
        assert!(matches!(refused, Err(SurveyError::Directory(OpenError::LockedBy { .. }))));
        store.close().await;
        assert!(verify(dir.path(), &mut |_, _| {}).unwrap().problems.is_empty());
    });
}

#[test]
fn both_engines_are_verified_saved_and_restored_on_a_real_disk() {
    block_on_real(async {
        for engine in [EngineKind::Segments, EngineKind::Sled] {
            let dir = tempfile::tempdir().unwrap();
            let (data, file) = (dir.path().join("data"), dir.path().join("file.db"));
            let config = Config { engine, ..Config::durable(&data) };
            let store = Store::open(config.clone(), Nondet::simulated(1)).await.unwrap();
            fill(&store).await;
            snapshot_to_file(&store, &dir.path().join("online.db")).unwrap();
            store.close().await;
            drop(store);
            let examined = verify(&data, &mut |_, _| {}).unwrap();
            assert_eq!(examined.problems, [], "{engine:?}");
            let saved = save(&data, &file, &mut |_, _| {}).unwrap();
            let salvaged = salvage(&data, &dir.path().join("again.db"), &mut |_, _| {}).unwrap();
            assert_eq!((salvaged.snapshot, salvaged.lost), (saved, Losses::default()));
            let original = Store::open(config, Nondet::simulated(2)).await.unwrap();
            for name in ["online.db", "file.db"] {
                let target = dir.path().join(format!("from {name}"));
                let request = Restore {
                    snapshot: dir.path().join(name),
                    dir: target.clone(),
                    unchecked: false,
                    ..request(engine)
                };
                restore(&request, &Rng::seeded(5), &mut |_, _| {}).unwrap();
                let config = Config { engine, ..Config::durable(&target) };
                let restored = Store::open(config, Nondet::simulated(3)).await.unwrap();
                assert_equal(&restored, &original).await;
                restored.close().await;
            }
            original.close().await;
        }
    });
}

#[test]
fn a_failed_write_leaves_no_file() {
    block_on(async {
        let store = memory().await;
        let dir = tempfile::tempdir().unwrap();
        let refused = snapshot_to_file(&store, &dir.path().join("no/such/dir.db"));
        assert!(matches!(refused, Err(ExportError::Write { .. })));
        store.close().await;
        let refused = snapshot_to_file(&store, &dir.path().join("file.db"));
        assert!(matches!(refused, Err(ExportError::Snapshot(_))));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    });
}

/// Flips bytes in the middle of a file's content; zeros at the end may be unused space.
fn damage_the_middle(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2..used / 2 + 64].iter_mut().for_each(|byte| *byte ^= 0xff);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn rescue_replaces_an_unopenable_store_by_its_readable_part() {
    block_on_real(async {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let config = Config::durable(&dir);
        let (mut newest, mut written) = (Revision(0), 0);
        for round in 1..=2 {
            let store = Store::open(config.clone(), Nondet::simulated(round)).await.unwrap();
            for at in 0..500 {
                newest = store.put(format!("{round}-{at:03}"), "value").await.unwrap();
            }
            written += 500;
            store.close().await;
            drop(store);
            let logs = std::fs::read_dir(dir.join("wal")).unwrap().map(|entry| entry.unwrap().path());
            logs.for_each(|log| damage_the_middle(&log));
            let engine = std::fs::read_dir(dir.join("engine")).unwrap().map(|entry| entry.unwrap().path());
            engine.for_each(|file| damage_the_middle(&file));
            let refused = Store::open(config.clone(), Nondet::simulated(round)).await.unwrap_err();
            assert!(matches!(refused, OpenError::Damaged { .. } | OpenError::EngineLost { .. }), "{refused}");
            let rescued = rescue(&dir, EngineKind::Segments, &Rng::seeded(round), &mut |_, _| {}).unwrap();
            assert_eq!(rescued.damaged, parent.path().join(format!("data.damaged-{round}")));
            assert!(rescued.damaged.join("MANIFEST").exists() && rescued.damaged.join("wal").exists());
            assert!(!verify(&rescued.damaged, &mut |_, _| {}).unwrap().problems.is_empty(), "as it was");
            let store = Store::open(config.clone(), Nondet::simulated(round)).await.unwrap();
            assert!(
                store.revision() > newest,
                "watchers must not meet other changes under revisions that they know"
            );
            let all = store.range(&Range::new(KeyRange::all())).unwrap();
            assert!(!all.kvs.is_empty() && all.kvs.len() <= written, "{} of {written}", all.kvs.len());
            assert!(all.kvs.iter().all(|kv| kv.value() == b"value"));
            written = all.kvs.len();
            store.close().await;
        }
        let names = std::fs::read_dir(parent.path()).unwrap().count();
        assert_eq!(names, 3, "the store and two damaged ones");
    });
}
