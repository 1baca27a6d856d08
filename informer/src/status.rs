//! [`Status`]: what an informer is doing, for people and for those who wait for it.

use tokio::time::Instant;

use crate::SourceError;

/// What an informer is doing. The cache can be read in every status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not begun.
    Starting,
    /// Getting a whole state: the first, or again because the history in between is no longer kept.
    Listing,
    /// Following the source.
    Streaming,
    /// The source fails; the cache shows the last known state. It recovers by itself.
    Degraded {
        /// The newest failure.
        error: String,
        /// When the first failure came since it last followed the source.
        since: Instant,
    },
    /// Ended for ever.
    Stopped,
}

/// What a step of the reflector means for the status.
pub(crate) enum Doing<'a> {
    /// A whole state is asked for or coming in.
    Listing,
    /// Changes are coming in.
    Streaming,
    /// Waiting because of this.
    Failing(&'a SourceError),
    /// A stream is being resumed.
    Resuming,
}

impl Status {
    /// The status after this one. A failing informer fails until it follows its source again.
    pub(crate) fn then(&self, doing: &Doing<'_>, now: Instant) -> Self {
        match (self, doing) {
            (Self::Stopped, _) => Self::Stopped,
            (Self::Degraded { since, .. }, Doing::Failing(error)) => {
                Self::Degraded { error: error.to_string(), since: *since }
            }
            (_, Doing::Failing(error)) => Self::Degraded { error: error.to_string(), since: now },
            (_, Doing::Streaming) => Self::Streaming,
            (Self::Degraded { .. }, Doing::Listing) | (_, Doing::Resuming) => self.clone(),
            (_, Doing::Listing) => Self::Listing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_informer_is_degraded_from_its_first_failure_until_it_follows_again() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let (down, slow) =
            (SourceError::Unreachable("down".into()), SourceError::Throttled { retry_after: None });
        let status = Status::Starting.then(&Doing::Listing, start);
        assert_eq!(status, Status::Listing);
        let status = status.then(&Doing::Failing(&down), start).then(&Doing::Listing, later);
        let status = status.then(&Doing::Failing(&slow), later).then(&Doing::Resuming, later);
        assert_eq!(status, Status::Degraded { error: slow.to_string(), since: start });
        let status = status.then(&Doing::Streaming, later).then(&Doing::Resuming, later);
        assert_eq!(status, Status::Streaming, "a stream that is only reopened is no failure");
        assert_eq!(Status::Stopped.then(&Doing::Streaming, later), Status::Stopped);
    }
}
