//! [`Expiry`]: streams outlive the request that was judged, but not the credentials that it came with. Watches have the same rule,
//! see `rest::watch`.

use std::time::Duration;
use tokio::time::Instant;

/// When the credentials of a stream's caller expire.
#[derive(Clone, Copy, Debug)]
pub(in crate::rest) struct Expiry(Option<Instant>);

impl Expiry {
    /// Credentials that do not expire, or a stream that has an end of its own.
    pub(super) const NEVER: Self = Self(None);

    /// From how long the credentials are still good; `None` if they do not expire.
    pub(in crate::rest) fn after(left: Option<Duration>) -> Self {
        Self(left.and_then(|left| Instant::now().checked_add(left)))
    }

    /// Returns when they expire.
    pub(in crate::rest) async fn reached(self) {
        match self.0 {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}
