//! NamespaceAutoProvision: creating an object in a namespace that does not exist creates the namespace first.

use crate::plugin::{Cluster, Plugin, Row};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_registry::registry::namespaces;
use serde_json::{Value, json};
use std::sync::Arc;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    prepares: &[Operation::Create],
    ..Row::new("NamespaceAutoProvision", || Arc::new(NamespaceAutoProvision))
};

struct NamespaceAutoProvision;

impl Plugin for NamespaceAutoProvision {
    fn prepare(&self, cluster: &dyn Cluster, subject: &Subject<'_>) -> Option<Value> {
        let name = subject.namespace;
        if name.is_empty() || !subject.resource.namespaced {
            return None;
        }
        let is_absent = cluster.entry(namespaces(), &namespaces().storage_key("", name)).is_none();
        is_absent.then(|| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
    }
}
