//! [`Latest`]: a value of which one reader wants the newest state. Not a queue: states in between may be skipped.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The newest state of a value, for any number of writers and one reader who waits for changes.
#[derive(Debug, Default)]
pub(crate) struct Latest<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone + PartialEq> Latest<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        self.value.lock().clone()
    }

    /// Replaces the value; whether it differs from the one before.
    pub(crate) fn set(&self, value: T) -> bool {
        let differs = std::mem::replace(&mut *self.value.lock(), value.clone()) != value;
        if differs {
            self.changed.notify_one();
        }
        differs
    }

    /// Returns when the value is another than `old`.
    pub(crate) async fn differs_from(&self, old: &T) {
        while *self.value.lock() == *old {
            self.changed.notified().await;
        }
    }
}
