//! [`LatestValue`]: a value with one reader that needs only the newest state, like a watch channel. Intermediate
//! states may be skipped.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Newest state of a value, with any number of writers and one waiting reader.
#[derive(Debug, Default)]
pub(crate) struct LatestValue<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone + PartialEq> LatestValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        self.value.lock().clone()
    }

    /// Replaces the value; returns whether it changed.
    pub(crate) fn set(&self, value: T) -> bool {
        let differs = std::mem::replace(&mut *self.value.lock(), value.clone()) != value;
        if differs {
            self.changed.notify_one();
        }
        differs
    }

    /// Waits until the value differs from `old`.
    pub(crate) async fn differs_from(&self, old: &T) {
        while *self.value.lock() == *old {
            self.changed.notified().await;
        }
    }
}
