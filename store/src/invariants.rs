//! What must hold whatever happens, checked in every build. A store that breaks one of these must not go on.

use std::sync::Arc;

use crate::Revision;
use crate::commit::Commit;

/// Revisions are consecutive: a commit with changes makes the next one, one without stays where the store is; and every
/// change in it is of its revision.
pub(crate) fn follows(current: Revision, commit: &Commit) {
    let expected = if commit.events.is_empty() { current } else { current.next() };
    assert_eq!(commit.revision, expected, "revisions are consecutive");
    let own = commit.events.iter().all(|event| event.revision() == commit.revision);
    assert!(own, "a change is of its commit's revision");
}

/// The engine is given only what the log has: otherwise a crash could make it remember what never was.
pub(crate) fn log_covers(synced_seq: u64, commits: &[Arc<Commit>]) {
    let last = commits.last().map_or(0, |commit| commit.seq);
    assert!(last <= synced_seq, "record {last} goes to the engine, but the log is synced up to {synced_seq}");
}
