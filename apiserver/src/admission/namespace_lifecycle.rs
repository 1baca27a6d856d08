//! Objects live in namespaces that exist and are not on their way out; three namespaces never go.

use super::{Operation, Plugin, Subject, row};
use crate::lookup::Lookup;
use kstore_api::meta;
use kstore_api::status::{Cause, Status};
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
        let namespaces = row("", "v1", "namespaces");
        let Some(namespace) = cluster.get(namespaces, "", subject.namespace) else {
            return Err(Status::not_found(namespaces, subject.namespace));
        };
        if subject.operation == Operation::Create && is_terminating(&namespace) {
            return Err(terminating(subject));
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

fn is_terminating(namespace: &Value) -> bool {
    meta::is_being_deleted(namespace) || namespace["status"]["phase"] == "Terminating"
}

fn terminating(subject: &Subject<'_>) -> Status {
    let namespace = subject.namespace;
    let text =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = subject.forbidden(&text);
    status.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    status
}
