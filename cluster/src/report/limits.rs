//! Bounds of reading a cluster for a report.

use std::time::Duration;

/// How long the states of objects are read. What has not come then is not in the report, which says how many: a failing test does not time
/// out because of its report.
pub(super) const READ_TIME: Duration = Duration::from_secs(20);

/// How long attempts, metrics and marks are read after that. What has not come then is not in the report, which says how much.
pub(super) const FACT_TIME: Duration = Duration::from_secs(5);

/// Most pods whose scheduling attempts a report has: those that wait, and those that were written last. Each costs a request.
pub(super) const ATTEMPT_PODS: usize = 1_000;

/// Requests for attempts that are under way at a time.
pub(super) const ATTEMPT_REQUESTS: usize = 8;

/// Most waiting pods for which a report has the verdicts on nodes. Each takes up to a fifth of a second.
pub(super) const JUDGED_PODS: usize = 10;

/// Nodes of the verdicts on one pod: those that are nearest to fit.
pub(super) const JUDGED_NODES: usize = 100;

/// How long a watch of the past is open at most, in seconds: the server ends it.
pub(super) const WATCH_SECONDS: u64 = 20;

/// Objects of one page of a list.
pub(super) const PAGE_OBJECTS: usize = 500;

/// The longest line of a watch, in bytes. Objects are smaller; a watch with a longer line is given up.
pub(super) const LINE_BYTES: usize = 8 << 20;
