//! Physical compaction: removes from index and engine what no read at or above the compacted revision can reach. It
//! works in bounded steps, so that the calling thread can do other work in between. It can be repeated, or interrupted
//! at any point, also by a crash.

use crate::engine::{Engine, EngineError};
use crate::mvcc::index::CompactionBound;
use crate::published::core::Core;
use crate::types::record::RecordKey;
use crate::{Alarm, Revision};
use std::collections::VecDeque;

/// Records that one step removes from the engine: a few hundred microseconds of work.
pub(super) const RECORDS: usize = 1_000;
/// Index leaves that one step visits. The step takes the index's lock once per leaf.
const LEAVES: usize = 64;

/// Progress of physical compaction. Every revision up to the requested one must be in the engine already.
#[derive(Debug)]
pub(crate) struct Sweeper {
    /// The revision up to which compaction was requested.
    wanted: Revision,
    /// The revision up to which all superseded records are removed.
    done: Revision,
    phase: Phase,
    /// Versions removed since the last search for unused notes.
    removed: u64,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Versions(Versions),
    Notes(Notes),
}

/// Phase 1: removes superseded versions and old tombstones.
#[derive(Debug)]
struct Versions {
    cut: CompactionBound,
    /// The key to continue from; none at the end of the index.
    from: Option<Box<[u8]>>,
    /// Records removed from the index but not yet from the engine. The records of one key ascend and are removed in
    /// that order: after a crash, a version must not be there without the tombstone that hides it.
    backlog: VecDeque<RecordKey>,
}

/// Phase 2: removes unused notes. A note is unused if no kept version and no existing key's creation is of its
/// revision.
#[derive(Debug)]
struct Notes {
    revision: Revision,
    from: Option<Box<[u8]>>,
    /// Notes by ascending revision, each with whether it is still used.
    notes: Vec<(Revision, bool)>,
}

impl Sweeper {
    /// Creates a sweeper whose work is done up to `done`.
    pub(crate) fn new(done: Revision) -> Self {
        Self { wanted: done, done, phase: Phase::Idle, removed: 0 }
    }

    /// Requests the removal of all records that reads at `revision` or later cannot reach.
    pub(crate) fn want(&mut self, revision: Revision) {
        self.wanted = self.wanted.max(revision);
    }

    /// The revision up to which all superseded records are removed from the engine.
    pub(crate) fn done(&self) -> Revision {
        self.done
    }

    /// Does one bounded step. Returns whether there is more to do. After an error the step may be tried again.
    pub(crate) fn step(&mut self, core: &Core) -> Result<bool, EngineError> {
        let next = match &mut self.phase {
            Phase::Idle if self.wanted <= self.done => return Ok(false),
            Phase::Idle => Some(Phase::Versions(Versions::begin(core, self.wanted))),
            Phase::Versions(versions) => {
                self.removed += versions.step(core)?;
                let over = versions.is_over().then_some(versions.cut.revision);
                over.map(|revision| self.after_versions(core, revision)).transpose()?
            }
            Phase::Notes(notes) => {
                notes.step(core)?;
                let over = notes.is_over().then_some(notes.revision);
                over.map(|revision| self.finish(revision))
            }
        };
        if let Some(next) = next {
            self.phase = next;
        }
        Ok(true)
    }

    /// Chooses the phase after the removal of versions. The search for unused notes visits every key, so it runs only
    /// after enough versions were removed to pay for it. Until then unused notes may stay.
    fn after_versions(&mut self, core: &Core, revision: Revision) -> Result<Phase, EngineError> {
        /// Number of keys visited that one removed version pays for.
        const KEYS: u64 = 4;
        let keys = core.keys();
        if self.removed == 0 || self.removed * KEYS < keys {
            return Ok(self.finish(revision));
        }
        self.removed = 0;
        Ok(Phase::Notes(Notes::begin(core, revision)?))
    }

    fn finish(&mut self, revision: Revision) -> Phase {
        self.done = revision;
        Phase::Idle
    }
}

impl Versions {
    fn begin(core: &Core, revision: Revision) -> Self {
        let reach = core.engine_revision().next().min(revision);
        core.visible_mut().window.drop_below(reach);
        // Without space, the newest superseded versions are removed too; otherwise deleting and compacting would free
        // nothing at first.
        let out_of_space = core.visible().state.alarms.contains(Alarm::NoSpace);
        let cut =
            if out_of_space { CompactionBound::close(revision) } else { CompactionBound::from(revision) };
        Self { cut, from: Some(Box::default()), backlog: VecDeque::new() }
    }

    fn is_over(&self) -> bool {
        self.from.is_none() && self.backlog.is_empty()
    }

    /// Removes one batch and returns the number of removed records.
    fn step(&mut self, core: &Core) -> Result<u64, EngineError> {
        let mut removed = Vec::new();
        for _ in 0..LEAVES {
            let Some(from) = self.from.take_if(|_| self.backlog.len() < RECORDS) else { break };
            self.from = core.visible_mut().index.compact(&from, self.cut, &mut removed);
            self.backlog.extend(removed.drain(..));
        }
        let batch: Vec<_> = self.backlog.range(..self.backlog.len().min(RECORDS)).copied().collect();
        if !batch.is_empty() {
            core.pins.remove(&batch)?;
        }
        self.backlog.drain(..batch.len());
        core.metrics.compacted_versions.add(batch.len() as u64);
        Ok(batch.len() as u64)
    }
}

impl Notes {
    fn begin(core: &Core, revision: Revision) -> Result<Self, EngineError> {
        let notes = core.engine.notes_below(revision)?;
        let notes: Vec<_> = notes.into_iter().map(|revision| (revision, false)).collect();
        Ok(Self { revision, from: (!notes.is_empty()).then(Box::default), notes })
    }

    fn is_over(&self) -> bool {
        self.from.is_none() && self.notes.is_empty()
    }

    fn step(&mut self, core: &Core) -> Result<(), EngineError> {
        for _ in 0..LEAVES {
            let Some(from) = self.from.take() else { return self.remove(core) };
            let visible = core.visible();
            let (entries, next) = visible.index.step(&from);
            for entry in entries {
                entry.revisions().for_each(|revision| keep(&mut self.notes, revision));
                keep(&mut self.notes, entry.newest().kv.create_revision());
            }
            self.from = next;
        }
        Ok(())
    }

    fn remove(&mut self, core: &Core) -> Result<(), EngineError> {
        // Removes from the end, where truncating a vector is cheap.
        let rest = self.notes.len().saturating_sub(RECORDS);
        let unused = self.notes[rest..].iter().filter(|(_, used)| !used);
        let keys: Vec<_> = unused.map(|(revision, _)| RecordKey::note(*revision)).collect();
        if !keys.is_empty() {
            core.pins.remove(&keys)?;
        }
        self.notes.truncate(rest);
        Ok(())
    }
}

/// Marks the note of `revision` as used, if there is one.
fn keep(notes: &mut [(Revision, bool)], revision: Revision) {
    if let Ok(at) = notes.binary_search_by_key(&revision, |(revision, _)| *revision) {
        notes[at].1 = true;
    }
}
