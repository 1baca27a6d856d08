//! [`LoadProgress`]: the number of stored objects that a starting server has read, and of all. The program prints it while a start
//! takes long.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of stored objects that a start has read. Cheap to update by many threads.
#[derive(Debug, Default)]
pub struct LoadProgress {
    done: AtomicUsize,
    total: AtomicUsize,
}

impl LoadProgress {
    /// Number of objects that were read, and of all objects; 0 of 0 before their number is known.
    pub fn get(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Sets the number of all objects.
    pub fn begin(&self, total: usize) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Counts objects that were read.
    pub fn add(&self, read: usize) {
        self.done.fetch_add(read, Ordering::Relaxed);
    }
}
