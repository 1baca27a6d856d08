//! [`Loan`]: a real etcd for one test at a time, out of those that the environment names. A test that finds none free waits until
//! another gives its own back.

use crate::ground::STORAGE;
use std::sync::{Condvar, LazyLock, Mutex};
use std::time::Duration;

/// Above what any test takes, and all that wait before.
const PATIENCE: Duration = Duration::from_secs(300);

static FREE: LazyLock<(Mutex<Vec<String>>, Condvar)> = LazyLock::new(|| {
    let urls = std::env::var(STORAGE).unwrap_or_default();
    (Mutex::new(urls.split(',').map(str::to_owned).collect()), Condvar::new())
});

/// Goes back when dropped.
pub(crate) struct Loan {
    url: String,
}

impl Loan {
    /// Stands still until there is one.
    ///
    /// # Panics
    /// When that takes too long: most likely one test wants two.
    pub(crate) fn take() -> Self {
        let (free, returned) = &*FREE;
        let free = free.lock().expect("nobody panics with it");
        let (mut free, _) = returned
            .wait_timeout_while(free, PATIENCE, |free| free.is_empty())
            .expect("nobody panics with it");
        Self { url: free.pop().expect("an etcd is free in time") }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let (free, returned) = &*FREE;
        free.lock().expect("nobody panics with it").push(std::mem::take(&mut self.url));
        returned.notify_one();
    }
}
