//! Waits for a state of one object in the shared cache, with a time limit. They open no watch and do not
//! poll. [`Informer::until`] waits without a limit.

use crate::{Informer, Key, Object, Stopped};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Why a wait failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The informer has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The time limit passed. The object may briefly have been in the expected state: a wait does not see
    /// states that the cache passed through in one step.
    #[error("timed out waiting for the condition")]
    TimedOut,
}

/// Waits until `done` accepts the object of `key` or its absence, and returns the accepted state. The time
/// limit starts now and includes the informer's initial sync.
///
/// # Errors
/// When the informer ends or `limit` passes before.
pub async fn condition<T: Object>(
    informer: &Informer<T>,
    key: &Key,
    limit: Duration,
    done: impl FnMut(Option<&T>) -> bool,
) -> Result<Option<Arc<T>>, WaitError> {
    match timeout(limit, informer.until(key, done)).await {
        Ok(found) => Ok(found?),
        Err(_) => Err(WaitError::TimedOut),
    }
}

/// Waits until the object of `key` with this `uid` is gone; a new object of the same name does not count.
///
/// # Errors
/// When the informer ends or `limit` passes before.
pub async fn deleted<T: Object>(
    informer: &Informer<T>,
    key: &Key,
    uid: &str,
    limit: Duration,
) -> Result<(), WaitError> {
    condition(informer, key, limit, |object| object.is_none_or(|object| object.uid() != uid)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::testing::{FakeKind, FakeStore, Sample};
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    const LIMIT: Duration = Duration::from_secs(5);

    fn world(stop: &CancellationToken) -> (FakeKind<Sample>, Informer<Sample>, Key) {
        let kind = FakeStore::new().kind::<Sample>("samples");
        let informer = Builder::new(kind.source()).spawn(stop);
        (kind, informer, Key::new("", "a"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_met_by_the_current_or_a_later_state() {
        let (kind, informer, key) = world(&CancellationToken::new());
        let wait = condition(&informer, &key, LIMIT, |o| o.is_some_and(|o| o.value == 2));
        let write = async {
            for value in 1..=2 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                kind.put(Sample::new("", "a").value(value));
            }
        };
        let (found, ()) = tokio::join!(wait, write);
        assert_eq!(found.unwrap().unwrap().value, 2);
        assert!(condition(&informer, &key, Duration::ZERO, |o| o.is_some()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_is_detected_when_the_name_is_reused() {
        let (kind, informer, key) = world(&CancellationToken::new());
        let uid = kind.put(Sample::new("", "a")).uid().to_owned();
        let wait = deleted(&informer, &key, &uid, LIMIT);
        let write = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            kind.put(Sample::new("", "a").value(1));
            tokio::time::sleep(Duration::from_secs(1)).await;
            kind.delete(&key).unwrap();
            kind.put(Sample::new("", "a"));
        };
        let start = Instant::now();
        let (gone, ()) = tokio::join!(wait, write);
        assert_eq!((gone, start.elapsed().as_secs()), (Ok(()), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_limit_or_with_its_informer() {
        let stop = CancellationToken::new();
        let (_kind, informer, key) = world(&stop);
        let start = Instant::now();
        let never = |_: Option<&Sample>| false;
        assert_eq!(condition(&informer, &key, LIMIT, never).await, Err(WaitError::TimedOut));
        assert_eq!(start.elapsed(), LIMIT);
        let wait = condition(&informer, &key, LIMIT, never);
        let (ended, ()) = tokio::join!(wait, async { stop.cancel() });
        assert_eq!(ended, Err(WaitError::Stopped(Stopped)));
    }
}
