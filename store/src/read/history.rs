//! Iteration over the history from its beginning, in order and in bounded steps, from engine and window. It blocks no
//! writer, and compaction does not disturb it.

use crate::Revision;
use crate::engine::{Engine, EngineError};
use crate::published::core::Core;
use crate::published::pins::Pin;
use crate::types::record::{Record, RecordKey};
use std::collections::BTreeSet;

/// An iterator over history records. It may or may not yield records that compaction made unreachable, but never a
/// version without the tombstone that hides it.
pub(crate) struct History<'a> {
    core: &'a Core,
    _pin: Pin<'a>,
    next: Revision,
    to: Revision,
    /// Damaged records that the iterator skips.
    skipped: BTreeSet<RecordKey>,
}

impl<'a> History<'a> {
    /// Creates an iterator over all records up to `to`, which must be published.
    pub(crate) fn upto(core: &'a Core, to: Revision, pin: Pin<'a>) -> Self {
        Self { core, _pin: pin, next: Revision(0), to, skipped: BTreeSet::new() }
    }

    /// Skips these records of the engine from now on, without reading them.
    pub(crate) fn skip(&mut self, records: BTreeSet<RecordKey>) {
        self.skipped = records;
    }

    /// Returns the next records, whole revisions at a time; none at the end.
    pub(crate) fn step(&mut self) -> Result<Option<Vec<Record>>, EngineError> {
        /// Bytes of records read per step.
        const STEP: usize = 1 << 20;
        /// Commits read from the window per step.
        const COMMITS: usize = 64;
        if self.next > self.to {
            return Ok(None);
        }
        let visible = self.core.visible();
        let Some(commits) = visible.window.since(self.next) else {
            // The window begins later; these revisions are read from the engine.
            let last = visible.window.first().previous().min(self.to);
            drop(visible);
            let scan = self.core.engine.scan_without(self.next, last, STEP, &self.skipped)?;
            self.next = scan.next;
            return Ok(Some(scan.records));
        };
        let wanted = commits.take_while(|commit| commit.revision <= self.to);
        let commits: Vec<_> = wanted.take(COMMITS).cloned().collect();
        drop(visible);
        self.next = commits.last().map_or(self.to, |commit| commit.revision).next();
        Ok(Some(commits.iter().flat_map(|commit| commit.records()).collect()))
    }
}
