//! [`Log`]: the writes that `explain` can show, in memory, bounded by bytes. `tree` builds the tree of them.

use super::chunk::{Builder, Chunk};
use super::record::Record;
use std::collections::VecDeque;

/// The newest writes, in chunks. Beyond the budget the oldest chunk is dropped.
#[derive(Debug)]
pub(super) struct Log {
    full: VecDeque<Chunk>,
    newest: Builder,
    /// Bytes of the full chunks.
    bytes: usize,
    budget: usize,
    /// The revision of the newest write; zero if there is none.
    newest_revision: i64,
    /// Whether older writes are not in memory.
    has_dropped: bool,
}

impl Log {
    /// An empty log that keeps about `budget` bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            full: VecDeque::new(),
            newest: Builder::default(),
            bytes: 0,
            budget,
            newest_revision: 0,
            has_dropped: false,
        }
    }

    /// Adds a write, which must be newer than all others.
    pub(super) fn insert(&mut self, record: &Record) {
        if self.newest.is_full() {
            self.seal_newest();
        }
        self.newest.push(record);
        self.newest_revision = record.revision;
        while self.len() > self.budget {
            let Some(oldest) = self.full.pop_front() else { break };
            self.bytes -= oldest.len();
            self.has_dropped = true;
        }
    }

    /// Inserts the writes of an older log before its own, as far as the budget allows. Returns whether all of
    /// them fit.
    pub(super) fn prepend(&mut self, mut older: Self) -> bool {
        older.seal_newest();
        self.newest_revision = self.newest_revision.max(older.newest_revision);
        self.has_dropped |= older.has_dropped;
        while let Some(chunk) = older.full.pop_back() {
            if self.len() + chunk.len() > self.budget {
                self.has_dropped = true;
                return false;
            }
            self.bytes += chunk.len();
            self.full.push_front(chunk);
        }
        true
    }

    /// Notes that older writes are not in memory.
    pub(super) fn note_dropped(&mut self) {
        self.has_dropped = true;
    }

    /// Whether older writes are not in memory.
    pub(super) fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// The budget in bytes.
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    /// The size of all writes in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes + self.newest.len()
    }

    /// A snapshot of all chunks, oldest first.
    pub(super) fn chunks(&self) -> Vec<Chunk> {
        self.full.iter().cloned().chain(self.newest.snapshot()).collect()
    }

    /// A log with the same writes, which shares their memory.
    pub(super) fn fork(&mut self) -> Self {
        self.seal_newest();
        Self { full: self.full.clone(), newest: Builder::default(), ..*self }
    }

    /// The revision of the newest write; zero if there is none.
    pub(super) fn newest_revision(&self) -> i64 {
        self.newest_revision
    }

    fn seal_newest(&mut self) {
        if let Some(chunk) = std::mem::take(&mut self.newest).seal() {
            self.bytes += chunk.len();
            self.full.push_back(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effect, Note};
    use super::*;

    fn record(revision: i64, key: &str, agent: &str, causes: &[i64]) -> Record {
        let text = |s: &str| s.to_owned();
        let (user, agent, verb, causes) = (text("u"), text(agent), text("create"), causes.to_vec());
        Record {
            revision,
            keys: vec![(text(key), Effect::Created)],
            note: Note { user, agent, verb, causes, time_us: 0 },
        }
    }

    fn revisions(log: &Log) -> Vec<i64> {
        let chunks = log.chunks();
        chunks.iter().flat_map(Chunk::writes).map(|write| write.revision).collect()
    }

    #[test]
    fn the_log_drops_its_oldest_writes_beyond_the_budget() {
        let budget = 256 << 10;
        let mut log = Log::new(budget);
        for revision in 2..20_000 {
            let agent = format!("agent-{}", revision / 100);
            let key = format!("/registry/pods/ns/p{}", revision / 4);
            log.insert(&record(revision, &key, &agent, &[revision - 1]));
            assert!(log.len() <= budget, "{} bytes at revision {revision}", log.len());
        }
        let kept = revisions(&log);
        assert!(kept.windows(2).all(|two| two[0] + 1 == two[1]));
        assert_eq!(kept.last(), Some(&19_999));
        assert!(kept.len() > 8_000, "{} writes in {budget} bytes", kept.len());
    }

    #[test]
    fn one_write_larger_than_the_budget_is_still_shown() {
        let mut log = Log::new(100);
        log.insert(&record(2, &"k".repeat(100_000), "a", &[]));
        assert_eq!(revisions(&log), [2]);
        log.insert(&record(3, "small", "a", &[]));
        assert_eq!(revisions(&log), [3]);
    }

    #[test]
    fn older_writes_are_prepended_within_the_budget() {
        let filled = |from: i64, to: i64| {
            let mut log = Log::new(350 << 10);
            (from..to).for_each(|revision| log.insert(&record(revision, &format!("k{revision}"), "a", &[])));
            log
        };
        let (mut log, middle, oldest) = (filled(20_000, 30_000), filled(10_000, 20_000), filled(1, 10_000));
        assert!(log.prepend(middle));
        assert_eq!(revisions(&log), Vec::from_iter(10_000..30_000));
        assert!(!log.prepend(oldest));
        let kept = revisions(&log);
        assert!(log.len() <= 350 << 10 && kept[0] < 10_000 && kept[0] > 1, "{}", kept[0]);
        assert_eq!(kept, Vec::from_iter(kept[0]..30_000));
    }

    /// Checks the numbers of writes that the documentation of `limits::TRACE_BYTES` states.
    #[test]
    fn the_trace_budget_holds_the_documented_number_of_writes() {
        let kept = |key: fn(i64) -> i64| {
            let mut log = Log::new(kstore_storage::limits::TRACE_BYTES);
            for revision in 2..300_000 {
                let key = format!("/registry/pods/default/web-7c5ddbdf54-{:05}", key(revision));
                log.insert(&record(revision, &key, "kube-scheduler/v1.36", &[revision - 7]));
            }
            revisions(&log).len()
        };
        // Sixty-four pods at a time with six writes each, and objects whose two writes are far apart.
        let (pods, short_lived) = (kept(|nth| nth / 384 * 64 + nth % 64), kept(|nth| nth % 25_000));
        assert!(pods > 150_000 && short_lived > 60_000, "{pods} and {short_lived} writes");
    }
}
