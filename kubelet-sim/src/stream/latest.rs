//! [`Latest`]: a shared value with waiters for a newer one. Only the newest value is kept.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// A shared value. Readers may miss intermediate values, never the last.
pub(crate) struct Latest<T> {
    value: Mutex<(u64, Arc<T>)>,
    changed: Notify,
}

impl<T> Latest<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new((0, Arc::new(value))), changed: Notify::new() }
    }

    /// Replaces the value and wakes all waiters.
    pub(crate) fn set(&self, value: T) {
        let mut latest = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = (latest.0 + 1, Arc::new(value));
        drop(latest);
        self.changed.notify_waiters();
    }

    /// The value and its sequence number.
    pub(crate) fn get(&self) -> (u64, Arc<T>) {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a value with a higher sequence number. Cancel safe.
    pub(crate) async fn after(&self, seen: u64) -> (u64, Arc<T>) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (number, value) = self.get();
            if number > seen {
                return (number, value);
            }
            changed.await;
        }
    }
}
