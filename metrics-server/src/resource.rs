//! The API group and its resources.

use kstore_api::status::Status;
use kstore_api::version::Minor;

/// The API group.
pub const GROUP: &str = "metrics.k8s.io";
/// The version of the group that each server has.
pub const VERSION: &str = "v1beta1";
/// The version that it has beside the other since Kubernetes 1.37, with the same types.
pub const STABLE: &str = "v1";

/// The versions that a server of a Kubernetes version has, the preferred one first.
pub(crate) fn versions(minor: Minor) -> &'static [&'static str] {
    if minor >= Minor::V37 { &[STABLE, VERSION] } else { &[VERSION] }
}

/// A resource of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Nodes,
    Pods,
}

impl Resource {
    pub(crate) const ALL: [Self; 2] = [Self::Nodes, Self::Pods];

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Pods => "pods",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Nodes => "NodeMetrics",
            Self::Pods => "PodMetrics",
        }
    }

    pub(crate) fn is_namespaced(self) -> bool {
        self == Self::Pods
    }

    /// Whether the resource has this field for field selectors.
    pub(crate) fn has_field(self, field: &str) -> bool {
        field == "metadata.name" || (self.is_namespaced() && field == "metadata.namespace")
    }

    /// 404 for an object without metrics. Kubernetes' metrics server names the kind in lower case, and the
    /// namespace before the name.
    pub(crate) fn not_found(self, namespace: &str, name: &str) -> Status {
        match self {
            Self::Nodes => Status::not_found((GROUP, "nodemetrics"), name),
            Self::Pods => Status::not_found((GROUP, "podmetrics"), &format!("{namespace}/{name}")),
        }
    }
}
