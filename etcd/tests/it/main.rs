//! The façade against a real etcd: the same script to both, and the answers must be the same. Where no etcd is installed, a
//! test says so and passes, unless `KSTORE_REQUIRE_ETCD` is set.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// A call and its answer, made comparable.
mod call;
/// Calls whose answers are worth being looked at one by one.
mod calls;
/// The two sides of a comparison.
mod duel;
/// The real etcd as a child process.
mod etcd_process;
/// What etcdctl prints.
mod etcdctl;
/// Random calls from a seed.
mod random;
/// Back to etcd.
mod snapshot;
/// Watch streams.
mod watch;
