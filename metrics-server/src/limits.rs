//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Kubelets that one request asks at a time: enough that a thousand nodes take a second, few enough that their answers do not fill
/// the memory or the tunnel to the nodes.
pub(crate) const KUBELETS_AT_ONCE: usize = 32;

/// The longest wait for the answer of one kubelet. A simulated node answers within milliseconds; one that is stopped, not at all.
pub(crate) const KUBELET_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait for all kubelets together: half of what an apiserver waits for the head of an answer. Nodes that were not asked by
/// then have no metrics in this answer, as those that do not answer.
pub(crate) const KUBELETS_TIMEOUT: Duration = Duration::from_secs(30);
