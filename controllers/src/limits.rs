//! Every bound of this crate, with its reason. Settings of one cluster are in `Config`.

use jiff::SignedDuration;
use std::num::NonZeroU32;
use std::time::Duration;

/// Largest number of pods that one run of a ReplicaSet creates or deletes, so that a mistaken size of a
/// million stays interruptible.
pub(crate) const REPLICA_BURST: usize = 500;

/// Concurrent writes of one action list. More does not help a server with group commit; fewer leaves it idle.
pub(crate) const WRITES_IN_FLIGHT: usize = 64;

/// Objects that one call creates: a quarter of [`WRITES_IN_FLIGHT`], so that several threads create objects of one list.
pub(crate) const CREATES_PER_CALL: usize = 16;

/// Bytes of the objects that one call creates: a third of what the server takes. Larger objects are created one by one.
pub(crate) const CREATE_CALL_BYTES: usize = 1 << 20;

/// First batch of a slow start; each next one is twice as large, so that a rejection (quota) costs few calls.
pub(crate) const SLOW_START: usize = 1;

/// Delay per pod of a ReplicaSet after a status update: a run costs time in proportion to its pods, and
/// during a rollout each pod changes several times. Unnoticeable for small sets.
pub(crate) const REST_PER_POD: Duration = Duration::from_micros(50);

/// Longest delay of a ReplicaSet after a status update.
pub(crate) const LONGEST_REST: Duration = Duration::from_millis(100);

/// Time after a write of a Service's slices in which it does not run again, for each of its pods: a run costs time in proportion to them,
/// and a rollout changes large Services many times a second. Of a small one the pods take connections at once, as in Kubernetes.
pub(crate) const SLICE_REST_PER_POD: Duration = Duration::from_millis(5);

/// Longest such time.
pub(crate) const LONGEST_SLICE_REST: Duration = Duration::from_secs(1);

/// Endpoints in one slice; upstream's default.
pub(crate) const ENDPOINTS_PER_SLICE: usize = 100;

/// Addresses in one legacy Endpoints object, as upstream.
pub(crate) const ENDPOINTS_ADDRESSES: usize = 1000;

/// Largest length of the revision-history annotation, as upstream; the oldest revisions are dropped.
pub(crate) const REVISION_HISTORY_CHARS: usize = 2000;

/// Owner uids with confirmed absence. Uids are never reused, so an entry cannot become wrong.
pub(crate) const ABSENT_OWNERS: usize = 500;

/// Custom kinds on one watch stream of the garbage collector. A change of one kind relists the whole stream,
/// so they are few; a connection carries 250 streams, so there is more than one kind.
pub(crate) const KINDS_PER_STREAM: usize = 16;

/// Deleted custom kinds whose owner references are still followed. At the bound the oldest is forgotten:
/// uncollected dependents of its last objects stay.
pub(crate) const WITHDRAWN_KINDS: usize = 1_000;

/// Kinds of aggregated API servers that the garbage collector follows, each on a watch of its own. A connection
/// carries 250 streams. Objects of the kinds above the bound are not collected; a warning names the kinds.
pub(crate) const AGGREGATED_KINDS: usize = 200;

/// Interval at which the kinds of aggregated API servers are read again, as upstream: a server adds kinds without
/// a change of any object. Without such servers nothing is read.
pub(crate) const AGGREGATED_DISCOVERY: Duration = Duration::from_secs(30);

/// Interval at which an owner is read again that exists and that no watch shows, such as an event. Upstream's
/// longest pause between two attempts.
pub(crate) const UNSEEN_OWNER: Duration = Duration::from_secs(1_000);

/// Terminated pods that a cluster keeps before the oldest are deleted.
pub(crate) const TERMINATED_PODS: usize = 12_500;

/// How long a node must be missing before its pods are deleted: it may be registering again.
pub(crate) const NODE_QUARANTINE: Duration = Duration::from_secs(40);

/// How long a budget counts an evicted pod as gone, as upstream: evictions delete at once, so a pod that
/// exists longer stays.
pub(crate) const DISRUPTION_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a pod may have the condition DisruptionTarget without being removed, as upstream.
pub(crate) const STALE_DISRUPTION: Duration = Duration::from_secs(120);

/// Shortest time between two sweeps over all pods.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(20);

/// Shortest time between two lists of a terminating namespace that still has pods. A list costs time in
/// proportion to them, and each of them ends at a time of its own.
pub(crate) const NAMESPACE_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two such lists as a multiple of the time that a list takes.
pub(crate) const NAMESPACE_LISTS: u32 = 20;

/// Longest time between two such lists. Upstream looks again after half of the grace period of pods.
pub(crate) const LONGEST_NAMESPACE_INTERVAL: Duration = Duration::from_secs(15);

/// Events of a terminating namespace that are listed to check whether any are left: there may be very many,
/// and they block nothing. A condition's count of events is capped by it.
pub(crate) const EVENTS_COUNTED: NonZeroU32 = NonZeroU32::new(500).expect("not zero");

/// Objects that one condition message of a terminating namespace names.
pub(crate) const NAMED_IN_CONDITION: usize = 10;

/// How long a ServiceCIDR is kept after its deletion, as upstream: by then every server has observed it and
/// allocates no more addresses from it.
pub(crate) const NETWORK_GRACE: Duration = Duration::from_secs(10);

/// Age at which an IPAddress without its Service counts as leaked, as upstream: a server that writes one
/// before the other has long finished or failed.
pub(crate) const ADDRESS_GRACE: Duration = Duration::from_secs(60);

/// Largest number of pods that one run of a Job creates or removes, as upstream.
pub(crate) const JOB_BURST: usize = 500;

/// Uids that the status of a Job lists, as upstream: its size stays below 20 kB. Later runs count the
/// remaining pods.
pub(crate) const UNCOUNTED_PODS: usize = 500;

/// Largest number of pods that one run of a StatefulSet with `Parallel` creates, so that a mistaken size of a
/// million stays interruptible.
pub(crate) const STATEFUL_BURST: usize = 500;

/// Largest number of pods that one run of a DaemonSet creates, and deletes, as upstream: more may overload an
/// image registry.
pub(crate) const DAEMON_BURST: usize = 250;

/// First delay before a DaemonSet deletes a failed pod; doubles with each failure on the node.
pub(crate) const FAILED_DAEMON_BACKOFF: Duration = Duration::from_secs(1);

/// Longest delay before deleting a failed pod of a DaemonSet; a node without failures for twice as long
/// starts again.
pub(crate) const FAILED_DAEMON_BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);

/// Interval at which an autoscaler evaluates its target, as upstream.
pub(crate) const AUTOSCALING_PERIOD: Duration = Duration::from_secs(15);

/// Metrics that one evaluation of an autoscaler reads concurrently.
pub(crate) const METRICS_IN_FLIGHT: usize = 4;

/// Scale-down stabilization in seconds of an autoscaler without rules, as upstream.
pub(crate) const DOWNSCALE_STABILIZATION: i32 = 300;

/// Time after the start of a pod in which its CPU counts as startup while it is unready, as upstream.
pub(crate) const CPU_INITIALIZATION: SignedDuration = SignedDuration::from_secs(300);

/// Time after its start within which a never-ready pod reports unreadiness, as upstream.
pub(crate) const INITIAL_READINESS: SignedDuration = SignedDuration::from_secs(30);

/// Mirrored addresses of one Endpoints subset, and endpoints in one mirrored slice, as upstream.
pub(crate) const MIRRORED_ENDPOINTS: usize = 1000;

/// Interval at which a quota is recounted without a change, as upstream.
pub(crate) const QUOTA_RESYNC: Duration = Duration::from_secs(5 * 60);

/// Delay of another count after new bounds of a quota: by then every write that did not know them has ended.
pub(crate) const QUOTA_SETTLE: Duration = Duration::from_secs(1);

/// How long a count waits for objects as new as its quota.
pub(crate) const QUOTA_WAIT: Duration = Duration::from_secs(10);

/// Age at which a pod certificate request is deleted, as in Kubernetes.
pub(crate) const POD_REQUEST: SignedDuration = SignedDuration::from_mins(15);

/// How long an answered CertificateSigningRequest is kept after its certificate, denial or failure, as
/// upstream.
pub(crate) const ANSWERED_REQUEST: SignedDuration = SignedDuration::from_hours(1);

/// How long a CertificateSigningRequest without an answer is kept, as upstream.
pub(crate) const PENDING_REQUEST: SignedDuration = SignedDuration::from_hours(24);

/// Interval at which the Secret of a service account token is checked for use, as upstream: labels have days.
pub(crate) const UNUSED_TOKEN_CHECK: Duration = Duration::from_secs(24 * 60 * 60);
