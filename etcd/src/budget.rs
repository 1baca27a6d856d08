//! Memory budgets: bytes of responses that clients have not taken, range reads in transactions, whose results wait to be
//! written, and bytes of incomplete requests. Each connection has a share of the server's budgets. No I/O.

use crate::limits::{
    BARE_KEY_BYTES, BODY_BYTES, BODY_BYTES_OF_ALL, KEY_BYTES, LARGE_READS, OUTBOX_BYTES, SCAN_BYTES,
    SCAN_BYTES_LEAST, SCAN_BYTES_PER_CONNECTION, SCAN_KEYS, SMALL_PART_BYTES, UNTAKEN_BYTES,
    UNTAKEN_BYTES_PER_CONNECTION,
};
use kstore_store::{End, KeyRange, Op, Range, Txn};
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
    large_reads: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        let [untaken, scans, bodies, large_reads] =
            [UNTAKEN_BYTES, SCAN_BYTES, BODY_BYTES_OF_ALL, LARGE_READS]
                .map(|permits| Arc::new(Semaphore::new(permits)));
        Self { untaken, scans, bodies, large_reads }
    }
}

/// One connection's share of a [`Budget`].
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    all: Budget,
    untaken: Arc<Semaphore>,
    scans: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    large_reads: Arc<Semaphore>,
}

/// The budget of a connection for responses that tasks make piece by piece. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StreamBudget {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl StreamBudget {
    /// Waits for budget for a response or a part of one. It counts as the connection's, and as the server's, whole budget at most. A
    /// small one waits for its own connection only. Cancel safe.
    pub(crate) async fn acquire(&self, bytes: usize) -> BudgetPermits {
        let count = |most: usize| u32::try_from(bytes.min(most)).unwrap_or(u32::MAX);
        let mut permits = Vec::with_capacity(2);
        // The semaphores are never closed.
        permits.extend(self.own.clone().acquire_many_owned(count(UNTAKEN_BYTES_PER_CONNECTION)).await.ok());
        permits.extend(match bytes <= SMALL_PART_BYTES {
            true => take_permits(&self.all, bytes.min(self.all.available_permits())),
            false => self.all.clone().acquire_many_owned(count(UNTAKEN_BYTES)).await.ok(),
        });
        permits
    }

    /// Waits for budget for the response to a write. One that fits into an outbox waits for its own connection only. Cancel safe.
    pub(crate) async fn acquire_response(&self, bytes: usize) -> BudgetPermits {
        if bytes > OUTBOX_BYTES {
            return self.acquire(bytes).await;
        }
        let own = u32::try_from(bytes).unwrap_or(u32::MAX);
        // The semaphores are never closed.
        let own = self.own.clone().acquire_many_owned(own).await.ok();
        own.into_iter().chain(take_permits(&self.all, bytes.min(self.all.available_permits()))).collect()
    }

    /// Adds budget for `more` bytes to that of a response of `bytes` bytes, without waiting; false if there is not enough. A response
    /// counts as the connection's, and as the server's, whole budget at most.
    pub(crate) fn extend(&self, permits: &mut BudgetPermits, bytes: usize, more: usize) -> bool {
        let further = |most: usize| (bytes + more).min(most) - bytes.min(most);
        let own = (&self.own, further(UNTAKEN_BYTES_PER_CONNECTION));
        let Some(more) = take_both([own, (&self.all, further(UNTAKEN_BYTES))]) else { return false };
        merge(permits, more);
        true
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
        merge(&mut self.0, more);
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
            scans: Arc::new(Semaphore::new(SCAN_BYTES_PER_CONNECTION)),
            bodies: Arc::new(Semaphore::new(BODY_BYTES)),
            large_reads: Arc::new(Semaphore::new(1)),
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

    /// The permits for ranges of many keys: the connection's only one, and those that all connections share. They are acquired in this
    /// order, so that no connection waits for the many reads of another one.
    pub(crate) fn large_reads(&self) -> [Arc<Semaphore>; 2] {
        [self.large_reads.clone(), self.all.large_reads.clone()]
    }

    /// Acquires budget for the unbounded range reads of a transaction; `None` if there is not enough. `count` returns the number of keys
    /// in a range.
    pub(crate) fn acquire_scans(
        &self,
        txn: &Txn,
        count: &dyn Fn(&KeyRange) -> usize,
    ) -> Option<BudgetPermits> {
        match scans(txn, count) {
            Scans { number: 0, .. } => Some(Vec::new()),
            Scans { number: 1, bytes } => take_both([
                (&self.scans, bytes.min(SCAN_BYTES_PER_CONNECTION)),
                (&self.all.scans, bytes.min(SCAN_BYTES)),
            ]),
            Scans { bytes, .. } => take_both([(&self.scans, bytes), (&self.all.scans, bytes)]),
        }
    }
}

fn merge(permits: &mut BudgetPermits, more: BudgetPermits) {
    if permits.is_empty() {
        *permits = more;
    } else {
        permits.iter_mut().zip(more).for_each(|(permits, more)| permits.merge(more));
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

/// Range operations whose results are unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scans {
    number: usize,
    /// The estimated size of the results.
    bytes: usize,
}

impl Scans {
    fn of(keys: usize, key_bytes: usize) -> Self {
        Self { number: 1, bytes: keys.saturating_mul(key_bytes).max(SCAN_BYTES_LEAST) }
    }

    fn and(self, other: Self) -> Self {
        Self { number: self.number + other.number, bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// The range operations on the larger branch of a transaction whose results are unbounded. Transactions nest a few levels, as their
/// decoder bounds it.
fn scans(txn: &Txn, count: &dyn Fn(&KeyRange) -> usize) -> Scans {
    let is_long = |range: &Range| {
        range.keys.end != End::Single && !range.count_only && !(1..=SCAN_KEYS).contains(&range.limit)
    };
    let of = |op: &Op| match op {
        Op::Range(range) if is_long(range) => {
            Scans::of(count(&range.keys), if range.keys_only { BARE_KEY_BYTES } else { KEY_BYTES })
        }
        Op::Delete(delete) if delete.keys.end != End::Single && delete.prev_kv => {
            Scans::of(count(&delete.keys), KEY_BYTES)
        }
        Op::Range(_) | Op::Delete(_) | Op::Put(_) => Scans::default(),
        Op::Txn(inner) => scans(inner, count),
    };
    // Only one branch is executed.
    let branch = |ops: &[Op]| ops.iter().map(of).fold(Scans::default(), Scans::and);
    let (success, failure) = (branch(&txn.success), branch(&txn.failure));
    if success.bytes >= failure.bytes { success } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TXN_OPS;
    use futures::FutureExt;
    use kstore_store::Delete;

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
        let scans = |txn: &Txn| scans(txn, &|_| 1).number;
        assert_eq!(scans(&Txn::of(short.to_vec())), 0);
        let deletion = Op::Delete(Delete { keys: KeyRange::all(), prev_kv: true });
        let inner = Txn { failure: vec![all(), all()], ..Txn::of(vec![all()]) };
        assert_eq!(scans(&Txn::of(vec![all(), deletion, Op::Txn(inner)])), 4);
    }

    #[test]
    fn unbounded_reads_count_by_their_keys_before_a_transaction_is_executed() {
        let all = Budget::default();
        let share = ConnectionBudget::of(all);
        let reads = |number: usize, keys_only: bool| {
            Txn::of(vec![Op::Range(Range { keys_only, ..Range::new(KeyRange::all()) }); number])
        };
        let acquire = |txn: &Txn, keys: usize| {
            share.acquire_scans(txn, &|_| keys).map(|permits| permits[0].num_permits())
        };
        assert_eq!(
            acquire(&reads(TXN_OPS, false), 10),
            Some(SCAN_BYTES_PER_CONNECTION),
            "as many as a transaction may have"
        );
        assert_eq!(acquire(&reads(2, false), 500_000), Some(2 * 500_000 * KEY_BYTES));
        assert_eq!(acquire(&reads(2, true), 500_000), None, "too many keys");
        assert_eq!(acquire(&reads(3, false), 1_000_000), None);
        assert_eq!(
            acquire(&reads(1, false), usize::MAX),
            Some(SCAN_BYTES_PER_CONNECTION),
            "one may be larger"
        );
    }

    #[test]
    fn a_response_in_parts_counts_as_the_whole_budget_at_most() {
        let all = Budget::default();
        let (share, other) = (ConnectionBudget::of(all.clone()), ConnectionBudget::of(all));
        let (budget, mut permits) = (share.streamed(), Vec::new());
        let step = UNTAKEN_BYTES_PER_CONNECTION / 2;
        for part in 0..6 {
            assert!(budget.extend(&mut permits, part * step, step), "{part}");
        }
        let used = UNTAKEN_BYTES - other.streamed().all.available_permits();
        assert_eq!((share.is_exhausted(), used), (true, 6 * step));
        assert!(!budget.extend(&mut Vec::new(), 0, 1), "another response of the connection");
        assert!(other.acquire(UNTAKEN_BYTES - used + 1).is_none());
        drop(permits);
        assert!(!share.is_used());
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
