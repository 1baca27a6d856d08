//! The window: the newest commits in memory, for slightly lagging watchers and reads of recent revisions. Older history
//! is in the engine.

use crate::types::commit::Commit;
use crate::types::event::Event;
use crate::types::record::RecordKey;
use crate::{Limits, Revision};
use std::collections::VecDeque;
use std::sync::Arc;

/// Commits of consecutive revisions, up to the newest.
#[derive(Debug)]
pub(crate) struct Window {
    /// The revision of the first commit, or of the next one if there is none.
    first: Revision,
    /// Each commit with its cost in bytes. Computing the cost again would load the whole commit into the cache.
    commits: VecDeque<(Arc<Commit>, usize)>,
    bytes: usize,
}

impl Window {
    /// Creates an empty window that starts after `revision`.
    pub(crate) fn after(revision: Revision) -> Self {
        Self { first: revision.next(), commits: VecDeque::new(), bytes: 0 }
    }

    /// Number of commits in the window.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.commits.len()
    }

    /// The lowest revision in the window; if it is empty, the next revision.
    pub(crate) fn first(&self) -> Revision {
        self.first
    }

    /// Adds the commit of the next revision.
    pub(crate) fn push(&mut self, commit: Arc<Commit>) {
        debug_assert_eq!(
            commit.revision.0,
            self.first.0 + self.commits.len() as i64,
            "revisions are consecutive"
        );
        let cost = commit.cost();
        self.bytes += cost;
        self.commits.push_back((commit, cost));
    }

    /// Drops the oldest commits while the window is over its bounds, but none above `stored`, the newest revision in
    /// the engine.
    pub(crate) fn trim(&mut self, limits: &Limits, stored: Revision) {
        while self.first <= stored
            && (self.commits.len() > limits.window_revisions || self.bytes > limits.window_bytes)
        {
            self.drop_first();
        }
    }

    /// Drops the commits below `revision`.
    pub(crate) fn drop_below(&mut self, revision: Revision) {
        while self.first < revision && !self.commits.is_empty() {
            self.drop_first();
        }
    }

    /// Takes out the oldest commits up to `revision`, at most `most` of them, while the window has more than `keep`
    /// bytes. Returns them, so that the caller frees them after it releases the window's lock.
    pub(crate) fn release(&mut self, revision: Revision, keep: usize, most: usize) -> Vec<Arc<Commit>> {
        let mut released = Vec::new();
        while self.first <= revision && self.bytes > keep && released.len() < most {
            released.extend(self.drop_first());
        }
        if released.len() < most {
            self.commits.shrink_to(2 * self.commits.len());
        }
        released
    }

    fn drop_first(&mut self) -> Option<Arc<Commit>> {
        let (commit, cost) = self.commits.pop_front()?;
        self.bytes -= cost;
        self.first = self.first.next();
        Some(commit)
    }

    /// The commit of a revision, if it is in the window.
    pub(crate) fn get(&self, revision: Revision) -> Option<&Arc<Commit>> {
        let at = usize::try_from(revision.0 - self.first.0).ok()?;
        self.commits.get(at).map(|(commit, _)| commit)
    }

    /// The event with this key, if it is in the window.
    pub(crate) fn event(&self, key: RecordKey) -> Option<&Arc<Event>> {
        self.get(key.main)?.events.get(key.sub as usize)
    }

    /// The commits from `from` on; none if some of them have been dropped.
    pub(crate) fn since(&self, from: Revision) -> Option<impl Iterator<Item = &Arc<Commit>>> {
        let at = usize::try_from(from.0 - self.first.0).ok()?;
        Some(self.commits.range(at.min(self.commits.len())..).map(|(commit, _)| commit))
    }
}
