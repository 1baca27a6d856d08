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
mod disk;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod maintenance;
mod manifest;
mod mvcc;
mod published;
mod read;
mod recovery;
mod runtime;
mod snapshot;
mod store;
mod txn;
mod types;
mod wal;

pub use engine::damage::DamagedRecord;
pub use read::hash::HashKv;
pub use read::watcher::{WatchHandle, Watcher};
pub use snapshot::{SnapshotError, SnapshotInfo};
pub use store::Store;
pub use store::image::{ImageError, StoreImage};
pub use store::status::{StoreSize, StoreStatus};
pub use types::alarm::{Alarm, NoSpaceReason};
pub use types::config::{Config, Durability, EngineKind};
pub use types::error::{
    AlarmError, CompactError, DefragmentError, LeaseError, OpenError, RangeError, Stopped, TxnError,
    WatchError,
};
pub use types::event::{Event, EventKind, Events};
pub use types::key_range::{End, KeyRange};
pub use types::key_version::{KeyVersion, VersionEffect};
pub use types::kv::{KeyValue, Stamp};
pub use types::lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
pub use types::limits::{LEASE_TTL_MAX_SECONDS, Limits};
pub use types::metrics::{Histogram, MetricsSnapshot};
pub use types::range::{Range, RangeResult, SortOrder, SortTarget};
pub use types::revision::{LeaseId, Revision};
pub use types::txn::{
    Compare, CompareOp, Delete, DeleteResult, Op, OpResult, Put, PutResult, Target, Txn, TxnResult,
};
pub use types::watch::{Batch, WatchRequest};

#[cfg(test)]
mod tests;
