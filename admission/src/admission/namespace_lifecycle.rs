//! NamespaceLifecycle: refuses objects in namespaces that do not exist or are terminating, and the deletion
//! of three namespaces. This early check produces the first error; `registry` guards in the commit that the
//! namespace still accepts objects.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::status::Status;
use kstore_registry::registry::{is_terminating, namespaces, terminating};
use serde_json::Value;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    // Runs in the mutating phase, so that a missing namespace is the first error.
    fn mutate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        _: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if subject.namespace.is_empty() || !subject.resource.namespaced || !subject.resource.is_stored() {
            return Ok(());
        }
        let Some(namespace) = cluster.get(namespaces(), "", subject.namespace) else {
            return Err(Status::not_found(namespaces(), subject.namespace));
        };
        if subject.operation == Operation::Create && is_terminating(&namespace) {
            return Err(terminating(subject.resource, subject.namespace, subject.name));
        }
        Ok(())
    }

    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        _: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let _ = cluster;
        if subject.operation == Operation::Delete
            && subject.is("", "namespaces")
            && IMMORTAL.contains(&subject.name)
        {
            return Err(subject.forbidden("this namespace may not be deleted"));
        }
        Ok(())
    }
}
