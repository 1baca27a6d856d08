//! Bounds of a recording.

use std::time::Duration;

/// Messages of watches that wait to be merged. At the bound the watches wait; the server ends one that waits for too long, and the recorder
/// lists its resource again: a gap.
pub(super) const QUEUED_MESSAGES: usize = 1_024;

/// Changes that wait for the watches of other resources. Beyond it the oldest are stored at once: a change of an older revision that comes
/// after them is stored late.
pub(super) const PENDING_CHANGES: usize = 100_000;

/// Bytes of changes that one sync of the store makes durable. Larger commits, of a gap, are stored in several revisions.
pub(super) const SYNCED_BYTES: usize = 16 << 20;

/// Revisions that one sync makes durable.
pub(super) const SYNCED_REVISIONS: usize = 10_000;

/// Largest distance between the revisions of two lists of one etcd that were read one after the other. Resources beyond are of another
/// etcd, whose revisions cannot be merged.
pub(super) const FARTHEST_LIST: i64 = 10_000_000;

/// Pause after the first failure of a watch; it doubles.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Longest pause after failures of a watch.
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(30);
