//! The writes that `explain` can show, in memory: bounded by bytes, and without a second copy of any string. Not the tree that
//! is made of them: that is the module above.

use super::{Effect, Note};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a write costs beside its keys and causes: its record.
const WRITE_BYTES: usize = size_of::<Write>();
/// What each key of a write costs: its place in the record and in the object's list of revisions.
const KEY_BYTES: usize = size_of::<(Arc<str>, Effect)>() + size_of::<i64>();
/// What each cause of a write costs: its place in the record and in the index by cause, with a node of that index.
const CAUSE_BYTES: usize = 96;
/// What an object costs beside its key: its place in the index, with the list of revisions and the allocations of both.
const OBJECT_BYTES: usize = 160;
/// What a distinct writer costs beside its strings.
const WRITER_BYTES: usize = 160;

/// One commit that wrote objects, as it comes from the storage.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) revision: i64,
    pub(super) keys: Vec<(String, Effect)>,
    pub(super) note: Note,
}

impl Record {
    /// What it costs to keep at least: its objects and its writer may be known already.
    pub(super) fn least_weight(&self) -> usize {
        let causes = self.note.causes.iter().filter(|cause| **cause < self.revision).count();
        weight(self.keys.len(), causes)
    }
}

/// One commit that wrote objects, as it is kept.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) revision: i64,
    pub(super) time_us: i64,
    pub(super) writer: Arc<Writer>,
    /// Earlier revisions only: others are no causes.
    pub(super) causes: Box<[i64]>,
    pub(super) keys: Box<[(Arc<str>, Effect)]>,
}

/// Who wrote, and how: the same few combinations occur again and again.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writer {
    pub(super) user: String,
    pub(super) agent: String,
    pub(super) verb: String,
}

impl Write {
    fn weight(&self) -> usize {
        weight(self.keys.len(), self.causes.len())
    }
}

impl Writer {
    fn weight(&self) -> usize {
        WRITER_BYTES + self.user.len() + self.agent.len() + self.verb.len()
    }
}

/// The newest writes, indexed by object and by cause. The oldest give way at the budget.
#[derive(Debug)]
pub(super) struct Log {
    /// In the order of their revisions.
    writes: VecDeque<Write>,
    /// The revisions that name a revision as their cause.
    effects: BTreeMap<i64, Vec<i64>>,
    /// The revisions that wrote an object, by its storage key.
    by_key: BTreeMap<Arc<str>, VecDeque<i64>>,
    writers: BTreeSet<Arc<Writer>>,
    bytes: usize,
    budget: usize,
}

impl Log {
    /// An empty log that keeps about as many bytes as `budget`.
    pub(super) fn new(budget: usize) -> Self {
        let (writes, effects, by_key, writers) = Default::default();
        Self { writes, effects, by_key, writers, bytes: 0, budget }
    }

    /// The write of a revision.
    pub(super) fn write(&self, revision: i64) -> Option<&Write> {
        let at = self.writes.binary_search_by_key(&revision, |write| write.revision).ok()?;
        self.writes.get(at)
    }

    /// The revision of the newest write.
    #[cfg(test)]
    pub(super) fn newest(&self) -> Option<i64> {
        self.writes.back().map(|write| write.revision)
    }

    /// The revisions that wrote an object, ascending.
    pub(super) fn revisions_of(&self, key: &str) -> Option<&VecDeque<i64>> {
        self.by_key.get(key)
    }

    /// The revisions that name `cause` as a cause, ascending.
    pub(super) fn effects_of(&self, cause: i64) -> &[i64] {
        self.effects.get(&cause).map_or(&[], Vec::as_slice)
    }

    /// Adds a write that is newer than all others.
    pub(super) fn insert(&mut self, record: Record) {
        let revision = record.revision;
        let Note { user, agent, verb, mut causes, time_us } = record.note;
        // A cause to come would stay in the index when its effect is forgotten.
        causes.retain(|cause| *cause < revision);
        for cause in &causes {
            self.effects.entry(*cause).or_default().push(revision);
        }
        let keys: Box<[_]> =
            record.keys.into_iter().map(|(key, effect)| (self.file(&key, revision), effect)).collect();
        let writer = self.intern(Writer { user, agent, verb });
        let write = Write { revision, time_us, writer, causes: causes.into(), keys };
        self.bytes += write.weight();
        self.writes.push_back(write);
        while self.bytes > self.budget && self.writes.len() > 1 {
            self.forget_oldest();
        }
    }

    /// Notes that a revision wrote an object, and returns the object's key as it is shared.
    fn file(&mut self, key: &str, revision: i64) -> Arc<str> {
        let shared = match self.by_key.get_key_value(key) {
            Some((shared, _)) => shared.clone(),
            None => {
                self.bytes += OBJECT_BYTES + key.len();
                Arc::from(key)
            }
        };
        self.by_key.entry(shared.clone()).or_default().push_back(revision);
        shared
    }

    fn intern(&mut self, writer: Writer) -> Arc<Writer> {
        if let Some(known) = self.writers.get(&writer) {
            return known.clone();
        }
        self.bytes += writer.weight();
        let writer = Arc::new(writer);
        self.writers.insert(writer.clone());
        writer
    }

    fn forget_oldest(&mut self) {
        let Some(write) = self.writes.pop_front() else { return };
        self.bytes -= write.weight();
        // Also what was filed under causes that were forgotten before.
        while self.effects.first_key_value().is_some_and(|(cause, _)| *cause <= write.revision) {
            self.effects.pop_first();
        }
        for (key, _) in &write.keys {
            let Some(revisions) = self.by_key.get_mut(key) else { continue };
            // Revisions are filed and forgotten in rising order.
            revisions.pop_front_if(|first| *first == write.revision);
            if revisions.is_empty() {
                self.by_key.remove(key);
                self.bytes -= OBJECT_BYTES + key.len();
            }
        }
        // The set's own reference and this one.
        if Arc::strong_count(&write.writer) == 2 {
            self.writers.remove(&write.writer);
            self.bytes -= write.writer.weight();
        }
    }
}

fn weight(keys: usize, causes: usize) -> usize {
    WRITE_BYTES + keys * KEY_BYTES + causes * CAUSE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(revision: i64, key: &str, agent: &str, causes: &[i64]) -> Record {
        let text = |s: &str| s.to_owned();
        let note = Note {
            user: text("u"),
            agent: text(agent),
            verb: text("create"),
            causes: causes.to_vec(),
            time_us: 0,
        };
        Record { revision, keys: vec![(text(key), Effect::Created)], note }
    }

    #[test]
    fn the_budget_bounds_bytes_and_the_oldest_writes_give_way() {
        let budget = 64 << 10;
        let mut log = Log::new(budget);
        for revision in 2..5_000 {
            let agent = format!("agent-{}", revision / 100);
            log.insert(record(
                revision,
                &format!("/registry/pods/ns/p{}", revision / 4),
                &agent,
                &[revision - 1],
            ));
            assert!(log.bytes <= budget, "{} bytes at revision {revision}", log.bytes);
        }
        let oldest = log.writes[0].revision;
        assert!((2..4_900).contains(&oldest) && log.writes.len() > 100, "{oldest}");
        assert!(log.write(oldest - 1).is_none() && log.write(oldest).is_some());
        assert!(log.effects.keys().all(|cause| *cause >= oldest));
        assert!(log.by_key.values().flatten().all(|revision| *revision >= oldest));
        assert!(log.writers.len() <= log.writes.len() / 100 + 2, "writers without writes are dropped");
    }

    #[test]
    fn a_log_that_forgot_everything_weighs_nothing() {
        let mut log = Log::new(1 << 20);
        for revision in 2..200 {
            log.insert(record(revision, &format!("k{}", revision % 7), "a", &[revision - 1, 1]));
        }
        (0..198).for_each(|_| log.forget_oldest());
        assert_eq!(log.bytes, 0);
        assert!(
            log.writes.is_empty()
                && log.effects.is_empty()
                && log.by_key.is_empty()
                && log.writers.is_empty()
        );
    }

    #[test]
    fn one_write_larger_than_the_budget_is_still_shown() {
        let mut log = Log::new(100);
        log.insert(record(2, &"k".repeat(500), "a", &[]));
        log.insert(record(3, "small", "a", &[]));
        assert!(log.write(2).is_none() && log.write(3).is_some());
    }

    #[test]
    fn a_cause_that_is_not_earlier_is_not_filed() {
        let mut log = Log::new(1 << 20);
        log.insert(record(5, "k", "a", &[4, 5, i64::MAX]));
        assert_eq!(&*log.write(5).unwrap().causes, [4]);
        assert_eq!(log.effects.len(), 1);
    }
}
