//! The bounds of this crate, with their reasons.

use std::time::Duration;

/// How long [`crate::Cluster::wait_for`] waits, in the cluster's time. Simulated pods become ready within seconds; the longest ordinary wait
/// is that of a namespace or a drained node, which takes minutes of virtual time.
pub(crate) const WAIT: Duration = Duration::from_secs(30 * 60);

/// How long [`crate::Cluster::wait_for`] waits in real time: longer than any step of a simulated cluster, short enough for a test run.
pub(crate) const WAIT_REAL: Duration = Duration::from_secs(60);

/// Writes that a failed wait shows: enough for one rollout, and a screen of text.
pub(crate) const SHOWN_WRITES: usize = 40;

/// Network connections of a cluster that listens: the clients of one test, with room for tests that leave connections open.
pub(crate) const CONNECTIONS: usize = 256;

/// Kinds of requests (client, verb and path) that faults count; then counting begins anew. A test has hundreds.
pub(crate) const COUNTED_REQUESTS: usize = 65_536;

/// Seeds of virtual time whose initial objects are kept, about 1 MiB each. Most test binaries use one seed; one that tries thousands
/// gains nothing from old ones.
pub(crate) const INITIAL_IMAGES: usize = 4;

/// How long nothing may be written before a cluster in virtual time counts as settled: longer than the pauses in which controllers gather
/// changes. Every task waits for a timer when it passes.
pub(crate) const QUIET: Duration = Duration::from_secs(1);

/// The same in real time: longer than the way from a write to the queue of a controller, and short for a test.
pub(crate) const QUIET_REAL: Duration = Duration::from_millis(100);

/// The newest writes of an object whose causes a failed wait shows.
pub(crate) const LAST_WRITES: usize = 3;

/// The newest causes that are shown of one write: a run of a controller may name many.
pub(crate) const CAUSES_SHOWN: usize = 2;

/// How far causes are followed: from a pod to its Deployment there are three steps.
pub(crate) const CAUSE_DEPTH: usize = 7;
