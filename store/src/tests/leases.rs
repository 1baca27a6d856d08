//! Tests of leases in virtual time.

use super::conformance::{block_on, tiny};
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::runtime::request::{Request, Response};
use crate::types::lease::LeaseRenewed;
use crate::{
    Config, KeyRange, LeaseError, LeaseId, Op, Put, Range, Revision, Store, Txn, TxnError, WatchRequest,
};
use kstore_nondet::{Nondet, Rng};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ID: LeaseId = LeaseId(9);

async fn store() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

async fn attach(store: &Store, key: &'static str, lease: LeaseId) {
    store.txn(Txn::of(vec![Op::Put(Put { lease, ..Put::new(key, "v") })])).await.unwrap();
}

fn keys(store: &Store) -> Vec<Vec<u8>> {
    let found = store.range(&Range::new(KeyRange::all())).unwrap();
    found.kvs.iter().map(|kv| kv.key().to_vec()).collect()
}

#[test]
fn a_lease_expires_on_time_and_its_keys_are_deleted_in_one_revision() {
    block_on(async {
        let store = store().await;
        let mut watcher = store.watch(WatchRequest::new(KeyRange::all()).from(Revision(4))).unwrap();
        let start = Instant::now();
        assert_eq!(store.lease_grant(10, ID).await.unwrap().ttl, 10);
        attach(&store, "b", ID).await;
        attach(&store, "a", ID).await;
        attach(&store, "free", LeaseId::NONE).await;
        let batch = watcher.next().await.unwrap().unwrap();
        assert_eq!(batch.events[0].key(), b"free");
        let batch = watcher.next().await.unwrap().unwrap();
        let gone: Vec<_> = batch.events.iter().map(|event| event.key()).collect();
        assert_eq!((batch.revision, gone), (Revision(5), vec![&b"a"[..], b"b"]));
        assert_eq!(start.elapsed().as_secs(), 10);
        assert_eq!(keys(&store), [b"free"]);
        assert_eq!(store.lease_keep_alive(ID).await, Err(LeaseError::NotFound(ID)));
        assert_eq!(store.metrics().leases_expired, 1);
    });
}

#[test]
fn a_renewed_lease_gets_its_full_time_again() {
    block_on(async {
        let store = store().await;
        store.lease_grant(10, ID).await.unwrap();
        attach(&store, "k", ID).await;
        for _ in 0..5 {
            sleep(Duration::from_secs(9)).await;
            assert_eq!(store.lease_keep_alive(ID).await.unwrap().ttl, 10);
        }
        sleep(Duration::from_millis(6_500)).await;
        let status = store.lease_time_to_live(ID, true).await.unwrap();
        assert_eq!((status.ttl, status.granted_ttl, status.keys), (3, 10, vec!["k".into()]));
        sleep(Duration::from_secs(4)).await;
        assert!(keys(&store).is_empty());
        assert_eq!(store.lease_time_to_live(ID, true).await, Err(LeaseError::NotFound(ID)));
    });
}

#[test]
fn a_put_attaches_its_key_to_another_lease_or_detaches_it() {
    block_on(async {
        let store = store().await;
        let other = store.lease_grant(60, LeaseId::NONE).await.unwrap().id;
        assert!(other.0 > 0, "a chosen id is positive");
        store.lease_grant(10, ID).await.unwrap();
        for key in ["kept", "moved", "detached", "deleted"] {
            attach(&store, key, ID).await;
        }
        attach(&store, "moved", other).await;
        attach(&store, "detached", LeaseId::NONE).await;
        store.txn(Txn::of(vec![Op::delete("deleted")])).await.unwrap();
        attach(&store, "deleted", LeaseId::NONE).await;
        let before = store.revision();
        assert_eq!(store.lease_revoke(ID).await, Ok(before.next()));
        assert_eq!(keys(&store), [&b"deleted"[..], b"detached", b"moved"]);
        assert_eq!(store.leases().await, Ok(vec![other]));
    });
}

#[test]
fn lease_times_are_bounded_and_ids_are_unique() {
    block_on(async {
        let store = store().await;
        for requested in [1, 0, -5] {
            assert_eq!(store.lease_grant(requested, LeaseId::NONE).await.unwrap().ttl, 2);
        }
        assert_eq!(store.lease_grant(9_000_000_001, ID).await, Err(LeaseError::TtlTooLarge));
        store.lease_grant(60, LeaseId(-3)).await.unwrap();
        assert_eq!(store.lease_grant(60, LeaseId(-3)).await, Err(LeaseError::Exists(LeaseId(-3))));
        assert_eq!(store.lease_revoke(ID).await, Err(LeaseError::NotFound(ID)));
        assert_eq!(store.revision(), Revision(1), "leases without keys take no revision");
    });
}

#[test]
fn a_renewal_does_not_wait_and_is_not_logged() {
    block_on(async {
        let disk = SimDisk::default();
        let config = tiny(Config::durable("/data"), 3);
        let store = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap();
        store.lease_grant(10, ID).await.unwrap();
        let waiting = store.driver().evaluate_group(vec![Request::Txn(Txn::of(vec![Op::put("k", "v")]))]);
        let (ops, seq) = (disk.ops(), store.status().seq);
        assert_eq!(
            store.lease_keep_alive(ID).await.unwrap(),
            LeaseRenewed { ttl: 10, revision: Revision(1) }
        );
        assert_eq!((disk.ops(), store.status().seq), (ops, seq));
        store.driver().log_group().unwrap();
        assert_eq!((waiting.unwrap().len(), store.revision()), (1, Revision(2)));
        assert_eq!(store.metrics().leases_renewed, 1);
    });
}

#[test]
fn a_late_renewal_revokes_the_lease_before_it_fails() {
    block_on(async {
        let disk = SimDisk::default();
        let config = tiny(Config::durable("/data"), 3);
        let store = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap();
        store.lease_grant(10, ID).await.unwrap();
        attach(&store, "k", ID).await;
        let before = store.revision();
        // The expiry task has not run yet.
        let late = Request::KeepAlive { id: ID, now: Instant::now() + Duration::from_secs(10) };
        let answers = store.driver().submit_group(vec![late]).unwrap();
        assert!(matches!(answers[..], [Response::KeepAlive(Err(LeaseError::NotFound(ID)))]), "{answers:?}");
        assert_eq!((keys(&store).len(), store.revision()), (0, before.next()));
        let put = Op::Put(Put { lease: ID, ..Put::new("k", "v") });
        assert_eq!(store.txn(Txn::of(vec![put])).await, Err(TxnError::LeaseNotFound(ID)));
    });
}

#[test]
fn requests_are_served_while_many_leases_expire() {
    block_on(async {
        const LEASES: i64 = 2_000;
        let store = store().await;
        for id in 1..=LEASES {
            store.lease_grant(10, LeaseId(id)).await.unwrap();
            let put = Put { lease: LeaseId(id), ..Put::new(format!("{id}"), "v") };
            store.txn(Txn::of(vec![Op::Put(put)])).await.unwrap();
        }
        let mut watcher = store.watch(WatchRequest::new(KeyRange::single("other"))).unwrap();
        let other = store.clone();
        let writing = tokio::spawn(async move {
            sleep(Duration::from_secs(10)).await;
            other.txn(Txn::of(vec![Op::put("other", "v")])).await.unwrap().revision
        });
        let written = writing.await.unwrap();
        assert!(written.0 < 2 * LEASES, "it is not behind all of them, but at {written}");
        assert_eq!(watcher.next().await.unwrap().unwrap().revision, written);
        sleep(Duration::from_secs(1)).await;
        assert_eq!((keys(&store).len(), store.metrics().leases_expired), (1, LEASES as u64));
        assert_eq!(store.leases().await, Ok(vec![]));
    });
}

#[test]
fn a_lease_gets_its_full_time_after_a_restart() {
    block_on(async {
        let disk = SimDisk::default();
        let config = tiny(Config::durable("/data"), 3);
        let open = |disk: SimDisk| Store::open_stepped(Arc::new(disk), &config, &Rng::seeded(1)).unwrap();
        let store = open(disk.clone());
        store.lease_grant(10, ID).await.unwrap();
        attach(&store, "k", ID).await;
        sleep(Duration::from_secs(9)).await;
        let store = open(disk.crash(CrashPolicy::Nothing, 1));
        assert_eq!(store.lease_time_to_live(ID, true).await.unwrap().ttl, 10);
        sleep(Duration::from_millis(9_900)).await;
        assert_eq!(keys(&store).len(), 1);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(keys(&store).len(), 0);
    });
}

/// L11: leases are revoked in bounded batches, other requests are served in between, and all leases end.
#[test]
fn mass_lease_expiry_does_not_block_writers() {
    const LEASES: u64 = 100_000;
    block_on(async {
        let store = store().await;
        for id in 1..=LEASES as i64 {
            store.lease_grant(10, LeaseId(id)).await.unwrap();
            let put = Put { lease: LeaseId(id), ..Put::new(format!("{id:06}"), "v") };
            store.txn(Txn::of(vec![Op::Put(put)])).await.unwrap();
        }
        sleep(Duration::from_secs(10)).await;
        let (mut before, mut writes) = (store.metrics().leases_expired, 0);
        while before < LEASES {
            store.put("free", "v").await.unwrap();
            writes += 1;
            tokio::task::yield_now().await;
            let now = store.metrics().leases_expired;
            assert!(now - before <= 2 * 256, "{} ended between two writes", now - before);
            before = now;
        }
        assert!(writes > 100, "{writes} writes while they ended");
        assert_eq!(keys(&store), [b"free"]);
    });
}

/// L10: the revision in a keep-alive's answer is not above that of a later revocation.
#[test]
fn a_keep_alive_header_is_never_above_a_later_revocation() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store().await;
        for _ in 0..200 {
            store.lease_grant(60, ID).await.unwrap();
            attach(&store, "k", ID).await;
            let renewing = tokio::spawn({
                let store = store.clone();
                async move {
                    let mut said = Revision(0);
                    while let Ok(renewed) = store.lease_keep_alive(ID).await {
                        said = said.max(renewed.revision);
                        tokio::task::yield_now().await;
                    }
                    said
                }
            });
            for _ in 0..20 {
                store.put("other", "v").await.unwrap();
            }
            let revoked = store.lease_revoke(ID).await.unwrap();
            assert!(renewing.await.unwrap() <= revoked);
        }
    });
}

/// Regression: the store's tasks ended with the runtime that had opened it, so that leases never expired.
#[test]
fn leases_expire_after_the_opening_runtime_has_ended() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let first = runtime();
    let opened = first.block_on(async {
        let store = store().await;
        store.lease_grant(10, ID).await.unwrap();
        attach(&store, "k", ID).await;
        store
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(keys(&opened), [b"k"]);
        for _ in 0..2 {
            opened.lease_grant(10, LeaseId(10)).await.unwrap();
            attach(&opened, "other", LeaseId(10)).await;
            sleep(Duration::from_secs(60)).await;
            assert_eq!(keys(&opened), Vec::<Vec<u8>>::new());
        }
    });
}

/// Regression: the grant's time counted from its request, and a renewal before its publication was lost.
#[test]
fn a_renewal_before_the_grants_publication_counts_from_its_answer() {
    block_on(async {
        let disk = Arc::new(SimDisk::default());
        let store = Store::open_stepped(disk, &tiny(Config::durable("/d"), 0), &Rng::seeded(1)).unwrap();
        let grant = Request::Grant { id: ID, ttl: 10, now: Instant::now() };
        let granted = store.driver().evaluate_group(vec![grant]).unwrap();
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(store.lease_keep_alive(ID).await.unwrap().ttl, 10);
        drop(granted);
        sleep(Duration::from_secs(9)).await;
        assert_eq!(store.leases().await.unwrap(), [ID], "it lives ten seconds from the renewal on");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(store.leases().await.unwrap(), []);
    });
}

/// Regression: all keys of a lease were deleted in one commit of any size.
#[test]
fn a_lease_with_more_keys_than_a_commit_is_revoked_in_several_revisions() {
    let mut config = Config::memory();
    config.limits.commit_bytes = 10 * (crate::types::event::Event::COST + 8);
    block_on(async {
        for revoke in [true, false] {
            let store = Store::open(config.clone(), Nondet::simulated(1)).await.unwrap();
            store.lease_grant(10, ID).await.unwrap();
            for at in 0..95 {
                let put = Put { lease: ID, ..Put::new(format!("key {at:04}"), "v") };
                store.txn(Txn::of(vec![Op::Put(put)])).await.unwrap();
            }
            store.put("stays", "v").await.unwrap();
            let before = store.revision();
            let mut watcher = store.watch(WatchRequest::new(KeyRange::all())).unwrap();
            if revoke {
                assert_eq!(store.lease_revoke(ID).await.unwrap(), store.revision());
            } else {
                sleep(Duration::from_secs(11)).await;
            }
            assert_eq!((store.revision().0 - before.0, keys(&store)), (10, vec![b"stays".to_vec()]));
            let mut deleted = Vec::new();
            while let Some(Ok(batch)) = watcher.try_next() {
                assert!(batch.events.len() <= 10, "a commit is bounded");
                deleted.extend(batch.events.iter().map(|event| event.key().to_vec()));
            }
            assert_eq!((deleted.len(), deleted.is_sorted()), (95, true));
            let metrics = store.metrics();
            assert_eq!((metrics.leases_revoked, metrics.leases_expired), (1, u64::from(!revoke)));
            assert_eq!(store.lease_keep_alive(ID).await, Err(LeaseError::NotFound(ID)));
        }
    });
}

#[test]
fn a_lease_being_revoked_accepts_neither_keys_nor_renewals() {
    let mut config = Config::memory();
    config.limits.commit_bytes = 1;
    block_on(async {
        let store = Store::open(config, Nondet::simulated(1)).await.unwrap();
        store.lease_grant(10, ID).await.unwrap();
        for key in ["a", "b", "c", "d"] {
            attach(&store, key, ID).await;
        }
        let part = store.driver().submit(Request::Revoke(ID), 0).await.unwrap();
        assert!(matches!(part, Response::RevokedInPart));
        let put = Op::Put(Put { lease: ID, ..Put::new("e", "v") });
        assert_eq!(store.txn(Txn::of(vec![put])).await, Err(TxnError::LeaseNotFound(ID)));
        assert_eq!(store.lease_keep_alive(ID).await, Err(LeaseError::NotFound(ID)));
        assert_eq!(store.lease_grant(10, ID).await, Err(LeaseError::Exists(ID)));
        // No client repeats the revocation, so expiry completes it.
        sleep(Duration::from_secs(11)).await;
        assert_eq!((keys(&store).len(), store.leases().await.unwrap()), (0, vec![]));
    });
}
