//! [`NotSynced`]: error of a wait for an informer's initial sync.

use crate::Status;

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
