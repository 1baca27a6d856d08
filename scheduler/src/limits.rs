//! Every bound of the scheduler, by name, with its reason and with what happens when it is reached.

use jiff::SignedDuration;

/// Decisions taken in one go before events and finished writes are looked at again. At full speed a batch takes a few
/// milliseconds, so that a node's death is noticed soon, and the cost of looking is spread thin.
pub const DECISIONS_PER_TURN: usize = 64;

/// API writes (binds, conditions) under way at once. When all places are taken the scheduler stops deciding, not
/// listening: a decision ahead of a hundred unconfirmed ones gains nothing, and the apiserver is not flooded.
pub const WRITES_IN_FLIGHT: usize = 100;

/// The first wait of a pod that did not fit; it doubles with every failed attempt. Upstream's `podInitialBackoffSeconds`.
pub const INITIAL_BACKOFF: SignedDuration = SignedDuration::from_secs(1);

/// The longest wait of a pod that did not fit. Upstream's `podMaxBackoffSeconds`.
pub const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(10);

/// Back-off expiries are cut to this window, so that within one window priority and not chance decides who is first.
pub const BACKOFF_WINDOW: SignedDuration = SignedDuration::from_secs(1);

/// A pod that no event has woken is tried again after this long: the net below the queueing hints.
pub const MAX_UNSCHEDULABLE_STAY: SignedDuration = SignedDuration::from_mins(5);

/// How long the claims of a pod may take to be bound before the pod is tried anew, perhaps on another node. Upstream's
/// `bindTimeoutSeconds`.
pub const VOLUME_BIND_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// Below this many nodes every node is looked at, and never fewer feasible ones than this are sought.
pub const MIN_FEASIBLE_NODES: usize = 100;

/// The smallest share of the nodes, in per cent, that adaptive sampling looks for.
pub const MIN_PERCENTAGE_OF_NODES: usize = 5;

/// Events are cut to this many bytes (the API's limit for notes), the cut marked by [`EVENT_CUT_MARK`].
pub const EVENT_MESSAGE_BYTES: usize = 1024;

/// What stands at the end of an event message that was cut.
pub const EVENT_CUT_MARK: &str = " ...";

/// What LeastAllocated assumes for a container that requests no CPU, in millicores.
pub const DEFAULT_MILLI_CPU: i64 = 100;

/// What LeastAllocated assumes for a container that requests no memory, in bytes.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The highest score a plugin can give.
pub const MAX_NODE_SCORE: i64 = 100;
