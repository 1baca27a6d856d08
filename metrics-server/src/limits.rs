//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Kubelets that one request reads concurrently: enough that a thousand nodes take a second, and few enough
/// that their answers fill neither the memory nor the tunnel to the nodes.
pub(crate) const KUBELETS_AT_ONCE: usize = 32;

/// Timeout for one kubelet. A simulated node answers within milliseconds, a stopped one not at all.
pub(crate) const KUBELET_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for all kubelets together: half of an apiserver's timeout for the head of a response. Nodes that
/// were not read by then have no metrics in the answer, like nodes that do not answer.
pub(crate) const KUBELETS_TIMEOUT: Duration = Duration::from_secs(30);
