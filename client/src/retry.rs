//! [`on_conflict`]: an update that others may overtake, tried again. Other failures are the caller's matter.

use crate::{
    ApiError,
    limits::{CONFLICT_TRIES, CONFLICT_WAIT},
};

/// Runs `attempt` until it succeeds or fails with something else than a conflict, at most [`CONFLICT_TRIES`] times. Each
/// attempt must read the object anew: what it knew before is what made it fail.
///
/// # Errors
/// The first error that is no conflict, or the last conflict.
pub async fn on_conflict<T, F, Fut>(mut attempt: F) -> Result<T, ApiError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, ApiError>>,
{
    let mut wait = CONFLICT_WAIT;
    for _ in 1..CONFLICT_TRIES {
        match attempt().await {
            Err(error) if error.is_conflict() => tokio::time::sleep(wait).await,
            outcome => return outcome,
        }
        wait *= 2;
    }
    attempt().await
}
