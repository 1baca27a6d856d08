//! [`EtcdLoan`]: exclusive use of a real etcd by one test, from those that the environment names. A test
//! waits if all are in use.

use crate::backing_store::STORAGE;
use std::sync::{Condvar, LazyLock, Mutex};
use std::time::Duration;

/// Time limit of the wait: longer than any test and all tests that wait before it.
const PATIENCE: Duration = Duration::from_secs(300);

static FREE: LazyLock<(Mutex<Vec<String>>, Condvar)> = LazyLock::new(|| {
    let urls = std::env::var(STORAGE).unwrap_or_default();
    (Mutex::new(urls.split(',').map(str::to_owned).collect()), Condvar::new())
});

/// An etcd in exclusive use, returned to the pool on drop.
pub(crate) struct EtcdLoan {
    url: String,
}

impl EtcdLoan {
    /// Blocks until an etcd is free.
    ///
    /// # Panics
    ///
    /// The wait takes too long: most likely one test uses two.
    pub(crate) fn take() -> Self {
        let (free, returned) = &*FREE;
        let free = free.lock().expect("no holder panics");
        let (mut free, _) =
            returned.wait_timeout_while(free, PATIENCE, |free| free.is_empty()).expect("no holder panics");
        Self { url: free.pop().expect("an etcd is free in time") }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for EtcdLoan {
    fn drop(&mut self) {
        let (free, returned) = &*FREE;
        free.lock().expect("no holder panics").push(std::mem::take(&mut self.url));
        returned.notify_one();
    }
}
