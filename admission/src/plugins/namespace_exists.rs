//! NamespaceExists: refuses objects in absent namespaces, for servers that disable NamespaceLifecycle, which
//! does the same.

use crate::plugin::{Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::status::Status;
use kstore_registry::registry::namespaces;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    subresources: &[],
    validates: &[Operation::Create, Operation::Update, Operation::Delete],
    ignores_renewal: |_| true,
    ..Row::new("NamespaceExists", || Arc::new(NamespaceExists))
};

struct NamespaceExists;

impl Plugin for NamespaceExists {
    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let is_in_namespace = subject.resource.namespaced && !subject.namespace.is_empty();
        if !is_in_namespace
            || cluster.entry(namespaces(), &namespaces().storage_key("", subject.namespace)).is_some()
        {
            return Ok(());
        }
        Err(Status::not_found(namespaces(), subject.namespace).into())
    }
}
