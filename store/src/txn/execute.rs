//! Execution of a transaction on staged state; collects its effects. Pure apart from reading old versions.

use super::compare::{BranchPath, decide};
use crate::mvcc::index::{Index, Version, VersionRef};
use crate::mvcc::staged::{Overlay, StagedView};
use crate::mvcc::view::{self, Selection};
use crate::txn::lease_table::LeaseTable;
use crate::types::event::{Event, EventKind};
use crate::types::kv::Stamp;
use crate::types::range::{Range, RangeResult};
use crate::types::record::RecordKey;
use crate::types::txn::{Delete, DeleteResult, Op, OpResult, Put, PutResult, Txn, TxnResult};
use crate::{End, KeyRange, KeyValue, RangeError, Revision, TxnError};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// Reads an old version.
pub(crate) type Fetch<'a> = &'a dyn Fn(RecordKey) -> Result<Arc<KeyValue>, RangeError>;

/// The execution of one request: the state it reads and changes, and its events so far.
pub(crate) struct Execution<'a> {
    pub(crate) index: &'a Index,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) leases: &'a mut LeaseTable,
    /// The revision before the request.
    pub(crate) base: Revision,
    pub(crate) compacted: Revision,
    pub(crate) note: Option<Bytes>,
    pub(crate) fetch: Fetch<'a>,
    /// Most bytes of changes that deletions may make.
    pub(crate) deletes_max: usize,
    /// Most bytes of old versions that its reads may copy.
    pub(crate) reads_max: usize,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) sizes: SizeChange,
}

/// What a request changes of the bytes of versions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeChange {
    /// Bytes of the versions that exist after it, as `KeyValue::current_bytes` counts them.
    pub(crate) added: u64,
    /// Bytes of the versions that existed before it, counted in the same way.
    pub(crate) removed: u64,
    /// Bytes that it adds to the history: the versions that it supersedes, and tombstones.
    pub(crate) superseded: u64,
}

/// Results of the historical reads on the chosen path, in the order of their operations. They are read before the first
/// change, because reading an old version from disk can fail, and a failed transaction must not change anything.
type HistoricalReads = VecDeque<(Selection, Vec<Arc<KeyValue>>)>;

impl Execution<'_> {
    /// Executes a transaction that passed `check`. If it fails, nothing was changed.
    pub(crate) fn txn(&mut self, txn: &Txn) -> Result<TxnResult, TxnError> {
        let path = decide(txn, self.staged());
        self.check(txn, &path)?;
        let mut historical = self.read_historical(txn, &path)?;
        let result = self.run(txn, &path, &mut historical);
        debug_assert!(historical.is_empty(), "each historical read has one operation");
        Ok(result)
    }

    /// Deletes keys, for the revocation of a lease.
    pub(crate) fn delete_keys(&mut self, keys: impl IntoIterator<Item = Bytes>) {
        for key in keys {
            self.delete_key(&key);
        }
    }

    fn staged(&self) -> StagedView<'_> {
        StagedView { index: self.index, overlay: self.overlay }
    }

    /// The revision of the request's changes.
    fn own(&self) -> Revision {
        self.base.next()
    }

    /// The current revision from the transaction's view.
    fn now(&self) -> Revision {
        if self.events.is_empty() { self.base } else { self.own() }
    }

    /// Checks the chosen path for all errors except those of the disk. As in etcd, an error of a put takes precedence
    /// over an error of a read.
    fn check(&self, txn: &Txn, path: &BranchPath) -> Result<(), TxnError> {
        Self::on_path(txn, path, &mut |op| match op {
            Op::Put(put) => self.check_put(put),
            Op::Range(_) | Op::Delete(_) | Op::Txn(_) => Ok(()),
        })?;
        Self::on_path(txn, path, &mut |op| match op {
            Op::Range(range) => self.check_range(range),
            Op::Put(_) | Op::Delete(_) | Op::Txn(_) => Ok(()),
        })?;
        let mut deletes = 0;
        Self::on_path(txn, path, &mut |op| match op {
            Op::Delete(delete) => {
                deletes += self.deletion_bytes(&delete.keys);
                if deletes > self.deletes_max { Err(TxnError::TooLarge) } else { Ok(()) }
            }
            Op::Range(_) | Op::Put(_) | Op::Txn(_) => Ok(()),
        })
    }

    /// Approximate bytes of changes that a deletion of these keys makes. It counts the keys before the transaction; the
    /// limit on the request's size bounds the transaction's own puts.
    fn deletion_bytes(&self, keys: &KeyRange) -> usize {
        if keys.end == End::Single {
            return 0;
        }
        let mut bytes = 0;
        self.staged().visit(keys, Revision(i64::MAX), |found| {
            if let VersionRef::Newest(kv) = found {
                bytes += kv.key().len() + Event::COST;
            }
        });
        bytes
    }

    /// Calls `check` for each operation on the chosen path, in order.
    fn on_path(
        txn: &Txn,
        path: &BranchPath,
        check: &mut impl FnMut(&Op) -> Result<(), TxnError>,
    ) -> Result<(), TxnError> {
        let mut nested = path.nested.iter();
        for op in txn.branch(path) {
            check(op)?;
            if let Op::Txn(inner) = op {
                let path = nested.next().expect("there is a path for each nested transaction");
                Self::on_path(inner, path, check)?;
            }
        }
        Ok(())
    }

    fn check_range(&self, range: &Range) -> Result<(), TxnError> {
        let (requested, compacted) = (range.revision, self.compacted);
        // Unlike in a plain range, a negative revision is an old one here. It fails below the compacted
        // revision (-1 at first).
        if requested.0 < 0 && requested < compacted {
            return Err(TxnError::Range(RangeError::Compacted { requested, compacted }));
        }
        view::resolve(range, self.base, compacted).map(drop).map_err(TxnError::Range)
    }

    fn check_put(&self, put: &Put) -> Result<(), TxnError> {
        if !put.lease.is_none() && !self.leases.lives(put.lease) {
            return Err(TxnError::LeaseNotFound(put.lease));
        }
        let keeps = put.ignore_value || put.ignore_lease;
        if keeps && self.staged().live(&put.key).is_none() { Err(TxnError::KeyNotFound) } else { Ok(()) }
    }

    /// Does all historical reads of the chosen path. The transaction's own changes are newer than any requested
    /// revision, so they cannot affect the results.
    fn read_historical(&self, txn: &Txn, path: &BranchPath) -> Result<HistoricalReads, TxnError> {
        let (mut historical, mut left) = (HistoricalReads::new(), self.reads_max);
        Self::on_path(txn, path, &mut |op| {
            if let Op::Range(range) = op
                && is_historical(range)
            {
                historical.push_back(self.select(range, range.revision, &mut left).map_err(TxnError::Range)?);
            }
            Ok(())
        })?;
        Ok(historical)
    }

    /// Selects the versions of a range at a revision, and reads those that are not in memory. `left` is what may still be copied.
    fn select(
        &self,
        range: &Range,
        at: Revision,
        left: &mut usize,
    ) -> Result<(Selection, Vec<Arc<KeyValue>>), RangeError> {
        let mut selection = view::select_staged(self.staged(), range, at);
        let kvs = view::read(range, &mut selection, left, self.fetch)?;
        Ok((selection, kvs))
    }

    /// Executes the operations of the chosen path. It cannot fail: everything that can fail was done before.
    fn run(&mut self, txn: &Txn, path: &BranchPath, historical: &mut HistoricalReads) -> TxnResult {
        let ops = txn.branch(path);
        let mut responses = Vec::with_capacity(ops.len());
        let mut nested = path.nested.iter();
        for op in ops {
            responses.push(match op {
                Op::Range(range) => OpResult::Range(self.range(range, historical)),
                Op::Put(put) => OpResult::Put(self.put(put)),
                Op::Delete(delete) => OpResult::Delete(self.delete(delete)),
                Op::Txn(inner) => {
                    let path = nested.next().expect("there is a path for each nested transaction");
                    OpResult::Txn(self.run(inner, path, historical))
                }
            });
        }
        TxnResult { succeeded: path.succeeded, revision: self.now(), responses }
    }

    /// Reads a range. It sees the transaction's own changes, unless it names a revision.
    fn range(&self, range: &Range, historical: &mut HistoricalReads) -> RangeResult {
        let (selection, kvs) = if is_historical(range) {
            historical.pop_front().expect("historical reads were made in the order of their operations")
        } else {
            self.select(range, self.own(), &mut { usize::MAX }).expect("the newest versions are in memory")
        };
        view::finish(range, self.now(), &selection, kvs)
    }

    fn put(&mut self, put: &Put) -> PutResult {
        let own = self.own();
        let prev = self.staged().live(&put.key).cloned();
        let stamp = Stamp {
            create_revision: prev.as_ref().map_or(own, |prev| prev.create_revision()),
            mod_revision: own,
            version: prev.as_ref().map_or(1, |prev| prev.version() + 1),
            lease: match &prev {
                Some(prev) if put.ignore_lease => prev.lease(),
                Some(_) | None => put.lease,
            },
        };
        let value = match &prev {
            Some(prev) if put.ignore_value => prev.value(),
            Some(_) | None => &put.value,
        };
        let kv = Arc::new(KeyValue::new(&put.key, value, stamp));
        self.leases.attach(&put.key, stamp.lease);
        self.change(EventKind::Put, kv.clone(), prev.clone());
        PutResult { revision: own, kv, prev_kv: prev.filter(|_| put.prev_kv) }
    }

    fn delete(&mut self, delete: &Delete) -> DeleteResult {
        let keys: Vec<_> = self.keys_in(&delete.keys);
        let deleted = i64::try_from(keys.len()).expect("keys fit into memory");
        let prev_kvs = keys.into_iter().filter_map(|key| self.delete_key(&key));
        let mut prev_kvs: Vec<_> = prev_kvs.collect();
        if !delete.prev_kv {
            prev_kvs = Vec::new();
        }
        DeleteResult { revision: self.now(), deleted, prev_kvs }
    }

    fn keys_in(&self, keys: &KeyRange) -> Vec<Bytes> {
        self.staged().live_in(keys).into_iter().map(|kv| kv.key_bytes()).collect()
    }

    fn delete_key(&mut self, key: &Bytes) -> Option<Arc<KeyValue>> {
        let prev = self.staged().live(key)?.clone();
        self.leases.attach(key, crate::LeaseId::NONE);
        let kv = Arc::new(KeyValue::tombstone(key, self.own()));
        self.change(EventKind::Delete, kv, Some(prev.clone()));
        Some(prev)
    }

    /// Stages a change. `prev_kv` of the event is the version before the transaction, even if the transaction wrote the
    /// key before.
    fn change(&mut self, kind: EventKind, kv: Arc<KeyValue>, prev: Option<Arc<KeyValue>>) {
        let main = self.own();
        let history = |kv: &KeyValue| (kv.encoded().len() + Event::COST) as u64;
        if let Some(prev) = &prev {
            self.sizes.removed += prev.current_bytes();
            self.sizes.superseded += history(prev);
        }
        match kind {
            EventKind::Put => self.sizes.added += kv.current_bytes(),
            EventKind::Delete => self.sizes.superseded += history(&kv),
        }
        let prev_kv = match prev {
            Some(prev) if prev.mod_revision() == main => self.staged().before(kv.key(), main).cloned(),
            other => other,
        };
        let sub = u32::try_from(self.events.len())
            .expect("a transaction's changes are bounded by the keys in memory");
        self.overlay.push(Version { kv: kv.clone(), main, sub, dead: kind == EventKind::Delete });
        self.events.push(Arc::new(Event { kind, kv, prev_kv, note: self.note.clone() }));
    }
}

/// Whether a range names the revision to read at.
fn is_historical(range: &Range) -> bool {
    range.revision.0 != 0
}
