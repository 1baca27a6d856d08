//! Tests of the store as a process: its directory, its threads, and a failing disk.

use super::conformance::{block_on_real, tiny};
use crate::disk::sim::{CrashPolicy, Fault, SimDisk};
use crate::{
    CompactError, Config, DefragmentError, EngineKind, KeyRange, Limits, Op, OpenError, Range, RangeError,
    Revision, Stopped, Store, Txn, TxnError, WatchError, WatchRequest,
};
use kstore_nondet::{Nondet, Rng};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn put(key: impl Into<bytes::Bytes>) -> Txn {
    Txn::of(vec![Op::put(key, "v")])
}

#[test]
fn a_directory_belongs_to_one_store_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        let open = || Store::open(Config::durable(dir.path()), Nondet::real());
        let store = open().await.unwrap();
        let refused = open().await.err();
        assert!(matches!(refused, Some(OpenError::LockedBy { .. })), "{refused:?}");
        store.txn(put("k")).await.unwrap();
        store.close().await;
        assert_eq!(store.txn(put("k")).await, Err(TxnError::Stopped(Stopped)));
        let again = open().await.unwrap();
        assert_eq!(again.revision(), Revision(2));
        drop(again);
        assert_eq!(open().await.unwrap().revision(), Revision(2), "dropping the last handle frees it too");
    });
}

#[test]
fn another_engine_and_foreign_files_are_refused_differently() {
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        let config = Config::durable(dir.path());
        Store::open(config.clone(), Nondet::real()).await.unwrap().close().await;
        let other = Config { engine: EngineKind::Sled, ..config.clone() };
        let refused = Store::open(other, Nondet::real()).await.err();
        assert!(matches!(refused, Some(OpenError::OtherEngine { ref found, .. }) if found == "segments"));
        std::fs::remove_file(dir.path().join("MANIFEST")).unwrap();
        let refused = Store::open(config, Nondet::real()).await.err();
        assert!(matches!(refused, Some(OpenError::Damaged { .. })), "{refused:?}");
        let nowhere = Config { dir: None, ..Config::durable("") };
        assert!(matches!(Store::open(nowhere, Nondet::real()).await.err(), Some(OpenError::NoDirectory)));
    });
}

#[test]
fn unusable_or_contradictory_limits_are_refused_by_name() {
    type Change = fn(&mut Limits);
    let changed = |set: Change| {
        let mut limits = Limits::default();
        set(&mut limits);
        limits
    };
    let table: [(&str, &str, Change); 30] = [
        ("txn_ops", "zero", |limits| limits.txn_ops = 0),
        ("request_bytes", "zero", |limits| limits.request_bytes = 0),
        ("queue_jobs", "zero", |limits| limits.queue_jobs = 0),
        ("queue_bytes", "zero", |limits| limits.queue_bytes = 0),
        ("group_jobs", "zero", |limits| limits.group_jobs = 0),
        ("group_bytes", "zero", |limits| limits.group_bytes = 0),
        ("commit_bytes", "zero", |limits| limits.commit_bytes = 0),
        ("window_age", "zero", |limits| limits.window_age = Duration::ZERO),
        ("history_revisions", "zero", |limits| limits.history_revisions = 0),
        ("feed_bytes", "zero", |limits| limits.feed_bytes = 0),
        ("engine_retry", "zero", |limits| limits.engine_retry = Duration::ZERO),
        ("log_idle", "zero", |limits| limits.log_idle = Duration::ZERO),
        ("checkpoint_bytes", "zero", |limits| limits.checkpoint_bytes = 0),
        ("engine_file_bytes", "zero", |limits| limits.engine_file_bytes = 0),
        ("scrub_interval", "zero", |limits| limits.scrub_interval = Duration::ZERO),
        ("quota_bytes", "None is no bound", |limits| limits.quota_bytes = Some(0)),
        ("history_bytes", "None is no bound", |limits| limits.history_bytes = Some(0)),
        ("request_bytes", "32 bits", |limits| limits.request_bytes = 1 << 32),
        ("commit_bytes", "32 bits", |limits| limits.commit_bytes = (1 << 30) + 1),
        ("engine_file_bytes", "32 bits", |limits| limits.engine_file_bytes = 1 << 32),
        ("lease_ttl_min", "no lease", |limits| limits.lease_ttl_min = Duration::MAX),
        ("first_segment_bytes", "less than 4096", |limits| limits.first_segment_bytes = 100),
        ("queue_bytes", "request_bytes", |limits| limits.queue_bytes = limits.request_bytes),
        ("feed_bytes", "feed_batch_bytes", |limits| limits.feed_bytes = limits.feed_batch_bytes - 1),
        ("feed_bytes", "feed_batch_bytes", |limits| limits.feed_batch_bytes = limits.feed_bytes + 1),
        ("window_bytes", "window_calm_bytes", |limits| limits.window_bytes = 10),
        ("segment_bytes", "first_segment_bytes", |limits| limits.segment_bytes = 8 << 10),
        ("log_budget_bytes", "checkpoint_bytes", |limits| limits.log_budget_bytes = 1 << 20),
        ("log_budget_bytes", "checkpoint_bytes", |limits| limits.checkpoint_bytes = 1 << 40),
        ("scrub_pass", "scrub_interval", |limits| limits.scrub_pass = Duration::from_secs(1)),
    ];
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        for (expected, why, set) in table {
            for config in [Config::memory(), Config::durable(dir.path())] {
                let limits = changed(set);
                let refused = Store::open(Config { limits, ..config }, Nondet::real()).await.err();
                let text = refused.as_ref().map(ToString::to_string).unwrap_or_default();
                assert!(
                    matches!(refused, Some(OpenError::Limit { name, .. }) if name == expected),
                    "{expected}: {refused:?}"
                );
                assert!(text.contains(&format!("Limits::{expected} ")) && text.contains(why), "{text}");
            }
        }
    });
}

#[test]
fn many_clients_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        let store = Store::open(Config::durable(dir.path()), Nondet::real()).await.unwrap();
        let write = |n: usize| {
            let store = store.clone();
            tokio::spawn(async move { store.txn(put(format!("k{n}"))).await.unwrap().revision })
        };
        let tasks: Vec<_> = (0..500).map(write).collect();
        let mut revisions = Vec::new();
        for task in tasks {
            revisions.push(task.await.unwrap().0);
        }
        revisions.sort_unstable();
        assert_eq!(revisions, (2..502).collect::<Vec<_>>(), "each has its own revision");
        assert!(store.metrics().syncs < 400, "{:?}", store.metrics());
        assert_eq!(store.range(&Range::new(KeyRange::all())).unwrap().count, 500);
    });
}

#[test]
fn a_full_queue_returns_busy_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        let limits = Limits { queue_jobs: 4, ..Limits::default() };
        let config = Config { limits, ..Config::durable(dir.path()) };
        let store = Store::open(config, Nondet::real()).await.unwrap();
        let write = |n: usize| store.txn(put(format!("k{n}")));
        let results = futures::future::join_all((0..200).map(write)).await;
        let done = results.iter().filter(|result| result.is_ok()).count() as i64;
        assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(TxnError::Busy))));
        assert!(done >= 4 && done == store.range(&Range::new(KeyRange::all())).unwrap().count);
    });
}

#[test]
fn a_failed_sync_stops_the_store_for_all_callers() {
    block_on_real(async {
        let disk = SimDisk::default();
        let config = Config::durable("/data");
        let store = Store::open_threads(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap();
        store.txn(put("before")).await.unwrap();
        let mut watcher = store.watch(WatchRequest::new(KeyRange::all())).unwrap();
        // The write succeeds, its sync fails.
        disk.set_fault(Some(Fault::SyncsFail));
        assert_eq!(store.txn(put("lost")).await, Err(TxnError::Stopped(Stopped)));
        assert_eq!(
            watcher.next().await,
            Some(Err(WatchError::Stopped(Stopped))),
            "nothing unsynced is delivered"
        );
        assert_eq!(watcher.next().await, None);
        assert_eq!(store.range(&Range::key("before")), Err(RangeError::Stopped(Stopped)));
        assert_eq!(store.txn(put("after")).await, Err(TxnError::Stopped(Stopped)));
        store.close().await;
        let disk = disk.crash(CrashPolicy::Nothing, 1);
        let store = Store::open_threads(Arc::new(disk), &config, &Rng::seeded(2)).unwrap();
        assert_eq!(store.revision(), Revision(2));
        store.close().await;
    });
}

/// After one failed write of the engine the store continues, since the log has everything, and it reports the failure.
#[test]
fn a_store_with_a_failed_engine_serves_reports_it_and_fails_waiters() {
    block_on_real(async {
        let mut failures = 0;
        for at in 0..12 {
            let disk = SimDisk::default();
            let config = tiny(Config::durable("/data"), 0);
            let store = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap();
            store.txn(put("before")).await.unwrap();
            assert_eq!((store.engine_failure(), store.metrics().engine_failed), (None, 0));
            disk.set_fault(Some(Fault::ErrorAt(disk.ops() + at)));
            let written = store.put("k", vec![7; 5_000]).await;
            disk.set_fault(None);
            let Some(reason) = store.engine_failure() else { continue };
            assert_eq!(written.map(|revision| revision.0), Ok(3));
            failures += 1;
            assert!(reason.contains("the disk failed") && reason.contains("restart"), "{reason}");
            assert_eq!(store.metrics().engine_failed, 1);
            assert_eq!(store.status().engine_failure.as_ref(), Some(&reason));
            assert_eq!(store.alarms(), [], "writes go on");
            assert_eq!(store.put("k", "2").await.unwrap().0, 4);
            assert_eq!(store.range(&Range::key("k").at(Revision(3))).unwrap().kvs.len(), 1);

            let wait = Duration::from_secs(180);
            let defragmented = tokio::time::timeout(wait, store.defragment()).await.unwrap();
            assert_eq!(defragmented, Err(DefragmentError::Engine(reason)));
            let compacted = tokio::time::timeout(wait, store.compact_physical(Revision(4))).await.unwrap();
            assert_eq!(compacted, Err(CompactError::NotRemoved));
            assert_eq!(store.compacted(), Revision(4), "the compaction itself is done");
            store.close().await;

            let store = Store::open_stepped(Arc::new(disk), &config, &Rng::seeded(2)).unwrap();
            assert_eq!((store.engine_failure(), store.revision()), (None, Revision(4)));
            store.compact_physical(Revision(4)).await.unwrap_err();
            store.defragment().await.unwrap();
            store.close().await;
        }
        assert!(failures > 0, "the engine failed");
    });
}

#[test]
fn recovery_falls_back_from_a_damaged_engine_state_to_the_previous_one() {
    block_on_real(async {
        let disk = SimDisk::default();
        let config = tiny(Config::durable("/data"), 0);
        let limits = Limits { engine_file_bytes: 1 << 20, ..config.limits.clone() };
        let config = Config { limits, ..config };
        // Three checkpoints, each at a clean close and each with its own file.
        for round in 0..3 {
            let store = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(round)).unwrap();
            store.txn(Txn::of(vec![Op::put(format!("k{round}"), vec![7; 100])])).await.unwrap();
            store.close().await;
        }
        let files = disk.files(Path::new("/data/engine"));
        let (last, len) = files.last().unwrap();
        disk.damage(&Path::new("/data/engine").join(last), len - 10);
        let store = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(9)).unwrap();
        assert_eq!(store.range(&Range::new(KeyRange::all())).unwrap().count, 3);
        store.txn(put("more")).await.unwrap();
        store.close().await;
        let store = Store::open_stepped(Arc::new(disk), &config, &Rng::seeded(10)).unwrap();
        assert_eq!(store.range(&Range::new(KeyRange::all())).unwrap().count, 4, "and it is whole again");
    });
}

#[test]
fn leases_get_their_full_time_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    block_on_real(async {
        let open = || Store::open(Config::durable(dir.path()), Nondet::real());
        let store = open().await.unwrap();
        let id = store.lease_grant(100, crate::LeaseId::NONE).await.unwrap().id;
        store
            .txn(Txn::of(vec![Op::Put(crate::Put { lease: id, ..crate::Put::new("k", "v") })]))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert!(store.lease_time_to_live(id, false).await.unwrap().ttl <= 98);
        store.close().await;
        let began = tokio::time::Instant::now();
        let store = open().await.unwrap();
        let status = store.lease_time_to_live(id, true).await.unwrap();
        // Less than a second has passed, or what a busy machine took.
        let least = 99 - began.elapsed().as_secs() as i64;
        assert!((least..=99).contains(&status.ttl), "{} of {least}", status.ttl);
        assert_eq!(status.keys, [bytes::Bytes::from("k")]);
    });
}
