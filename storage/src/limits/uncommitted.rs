//! Bounds on what the watch cache keeps of commits that are under way.

/// Entries of objects whose commits are under way, which the watch cache uses instead of decoding the objects. All are dropped when a
/// further one comes: the cache then decodes those objects.
pub const UNCOMMITTED_ENTRIES: usize = 1024;

/// Bytes of the largest object with such an entry: together they keep at most 16 MiB of requests that were cancelled.
pub const UNCOMMITTED_ENTRY_BYTES: usize = 16 * 1024;
