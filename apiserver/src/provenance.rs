//! Who wrote what, and because of what: the note that every commit carries, and the tree that follows from the notes. Not an
//! audit log: requests that wrote nothing leave no trace.

mod chunk;
mod log;
mod note;
mod record;
mod tree;

pub use note::Note;
pub use record::Effect;
pub use tree::TraceNode;

use crate::limits;
use crate::storage::{RawBatch, RawWatch, ReadError, SharedStorage};
use log::Log;
use parking_lot::RwLock;
use record::Record;

/// The revision of a store that was never written to, ours as well as etcd's: no commit has it, so no watch ever delivers it.
const EMPTY_STORE_REVISION: i64 = 1;

/// The newest writes with their causes, as many as [`limits::TRACE_BYTES`] hold.
pub struct Provenance(RwLock<Log>);

impl Default for Provenance {
    fn default() -> Self {
        Self(RwLock::new(Log::new(limits::TRACE_BYTES)))
    }
}

impl Provenance {
    /// Reads the notes of the history up to a revision that the storage still has, as many as are kept, so that a restart forgets
    /// nothing that compaction has not. What was observed already must be newer.
    pub async fn recall(&self, storage: &SharedStorage, upto: i64) -> Result<(), ReadError> {
        self.recall_by(storage, upto, limits::RECALL_STRETCH).await
    }

    /// The newest stretch of history first: of a long one only the end is kept, and the rest need not be read.
    async fn recall_by(&self, storage: &SharedStorage, mut upto: i64, length: i64) -> Result<(), ReadError> {
        let mut recalled = Log::new(limits::TRACE_BYTES);
        while upto > EMPTY_STORE_REVISION {
            let after = (upto - length).max(EMPTY_STORE_REVISION);
            let stretch = Stretch::read(storage, after, upto).await?;
            if !recalled.prepend(stretch.writes) || !stretch.is_whole {
                break;
            }
            upto = after;
        }
        self.0.write().prepend(recalled);
        Ok(())
    }

    /// What is remembered here, for a server over a copy of the storage; and the revision up to which that one need observe nothing.
    pub(crate) fn fork(&self) -> (Self, i64) {
        let mut log = self.0.write();
        let newest = log.newest_revision();
        (Self(RwLock::new(log.fork())), newest)
    }

    /// Takes in one committed revision. Heartbeats (leases) and events are left out: they explain nothing and would push out
    /// what does.
    pub fn observe(&self, batch: &RawBatch) {
        if let Some(record) = Record::of(batch) {
            self.0.write().insert(&record);
        }
    }

    /// The writes to one object (by storage key) that nothing in its own tree caused, each with all that followed from it; oldest
    /// first. Empty when nothing is remembered. Takes time in proportion to what is remembered.
    pub fn trace(&self, key: &str) -> Vec<TraceNode> {
        let chunks = self.0.read().chunks();
        tree::trace(&chunks, key)
    }
}

/// What a part of the history tells.
struct Stretch {
    writes: Log,
    /// Nothing of it was missing, so that there may be more before it.
    is_whole: bool,
}

impl Stretch {
    /// The history after one revision up to another.
    async fn read(storage: &SharedStorage, after: i64, upto: i64) -> Result<Self, ReadError> {
        let (mut history, mut revision) = oldest(storage, after).await?;
        let mut stretch = Self { writes: Log::new(limits::TRACE_BYTES), is_whole: revision == after };
        while revision < upto {
            // A storage that goes away meanwhile is no reason not to start: what is missing is history.
            let Ok(Some(batch)) = tokio::time::timeout(limits::FRESH_WAIT, history.next()).await else {
                return Ok(Self { is_whole: false, ..stretch });
            };
            match batch {
                Ok(batch) => {
                    revision = batch.revision;
                    // What came meanwhile is told by the watch cache.
                    let record = Record::of(&batch).filter(|_| revision <= upto);
                    record.iter().for_each(|record| stretch.writes.insert(record));
                }
                Err(ReadError::Compacted { oldest: begin }) if begin > revision => {
                    stretch.is_whole = false;
                    (history, revision) = oldest(storage, begin).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stretch)
    }
}

/// All the history after `revision`, or what compaction has left of it; and the revision that it begins after.
async fn oldest(storage: &SharedStorage, revision: i64) -> Result<(Box<dyn RawWatch>, i64), ReadError> {
    match storage.watch("", revision).await {
        Err(ReadError::Compacted { oldest }) if oldest > revision => {
            Ok((storage.watch("", oldest).await?, oldest))
        }
        history => Ok((history?, revision)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use chunk::Chunk;
    use std::sync::Arc;

    fn note(causes: &[i64]) -> Note {
        let text = |s: &str| s.to_owned();
        Note { user: text("u"), agent: text("a"), verb: text("create"), causes: causes.to_vec(), time_us: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_recalled_in_stretches_is_what_was_observed() {
        let config = kstore_store::Config::memory();
        let store = kstore_store::Store::open(config, kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(crate::storage::embedded::Embedded::new(store));
        let write = |nth: i64| {
            let (key, value) = (format!("/registry/pods/ns/p{}", nth % 5), Bytes::from_static(b"{}"));
            let writes = vec![crate::storage::Write::Put { key, value, ttl_seconds: 0 }];
            storage.commit(crate::storage::Commit { guards: Vec::new(), writes, note: note(&[nth]).encode() })
        };
        for nth in 1..40 {
            write(nth).await.unwrap();
        }
        let newest = storage.revision().await.unwrap();
        let shown = |log: &Provenance| {
            let chunks = log.0.read().chunks();
            chunks.iter().flat_map(Chunk::writes).map(|write| format!("{write:?}")).collect::<Vec<_>>()
        };
        let observed = Provenance::default();
        let mut history = storage.watch("", 0).await.unwrap();
        loop {
            let batch = history.next().await.unwrap().unwrap();
            observed.observe(&batch);
            if batch.revision == newest {
                break;
            }
        }
        for length in [1, 3, 20, newest - 1, newest, newest + 1, i64::from(u32::MAX)] {
            let recalled = Provenance::default();
            recalled.recall_by(&storage, newest, length).await.unwrap();
            assert_eq!(shown(&recalled), shown(&observed), "stretches of {length}");
        }
        write(40).await.unwrap();
        let recalled = Provenance::default();
        recalled.recall_by(&storage, newest, 7).await.unwrap();
        assert_eq!(shown(&recalled), shown(&observed), "what came meanwhile is told by the cache");
    }

    /// A server on a new store waited three seconds for the first revision, which holds nothing.
    #[tokio::test(start_paused = true)]
    async fn recalling_an_empty_history_takes_no_time() {
        let config = kstore_store::Config::memory();
        let store = kstore_store::Store::open(config, kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(crate::storage::embedded::Embedded::new(store));
        let newest = storage.revision().await.unwrap();
        let begin = tokio::time::Instant::now();
        Provenance::default().recall(&storage, newest).await.unwrap();
        assert_eq!((newest, begin.elapsed()), (EMPTY_STORE_REVISION, std::time::Duration::ZERO));
    }
}
