//! Tests of stores that start from an image.

use crate::{Config, ImageError, KeyRange, LeaseId, Op, Put, Range, Revision, Store, Txn, WatchRequest};
use kstore_nondet::Nondet;
use std::time::Duration;

async fn memory() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

fn value(store: &Store, key: &'static str) -> Option<String> {
    store.get(key).unwrap().map(|kv| String::from_utf8(kv.value().to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_history_and_continues_independently() {
    let origin = memory().await;
    for nth in 0..300 {
        origin.put(format!("key-{:03}", nth % 100), format!("value {nth}")).await.unwrap();
    }
    origin.delete("key-050").await.unwrap();
    let image = origin.image().unwrap();
    let (one, two) =
        (Store::from_image(&image, &Nondet::simulated(2)), Store::from_image(&image, &Nondet::simulated(3)));
    assert_eq!((one.revision(), one.metrics().keys, one.size()), (origin.revision(), 99, origin.size()));
    assert_eq!(one.hash_kv(Revision::CURRENT).unwrap(), origin.hash_kv(Revision::CURRENT).unwrap());
    assert_ne!(one.identity(), two.identity());
    let written = one.put("key-001", "of one").await.unwrap();
    assert_eq!(written, origin.revision().next());
    two.delete_range(KeyRange::all()).await.unwrap();
    origin.put("key-002", "of the origin").await.unwrap();
    assert_eq!(
        (value(&one, "key-001").as_deref(), value(&one, "key-002").as_deref()),
        (Some("of one"), Some("value 202"))
    );
    assert_eq!((two.metrics().keys, value(&two, "key-001")), (0, None));
    assert_eq!(value(&origin, "key-001").as_deref(), Some("value 201"));
    // The fork has the history, in reads and watches.
    let old = one.range(&Range::key("key-050").at(Revision(60))).unwrap();
    assert_eq!(old.kvs[0].value(), b"value 50");
    let mut watcher = one.watch(WatchRequest::new(KeyRange::all()).from(Revision(2))).unwrap();
    let mut revisions = Vec::new();
    while revisions.last() != Some(&written) {
        revisions.push(watcher.next().await.unwrap().unwrap().revision);
    }
    assert_eq!(revisions.len(), 302);
}

#[tokio::test(start_paused = true)]
async fn forks_compact_and_change_independently() {
    let origin = memory().await;
    for nth in 0..500 {
        origin.put(format!("key-{:03}", nth % 50), format!("value {nth}")).await.unwrap();
    }
    origin.compact(Revision(100)).await.unwrap();
    let before = origin.hash_kv(Revision::CURRENT).unwrap();
    let fork = Store::from_image(&origin.image().unwrap(), &Nondet::simulated(2));
    assert_eq!(fork.compacted(), Revision(100));
    fork.compact(fork.revision()).await.unwrap();
    for nth in 0..50 {
        fork.put(format!("key-{nth:03}"), "new").await.unwrap();
    }
    assert_eq!(origin.hash_kv(Revision::CURRENT).unwrap(), before);
    assert!(fork.size().live < origin.size().live);
    assert!(origin.range(&Range::key("key-001").at(Revision(150))).is_ok());
    let again = Store::from_image(&fork.image().unwrap(), &Nondet::simulated(3));
    assert_eq!(again.hash_kv(Revision::CURRENT).unwrap(), fork.hash_kv(Revision::CURRENT).unwrap());
}

#[tokio::test(start_paused = true)]
async fn leases_start_with_their_remaining_time_in_the_image() {
    let origin = memory().await;
    let lease = origin.lease_grant(60, LeaseId::NONE).await.unwrap().id;
    let put = Op::Put(Put { lease, ..Put::new("leased", "value") });
    origin.txn(Txn::of(vec![put])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(40)).await;
    let image = origin.image().unwrap();
    // The origin's lease expires; time in the image stands still.
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(value(&origin, "leased"), None);
    let fork = Store::from_image(&image, &Nondet::simulated(2));
    assert_eq!(fork.lease_time_to_live(lease, true).await.unwrap().ttl, 20);
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert!(value(&fork, "leased").is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((value(&fork, "leased"), fork.leases().await.unwrap()), (None, Vec::new()));
}

#[tokio::test]
async fn stores_on_disk_and_closed_stores_have_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Store::open(Config::durable(dir.path()), Nondet::real()).await.unwrap();
    assert!(matches!(disk.image(), Err(ImageError::OnDisk)));
    let memory = memory().await;
    memory.close().await;
    assert!(matches!(memory.image(), Err(ImageError::Stopped(_))));
}

#[tokio::test]
async fn the_tasks_of_a_store_end_when_it_closes() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let store = memory().await;
    assert!(tasks() > before);
    store.close().await;
    while tasks() > before {
        tokio::task::yield_now().await;
    }
}
