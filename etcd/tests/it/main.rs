//! Comparison with a real etcd: the same calls to both, and the responses must be equal. Without an installed etcd a
//! test prints so and passes, unless `KSTORE_REQUIRE_ETCD` is set.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// Calls and their comparable responses.
mod call;
/// Scripted calls.
mod calls;
/// Both servers side by side.
mod comparison;
/// The real etcd as a child process.
mod etcd_process;
/// etcdctl's output.
mod etcdctl;
/// Ports of the real etcd.
#[path = "../../../tests/src/ports.rs"]
mod ports;
/// Random calls from a seed.
mod random;
/// Restoring kstore's snapshot in etcd.
mod snapshot;
/// Watch streams.
mod watch;
