//! [`MemoryBudget`]: a bound on the bytes that clients make the server hold, of which each user has a share. One user that
//! fills its share does not keep the others from being served.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Users whose shares are remembered before those without reservations are forgotten for the first time.
const USERS_BEFORE_CLEANUP: usize = 64;

/// A budget of bytes that all users share. Cheap to clone; clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    free: Arc<Semaphore>,
    /// Bytes for those that cannot go on within the budget, one of each user at a time.
    spare: Arc<Semaphore>,
    /// Bytes of each user's share.
    share: usize,
    users: Mutex<Users>,
}

#[derive(Debug)]
struct Users {
    shares: BTreeMap<Box<str>, Weak<UserShare>>,
    /// The number of users at which shares without reservations are forgotten.
    cleanup_at: usize,
}

#[derive(Debug)]
struct UserShare {
    budget: Arc<Budget>,
    free: Arc<Semaphore>,
    /// Held by the one request of the user that may use spare bytes.
    spare_lock: Arc<tokio::sync::Mutex<()>>,
}

/// The part of a [`MemoryBudget`] that one user may occupy. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MemoryShare(Arc<UserShare>);

/// Permission of one request of a user to use spare bytes; the next request of its user gets it when this is dropped.
#[derive(Debug)]
pub(crate) struct SpareLock(#[expect(dead_code, reason = "held until it is dropped")] OwnedMutexGuard<()>);

/// Reserved bytes; they are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    bytes: usize,
    of_user: Option<OwnedSemaphorePermit>,
    of_all: Option<OwnedSemaphorePermit>,
    spare: Option<OwnedSemaphorePermit>,
    // A share lives as long as its reservations: a new one would begin empty.
    share: MemoryShare,
}

impl MemoryBudget {
    /// A budget of `bytes`, of which a user may occupy `share`. Beyond both are `spare` bytes for requests that could
    /// otherwise not go on.
    pub(crate) fn new(bytes: usize, share: usize, spare: usize) -> Self {
        let users = Users { shares: BTreeMap::new(), cleanup_at: USERS_BEFORE_CLEANUP };
        let (free, spare) = (Arc::new(Semaphore::new(bytes)), Arc::new(Semaphore::new(spare)));
        Self(Arc::new(Budget { free, spare, share, users: Mutex::new(users) }))
    }

    /// The share of a user.
    pub(crate) fn share(&self, user: &str) -> MemoryShare {
        let mut users = self.0.users.lock();
        if let Some(share) = users.shares.get(user).and_then(Weak::upgrade) {
            return MemoryShare(share);
        }
        if users.shares.len() >= users.cleanup_at {
            users.shares.retain(|_, share| share.strong_count() > 0);
            users.cleanup_at = (2 * users.shares.len()).max(USERS_BEFORE_CLEANUP);
        }
        let free = Arc::new(Semaphore::new(self.0.share));
        let share = Arc::new(UserShare { budget: self.0.clone(), free, spare_lock: Arc::default() });
        users.shares.insert(user.into(), Arc::downgrade(&share));
        MemoryShare(share)
    }

    /// Bytes that are not reserved, without the spare ones.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.0.free.available_permits()
    }
}

impl MemoryShare {
    /// No bytes yet.
    pub(crate) fn nothing(&self) -> Reserved {
        Reserved { bytes: 0, of_user: None, of_all: None, spare: None, share: self.clone() }
    }

    /// Reserves bytes if they are free in the user's share and in the budget. Bytes beyond the whole share are granted as
    /// the whole share.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Reserved> {
        let permits = permits(bytes.min(self.0.budget.share));
        let of_user = self.0.free.clone().try_acquire_many_owned(permits).ok()?;
        let of_all = self.0.budget.free.clone().try_acquire_many_owned(permits).ok()?;
        Some(Reserved { bytes, of_user: Some(of_user), of_all: Some(of_all), ..self.nothing() })
    }

    /// Waits for bytes like [`MemoryShare::try_reserve`]. Cancel safe.
    pub(crate) async fn reserve(self, bytes: usize) -> Reserved {
        let permits = permits(bytes.min(self.0.budget.share));
        // The semaphores are never closed.
        let of_user = self.0.free.clone().acquire_many_owned(permits).await.ok();
        let of_all = self.0.budget.free.clone().acquire_many_owned(permits).await.ok();
        Reserved { bytes, of_user, of_all, ..self.nothing() }
    }

    /// Waits until this request alone of its user may use spare bytes. Cancel safe.
    pub(crate) async fn spare_lock(&self) -> SpareLock {
        SpareLock(self.0.spare_lock.clone().lock_owned().await)
    }

    /// Waits for spare bytes. Only the holder of the user's [`SpareLock`] may wait, and for all bytes that it will need: it then
    /// waits for nothing while others wait for it. Cancel safe.
    pub(crate) async fn spare(&self, bytes: usize, _: &SpareLock) -> Reserved {
        // The semaphore is never closed.
        let spare = self.0.budget.spare.clone().acquire_many_owned(permits(bytes)).await.ok();
        Reserved { bytes, spare, ..self.nothing() }
    }
}

impl Reserved {
    /// The number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes of the same share.
    pub(crate) fn merge(&mut self, more: Self) {
        let join = |mine: &mut Option<OwnedSemaphorePermit>, more: Option<OwnedSemaphorePermit>| match (
            mine.as_mut(),
            more,
        ) {
            (Some(mine), Some(more)) => mine.merge(more),
            (None, more) => *mine = more,
            (Some(_), None) => {}
        };
        debug_assert!(Arc::ptr_eq(&self.share.0, &more.share.0), "bytes of one user");
        self.bytes += more.bytes;
        join(&mut self.of_user, more.of_user);
        join(&mut self.of_all, more.of_all);
        join(&mut self.spare, more.spare);
    }
}

/// Converts bytes to semaphore permits. Reservations are far smaller than the largest number of permits.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn a_user_that_fills_its_share_leaves_the_shares_of_others() {
        let budget = MemoryBudget::new(100, 40, 0);
        let (ann, bob) = (budget.share("ann"), budget.share("bob"));
        let reserved = ann.try_reserve(40).unwrap();
        assert!(ann.try_reserve(1).is_none() && budget.share("ann").try_reserve(1).is_none());
        let others = bob.try_reserve(40).unwrap();
        // The whole budget bounds all users together.
        assert!(budget.share("eve").try_reserve(21).is_none());
        drop((reserved, others));
        assert_eq!((budget.free(), ann.try_reserve(40).is_some()), (100, true));
    }

    #[test]
    fn a_share_is_remembered_while_bytes_are_reserved_and_forgotten_later() {
        let budget = MemoryBudget::new(1000, 10, 0);
        let reserved = budget.share("ann").try_reserve(10).unwrap();
        for number in 0..1000 {
            budget.share(&format!("user-{number}"));
        }
        assert!(budget.share("ann").try_reserve(1).is_none());
        assert!(budget.0.users.lock().shares.len() <= USERS_BEFORE_CLEANUP + 1);
        drop(reserved);
    }

    #[tokio::test]
    async fn one_request_of_each_user_goes_on_with_spare_bytes() {
        let budget = MemoryBudget::new(10, 10, 20);
        let (ann, bob) = (budget.share("ann"), budget.share("bob"));
        let mut reserved = ann.try_reserve(10).unwrap();
        let spare_lock = ann.spare_lock().await;
        assert!(ann.spare_lock().now_or_never().is_none(), "the second request of a user waits");
        reserved.merge(ann.spare(20, &spare_lock).await);
        assert_eq!(reserved.bytes(), 30);
        let other = bob.spare_lock().await;
        assert!(bob.spare(1, &other).now_or_never().is_none());
        drop(reserved);
        assert!(bob.spare(1, &other).now_or_never().is_some());
    }
}
