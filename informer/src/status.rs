//! [`Status`]: what an informer is doing, for health checks and waiting callers. [`NotSynced`] is the error of a wait for
//! its initial sync.

use crate::SourceError;
use tokio::time::Instant;

/// Current activity of an informer. The cache is readable in every status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not started.
    Starting,
    /// Receiving a complete state: the first one, or a relist because the watch history is no longer
    /// available.
    Listing,
    /// Receiving changes from a watch.
    Streaming,
    /// The source fails; the cache shows the last known state. The informer recovers by itself.
    Degraded {
        /// The newest failure.
        error: String,
        /// Time of the first failure since the informer last received changes.
        since: Instant,
    },
    /// Ended permanently.
    Stopped,
}

/// The informer has ended: its stop was cancelled, or its last handle was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct Stopped;

/// Activity of the reflector after a step.
pub(crate) enum ReflectorActivity<'a> {
    /// A complete state is requested or arriving.
    Listing,
    /// Changes are arriving.
    Streaming,
    /// Waiting after this failure.
    Failing(&'a SourceError),
    /// A stream is being resumed.
    Resuming,
}

impl Status {
    /// The status after a step. A degraded informer stays degraded until its watch runs again.
    pub(crate) fn then(&self, doing: &ReflectorActivity<'_>, now: Instant) -> Self {
        match (self, doing) {
            (Self::Stopped, _) => Self::Stopped,
            (Self::Degraded { since, .. }, ReflectorActivity::Failing(error)) => {
                Self::Degraded { error: error.to_string(), since: *since }
            }
            (_, ReflectorActivity::Failing(error)) => Self::Degraded { error: error.to_string(), since: now },
            (_, ReflectorActivity::Streaming) => Self::Streaming,
            (Self::Degraded { .. }, ReflectorActivity::Listing) | (_, ReflectorActivity::Resuming) => {
                self.clone()
            }
            (_, ReflectorActivity::Listing) => Self::Listing,
        }
    }
}

/// An informer has not synced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer {informer} has not synced: {}", describe(status))]
pub struct NotSynced {
    /// The name of the informer.
    pub informer: String,
    /// The current status; contains the newest error if the source failed.
    pub status: Status,
}

/// Why the initial state may be missing.
pub(crate) fn describe(status: &Status) -> &str {
    match status {
        Status::Starting => "it has not started",
        Status::Listing => "its source has not responded",
        Status::Streaming => "its source has not delivered the complete state",
        Status::Degraded { error, .. } => error,
        Status::Stopped => "it has stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn status_is_degraded_from_the_first_failure_until_the_watch_runs() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let (down, slow) =
            (SourceError::Unreachable("down".into()), SourceError::Throttled { retry_after: None });
        let status = Status::Starting.then(&ReflectorActivity::Listing, start);
        assert_eq!(status, Status::Listing);
        let status =
            status.then(&ReflectorActivity::Failing(&down), start).then(&ReflectorActivity::Listing, later);
        let status =
            status.then(&ReflectorActivity::Failing(&slow), later).then(&ReflectorActivity::Resuming, later);
        assert_eq!(status, Status::Degraded { error: slow.to_string(), since: start });
        let status =
            status.then(&ReflectorActivity::Streaming, later).then(&ReflectorActivity::Resuming, later);
        assert_eq!(status, Status::Streaming, "a stream that is only reopened is no failure");
        assert_eq!(Status::Stopped.then(&ReflectorActivity::Streaming, later), Status::Stopped);
    }
}
