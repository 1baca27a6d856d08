//! DenyEscalatingExec and DenyExecOnPrivileged, which Kubernetes had until 1.20: refuse commands in pods, and
//! attaching to them, if the pods have more rights on the node than their user.

use crate::plugin::{Plugin, Review, Row, Unstored};
use kstore_api::admission::Operation;
use kstore_api::object::list;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// Fields of a pod's spec by which it uses a namespace of the node, and the namespaces' names in refusals.
const HOST_NAMESPACES: [(&str, &str); 3] =
    [("hostNetwork", "host network"), ("hostPID", "host pid"), ("hostIPC", "host ipc")];
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The row of DenyEscalatingExec.
pub(super) static DENY_ESCALATING_EXEC: Row =
    of_streams("DenyEscalatingExec", || Arc::new(DenyExec { refuses_host_namespaces: true }));

/// The row of DenyExecOnPrivileged.
pub(super) static DENY_EXEC_ON_PRIVILEGED: Row =
    of_streams("DenyExecOnPrivileged", || Arc::new(DenyExec { refuses_host_namespaces: false }));

/// The row of a plugin that reviews commands in pods, and attaching to them.
const fn of_streams(name: &'static str, plugin: fn() -> Arc<dyn Plugin>) -> Row {
    Row {
        kinds: &[("", "pods")],
        subresources: &["exec", "attach"],
        validates: &[Operation::Connect],
        unstored: Unstored::Reviewed,
        ..Row::new(name, plugin)
    }
}

struct DenyExec {
    /// Whether pods in namespaces of the node are refused, besides pods with privileged containers.
    refuses_host_namespaces: bool,
}

impl DenyExec {
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
    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        let subject = review.subject;
        let Some(pod) = review.cluster.get(subject.resource, subject.namespace, subject.name) else {
            let missing = Status::not_found(subject.resource, subject.name);
            return subject.refuse(&missing.message);
        };
        match self.refused(&pod["spec"]) {
            Some(what) => subject.refuse(&format!("cannot exec into or attach to {what}")),
            None => Ok(()),
        }
    }
}
