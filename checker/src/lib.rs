//! Checks a recorded client history of any etcd-compatible endpoint. Are all answers those of one store that executed
//! one operation after the other, and did watches receive exactly what happened?
//!
//! The check is pure: pass a [`History`] to [`judge()`], and get a [`Verdict`]. It names the violated [`Guarantee`],
//! the few calls that show it, and the expected and the observed result. A history can be stored and judged again.
//!
//! ```
//! use kstore_checker::history::{Call, History, Keys, KeyValue, Op, OpReply, Operation, Outcome, Range, RangeReply, Reply, Txn};
//! use kstore_checker::{Guarantee, judge};
//!
//! let put = Op::Put { key: "a".into(), value: "1".into(), lease: 0, prev_kv: false };
//! let write = Call {
//!     client: 1,
//!     call: 10,
//!     ret: 20,
//!     operation: Operation::Txn(Txn::of(put)),
//!     outcome: Outcome::Ok(Reply::Txn { revision: 2, succeeded: true, results: vec![OpReply::Put(None)] }),
//! };
//! // The read started after the write was answered, but does not return it.
//! let read = Call {
//!     client: 2,
//!     call: 30,
//!     ret: 40,
//!     operation: Operation::Range(Range { keys: Keys::one("a"), ..Range::default() }),
//!     outcome: Outcome::Ok(Reply::Range(RangeReply { revision: 2, kvs: vec![], more: false, count: 0 })),
//! };
//! let history = History { calls: vec![write, read], ..History::default() };
//! assert!(judge(&history).breaks(Guarantee::Linearizable));
//! ```

mod describe;
mod evidence;
mod fingerprint;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod history;
mod judge;
mod lease;
pub mod limits;
mod linearize;
pub mod model;
mod monotonic;
mod serializable;
mod timeline;
mod verdict;
mod watch;

pub use history::History;
pub use judge::judge;
pub use verdict::{Counts, Guarantee, Verdict, Violation};

#[cfg(test)]
mod tests;
