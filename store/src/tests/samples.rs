//! Sample stores for tests.

use crate::{Config, LeaseId, Op, Put, Revision, Store, Txn};
use kstore_nondet::Nondet;
use std::io::Cursor;

/// An empty store in memory.
pub(crate) async fn memory() -> Store {
    Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
}

/// A snapshot of a store.
pub(crate) fn image(store: &Store) -> Vec<u8> {
    let mut to = Cursor::new(Vec::new());
    let info = store.snapshot(&mut to).unwrap();
    assert_eq!((info.revision, info.bytes), (store.revision(), to.get_ref().len() as u64));
    to.into_inner()
}

/// Writes history of every kind: rewritten, deleted and leased keys, large and empty values, notes, a compaction.
pub(crate) async fn fill(store: &Store) {
    let lease = store.lease_grant(1_000, LeaseId(77)).await.unwrap().id;
    store.lease_grant(2_000, LeaseId(-5)).await.unwrap();
    for round in 0..3 {
        for at in 0..100 {
            let value = vec![b'a' + round; 1 + at * usize::from(round) * 60];
            let put = Put { lease, ..Put::new(format!("key/{at:04}"), value) };
            let op = if at % 7 == 0 { Op::Put(put) } else { Op::put(put.key, put.value) };
            let txn = Txn { note: (at % 5 == 0).then(|| "because".into()), ..Txn::of(vec![op]) };
            store.txn(txn).await.unwrap();
        }
        store.txn(Txn::of(vec![Op::delete(format!("key/{round:04}")), Op::put("empty", "")])).await.unwrap();
    }
    store.compact(Revision(store.revision().0 - 120)).await.unwrap();
}
