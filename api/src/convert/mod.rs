//! One object in two versions: `autoscaling/v1` and `v2`, core events and `events.k8s.io`. Objects are stored in one of the two
//! (`kind::Resource::storage_version`) and turned at the door. Turning there and back loses nothing.

mod autoscaler;
mod event;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::kind::Resource;
use crate::object;
use crate::schema;

/// The object is not of a version that can be turned into the wanted one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no conversion of {kind} from {from} to {to}")]
pub struct NoConversion {
    /// The object's kind.
    pub kind: String,
    /// Its version.
    pub from: String,
    /// The version wanted.
    pub to: String,
}

/// Turns an object into the version of a row, its type included. An object that is in that version already stays as it is.
///
/// # Errors
/// If the two versions do not share one storage; the object is then unchanged.
pub fn to_version(target: &Resource, object: &mut Value) -> Result<(), NoConversion> {
    let wanted = target.api_version();
    let from = object::api_version(object).to_owned();
    if from == wanted {
        return Ok(());
    }
    let turn: fn(&mut Value) = match (target.kind, from.as_str(), wanted.as_str()) {
        ("Event", "v1", "events.k8s.io/v1") => event::to_new,
        ("Event", "events.k8s.io/v1", "v1") => event::to_core,
        ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2") => autoscaler::to_v2,
        ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1") => autoscaler::to_v1,
        (kind, ..) => return Err(NoConversion { kind: kind.to_owned(), from, to: wanted }),
    };
    turn(object);
    object["apiVersion"] = wanted.into();
    Ok(())
}

/// Turns an object of a row into the version in which it is stored. What is in no version we know stays as it is.
pub fn to_storage(resource: &Resource, object: &mut Value) {
    // The error leaves the object unchanged, which is what is promised here: another writer's version is still readable.
    to_version(resource.storage_row(), object).ok();
}

/// Turns a stored object into the version of a row, with the zero members that this version always prints: a stored object has those
/// of its own version (`status.currentReplicas` of an autoscaler is printed by v1 alone). What is in no version we know stays as it is.
pub fn from_storage(resource: &Resource, object: &mut Value) {
    let stored_otherwise = object::api_version(object) != resource.api_version();
    if stored_otherwise
        && to_version(resource, object).is_ok()
        && let Some(ty) = schema::of(resource.group, resource.version, resource.kind)
    {
        schema::fill::fill(object, ty);
    }
}

/// Takes a member out; null where there is none.
fn take(object: &mut Value, member: &str) -> Value {
    object.as_object_mut().and_then(|members| members.remove(member)).unwrap_or_default()
}

/// Sets a member unless there is nothing to set.
fn put(object: &mut Value, member: &str, value: Value) {
    if !value.is_null() {
        object[member] = value;
    }
}
