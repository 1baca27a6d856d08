//! Memory budgets: bytes of responses that clients have not taken, range reads in transactions, whose results wait to be
//! written, and bytes of incomplete requests. Each connection has a share of the server's budgets. No I/O.

use crate::limits::{
    BODY_BYTES, BODY_BYTES_OF_ALL, SCAN_KEYS, SCANS, SCANS_PER_CONNECTION, SMALL_PART_BYTES, UNTAKEN_BYTES,
    UNTAKEN_BYTES_PER_CONNECTION,
};
use kstore_store::{End, Op, Range, Txn};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits of a connection's and of the server's budget; dropping them releases the budget. None for what is not counted.
pub(crate) type BudgetPermits = Vec<OwnedSemaphorePermit>;

/// The budget of all connections of a server.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    untaken: Arc<Semaphore>,
    scans: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        let [untaken, scans, bodies] =
            [UNTAKEN_BYTES, SCANS, BODY_BYTES_OF_ALL].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { untaken, scans, bodies }
    }
}

/// One connection's share of a [`Budget`].
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    all: Budget,
    untaken: Arc<Semaphore>,
    scans: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// The budget of a connection for responses that tasks make piece by piece. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StreamBudget {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl StreamBudget {
    /// Waits for budget for a part of a response. A part counts as the connection's whole share at most, and a small one waits
    /// for its own connection only. Cancel safe.
    pub(crate) async fn acquire(&self, bytes: usize) -> BudgetPermits {
        let count = u32::try_from(bytes.min(UNTAKEN_BYTES_PER_CONNECTION)).unwrap_or(u32::MAX);
        let mut permits = Vec::with_capacity(2);
        // The semaphores are never closed.
        permits.extend(self.own.clone().acquire_many_owned(count).await.ok());
        permits.extend(match bytes <= SMALL_PART_BYTES {
            true => take_permits(&self.all, bytes.min(self.all.available_permits())),
            false => self.all.clone().acquire_many_owned(count).await.ok(),
        });
        permits
    }

    /// Fits a reservation to the size of the part that was made: gives back the rest, or takes what is left.
    pub(crate) fn fit(&self, mut permits: BudgetPermits, bytes: usize) -> BudgetPermits {
        for (permits, semaphore) in permits.iter_mut().zip([&self.own, &self.all]) {
            if let Some(excess) = permits.num_permits().checked_sub(bytes) {
                drop(permits.split(excess));
            } else {
                let more = (bytes - permits.num_permits()).min(semaphore.available_permits());
                take_permits(semaphore, more).into_iter().for_each(|more| permits.merge(more));
            }
        }
        permits
    }
}

/// The budget that the incomplete request of a stream holds.
#[derive(Debug, Default)]
pub(crate) struct BodyPermits(BudgetPermits);

impl BodyPermits {
    /// Adds budget for further bytes.
    fn merge(&mut self, more: BudgetPermits) {
        if self.0.is_empty() {
            self.0 = more;
        } else {
            self.0.iter_mut().zip(more).for_each(|(permits, more)| permits.merge(more));
        }
    }

    /// The bytes for which there is budget.
    pub(crate) fn bytes(&self) -> usize {
        self.0.first().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

impl ConnectionBudget {
    pub(crate) fn of(all: Budget) -> Self {
        Self {
            all,
            untaken: Arc::new(Semaphore::new(UNTAKEN_BYTES_PER_CONNECTION)),
            scans: Arc::new(Semaphore::new(SCANS_PER_CONNECTION)),
            bodies: Arc::new(Semaphore::new(BODY_BYTES)),
        }
    }

    /// The part for responses that tasks make piece by piece.
    pub(crate) fn streamed(&self) -> StreamBudget {
        StreamBudget { own: self.untaken.clone(), all: self.all.untaken.clone() }
    }

    /// Acquires budget for further bytes of an incomplete request. Returns whether there was enough.
    pub(crate) fn acquire_body(&self, permits: &mut BodyPermits, bytes: usize) -> bool {
        match take_both([(&self.bodies, bytes), (&self.all.bodies, bytes)]) {
            Some(more) => {
                permits.merge(more);
                true
            }
            None => false,
        }
    }

    /// Bytes of the connection's budget for incomplete requests that are not in use.
    #[cfg(test)]
    pub(crate) fn free_body_bytes(&self) -> usize {
        self.bodies.available_permits()
    }

    /// Acquires budget for a response until the client has taken it; `None` if there is not enough. A response larger
    /// than the whole share is accepted while the connection holds nothing else.
    pub(crate) fn acquire(&self, bytes: usize) -> Option<BudgetPermits> {
        take_both([
            (&self.untaken, bytes.min(UNTAKEN_BYTES_PER_CONNECTION)),
            (&self.all.untaken, bytes.min(UNTAKEN_BYTES)),
        ])
    }

    /// Acquires budget for a response that cannot be refused any more: at most what is left.
    pub(crate) fn acquire_remaining(&self, bytes: usize) -> BudgetPermits {
        let semaphores = [&self.untaken, &self.all.untaken].into_iter();
        let left = semaphores
            .filter_map(|semaphore| take_permits(semaphore, bytes.min(semaphore.available_permits())));
        left.collect()
    }

    /// Whether the client's untaken responses use up its share, so that no further large response should start.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.untaken.available_permits() == 0
    }

    /// Whether any response waits for the client.
    pub(crate) fn is_used(&self) -> bool {
        self.untaken.available_permits() < UNTAKEN_BYTES_PER_CONNECTION
    }

    /// Acquires a permit for each large range read of a transaction; `None` if there are not enough.
    pub(crate) fn acquire_scans(&self, txn: &Txn) -> Option<BudgetPermits> {
        match scans(txn) {
            0 => Some(Vec::new()),
            scans => take_both([(&self.scans, scans), (&self.all.scans, scans)]),
        }
    }
}

fn take_both([own, all]: [(&Arc<Semaphore>, usize); 2]) -> Option<BudgetPermits> {
    let own = take_permits(own.0, own.1)?;
    let all = take_permits(all.0, all.1)?;
    Some(vec![own, all])
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
    use super::*;
    use futures::FutureExt;
    use kstore_store::{Delete, KeyRange};

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
        let permits: Vec<_> = shares.iter().map(|share| share.acquire(usize::MAX)).collect();
        let connections = UNTAKEN_BYTES / UNTAKEN_BYTES_PER_CONNECTION;
        // A response of any size takes at most the server's whole budget.
        assert_eq!(permits.iter().flatten().count(), 1);
        assert!(shares[0].is_exhausted() && shares[0].acquire(1).is_none() && shares[1].acquire(1).is_none());
        drop(permits);
        let share = UNTAKEN_BYTES_PER_CONNECTION;
        let permits: Vec<_> = shares.iter().map(|each| each.acquire(share)).collect();
        assert_eq!(permits.iter().flatten().count(), connections.min(5));
        assert!(shares[0].acquire_remaining(10).iter().all(|permits| permits.num_permits() == 0));
    }

    #[tokio::test]
    async fn parts_of_streamed_responses_count_with_all_others() {
        let all = Budget::default();
        let share = ConnectionBudget::of(all.clone());
        let streamed = share.streamed();
        let reserved = streamed.acquire(1000).await;
        let permits = [streamed.fit(streamed.acquire(1000).await, 10), streamed.fit(reserved, 5000)];
        let used = UNTAKEN_BYTES_PER_CONNECTION - share.untaken.available_permits();
        assert_eq!((used, UNTAKEN_BYTES - all.untaken.available_permits()), (5010, 5010));
        let whole = share.acquire(UNTAKEN_BYTES_PER_CONNECTION - 5010).unwrap();
        assert!(streamed.acquire(1).now_or_never().is_none(), "it waits");
        drop((permits, whole));
        assert!(!share.is_used());
    }

    #[test]
    fn incomplete_requests_of_all_connections_are_bounded() {
        let all = Budget::default();
        let shares: Vec<ConnectionBudget> = (0..9).map(|_| ConnectionBudget::of(all.clone())).collect();
        let mut permits: Vec<BodyPermits> = Vec::new();
        for share in &shares {
            let mut body = BodyPermits::default();
            let whole = share.acquire_body(&mut body, BODY_BYTES / 2)
                && share.acquire_body(&mut body, BODY_BYTES / 2);
            assert!(!share.acquire_body(&mut body, BODY_BYTES));
            permits.extend(whole.then_some(body));
        }
        assert_eq!((permits.len(), permits[0].bytes()), (BODY_BYTES_OF_ALL / BODY_BYTES, BODY_BYTES));
    }
}
