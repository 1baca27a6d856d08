//! The limits of the scheduler, each with its reason and with what happens when it is reached.

use jiff::SignedDuration;

/// The number of decisions in one batch, before the loop reads events and finished writes again. At full speed
/// a batch takes a few milliseconds, so that the scheduler notices the failure of a node soon and the cost
/// per decision stays small.
pub const DECISIONS_PER_BATCH: usize = 64;

/// The number of API writes (binds, conditions) in flight. At the limit the scheduler stops deciding but
/// still reads events. Two batches of decisions: one is decided while the other is committed. More unconfirmed decisions would gain
/// nothing, and the limit protects the apiserver.
pub const WRITES_IN_FLIGHT: usize = 2 * DECISIONS_PER_BATCH;

/// The number of binds in one call: a batch of decisions, half of what the server takes in one call.
pub const BINDS_PER_CALL: usize = DECISIONS_PER_BATCH;

/// The number of evictions in flight for one pod. Further victims wait for their turn, so that a pod that needs a whole
/// node does not flood the apiserver. kube-scheduler's `parallelism`.
pub const EVICTIONS_IN_FLIGHT: usize = 16;

/// The first back-off of an unschedulable pod; it doubles with every failed attempt. kube-scheduler's
/// `podInitialBackoffSeconds`.
pub const INITIAL_BACKOFF: SignedDuration = SignedDuration::from_secs(1);

/// The longest back-off of an unschedulable pod. kube-scheduler's `podMaxBackoffSeconds`.
pub const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(10);

/// The width of the windows to which back-off expiries are cut, so that within a window the priority and not
/// chance decides the order.
pub const BACKOFF_WINDOW: SignedDuration = SignedDuration::from_secs(1);

/// The time after which the queue tries a pod again that no event has woken. It limits the damage of a wrong
/// queueing hint.
pub const MAX_UNSCHEDULABLE_STAY: SignedDuration = SignedDuration::from_mins(5);

/// The time that the claims of a pod have to become bound before the scheduler tries the pod again, perhaps
/// on another node. kube-scheduler's `bindTimeoutSeconds`.
pub const VOLUME_BIND_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The number of candidate devices that the search for the devices of a pod examines on one node. A larger search
/// ends without a result for the node, so that claims with many combinations do not stop the scheduler: 100,000
/// steps take a few milliseconds.
pub const ALLOCATION_STEPS: usize = 100_000;

/// The largest number of devices of one claim: `AllocationResultsMaxSize` of the API.
pub const CLAIM_DEVICES: usize = 32;

/// The largest number of alternatives of a request: `FirstAvailableDeviceRequestMaxSize` of the API.
pub const ALTERNATIVES: usize = 8;

/// The largest number of consumers for which a claim is reserved: `ResourceClaimReservedForMaxSize` of the API.
pub const CLAIM_CONSUMERS: usize = 256;

/// The smallest number of feasible nodes that the search looks for. In smaller clusters it checks every node.
pub const MIN_FEASIBLE_NODES: usize = 100;

/// The smallest share of the nodes, in per cent, that adaptive sampling looks for.
pub const MIN_PERCENTAGE_OF_NODES: usize = 5;

/// The number of selectors whose pods the scheduler keeps counted by node and zone. Of more, the least recently used
/// one is counted anew when a pod needs it. A tally takes at most four bytes for each node and zone.
pub const TALLIES: usize = 256;

/// The share of the nodes on which preemption could help, in per cent, that a preemption examines if it finds victims
/// there. kube-scheduler's `minCandidateNodesPercentage`. A preemption in a large full cluster stays short.
pub const PERCENTAGE_OF_CANDIDATE_NODES: usize = 10;

/// The smallest number of candidates for preemption that the search looks for. kube-scheduler's
/// `minCandidateNodesAbsolute`.
pub const MIN_CANDIDATE_NODES: usize = 100;

/// The maximum length of an event message in bytes (the API's limit for notes). [`EVENT_CUT_MARK`] marks the
/// cut.
pub const EVENT_MESSAGE_BYTES: usize = 1024;

/// The estimated size of the records of attempts ([`crate::attempt::AttemptLog`]) in bytes: the newest attempts of about 8,000 pods. Beyond
/// it the records of the pods whose last attempt is the oldest are dropped.
pub const ATTEMPT_LOG_BYTES: usize = 4 << 20;

/// The number of records of one pod; the oldest is dropped. Equal consecutive results are one record.
pub const ATTEMPTS_PER_POD: usize = 4;

/// The number of reasons of one record; nodes with further reasons are counted together.
pub const ATTEMPT_REASONS: usize = 12;

/// The number of victims that a record names; further ones are counted.
pub const ATTEMPT_VICTIMS: usize = 8;

/// The number of changes that are tried on a copy of the cluster for a pod that no node fits. Each try is a decision over all nodes.
pub const SUGGESTION_TRIES: usize = 64;

/// The number of changes that are suggested; the search ends there.
pub const SUGGESTIONS: usize = 8;

/// The number of pods of one node that a suggestion removes.
pub const SUGGESTED_REMOVALS: usize = 8;

/// The end of an event message that was cut.
pub const EVENT_CUT_MARK: &str = " ...";

/// The CPU that LeastAllocated assumes for a container without a CPU request, in millicores.
pub const DEFAULT_MILLI_CPU: i64 = 100;

/// The memory that LeastAllocated assumes for a container without a memory request, in bytes.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The highest score of a plugin.
pub const MAX_NODE_SCORE: i64 = 100;

/// The largest number of profiles of a scheduler. A pod's profile is found by comparing names, so a file with more is refused.
pub const PROFILES: usize = 64;

/// The largest number of extenders. Each may be asked for each pod.
pub const EXTENDERS: usize = 16;

/// The largest answer of an extender in bytes: more than 5,000 nodes as objects. A larger answer is an error of the extender.
pub const EXTENDER_ANSWER_BYTES: usize = 64 << 20;

/// The number of victims that are read at the same time for an extender that does not know the pods.
pub const EXTENDER_PODS_IN_FLIGHT: usize = 16;

/// The largest configuration file in bytes, which aliases in it must not exceed when they are expanded either.
pub const CONFIGURATION_BYTES: usize = 1 << 20;
