//! [`EventSink`]: storage for events.

use std::future::Future;

use super::Event;

/// Why an event was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// A temporary failure, worth a retry.
    #[error("temporary failure: {0}")]
    Retry(String),
    /// The event will never be accepted.
    #[error("refused: {0}")]
    Refused(String),
}

/// Storage for events.
pub trait EventSink: Send + Sync + 'static {
    /// Writes one event: creates it, or updates count, message and last time if an event of its name exists.
    /// `Event::known` tells which to try first. A failed write may be repeated, even if it was stored.
    ///
    /// Several writes may be active at a time, but never two of one name.
    fn write(&self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;
}
