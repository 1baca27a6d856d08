//! DenyEscalatingExec and DenyExecOnPrivileged, which Kubernetes had until 1.20: refuse commands in pods, and
//! attaching to them, if the pods have more rights on the node than their user.

use super::{Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::object::list;
use kstore_api::status::Status;
use serde_json::Value;

/// Fields of a pod's spec by which it uses a namespace of the node, and the namespaces' names in refusals.
const HOST_NAMESPACES: [(&str, &str); 3] =
    [("hostNetwork", "host network"), ("hostPID", "host pid"), ("hostIPC", "host ipc")];
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(super) struct DenyExec {
    /// Whether pods in namespaces of the node are refused, besides pods with privileged containers.
    refuses_host_namespaces: bool,
}

impl DenyExec {
    /// The plugin that refuses pods with privileged containers or namespaces of the node.
    pub(super) const ESCALATING: Self = Self { refuses_host_namespaces: true };
    /// The plugin that refuses pods with privileged containers.
    pub(super) const ON_PRIVILEGED: Self = Self { refuses_host_namespaces: false };

    /// What makes a pod's containers refused.
    fn refused(&self, spec: &Value) -> Option<String> {
        let host = HOST_NAMESPACES.iter().find(|(field, _)| spec[*field] == true);
        if let Some((_, name)) = host.filter(|_| self.refuses_host_namespaces) {
            return Some(format!("a container using {name}"));
        }
        let mut containers = CONTAINERS.into_iter().flat_map(|name| list(&spec[name]));
        let is_privileged = containers.any(|container| container["securityContext"]["privileged"] == true);
        is_privileged.then(|| "a privileged container".to_owned())
    }
}

impl Plugin for DenyExec {
    fn connect(&self, cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<(), Status> {
        if !matches!(subject.subresource, "exec" | "attach") {
            return Ok(());
        }
        let Some(pod) = cluster.get(subject.resource, subject.namespace, subject.name) else {
            let missing = Status::not_found(subject.resource, subject.name);
            return Err(subject.forbidden(&missing.message));
        };
        match self.refused(&pod["spec"]) {
            Some(what) => Err(subject.forbidden(&format!("cannot exec into or attach to {what}"))),
            None => Ok(()),
        }
    }
}
