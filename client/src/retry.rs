//! Retries after conflicts: [`on_conflict`] for a caller with its own calls, and [`Api`] as the store for
//! [`kstore_informer::modify`]. The caller handles all other errors.

use crate::{Api, ApiError, Kind};
use kstore_informer::{Key, Refusal, Tries, Writer};

/// Runs `attempt` until it succeeds or fails with an error other than a conflict, at most as often as
/// [`Tries::DEFAULT`] says. Each attempt must read the object again: its old state caused the conflict.
///
/// # Errors
///
/// The first error other than a conflict, or the last conflict.
pub async fn on_conflict<T, F, Fut>(attempt: F) -> Result<T, ApiError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, ApiError>>,
{
    kstore_informer::on_conflict(Tries::DEFAULT, ApiError::is_conflict, attempt).await
}

impl<K: Kind + Clone> Writer for Api<K> {
    type Obj = K;
    type Error = ApiError;

    async fn get(&self, key: &Key) -> Result<Option<K>, ApiError> {
        match self.get(key.namespace(), key.name()).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn update(&self, object: K) -> Result<K, ApiError> {
        self.update(&object).await
    }

    fn uid(object: &K) -> &str {
        object.metadata().uid.as_deref().unwrap_or_default()
    }

    fn refusal(error: &ApiError) -> Refusal {
        match () {
            () if error.is_conflict() => Refusal::Conflict,
            () if error.is_not_found() => Refusal::Missing,
            () => Refusal::Other,
        }
    }
}
