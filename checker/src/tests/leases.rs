//! Tests of lease expiry: leases expire, but not early.

use crate::history::{
    Call, History, KeyValue, Keys, Op, OpReply, Operation, Outcome, Range, RangeReply, Reply, Txn,
};
use crate::{Guarantee, judge};

const MILLISECOND: u64 = 1_000_000;

/// A lease of two seconds with a key, renewed at 1900 ms or not, and a read of the key.
fn history(renewed: bool, look: u64, found: bool) -> History {
    let call = |at: u64, operation, reply| Call {
        client: 1,
        call: at * MILLISECOND,
        ret: (at + 1) * MILLISECOND,
        operation,
        outcome: Outcome::Ok(reply),
    };
    let put = Op::Put { key: "k".into(), value: "v".into(), lease: 7, prev_kv: false };
    let done = Reply::Txn { revision: 2, succeeded: true, results: vec![OpReply::Put(None)] };
    let (key, value) = ("k".into(), "v".into());
    let kv = KeyValue { key, value, create_revision: 2, mod_revision: 2, version: 1, lease: 7 };
    let reply = if found {
        RangeReply { revision: 2, kvs: vec![kv], more: false, count: 1 }
    } else {
        RangeReply { revision: 3, kvs: vec![], more: false, count: 0 }
    };
    let read = Range { keys: Keys::one("k"), ..Range::default() };
    let mut calls = vec![
        call(0, Operation::LeaseGrant { id: 7, ttl: 2 }, Reply::LeaseGrant { revision: 1, ttl: 2 }),
        call(10, Operation::Txn(Txn::of(put)), done),
        call(look, Operation::Range(read), Reply::Range(reply)),
    ];
    if renewed {
        calls.push(call(1_900, Operation::LeaseKeepAlive { id: 7 }, Reply::LeaseKeepAlive { ttl: 2 }));
    }
    History { calls, ..History::default() }
}

#[test]
fn a_key_expires_with_its_lease_and_not_early() {
    for (renewed, look, found, broken) in [
        (false, 1_000, true, None),
        (false, 3_000, true, None),
        (false, 3_000, false, None),
        (false, 1_000, false, Some(Guarantee::Linearizable)),
        (true, 3_000, true, None),
        (true, 4_000, false, None),
        (true, 3_000, false, Some(Guarantee::LeaseKept)),
    ] {
        let verdict = judge(&history(renewed, look, found));
        let case = format!("renewed {renewed}, at {look}, found {found}: {verdict}");
        match broken {
            None => assert!(verdict.is_good(), "{case}"),
            Some(guarantee) => assert!(verdict.breaks(guarantee), "{case}"),
        }
    }
}
