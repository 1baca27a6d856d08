//! [`NotSynced`]: what somebody who waited for a first state is told.

use crate::Status;

/// An informer did not get its first state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("informer {informer} has no first state: {}", describe(status))]
pub struct NotSynced {
    /// Its name.
    pub informer: String,
    /// What it is doing; with its newest error, if the source failed.
    pub status: Status,
}

/// Why a first state may be missing.
pub(crate) fn describe(status: &Status) -> &str {
    match status {
        Status::Starting => "it has not begun",
        Status::Listing => "its source has not answered",
        Status::Streaming => "its source has not delivered everything",
        Status::Degraded { error, .. } => error,
        Status::Stopped => "it has ended",
    }
}
