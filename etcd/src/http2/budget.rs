//! Memory budgets for responses: bytes that clients have not taken, and range reads in transactions, whose results wait
//! to be written. Each connection has a share of the server's budget. No I/O.

use std::sync::Arc;

use kstore_store::{End, Op, Range, Txn};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{SCAN_KEYS, SCANS, SCANS_PER_CONNECTION, UNTAKEN_BYTES, UNTAKEN_BYTES_PER_CONNECTION};

/// Permits of a connection's and of the server's budget; dropping them releases the budget.
pub(crate) type BudgetPermits = [Option<OwnedSemaphorePermit>; 2];

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
pub(super) struct ConnectionBudget {
    all: Budget,
    untaken: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

impl ConnectionBudget {
    pub(super) fn of(all: Budget) -> Self {
        Self {
            all,
            untaken: Arc::new(Semaphore::new(UNTAKEN_BYTES_PER_CONNECTION)),
            scans: Arc::new(Semaphore::new(SCANS_PER_CONNECTION)),
        }
    }

    /// Acquires budget for a response until the client has taken it; `None` if there is not enough. A response larger
    /// than the whole share is accepted while the connection holds nothing else.
    pub(super) fn acquire(&self, bytes: usize) -> Option<BudgetPermits> {
        take_both([
            (&self.untaken, bytes.min(UNTAKEN_BYTES_PER_CONNECTION)),
            (&self.all.untaken, bytes.min(UNTAKEN_BYTES)),
        ])
    }

    /// Acquires budget for a response that cannot be refused any more: at most what is left.
    pub(super) fn acquire_remaining(&self, bytes: usize) -> BudgetPermits {
        [&self.untaken, &self.all.untaken].map(|semaphore| {
            let bytes = bytes.min(semaphore.available_permits());
            take_permits(semaphore, bytes)
        })
    }

    /// Whether the client's untaken responses use up its share, so that no further large response should start.
    pub(super) fn is_exhausted(&self) -> bool {
        self.untaken.available_permits() == 0
    }

    /// Whether any response waits for the client.
    pub(super) fn is_used(&self) -> bool {
        self.untaken.available_permits() < UNTAKEN_BYTES_PER_CONNECTION
    }

    /// Acquires a permit for each large range read of a transaction; `None` if there are not enough.
    pub(super) fn acquire_scans(&self, txn: &Txn) -> Option<BudgetPermits> {
        match scans(txn) {
            0 => Some([None, None]),
            scans => take_both([(&self.scans, scans), (&self.all.scans, scans)]),
        }
    }
}

fn take_both([own, all]: [(&Arc<Semaphore>, usize); 2]) -> Option<BudgetPermits> {
    let own = take_permits(own.0, own.1)?;
    let all = take_permits(all.0, all.1)?;
    Some([Some(own), Some(all)])
}

fn take_permits(semaphore: &Arc<Semaphore>, permits: usize) -> Option<OwnedSemaphorePermit> {
    semaphore.clone().try_acquire_many_owned(u32::try_from(permits).ok()?).ok()
}

/// Number of range operations on one branch of a transaction whose results are unbounded.
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
    // Only one branch is executed.
    let branch = |ops: &[Op]| ops.iter().map(of).sum::<usize>();
    branch(&txn.success).max(branch(&txn.failure))
}

#[cfg(test)]
mod tests {
    use kstore_store::{Delete, KeyRange};

    use super::*;

    #[test]
    fn only_unbounded_reads_count_as_scans() {
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
    fn connection_and_server_budgets_are_bounded() {
        let all = Budget::default();
        let shares: Vec<ConnectionBudget> = (0..5).map(|_| ConnectionBudget::of(all.clone())).collect();
        let held: Vec<_> = shares.iter().map(|share| share.acquire(usize::MAX)).collect();
        let places = UNTAKEN_BYTES / UNTAKEN_BYTES_PER_CONNECTION;
        // A response of any size takes at most the server's whole budget.
        assert_eq!(held.iter().flatten().count(), 1);
        assert!(shares[0].is_exhausted() && shares[0].acquire(1).is_none() && shares[1].acquire(1).is_none());
        drop(held);
        let share = UNTAKEN_BYTES_PER_CONNECTION;
        let held: Vec<_> = shares.iter().map(|each| each.acquire(share)).collect();
        assert_eq!(held.iter().flatten().count(), places.min(5));
        assert!(shares[0].acquire_remaining(10).iter().flatten().all(|held| held.num_permits() == 0));
    }
}
