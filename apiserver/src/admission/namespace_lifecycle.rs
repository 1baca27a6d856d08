//! Objects live in namespaces that exist and are not on their way out; three namespaces never go. This is the first look, before
//! anything else is judged; that a new object's namespace is still so when it is stored, `registry` sees to.

use super::{Operation, Plugin, Subject};
use crate::lookup::Lookup;
use crate::registry::{is_terminating, namespaces, terminating};
use kstore_api::status::Status;
use serde_json::Value;

/// Namespaces that nobody may delete.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    // Before everything else, so that a missing namespace is the first thing a caller hears of.
    fn mutate(
        &self,
        cluster: &dyn Lookup,
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
        cluster: &dyn Lookup,
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
