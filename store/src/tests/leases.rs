//! Leases under virtual time.

use std::time::Duration;

use kstore_nondet::Nondet;
use tokio::time::{Instant, sleep};

use super::conformance::block_on;
use crate::{Config, KeyRange, LeaseError, LeaseId, Op, Put, Range, Revision, Store, Txn, WatchRequest};

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
fn a_lease_ends_at_its_time_and_takes_its_keys_in_one_revision() {
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
fn a_renewed_lease_lives_its_full_time_again() {
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
fn a_put_moves_its_key_between_leases_or_off_them() {
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
fn times_are_kept_within_bounds_and_ids_are_unique() {
    block_on(async {
        let store = store().await;
        for asked in [1, 0, -5] {
            assert_eq!(store.lease_grant(asked, LeaseId::NONE).await.unwrap().ttl, 2);
        }
        assert_eq!(store.lease_grant(9_000_000_001, ID).await, Err(LeaseError::TtlTooLarge));
        store.lease_grant(60, LeaseId(-3)).await.unwrap();
        assert_eq!(store.lease_grant(60, LeaseId(-3)).await, Err(LeaseError::Exists(LeaseId(-3))));
        assert_eq!(store.lease_revoke(ID).await, Err(LeaseError::NotFound(ID)));
        assert_eq!(store.revision(), Revision(1), "leases without keys take no revision");
    });
}
