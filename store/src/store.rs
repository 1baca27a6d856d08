//! The façade: every operation of a store, without its logic.
#![expect(clippy::unimplemented, unused_variables, reason = "the signatures, agreed before the bodies")]

use bytes::Bytes;
use kstore_nondet::Nondet;

use crate::error::{CompactError, LeaseError, OpenError, RangeError, TxnError, WatchError};
use crate::lease::{LeaseGranted, LeaseRenewed, LeaseStatus};
use crate::metrics::MetricsSnapshot;
use crate::watch::{WatchRequest, Watcher};
use crate::{Config, LeaseId, Range, RangeResult, Revision, Txn, TxnResult};

/// A handle on an open store. Cheap to clone; the store closes when the last handle is dropped, or by [`Store::close`].
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens the store that `config` describes, making it if the directory is empty. On return it is recovered, locked
    /// against other processes, and serves. Call it inside a tokio runtime: leases expire on its timer.
    pub async fn open(config: Config, nondet: Nondet) -> Result<Self, OpenError> {
        unimplemented!()
    }

    /// The revision that readers see; everything up to it is durable. Never goes back.
    pub fn revision(&self) -> Revision {
        unimplemented!()
    }

    /// The oldest revision that can be read; [`Revision::NEVER_COMPACTED`] at first.
    pub fn compacted(&self) -> Revision {
        unimplemented!()
    }

    /// Reads keys at one revision. Never waits for a writer or the disk, except to fetch old versions.
    pub fn range(&self, request: &Range) -> Result<RangeResult, RangeError> {
        unimplemented!()
    }

    /// Does a transaction. Resolves when what it wrote and what it observed is durable. Dropping the future does not
    /// take the transaction back.
    pub async fn txn(&self, txn: Txn) -> Result<TxnResult, TxnError> {
        unimplemented!()
    }

    /// Begins a watch. Everything from its start on is delivered, in order, once, whole revisions at a time; a start that
    /// has been compacted is reported by the first [`Watcher::next`].
    pub fn watch(&self, request: WatchRequest) -> Result<Watcher, WatchError> {
        unimplemented!()
    }

    /// Gives up what only reads below `revision` could see. Takes effect for reads and watches on return; space comes back
    /// in the background.
    pub async fn compact(&self, revision: Revision) -> Result<(), CompactError> {
        unimplemented!()
    }

    /// The note of the transaction that made `revision`, if it carried one. Goes with compaction, but not while the
    /// revision is the create or mod revision of a key that exists.
    pub fn note(&self, revision: Revision) -> Option<Bytes> {
        unimplemented!()
    }

    /// Grants a lease of `ttl` seconds. [`LeaseId::NONE`] lets the store choose the id.
    pub async fn lease_grant(&self, ttl: i64, id: LeaseId) -> Result<LeaseGranted, LeaseError> {
        unimplemented!()
    }

    /// Ends a lease and deletes its keys in one revision, which is returned (the current one if it had no keys).
    pub async fn lease_revoke(&self, id: LeaseId) -> Result<Revision, LeaseError> {
        unimplemented!()
    }

    /// Counts a lease's time anew from now.
    pub async fn lease_keep_alive(&self, id: LeaseId) -> Result<LeaseRenewed, LeaseError> {
        unimplemented!()
    }

    /// What is known of a lease, with its keys if `keys`.
    pub async fn lease_time_to_live(&self, id: LeaseId, keys: bool) -> Result<LeaseStatus, LeaseError> {
        unimplemented!()
    }

    /// All leases.
    pub async fn leases(&self) -> Result<Vec<LeaseId>, LeaseError> {
        unimplemented!()
    }

    /// Counters since the store was opened.
    pub fn metrics(&self) -> MetricsSnapshot {
        unimplemented!()
    }

    /// Finishes what is queued, syncs, checkpoints and releases the directory. Watches end; later calls are refused as
    /// stopped. Other handles are closed with it.
    pub async fn close(&self) {
        unimplemented!()
    }
}
