//! [`Expiry`]: the expiry of a caller's credentials. A stream outlives the request that was authorized, but
//! must end when the credentials expire. Watches have the same rule in `rest::watch`.

use std::time::Duration;
use tokio::time::Instant;

/// The time at which the credentials of a stream's caller expire.
#[derive(Clone, Copy, Debug)]
pub(in crate::rest) struct Expiry(Option<Instant>);

impl Expiry {
    /// For credentials that do not expire, and for streams that end by themselves.
    pub(super) const NEVER: Self = Self(None);

    /// The expiry of credentials that remain valid for `left`; `None` if they do not expire.
    pub(in crate::rest) fn after(left: Option<Duration>) -> Self {
        Self(left.and_then(|left| Instant::now().checked_add(left)))
    }

    /// Waits until the credentials expire.
    pub(in crate::rest) async fn reached(self) {
        match self.0 {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}
