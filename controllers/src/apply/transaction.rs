//! [`of`]: builds an API transaction from a list of actions.

use super::delete_params;
use crate::action::Action;
use crate::object::Object;
use crate::resource::{Resource, gvr};
use kstore_client::{ApiError, Client, Transaction};
use serde_json::Value;

/// The transaction of these writes, and the kinds that it writes.
///
/// # Errors
/// An action that is not a single write of an object.
pub(super) fn of(client: &Client, writes: &[Action]) -> Result<(Transaction, Vec<Resource>), ApiError> {
    let mut transaction = Transaction::new(client);
    let mut resources = Vec::new();
    for write in writes {
        let resource = match write {
            Action::Create(object) => {
                transaction =
                    transaction.create_value(&gvr(&object.resource), &object.namespace, &value(object)?);
                &object.resource
            }
            Action::Update(object) | Action::UpdateStatus(object) => {
                let subresource = if matches!(write, Action::Update(_)) { "" } else { "status" };
                transaction = transaction.update_value(&gvr(&object.resource), &value(object)?, subresource);
                &object.resource
            }
            Action::Approve(object) => {
                transaction = transaction.update_value(&gvr(&object.resource), &value(object)?, "approval");
                &object.resource
            }
            Action::Patch { target, status, kind, patch } => {
                let resource = &target.resource;
                let subresource = if *status { "status" } else { "" };
                transaction = transaction.patch_value(
                    &gvr(resource),
                    &target.namespace,
                    &target.name,
                    subresource,
                    &kind.of(patch),
                );
                resource
            }
            Action::Delete { target, propagation, force } => {
                let params = delete_params(target, *propagation, *force);
                transaction = transaction.delete_value(
                    &gvr(&target.resource),
                    &target.namespace,
                    &target.name,
                    &params,
                );
                &target.resource
            }
            Action::CreateBatch(_)
            | Action::DeleteAll { .. }
            | Action::Finalize(_)
            | Action::Event(_)
            | Action::Together(_)
            | Action::Transaction(_) => {
                return Err(ApiError::Json(format!("a transaction cannot hold {write:?}")));
            }
        };
        resources.push(resource.clone());
    }
    Ok((transaction, resources))
}

fn value(object: &Object) -> Result<Value, ApiError> {
    serde_json::from_str(object.json()).map_err(|error| ApiError::Json(error.to_string()))
}
