//! Damage in the engine, met by reads: healed from the log while that has a copy, else reported and never served.

use std::path::Path;
use std::sync::Arc;

use kstore_nondet::Rng;

use super::conformance::block_on;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::{Alarm, Config, Limits, Op, Range, RangeError, Revision, Store, Txn};

const DIR: &str = "/data";

/// Nothing older than the newest revision stays in memory.
fn config(checkpoint_bytes: u64) -> Config {
    let limits = Limits {
        window_revisions: 1,
        first_segment_bytes: 8 << 10,
        segment_bytes: 8 << 10,
        checkpoint_bytes,
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

/// Damages the record of a revision in the engine's files; where its value begins is enough.
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
fn a_damaged_record_is_healed_while_the_log_has_it() {
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
        // Put right where it was: it no longer takes the log.
        let engine = &store.driver().core().healing;
        let wal = Path::new(DIR).join("wal");
        for (name, _) in disk.files(&wal) {
            disk.remove(&wal.join(name)).unwrap();
        }
        assert!(crate::engine::Engine::get(&**engine, crate::commit::RecordKey::new(Revision(7), 0)).is_ok());
        assert_eq!(store.hash_kv(Revision(0)).unwrap(), expected);
    });
}

/// A read of damaged history is the one part of a transaction that can fail on the disk, so it comes before the first change.
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
            while store.alarms().is_empty() {
                tokio::task::yield_now().await;
            }
            store.alarm_disarm(Alarm::Corrupt).await.unwrap();
        }
        assert_eq!(store.revision(), revision);
        assert_eq!(store.lease_time_to_live(lease, true).await.unwrap().keys.len(), 0);
        assert_eq!(store.range(&Range::new(crate::KeyRange::all())).unwrap().count, 1);
    });
}

#[test]
fn a_damaged_record_without_a_copy_is_not_served_and_raises_the_alarm() {
    block_on(async {
        let disk = SimDisk::default();
        let store = open(&disk, 4 << 10);
        fill(&store).await;
        damage(&disk, 3);
        for _ in 0..2 {
            assert_eq!(value_at(&store, 3), Err(RangeError::Damaged { revision: Revision(3) }));
            assert_eq!(store.hash_kv(Revision(0)), Err(RangeError::Damaged { revision: Revision(3) }));
        }
        assert!(value_at(&store, 4).is_ok(), "others are served");
        while store.alarms().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.alarms(), [Alarm::Corrupt]);
        assert!(store.txn(Txn::of(vec![Op::put("k", "")])).await.is_err(), "nothing changes any more");
        assert!(store.alarm_disarm(Alarm::Corrupt).await.unwrap());
        assert!(value_at(&store, 3).is_err());
        while store.alarms().is_empty() {
            tokio::task::yield_now().await;
        }
        store.close().await;
    });
}
