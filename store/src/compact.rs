//! Physical compaction: removes from index and engine what no read at or above the compacted revision can reach, in bounded
//! steps, so that whoever does it can do other things in between. Derived work: it may be repeated, or interrupted at any
//! point, also by a crash.

use std::collections::VecDeque;

use crate::commit::RecordKey;
use crate::core::Core;
use crate::engine::EngineError;
use crate::index::Cut;
use crate::{Alarm, Revision};

/// Records that one step removes from the engine: a few hundred microseconds of work.
const RECORDS: usize = 1_000;
/// Parts of the index that one step looks at, each under a turn of the index's lock.
const LEAVES: usize = 64;

/// See the module. Everything up to the revisions it is asked for must be in the engine already.
#[derive(Debug)]
pub(crate) struct Sweeper {
    /// As far as was asked for.
    wanted: Revision,
    /// As far as everything is removed.
    done: Revision,
    phase: Phase,
    /// Versions removed since unused notes were looked for.
    removed: u64,
}

#[derive(Debug)]
enum Phase {
    Idle,
    Versions(Versions),
    Notes(Notes),
}

/// Removing superseded versions and old deletions.
#[derive(Debug)]
struct Versions {
    cut: Cut,
    /// The key to go on from; none at the end of the index.
    from: Option<Box<[u8]>>,
    /// Out of the index, not yet out of the engine. Those of one key ascend and leave in that order: a crash in between
    /// must not bring back a version without the deletion that hides it.
    backlog: VecDeque<RecordKey>,
}

/// Removing the notes of revisions that made none of the versions still kept and created no key that still exists.
#[derive(Debug)]
struct Notes {
    revision: Revision,
    from: Option<Box<[u8]>>,
    /// Ascending; each with whether it is still of use.
    notes: Vec<(Revision, bool)>,
}

impl Sweeper {
    /// One that has swept as far as `done`.
    pub(crate) fn new(done: Revision) -> Self {
        Self { wanted: done, done, phase: Phase::Idle, removed: 0 }
    }

    /// Asks for everything below `revision` that reads cannot reach to be removed.
    pub(crate) fn want(&mut self, revision: Revision) {
        self.wanted = self.wanted.max(revision);
    }

    /// As far as everything is removed from the engine.
    pub(crate) fn done(&self) -> Revision {
        self.done
    }

    /// One bounded step; says whether there is more to do. After an error it may be tried again.
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

    /// Looking for unused notes visits every key. It is done when that many versions went that the cost of it is theirs: an
    /// unused note may stay until then.
    fn after_versions(&mut self, core: &Core, revision: Revision) -> Result<Phase, EngineError> {
        /// Keys that a removed version pays for.
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
        let reach = core.stored().next().min(revision);
        core.visible_mut().window.drop_below(reach);
        // Out of space, what was superseded last goes as well: else deleting and compacting would free nothing at first.
        let out_of_space = core.visible().alarms.contains(Alarm::NoSpace);
        let cut = if out_of_space { Cut::close(revision) } else { Cut::from(revision) };
        Self { cut, from: Some(Box::default()), backlog: VecDeque::new() }
    }

    fn is_over(&self) -> bool {
        self.from.is_none() && self.backlog.is_empty()
    }

    /// Says how many records went.
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
        // From the end, where a vector shrinks.
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

/// The note of `revision`, if there is one, is still of use.
fn keep(notes: &mut [(Revision, bool)], revision: Revision) {
    if let Ok(at) = notes.binary_search_by_key(&revision, |(revision, _)| *revision) {
        notes[at].1 = true;
    }
}
