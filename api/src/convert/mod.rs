//! Conversion between two versions of an object: `autoscaling/v1` and `v2`, core events and `events.k8s.io`,
//! `scheduling.k8s.io/v1alpha2`, which Kubernetes 1.36 has, and `v1beta1`, which 1.37 has.
//! Objects are stored in one version (`Resource::storage_version`); the apiserver converts on read and
//! write. A round trip loses nothing.

pub(crate) mod autoscaler;
pub(crate) mod event;
pub(crate) mod pod_group;
#[cfg(test)]
mod tests;

use crate::resource::Resource;
use crate::{object, schema};
use serde_json::Value;

/// Error: no conversion exists between the object's version and the requested one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no conversion of {kind} from {from} to {to}")]
pub struct NoConversion {
    /// Kind of the object.
    pub kind: String,
    /// Version of the object.
    pub from: String,
    /// Requested version.
    pub to: String,
}

/// Converts an object to the version of `target`, including its apiVersion. An object that has that version
/// already stays unchanged.
///
/// # Errors
/// If no conversion between the two versions exists; the object is then unchanged.
pub fn to_version(target: &Resource, object: &mut Value) -> Result<(), NoConversion> {
    let wanted = target.api_version();
    let from = object::api_version(object).to_owned();
    if from == wanted {
        return Ok(());
    }
    let Some((_, convert)) = target.rules.conversions.iter().find(|(version, _)| *version == from) else {
        return Err(NoConversion { kind: target.kind.to_owned(), from, to: wanted });
    };
    convert(object);
    object["apiVersion"] = wanted.into();
    Ok(())
}

/// Converts a stored object to the version of `resource`, and adds the zero members that this version always
/// prints. A stored object has those of its own version: only autoscaling/v1 prints `status.currentReplicas`.
/// Objects of unknown versions stay unchanged.
pub fn from_storage(resource: &Resource, object: &mut Value) {
    let stored_otherwise = object::api_version(object) != resource.api_version();
    if stored_otherwise
        && to_version(resource, object).is_ok()
        && let Some(ty) = resource.object_type()
    {
        schema::fill::fill(object, ty);
    }
}

/// Removes a member and returns it; null if absent.
fn take(object: &mut Value, member: &str) -> Value {
    object.as_object_mut().and_then(|members| members.remove(member)).unwrap_or_default()
}

/// Sets a member unless the value is null.
fn put(object: &mut Value, member: &str, value: Value) {
    if !value.is_null() {
        object[member] = value;
    }
}
