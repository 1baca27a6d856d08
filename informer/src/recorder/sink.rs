//! [`EventSink`]: where events are written.

use std::future::Future;

use super::Event;

/// Why an event was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// Worth another attempt later.
    #[error("not now: {0}")]
    Retry(String),
    /// The event will never be accepted.
    #[error("refused: {0}")]
    Refused(String),
}

/// Where events are written.
pub trait EventSink: Send + Sync + 'static {
    /// Writes one event: creates it, or brings count, message and last time up to date if there is one of its name.
    /// `Event::known` says which of both to try first. A write that failed may be repeated, also if it did happen.
    ///
    /// Several are under way at a time, but never two of one name.
    fn write(&self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;
}
