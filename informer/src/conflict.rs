//! Writing what others write, too: [`on_conflict`] tries again when somebody was faster, [`modify`] reads, changes and writes, first
//! from the cache and after a conflict from the server. Other failures are the caller's matter.

#[cfg(test)]
mod tests;

use std::{future::Future, time::Duration};

use crate::{
    Key,
    limits::{BUSY_TRIES, CONFLICT_TRIES, CONFLICT_WAIT},
};

/// How often something is tried, and how long is waited between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Attempts in all; zero counts as one.
    pub most: u32,
    /// Wait after the first attempt.
    pub wait: Duration,
    /// What the wait is multiplied with after each further attempt.
    pub factor: u32,
}

impl Tries {
    /// For objects with an occasional second writer.
    pub const DEFAULT: Self = Self { most: CONFLICT_TRIES, wait: CONFLICT_WAIT, factor: 1 };

    /// For objects that many write all the time: fewer attempts, each leaving the others more time.
    pub const BUSY: Self = Self { most: BUSY_TRIES, wait: CONFLICT_WAIT, factor: 5 };

    /// The wait after attempt `n`, counted from one.
    fn wait_after(self, n: u32) -> Duration {
        self.wait.saturating_mul(self.factor.saturating_pow(n.saturating_sub(1)))
    }
}

impl Default for Tries {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Runs `attempt` until it succeeds or fails with something that is no conflict. Each attempt must read the object anew: what
/// it knew before is what made it fail.
///
/// # Errors
/// The first error that is no conflict, or the last conflict.
pub async fn on_conflict<T, E, F, Fut>(
    tries: Tries,
    is_conflict: impl Fn(&E) -> bool,
    mut attempt: F,
) -> Result<T, E>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    for n in 1..tries.most.max(1) {
        match attempt().await {
            Err(error) if is_conflict(&error) => tokio::time::sleep(tries.wait_after(n)).await,
            outcome => return outcome,
        }
    }
    attempt().await
}

/// What a refused write means for [`modify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object has another state than the one that was changed.
    Conflict,
    /// There is no such object.
    Missing,
    /// Anything else.
    Other,
}

/// Where the objects of one kind are read without a cache and written.
pub trait Writer: Sync {
    /// A whole object, as it is written.
    type Obj: Clone + Send;
    /// Why a call failed.
    type Error: Send;

    /// The newest state of an object, or that there is none.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Option<Self::Obj>, Self::Error>> + Send;

    /// Writes a state, provided that the object still is at the revision in it, and gives back what was stored.
    fn update(&self, object: Self::Obj) -> impl Future<Output = Result<Self::Obj, Self::Error>> + Send;

    /// The identity of an object.
    fn uid(object: &Self::Obj) -> &str;

    /// What a failed write means.
    fn refusal(error: &Self::Error) -> Refusal;
}

/// What [`modify`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modified<T> {
    /// The object was written; this is what is stored. Its revision is what [`crate::Context::wrote`] wants to know.
    Wrote(T),
    /// The object was as it should be. If it came from a cache, that is said of the state which the cache showed.
    Unchanged,
    /// There is no such object, or another one has taken its name. Nothing was written to that.
    Gone,
}

/// Changes an object: `change` gets its newest known state and says whether there is something to write. With a `cached` state
/// the first attempt costs no read; after a conflict each attempt reads the newest state from the server, so `change` must
/// decide anew each time.
///
/// # Errors
/// The first error that is no conflict, or the last conflict.
pub async fn modify<W: Writer>(
    writer: &W,
    key: &Key,
    cached: Option<W::Obj>,
    tries: Tries,
    mut change: impl FnMut(&mut W::Obj) -> bool + Send,
) -> Result<Modified<W::Obj>, W::Error> {
    let uid = cached.as_ref().map(|object| W::uid(object).to_owned());
    let mut known = cached;
    let mut n = 1;
    loop {
        let newest = match known.take() {
            Some(object) => Some(object),
            None => writer.get(key).await?,
        };
        let Some(mut object) = newest.filter(|object| uid.as_deref().is_none_or(|uid| uid == W::uid(object)))
        else {
            return Ok(Modified::Gone);
        };
        if !change(&mut object) {
            return Ok(Modified::Unchanged);
        }
        let error = match writer.update(object).await {
            Ok(stored) => return Ok(Modified::Wrote(stored)),
            Err(error) => error,
        };
        match W::refusal(&error) {
            Refusal::Conflict if n < tries.most => tokio::time::sleep(tries.wait_after(n)).await,
            Refusal::Missing => return Ok(Modified::Gone),
            Refusal::Conflict | Refusal::Other => return Err(error),
        }
        n += 1;
    }
}

#[cfg(any(test, feature = "testing"))]
impl<T: crate::testing::Stored> Writer for crate::testing::FakeKind<T> {
    type Obj = T;
    type Error = crate::testing::StoreError;

    async fn get(&self, key: &Key) -> Result<Option<T>, Self::Error> {
        Ok(self.get(key).map(|object| (*object).clone()))
    }

    async fn update(&self, object: T) -> Result<T, Self::Error> {
        self.update(object).map(|stored| (*stored).clone())
    }

    fn uid(object: &T) -> &str {
        object.uid()
    }

    fn refusal(error: &Self::Error) -> Refusal {
        match error {
            crate::testing::StoreError::Conflict => Refusal::Conflict,
            crate::testing::StoreError::NotFound => Refusal::Missing,
            crate::testing::StoreError::AlreadyExists => Refusal::Other,
        }
    }
}
