//! Provenance: the author and causes of each write. Every commit carries them as a note, and `explain`
//! derives a tree from the notes. It is not an audit log: requests that write nothing are not in it.

pub mod changes;
mod chunk;
mod log;
mod note;
mod record;
mod tree;

use kstore_storage::limits;
use kstore_storage::storage::{RawBatch, RawWatch, ReadError, SharedStorage};
use log::Log;
pub use note::Note;
use parking_lot::RwLock;
pub use record::Effect;
use record::Record;
pub use tree::{KnownFrom, ObjectTrace, TraceNode};

/// The revision of an empty store, ours as well as etcd's: no commit has it, so no watch ever delivers it.
const EMPTY_STORE_REVISION: i64 = 1;

/// The newest writes with their causes, in memory, by default up to [`limits::TRACE_BYTES`].
pub struct Provenance(RwLock<Log>);

impl Default for Provenance {
    fn default() -> Self {
        Self::new(limits::TRACE_BYTES)
    }
}

impl Provenance {
    /// Keeps about this many bytes of writes.
    pub fn new(bytes: usize) -> Self {
        Self(RwLock::new(Log::new(bytes)))
    }

    /// Loads the notes of the storage's history up to a revision, as many as fit, so that a restart loses
    /// only compacted history. All writes that were observed before the call must be newer.
    pub async fn recall(&self, storage: &SharedStorage, upto: i64) -> Result<(), ReadError> {
        self.recall_ranges(storage, upto, limits::RECALL_REVISIONS).await
    }

    /// Loads history in ranges of `length` revisions, the newest first: only the end of a long history fits,
    /// and the rest need not be read.
    async fn recall_ranges(
        &self,
        storage: &SharedStorage,
        mut upto: i64,
        length: i64,
    ) -> Result<(), ReadError> {
        let budget = self.0.read().budget();
        let mut recalled = Log::new(budget);
        while upto > EMPTY_STORE_REVISION {
            let after = (upto - length).max(EMPTY_STORE_REVISION);
            let range = HistoryRange::read(storage, after, upto, budget).await?;
            if !recalled.prepend(range.writes) || !range.is_whole {
                recalled.note_dropped();
                break;
            }
            upto = after;
        }
        self.0.write().prepend(recalled);
        Ok(())
    }

    /// A copy for a server over a fork of the storage, and the newest revision in it: the copy need not
    /// observe revisions up to that.
    pub fn fork(&self) -> (Self, i64) {
        let mut log = self.0.write();
        let newest = log.newest_revision();
        (Self(RwLock::new(log.fork())), newest)
    }

    /// A copy without writes, whose earlier ones are not known any more, of the same size.
    pub fn emptied(&self) -> Self {
        let mut log = Log::new(self.0.read().budget());
        log.note_dropped();
        Self(RwLock::new(log))
    }

    /// Adds one committed revision. Leases and events are left out: they explain nothing and would push out
    /// writes that do.
    pub fn observe(&self, batch: &RawBatch) {
        if let Some(record) = Record::of(batch) {
            self.0.write().insert(&record);
        }
    }

    /// The writes to one object, by storage key, with what led to them and what followed from them. Without writes if
    /// there are none in memory. Takes time in proportion to the writes in memory.
    pub fn trace(&self, key: &str) -> ObjectTrace {
        let (chunks, has_dropped) = {
            let log = self.0.read();
            (log.chunks(), log.has_dropped())
        };
        tree::trace(&chunks, key, has_dropped)
    }

    /// The revision of the `back`-th newest outside write before a revision to an object whose storage key `selects` takes. A write is an
    /// outside one if it names no cause, and its writer is not a component of the control plane. `None` if fewer are in memory.
    pub fn outside_write_before(
        &self,
        before: i64,
        back: u32,
        selects: impl Fn(&str) -> bool,
    ) -> Option<i64> {
        let chunks = self.0.read().chunks();
        let mut left = back;
        for chunk in chunks.iter().rev() {
            let writes: Vec<_> = chunk.writes().take_while(|write| write.revision < before).collect();
            for write in writes.iter().rev() {
                let is_outside = write.causes.is_empty() && !is_component(write.writer.user);
                if !is_outside || !write.keys.iter().any(|(key, _)| selects(key)) {
                    continue;
                }
                left = left.saturating_sub(1);
                if left == 0 {
                    return Some(write.revision);
                }
            }
        }
        None
    }
}

/// Whether a user is a component of the control plane or a node: its writes are consequences, also where they name no cause.
pub fn is_component(user: &str) -> bool {
    const COMPONENTS: [&str; 3] =
        ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"];
    const PREFIXES: [&str; 2] = ["system:node:", "system:serviceaccount:kube-system:"];
    COMPONENTS.contains(&user) || PREFIXES.iter().any(|prefix| user.starts_with(prefix))
}

/// The writes of a range of the history.
struct HistoryRange {
    writes: Log,
    /// Whether the whole range could be read, so that there may be older history.
    is_whole: bool,
}

impl HistoryRange {
    /// Reads the history after one revision up to another.
    async fn read(storage: &SharedStorage, after: i64, upto: i64, budget: usize) -> Result<Self, ReadError> {
        let (mut history, mut revision) = watch_from_oldest(storage, after).await?;
        let mut range = Self { writes: Log::new(budget), is_whole: revision == after };
        while revision < upto {
            // A storage that fails meanwhile does not prevent the start: only history is missing.
            let Ok(Some(batch)) = tokio::time::timeout(limits::FRESH_WAIT, history.next()).await else {
                return Ok(Self { is_whole: false, ..range });
            };
            match batch {
                Ok(batch) => {
                    revision = batch.revision;
                    // The watch cache delivers newer revisions.
                    let record = Record::of(&batch).filter(|_| revision <= upto);
                    record.iter().for_each(|record| range.writes.insert(record));
                }
                Err(ReadError::Compacted { oldest: begin }) if begin > revision => {
                    range.is_whole = false;
                    (history, revision) = watch_from_oldest(storage, begin).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(range)
    }
}

/// Watches the history after `revision`, or after the oldest revision that compaction has left; returns that
/// revision too.
async fn watch_from_oldest(
    storage: &SharedStorage,
    revision: i64,
) -> Result<(Box<dyn RawWatch>, i64), ReadError> {
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
    async fn recalled_provenance_equals_observed_provenance_for_every_range_length() {
        let config = kstore_store::Config::memory();
        let store = kstore_store::Store::open(config, kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(kstore_storage::storage::embedded::Embedded::new(store));
        let write = |nth: i64| {
            let (key, value) = (format!("/registry/pods/ns/p{}", nth % 5), Bytes::from_static(b"{}"));
            let writes = vec![kstore_storage::storage::Write::Put { key, value, ttl_seconds: 0 }];
            storage.commit(kstore_storage::storage::Commit {
                guards: Vec::new(),
                writes,
                note: note(&[nth]).encode(),
            })
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
            recalled.recall_ranges(&storage, newest, length).await.unwrap();
            assert_eq!(shown(&recalled), shown(&observed), "stretches of {length}");
        }
        write(40).await.unwrap();
        let recalled = Provenance::default();
        recalled.recall_ranges(&storage, newest, 7).await.unwrap();
        assert_eq!(shown(&recalled), shown(&observed), "newer revisions come from the cache");
    }

    #[test]
    fn outside_writes_are_those_without_a_cause_by_others_than_the_control_plane() {
        let log = Provenance::default();
        let text = |text: &str| text.to_owned();
        let write = |revision, key: &str, user: &str, causes: &[i64]| {
            let (user, causes) = (text(user), causes.to_vec());
            let note = Note { user, agent: text("a"), verb: text("update"), causes, time_us: 0 };
            log.0.write().insert(&Record { revision, keys: vec![(text(key), Effect::Updated)], note });
        };
        write(2, "a", "admin", &[]);
        write(3, "b", "admin", &[]);
        write(4, "a", "admin", &[2]);
        write(5, "a", "system:serviceaccount:kube-system:deployment-controller", &[]);
        write(6, "a", "system:node:n", &[]);
        write(7, "a", "system:serviceaccount:shop:operator", &[]);
        let all = |before, back| log.outside_write_before(before, back, |_| true);
        assert_eq!([all(9, 1), all(9, 2), all(9, 3), all(9, 4)], [Some(7), Some(3), Some(2), None]);
        assert_eq!([all(7, 1), all(3, 1), all(2, 1)], [Some(3), Some(2), None]);
        assert_eq!(log.outside_write_before(7, 1, |key| key == "a"), Some(2));
    }

    /// Regression test: a server on a new store waited three seconds for the first revision, which has no
    /// events.
    #[tokio::test(start_paused = true)]
    async fn recalling_an_empty_history_takes_no_time() {
        let config = kstore_store::Config::memory();
        let store = kstore_store::Store::open(config, kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(kstore_storage::storage::embedded::Embedded::new(store));
        let newest = storage.revision().await.unwrap();
        let begin = tokio::time::Instant::now();
        Provenance::default().recall(&storage, newest).await.unwrap();
        assert_eq!((newest, begin.elapsed()), (EMPTY_STORE_REVISION, std::time::Duration::ZERO));
    }
}
