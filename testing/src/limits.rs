//! The bounds of this crate, with their reasons.

use std::time::Duration;

/// Time limit of [`crate::Cluster::wait_for`] in virtual time. Simulated pods become ready within seconds; the longest ordinary waits, for
/// a deleted namespace or a drained node, take minutes.
pub(crate) const WAIT: Duration = Duration::from_secs(30 * 60);

/// Time limit of [`crate::Cluster::wait_for`] in real time: longer than any step of a simulated cluster, short enough for a test run.
pub(crate) const WAIT_REAL: Duration = Duration::from_secs(60);

/// Most writes in the report of a failed wait: enough for one rollout, about a screen of text.
pub(crate) const SHOWN_WRITES: usize = 40;

/// Most network connections of a cluster: enough for the clients of one test, even if it leaves connections open.
pub(crate) const CONNECTIONS: usize = 256;

/// Most kinds of requests (client, verb and path) that the fault injector counts before it resets all counts. A test has hundreds.
pub(crate) const COUNTED_REQUESTS: usize = 65_536;

/// Time without writes after which a cluster in virtual time may count as settled: longer than the pauses in which controllers batch
/// changes. Virtual time passes only while every task waits, so work in progress does not use it up.
pub(crate) const QUIET: Duration = Duration::from_secs(1);

/// Time without writes after which a cluster in real time may count as settled: longer than a change takes to reach a controller's work
/// queue, and short for a test.
pub(crate) const QUIET_REAL: Duration = Duration::from_millis(100);

/// Number of newest writes of an object whose causes the report of a failed wait shows.
pub(crate) const LAST_WRITES: usize = 3;

/// Most causes that a report shows for one write, newest first; a controller's write may have many.
pub(crate) const CAUSES_SHOWN: usize = 2;

/// Most levels of causes in a report; from a pod to its Deployment there are three.
pub(crate) const CAUSE_DEPTH: usize = 7;
