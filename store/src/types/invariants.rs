//! Invariants that are checked in every build. A store that breaks one of them panics.

use crate::Revision;
use crate::types::commit::Commit;
use std::sync::Arc;

/// Asserts that revisions are consecutive. A commit with events makes the next revision; a commit without keeps the
/// current one; every event has its commit's revision.
pub(crate) fn follows(current: Revision, commit: &Commit) {
    let expected = if commit.events.is_empty() { current } else { current.next() };
    assert_eq!(commit.revision, expected, "revisions are consecutive");
    let own = commit.events.iter().all(|event| event.revision() == commit.revision);
    assert!(own, "a change is of its commit's revision");
}

/// Asserts that the log has synced all commits given to the engine. Otherwise the engine could hold a commit that a
/// crash removes from the log.
pub(crate) fn log_covers(synced_seq: u64, commits: &[Arc<Commit>]) {
    let last = commits.last().map_or(0, |commit| commit.seq);
    assert!(last <= synced_seq, "record {last} goes to the engine, but the log is synced up to {synced_seq}");
}
