//! A durable MVCC store with revisions, transactions, leases and watch-from-revision.
//!
//! Keys and values are bytes. Every change takes the next [`Revision`]. Old revisions stay readable until they are
//! compacted. A [`Watcher`] receives every change from a revision on, in order. The store answers a write when it is
//! durable, and shows it to no reader before. The semantics are etcd's; the `etcd` crate has the wire protocol.
//!
//! This crate knows nothing of Kubernetes or gRPC. Start at [`Store`], or with the README:
//!
#![doc = include_str!("../README.md")]

mod background;
mod codec;
mod config;
mod disk;
mod engine;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod invariants;
mod lease;
mod limits;
pub mod maintenance;
mod metrics;
mod mvcc;
mod recovery;
mod runtime;
mod snapshot;
mod space;
mod status;
mod store;
mod txn;
mod wal;
mod watch;

pub use config::{Config, Durability, EngineKind};
pub use engine::damage::DamagedRecord;
pub use error::{
    AlarmError, CompactError, DefragmentError, LeaseError, OpenError, RangeError, Stopped, TxnError,
    WatchError,
};
pub use image::{ImageError, StoreImage};
pub use lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
pub use limits::{LEASE_TTL_MAX_SECONDS, Limits};
pub use metrics::{Histogram, MetricsSnapshot};
pub use mvcc::event::{Event, EventKind, Events};
pub use mvcc::hash::HashKv;
pub use mvcc::key_range::{End, KeyRange};
pub use mvcc::kv::{KeyValue, Stamp};
pub use mvcc::range::{Range, RangeResult, SortOrder, SortTarget};
pub use mvcc::revision::{LeaseId, Revision};
pub use snapshot::{SnapshotError, SnapshotInfo};
pub use space::alarm::{Alarm, NoSpaceReason};
pub use status::{StoreSize, StoreStatus};
pub use store::Store;
pub use txn::{
    Compare, CompareOp, Delete, DeleteResult, Op, OpResult, Put, PutResult, Target, Txn, TxnResult,
};
pub use watch::{Batch, WatchHandle, WatchRequest, Watcher};

#[cfg(test)]
mod tests;
