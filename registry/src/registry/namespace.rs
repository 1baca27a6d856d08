//! The namespace guard of creates: an object is created only in a namespace that exists and is not being
//! deleted at the revision of the create. The namespace is one more guard of the commit. So no object appears
//! in a namespace once its deletion has begun, and the namespace controller finds all its objects. The
//! namespace is read from memory; a concurrent write to it costs one more round.

use crate::request::Target;
use crate::stage::View;
use kstore_api::resource::Resource;
use kstore_api::status::{Cause, Status};
use kstore_api::{kind, meta};
use kstore_storage::storage::Guard;
use serde_json::Value;
use std::sync::OnceLock;

/// The table row of Namespaces. Every write of a namespaced object asks for it several times.
pub fn namespaces() -> &'static Resource {
    static ROW: OnceLock<&'static Resource> = OnceLock::new();
    ROW.get_or_init(|| kind::lookup("", "v1", "namespaces").expect("namespaces are in the table"))
}

/// Whether a namespace is being deleted.
pub fn is_terminating(namespace: &Value) -> bool {
    meta::is_being_deleted(namespace) || namespace["status"]["phase"] == "Terminating"
}

/// 403: the namespace accepts no new objects.
pub fn terminating(resource: &'static Resource, namespace: &str, name: &str) -> Status {
    let text =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(resource, name, &text);
    status.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    status
}

/// The guard of a create: the namespace has not changed since the view read it. `None` for cluster-scoped
/// objects.
///
/// # Errors
/// 404 if the view shows no such namespace, 403 if it is being deleted. The view may be stale.
pub(super) fn guard(view: &View, target: &Target) -> Result<Option<Guard>, Status> {
    if !target.resource.namespaced || target.namespace.is_empty() {
        return Ok(None);
    }
    let key = namespaces().storage_key("", &target.namespace);
    let found = view.get(namespaces(), &key);
    let namespace = found.ok_or_else(|| Status::not_found(namespaces(), &target.namespace))?;
    if is_terminating(&namespace.parsed()) {
        return Err(terminating(target.resource, &target.namespace, &target.name));
    }
    Ok(Some(Guard { key, revision: namespace.revision }))
}
