//! Bounds on the deletions of a deletecollection request.

/// Concurrent deletions of one deletecollection request, if each is a commit: they share syncs, and one client
/// does not fill the queue of the writer. Kubernetes' `--delete-collection-workers` is 1.
pub const COLLECTION_DELETES: usize = 32;

/// Objects that a deletecollection request deletes in one group of commits, if nothing has to judge them one by one. Half of the commits
/// that the embedded store takes at once: other writers wait for a group as a whole.
pub const COLLECTION_BATCH: usize = 64;

/// Bytes of terminating objects in one group of commits of a deletecollection request; further objects are deleted one by one. A third of
/// what the embedded store takes at once.
pub const COLLECTION_BATCH_BYTES: usize = 512 * 1024;

/// Concurrent groups of [`COLLECTION_BATCH`] objects: one is planned while others are synced.
pub const COLLECTION_BATCHES: usize = 4;

/// Commits of a group at a time, where a storage does not execute the group as one: with all groups of a request [`COLLECTION_DELETES`].
pub const EACH_AT_ONCE: usize = COLLECTION_DELETES / COLLECTION_BATCHES;
