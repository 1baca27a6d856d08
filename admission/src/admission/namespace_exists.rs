//! NamespaceExists: refuses objects in absent namespaces, for servers that disable NamespaceLifecycle, which
//! does the same.

use super::{Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::status::Status;
use kstore_registry::registry::namespaces;
use serde_json::Value;

pub(super) struct NamespaceExists;

impl Plugin for NamespaceExists {
    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        _: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let is_in_namespace = subject.resource.namespaced && !subject.namespace.is_empty();
        if !is_in_namespace
            || cluster.entry(namespaces(), &namespaces().storage_key("", subject.namespace)).is_some()
        {
            return Ok(());
        }
        Err(Status::not_found(namespaces(), subject.namespace))
    }
}
