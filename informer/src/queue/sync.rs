//! The lock of a queue, in a module of its own, so that model tests can replace it with loom's and explore
//! every interleaving.

#[cfg(all(test, kstore_loom))]
pub(super) use model::Mutex;
#[cfg(not(all(test, kstore_loom)))]
pub(super) use parking_lot::Mutex;

#[cfg(all(test, kstore_loom))]
mod model {
    /// Loom's lock with parking_lot's interface, without poisoning.
    pub(in crate::queue) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in crate::queue) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(in crate::queue) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("loom ends at the first panic")
        }
    }
}
