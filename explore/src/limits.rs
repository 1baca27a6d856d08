//! The bounds of a search, with their reasons.

use std::time::Duration;

/// Most mistakes of a scenario that one reading shows: more than a person mends at a time.
pub const MISTAKES: usize = 50;
/// Bytes of the largest scenario or replay file.
pub const FILE_BYTES: usize = 16 << 20;
/// Most replicas of an operator: leader election with more shows nothing further.
pub const REPLICAS: usize = 5;
/// Most items of a list in a scenario: steps, operators, invariants.
pub const ITEMS: usize = 256;
/// Most simulated nodes.
pub const NODES: usize = 100;
/// Longest duration in a scenario, as the lab's longest advance.
pub const DURATION: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// How long a `wait` step waits by the cluster's clock unless it says otherwise.
pub const WAIT: Duration = Duration::from_secs(60);
/// Most writes of one shape for which a pattern makes plans: later ones repeat what the first do.
pub const OF_A_SHAPE: usize = 3;
/// Seeds of the pattern `order`: as many runs as a pattern with a few writes has.
pub const ORDERS: u64 = 16;
/// Most plans that showed something new and are changed for others.
pub const KEPT_PLANS: usize = 256;
/// Random plans that are made at a time, of what those before showed: enough for all processors, and few enough to learn.
pub const ROUND: usize = 16;
/// Most plans of a search, so that a long trace ends in a search and not in a list.
pub const PLANS: usize = 20_000;
/// Most differences that a verdict lists.
pub const DIFFERENCES: usize = 50;
/// Depth of objects in comparisons and rules: deeper values are compared as texts.
pub const DEPTH: usize = 64;
/// Most writes of one client to one object within [`HOT_WINDOW`], after convergence.
pub const HOT_WRITES: usize = 10;
/// Real time in which more than [`HOT_WRITES`] writes to one object are a loop.
pub const HOT_WINDOW: Duration = Duration::from_secs(5);
/// Time of the cluster that passes between two writes of a loop at most: what a program writes because more has passed is no loop, such as
/// what it does every five minutes.
pub const HOT_CLOCK: Duration = Duration::from_secs(1);
/// How often a cycle of states must be seen to be a loop.
pub const CYCLES: usize = 3;
/// Most equal requests in a row with equal answers within [`STORM_WINDOW`].
pub const STORM_REQUESTS: usize = 50;
/// Sum of the pauses of real time between more than [`STORM_REQUESTS`] requests that are a storm.
pub const STORM_WINDOW: Duration = Duration::from_secs(2);
/// How often a request must be refused to be a bug and no suspicion.
pub const REFUSALS: usize = 3;
/// Runs that must fail likewise before a failing plan is a finding, the first included.
pub const CONFIRMATIONS: usize = 5;
/// Most runs for the shrinking of one finding.
pub const SHRINK_RUNS: usize = 60;
/// Most runs for the report file of one finding: each has failed so several times already.
pub const REPORT_RUNS: usize = 3;
/// Runs in which a smaller plan must fail likewise.
pub const SHRINK_REPEATS: usize = 2;
/// Most distinct findings, unless the command line says otherwise.
pub const FINDINGS: usize = 20;
/// Bytes of requests and writes in the log of a finding, and of each output in it.
pub const LOG_BYTES: usize = 8 << 20;
/// Bytes of the end of an operator's output that a run keeps.
pub const OUTPUT_BYTES: u64 = 1 << 20;
/// Bytes of the largest snapshot that is written beside a finding.
pub const SNAPSHOT_BYTES: u64 = 256 << 20;
/// Most requests of a run that its record has.
pub const LOG: usize = 100_000;
