//! Bounds of reading a cluster for a report.

use std::time::Duration;

/// How long the states of objects are read. What has not come then is not in the report, which says how many: a failing test does not time
/// out because of its report.
pub(super) const READ_TIME: Duration = Duration::from_secs(20);

/// How long a watch of the past is open at most, in seconds: the server ends it.
pub(super) const WATCH_SECONDS: u64 = 20;

/// Objects of one page of a list.
pub(super) const PAGE_OBJECTS: usize = 500;

/// The longest line of a watch, in bytes. Objects are smaller; a watch with a longer line is given up.
pub(super) const LINE_BYTES: usize = 8 << 20;
