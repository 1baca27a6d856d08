//! A durable MVCC store with revisions, transactions, leases and watch-from-revision.
//!
//! Keys and values are bytes. Every change takes the next [`Revision`]; old revisions stay readable until they are
//! compacted; a [`Watcher`] sees every change from a revision on, in order. A write is answered when it is durable, and
//! nobody sees it before. The semantics are etcd's; the wire is not here.
//!
//! This crate knows nothing of Kubernetes or gRPC. Start at [`Store`].

mod checkpoint;
mod codec;
mod commit;
mod committer;
mod compact;
mod config;
mod core;
mod disk;
mod driver;
mod engine;
mod error;
mod event;
mod feed;
mod index;
mod key_range;
mod kv;
mod lease;
mod limits;
mod manifest;
mod metrics;
mod queue;
mod range;
mod recover;
mod request;
mod revision;
mod staged;
mod store;
mod txn;
mod view;
mod wal;
mod watch;
mod window;
mod writer;

pub use config::{Config, Durability, EngineKind};
pub use error::{CompactError, LeaseError, OpenError, RangeError, Stopped, TxnError, WatchError};
pub use event::{Event, EventKind, Events};
pub use key_range::{End, KeyRange};
pub use kv::{KeyValue, Stamp};
pub use lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
pub use limits::{LEASE_TTL_MAX_SECONDS, Limits};
pub use metrics::MetricsSnapshot;
pub use range::{Range, RangeResult, SortOrder, SortTarget};
pub use revision::{LeaseId, Revision};
pub use store::Store;
pub use txn::{
    Compare, CompareOp, Delete, DeleteResult, Op, OpResult, Put, PutResult, Target, Txn, TxnResult,
};
pub use watch::{Batch, WatchHandle, WatchRequest, Watcher};

#[cfg(test)]
mod tests;
