//! What answers may hold in memory: bytes that clients do not take, and reads of many keys inside transactions, whose results wait
//! until they are written. One connection has a share of what all connections have together. No I/O.

use std::sync::Arc;

use kstore_store::{End, Op, Range, Txn};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{SCAN_KEYS, SCANS, SCANS_PER_CONNECTION, UNTAKEN_BYTES, UNTAKEN_BYTES_PER_CONNECTION};

/// Shares of a connection and of all of them, given back when they are dropped.
pub(crate) type Held = [Option<OwnedSemaphorePermit>; 2];

/// The budget of all connections of a server.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    untaken: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { untaken: Arc::new(Semaphore::new(UNTAKEN_BYTES)), scans: Arc::new(Semaphore::new(SCANS)) }
    }
}

/// One connection's share of a [`Budget`].
#[derive(Debug)]
pub(super) struct Share {
    all: Budget,
    untaken: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

impl Share {
    pub(super) fn of(all: Budget) -> Self {
        Self {
            all,
            untaken: Arc::new(Semaphore::new(UNTAKEN_BYTES_PER_CONNECTION)),
            scans: Arc::new(Semaphore::new(SCANS_PER_CONNECTION)),
        }
    }

    /// Holds the bytes of an answer until the client has taken it, or `None` if there is no room. An answer that is larger than
    /// the whole share has room while the connection holds nothing else.
    pub(super) fn hold(&self, bytes: usize) -> Option<Held> {
        both([
            (&self.untaken, bytes.min(UNTAKEN_BYTES_PER_CONNECTION)),
            (&self.all.untaken, bytes.min(UNTAKEN_BYTES)),
        ])
    }

    /// As [`Self::hold`] for an answer that cannot be refused any more: holds what is left.
    pub(super) fn hold_what_is_left(&self, bytes: usize) -> Held {
        [&self.untaken, &self.all.untaken].map(|semaphore| {
            let bytes = bytes.min(semaphore.available_permits());
            acquire(semaphore, bytes)
        })
    }

    /// Whether the client leaves so much untaken that nothing more should be answered at length.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.untaken.available_permits() == 0
    }

    /// Whether any answer waits for the client.
    pub(super) fn is_used(&self) -> bool {
        self.untaken.available_permits() < UNTAKEN_BYTES_PER_CONNECTION
    }

    /// Holds a place for each read of many keys in a transaction, or `None` if there are not so many places.
    pub(super) fn hold_scans(&self, txn: &Txn) -> Option<Held> {
        match scans(txn) {
            0 => Some([None, None]),
            scans => both([(&self.scans, scans), (&self.all.scans, scans)]),
        }
    }
}

fn both([own, all]: [(&Arc<Semaphore>, usize); 2]) -> Option<Held> {
    let own = acquire(own.0, own.1)?;
    let all = acquire(all.0, all.1)?;
    Some([Some(own), Some(all)])
}

fn acquire(semaphore: &Arc<Semaphore>, permits: usize) -> Option<OwnedSemaphorePermit> {
    semaphore.clone().try_acquire_many_owned(u32::try_from(permits).ok()?).ok()
}

/// Operations of a transaction, on whichever branch, whose results may have any number of keys.
fn scans(txn: &Txn) -> usize {
    let is_long = |range: &Range| {
        range.keys.end != End::Single && !range.count_only && !(1..=SCAN_KEYS).contains(&range.limit)
    };
    let of = |op: &Op| match op {
        Op::Range(range) => usize::from(is_long(range)),
        Op::Delete(delete) => usize::from(delete.keys.end != End::Single && delete.prev_kv),
        Op::Put(_) => 0,
        Op::Txn(inner) => scans(inner),
    };
    // Only one branch is taken.
    let branch = |ops: &[Op]| ops.iter().map(of).sum::<usize>();
    branch(&txn.success).max(branch(&txn.failure))
}

#[cfg(test)]
mod tests {
    use kstore_store::{Delete, KeyRange};

    use super::*;

    #[test]
    fn only_reads_of_many_keys_are_scans() {
        let range = |keys: KeyRange, limit| Op::Range(Range { limit, ..Range::new(keys) });
        let all = || range(KeyRange::all(), 0);
        let short = [
            range(KeyRange::single("k"), 0),
            range(KeyRange::all(), SCAN_KEYS),
            Op::Range(Range { count_only: true, ..Range::new(KeyRange::all()) }),
            Op::Delete(Delete { keys: KeyRange::all(), prev_kv: false }),
            Op::put("k", "v"),
        ];
        assert_eq!(scans(&Txn::of(short.to_vec())), 0);
        let deletion = Op::Delete(Delete { keys: KeyRange::all(), prev_kv: true });
        let inner = Txn { failure: vec![all(), all()], ..Txn::of(vec![all()]) };
        assert_eq!(scans(&Txn::of(vec![all(), deletion, Op::Txn(inner)])), 4);
    }

    #[test]
    fn a_share_is_bounded_and_so_are_all_together() {
        let all = Budget::default();
        let shares: Vec<Share> = (0..5).map(|_| Share::of(all.clone())).collect();
        let held: Vec<_> = shares.iter().map(|share| share.hold(usize::MAX)).collect();
        let places = UNTAKEN_BYTES / UNTAKEN_BYTES_PER_CONNECTION;
        // An answer of any size counts for the whole budget of all.
        assert_eq!(held.iter().flatten().count(), 1);
        assert!(shares[0].is_overdrawn() && shares[0].hold(1).is_none() && shares[1].hold(1).is_none());
        drop(held);
        let share = UNTAKEN_BYTES_PER_CONNECTION;
        let held: Vec<_> = shares.iter().map(|each| each.hold(share)).collect();
        assert_eq!(held.iter().flatten().count(), places.min(5));
        assert!(shares[0].hold_what_is_left(10).iter().flatten().all(|held| held.num_permits() == 0));
    }
}
