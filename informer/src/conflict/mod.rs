//! Retry on conflict, for objects with several writers: [`on_conflict`] repeats an attempt that lost a race,
//! and [`modify`] reads, changes and writes an object. `modify` uses the cached object first and reads from
//! the server after a conflict. Both return other errors to the caller.

#[cfg(test)]
mod tests;

use crate::Key;
use crate::limits::{BUSY_TRIES, CONFLICT_TRIES, CONFLICT_WAIT};
use std::future::Future;
use std::time::Duration;

/// Number of attempts after conflicts and the wait between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Total number of attempts; zero counts as one.
    pub most: u32,
    /// Wait after the first attempt.
    pub wait: Duration,
    /// Multiplier of the wait after each further attempt.
    pub factor: u32,
}

impl Tries {
    /// For objects with an occasional second writer.
    pub const DEFAULT: Self = Self { most: CONFLICT_TRIES, wait: CONFLICT_WAIT, factor: 1 };

    /// For objects with many concurrent writers: fewer attempts, and waits that grow faster.
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

/// Runs `attempt` until it succeeds, fails with an error other than a conflict, or has used up `tries`. Each
/// attempt must read the object again, because a stale copy caused the conflict.
///
/// # Errors
/// The first error that is not a conflict, or the last conflict.
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

/// Classification of a failed write for [`modify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The stored object has a different resource version.
    Conflict,
    /// The object does not exist.
    Missing,
    /// Any other failure.
    Other,
}

/// Uncached reads and writes of the objects of one kind.
pub trait Writer: Sync {
    /// The complete object type that is written.
    type Obj: Clone + Send;
    /// Error type of failed calls.
    type Error: Send;

    /// Reads the newest state of an object, `None` if the object does not exist.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Option<Self::Obj>, Self::Error>> + Send;

    /// Writes the object if the stored one still has its revision, and returns the stored result.
    fn update(&self, object: Self::Obj) -> impl Future<Output = Result<Self::Obj, Self::Error>> + Send;

    /// The uid of an object.
    fn uid(object: &Self::Obj) -> &str;

    /// Classifies a failed write.
    fn refusal(error: &Self::Error) -> Refusal;
}

/// Result of [`modify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modified<T> {
    /// The object was written; contains the stored state. Pass its revision to [`crate::Context::wrote`].
    Wrote(T),
    /// The object needed no change. If the state came from the cache, this holds for the cached state only.
    Unchanged,
    /// The object does not exist, or another object has taken its name. Nothing was written.
    Gone,
}

/// Reads, changes and writes an object, and repeats this after conflicts. `change` edits the newest known
/// state and returns whether it must be written. With a `cached` state the first attempt costs no read. After
/// a conflict each attempt reads the newest state from the server, so `change` must decide anew each time.
///
/// # Errors
/// The first error that is not a conflict, or the last conflict.
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
