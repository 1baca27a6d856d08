//! SecurityContextDeny, which Kubernetes had until 1.29: refuses pods that choose their user, SELinux options,
//! or groups. Ephemeral containers are not checked, as in Kubernetes.

use crate::plugin::{Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::list;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// Refused fields of a pod's security context, in the order of the checks, with their names in refusals.
const OF_POD: [(&str, &str); 4] = [
    ("supplementalGroups", "SupplementalGroups"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("runAsUser", "RunAsUser"),
    ("fsGroup", "FSGroup"),
];
/// Refused fields of a container's security context, likewise.
const OF_CONTAINER: [(&str, &str); 2] = [("seLinuxOptions", "SELinuxOptions"), ("runAsUser", "RunAsUser")];

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "pods")],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("SecurityContextDeny", || Arc::new(SecurityContextDeny))
};

struct SecurityContextDeny;

impl Plugin for SecurityContextDeny {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let subject = review.subject;
        let Some(pod) = new else { return Ok(()) };
        match refused_field(&pod["spec"]) {
            Some(field) => subject.refuse(&format!("{field} is forbidden")),
            None => Ok(()),
        }
    }
}

/// The path of the first refused field that a pod's spec sets.
fn refused_field(spec: &Value) -> Option<String> {
    let of_pod = first_set(&spec["securityContext"], &OF_POD);
    if let Some(field) = of_pod {
        return Some(format!("pod.Spec.SecurityContext.{field}"));
    }
    let mut containers = list(&spec["initContainers"]).iter().chain(list(&spec["containers"]));
    let field = containers.find_map(|container| first_set(&container["securityContext"], &OF_CONTAINER))?;
    Some(format!("SecurityContext.{field}"))
}

/// The name in refusals of the first of these fields that a security context sets.
fn first_set(context: &Value, fields: &[(&'static str, &'static str)]) -> Option<&'static str> {
    fields.iter().find(|(field, _)| !context[*field].is_null()).map(|(_, shown)| *shown)
}
