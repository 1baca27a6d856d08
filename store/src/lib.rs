//! A durable MVCC store with revisions, transactions, leases and watch-from-revision.
//!
//! Keys and values are bytes. Every change takes the next [`Revision`]. Old revisions stay readable until they are
//! compacted. A [`Watcher`] receives every change from a revision on, in order. The store answers a write when it is
//! durable, and shows it to no reader before. The semantics are etcd's; the `etcd` crate has the wire protocol.
//!
//! This crate knows nothing of Kubernetes or gRPC. Start at [`Store`], or with the README:
//!
#![doc = include_str!("../README.md")]

mod alarm;
mod background_waiters;
mod bbolt;
mod checkpoint;
mod codec;
mod commit;
mod committer;
mod compact;
mod config;
mod core;
mod damage;
mod disk;
mod disk_space;
mod driver;
mod engine;
mod error;
mod event;
mod feed;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod hash;
mod history;
mod image;
mod index;
mod invariants;
mod key_range;
mod kv;
mod lease;
mod limits;
mod log;
mod log_handover;
pub mod maintenance;
mod manifest;
mod metrics;
mod pace;
mod pins;
mod queue;
mod quota;
mod range;
mod rebuild;
mod recall;
mod recover;
mod release;
mod request;
mod revision;
mod snapshot;
mod staged;
mod status;
#[cfg(test)]
mod stepped;
mod store;
mod supervisor;
mod tasks;
mod threads;
mod txn;
mod view;
mod wal;
mod watch;
mod window;
mod writer;

pub use alarm::{Alarm, NoSpaceReason};
pub use config::{Config, Durability, EngineKind};
pub use damage::DamagedRecord;
pub use error::{
    AlarmError, CompactError, DefragmentError, LeaseError, OpenError, RangeError, Stopped, TxnError,
    WatchError,
};
pub use event::{Event, EventKind, Events};
pub use hash::HashKv;
pub use image::{ImageError, StoreImage};
pub use key_range::{End, KeyRange};
pub use kv::{KeyValue, Stamp};
pub use lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
pub use limits::{LEASE_TTL_MAX_SECONDS, Limits};
pub use metrics::{Histogram, MetricsSnapshot};
pub use range::{Range, RangeResult, SortOrder, SortTarget};
pub use revision::{LeaseId, Revision};
pub use snapshot::{SnapshotError, SnapshotInfo};
pub use status::{StoreSize, StoreStatus};
pub use store::Store;
pub use txn::{
    Compare, CompareOp, Delete, DeleteResult, Op, OpResult, Put, PutResult, Target, Txn, TxnResult,
};
pub use watch::{Batch, WatchHandle, WatchRequest, Watcher};

#[cfg(test)]
mod tests;
