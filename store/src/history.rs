//! Reading the history from its beginning, in order and in bounded steps, from engine and window. Blocks no writer, and is
//! not disturbed by compaction.

use std::collections::BTreeSet;

use crate::Revision;
use crate::commit::RecordKey;
use crate::core::{Core, records};
use crate::engine::{EngineError, Record};
use crate::pins::Pin;

/// See the module. Records that compaction made unreachable may or may not be among the ones read, but a version is never
/// read without the deletion that hides it.
pub(crate) struct History<'a> {
    core: &'a Core,
    _pin: Pin<'a>,
    next: Revision,
    to: Revision,
    /// Damaged records.
    left_out: BTreeSet<RecordKey>,
}

impl<'a> History<'a> {
    /// Everything up to `to`, which is published.
    pub(crate) fn upto(core: &'a Core, to: Revision, pin: Pin<'a>) -> Self {
        Self { core, _pin: pin, next: Revision(0), to, left_out: BTreeSet::new() }
    }

    /// Leaves these records of the engine out from now on, without reading them.
    pub(crate) fn leave_out(&mut self, records: BTreeSet<RecordKey>) {
        self.left_out = records;
    }

    /// The next records, whole revisions; none behind the last.
    pub(crate) fn step(&mut self) -> Result<Option<Vec<Record>>, EngineError> {
        /// Bytes of records held at once.
        const STEP: usize = 1 << 20;
        /// Commits taken from the window at once.
        const COMMITS: usize = 64;
        if self.next > self.to {
            return Ok(None);
        }
        let visible = self.core.visible();
        let Some(commits) = visible.window.since(self.next) else {
            // The window begins behind what the engine has.
            let last = visible.window.first().previous().min(self.to);
            drop(visible);
            let scan = self.core.engine.scan_without(self.next, last, STEP, &self.left_out)?;
            self.next = scan.next;
            return Ok(Some(scan.records));
        };
        let wanted = commits.take_while(|commit| commit.revision <= self.to);
        let commits: Vec<_> = wanted.take(COMMITS).cloned().collect();
        drop(visible);
        self.next = commits.last().map_or(self.to, |commit| commit.revision).next();
        Ok(Some(commits.iter().flat_map(|commit| records(commit)).collect()))
    }
}
