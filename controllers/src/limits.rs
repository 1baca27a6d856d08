//! Every bound of this crate, by name, with the reason. Not tunables of one cluster: those are in `Config`.

use jiff::SignedDuration;
use std::num::NonZeroU32;
use std::time::Duration;

/// Pods that one run of a ReplicaSet creates or deletes at most, so that a mistake of a million stays interruptible.
pub(crate) const REPLICA_BURST: usize = 500;

/// Writes of one action list in flight at once. More does not help a server that commits in groups; fewer starves it.
pub(crate) const WRITES_IN_FLIGHT: usize = 64;

/// The first batch of a slow start; each next one is twice as large, so a refusal (quota) costs few calls.
pub(crate) const SLOW_START: usize = 1;

/// A ReplicaSet rests this long per pod after it has reported: a run costs time in proportion to its pods, and during a
/// rollout each of them changes several times. A small set never waits noticeably.
pub(crate) const REST_PER_POD: Duration = Duration::from_micros(50);

/// However large a ReplicaSet is, it rests no longer.
pub(crate) const LONGEST_REST: Duration = Duration::from_millis(100);

/// Shortest time between two runs of one Service: a rollout changes its endpoints many times a second.
pub(crate) const SLICE_INTERVAL: Duration = Duration::from_secs(1);

/// Endpoints in one slice, as upstream's default.
pub(crate) const ENDPOINTS_PER_SLICE: usize = 100;

/// Addresses in one legacy Endpoints object, as upstream.
pub(crate) const ENDPOINTS_ADDRESSES: usize = 1000;

/// Characters of the revision-history annotation, as upstream; the oldest revisions go first.
pub(crate) const REVISION_HISTORY_CHARS: usize = 2000;

/// Owner uids whose absence a GET has confirmed. Uids are never reused, so an entry cannot become wrong.
pub(crate) const ABSENT_OWNERS: usize = 500;

/// Custom kinds on one watch stream of the garbage collector. A change of one of them reads all of them again, so there are few; a
/// connection carries 250 streams, so there is more than one.
pub(crate) const KINDS_PER_STREAM: usize = 16;

/// Custom kinds whose definitions are gone and whose owner references are still followed. At the bound the oldest is forgotten: what
/// its last objects owned and has not been collected yet stays.
pub(crate) const WITHDRAWN_KINDS: usize = 1_000;

/// Terminated pods a cluster keeps before the oldest go.
pub(crate) const TERMINATED_PODS: usize = 12_500;

/// How long a node must have been missing before its pods are collected: it may be registering again.
pub(crate) const NODE_QUARANTINE: Duration = Duration::from_secs(40);

/// How long a budget counts a pod as gone that it let go, as upstream: who evicts deletes at once, so a pod that is still there then
/// stays.
pub(crate) const DISRUPTION_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a pod may say that it is about to be removed without being removed, as upstream.
pub(crate) const STALE_DISRUPTION: Duration = Duration::from_secs(120);

/// Shortest time between two sweeps over all pods.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(20);

/// Events of a namespace that is being deleted that are read to see whether any are left: there may be very many, and none
/// holds anything up. A condition that counts them counts no more.
pub(crate) const EVENTS_COUNTED: NonZeroU32 = NonZeroU32::new(500).expect("not zero");

/// Objects a namespace deletion names in one condition message.
pub(crate) const NAMED_IN_CONDITION: usize = 10;

/// How long a network of services is kept after its deletion was asked for, as upstream: by then every server has heard of it and
/// gives no more addresses from it.
pub(crate) const NETWORK_GRACE: Duration = Duration::from_secs(10);

/// How old a record of an address without its service must be to count as forgotten, as upstream: a server that writes the one before
/// the other has long done so, or failed.
pub(crate) const ADDRESS_GRACE: Duration = Duration::from_secs(60);

/// Pods that one run of a Job creates or removes at most, as upstream.
pub(crate) const JOB_BURST: usize = 500;

/// Uids that the status of a Job lists at most, as upstream: its size stays below 20 kB. The pods beyond are counted by later runs.
pub(crate) const UNCOUNTED_PODS: usize = 500;

/// Pods that one run of a StatefulSet under `Parallel` creates at most, so that a mistake of a million stays interruptible.
pub(crate) const STATEFUL_BURST: usize = 500;

/// Pods that one run of a DaemonSet creates at most, and deletes at most, as upstream: an image registry may not stand more at once.
pub(crate) const DAEMON_BURST: usize = 250;

/// How long a DaemonSet waits before it deletes a pod that failed again on its node, the first time; twice as long each next time.
pub(crate) const FAILED_DAEMON_BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait for a pod of a DaemonSet that fails on its node; a node without failures for twice as long begins anew.
pub(crate) const FAILED_DAEMON_BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);

/// How often an autoscaler looks at its target and metrics, as upstream.
pub(crate) const AUTOSCALING_PERIOD: Duration = Duration::from_secs(15);

/// Metrics that one look of an autoscaler reads at a time.
pub(crate) const METRICS_IN_FLIGHT: usize = 4;

/// How many seconds an autoscaler without rules keeps the size of its highest recommendation, as upstream.
pub(crate) const DOWNSCALE_STABILIZATION: i32 = 300;

/// How long the processor time of a pod counts as that of its start while it is not ready, as upstream.
pub(crate) const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);

/// How long after its start a pod that was never ready may say so first, as upstream.
pub(crate) const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

/// Addresses of one subset of an Endpoints object that are mirrored, and endpoints in one slice of them at most, as upstream.
pub(crate) const MIRRORED_ENDPOINTS: usize = 1000;

/// How often a quota is counted when nothing tells to, as upstream.
pub(crate) const QUOTA_RESYNC: Duration = Duration::from_secs(5 * 60);

/// How long after new bounds of a quota took effect it is counted once more: by then every write that did not know them has ended.
pub(crate) const QUOTA_SETTLE: Duration = Duration::from_secs(1);

/// How long a count waits for objects as new as its quota.
pub(crate) const QUOTA_WAIT: Duration = Duration::from_secs(10);

/// How long a CertificateSigningRequest is kept after it got its certificate, or was denied or failed, as upstream.
pub(crate) const ANSWERED_REQUEST: SignedDuration = SignedDuration::from_hours(1);

/// How long a CertificateSigningRequest without an answer is kept, as upstream.
pub(crate) const PENDING_REQUEST: SignedDuration = SignedDuration::from_hours(24);
