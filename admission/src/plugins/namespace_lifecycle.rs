//! NamespaceLifecycle: refuses objects in namespaces that do not exist or are terminating, and the deletion
//! of three namespaces. This early check produces the first error; `registry` guards in the commit that the
//! namespace still accepts objects.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::status::Status;
use kstore_registry::registry::{is_terminating, namespaces, terminating};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    subresources: &[],
    mutates: &[Operation::Create, Operation::Update],
    validates: &[Operation::Delete],
    ignores_renewal: |_| true,
    ..Row::new("NamespaceLifecycle", || Arc::new(NamespaceLifecycle))
};

struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    // Runs in the mutating phase, so that a missing namespace is the first error.
    fn mutate(&self, review: &Review<'_>, _: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        if subject.namespace.is_empty() || !subject.resource.namespaced || !subject.resource.is_stored() {
            return Ok(());
        }
        let Some(namespace) = cluster.get(namespaces(), "", subject.namespace) else {
            return Err(Status::not_found(namespaces(), subject.namespace).into());
        };
        if subject.operation == Operation::Create && is_terminating(&namespace) {
            return Err(terminating(subject.resource, subject.namespace, subject.name).into());
        }
        Ok(())
    }

    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        let subject = review.subject;
        if subject.resource.is("", "namespaces") && IMMORTAL.contains(&subject.name) {
            return subject.refuse("this namespace may not be deleted");
        }
        Ok(())
    }
}
