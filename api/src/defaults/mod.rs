//! Defaulting of built-in kinds. [`apply`] runs on every decoded object of create and update, before
//! admission. It is idempotent and depends on the object alone. Values that depend on the request or the time
//! (uid, status, generation, allocated addresses) are set by `strategy` and the apiserver.

pub(crate) mod admission;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
pub(crate) mod core;
pub(crate) mod devices;
pub(crate) mod flowcontrol;
pub(crate) mod networking;
pub(crate) mod pod;
pub(crate) mod rbac;
pub(crate) mod registration;
pub(crate) mod scheduling;
pub(crate) mod service;
pub(crate) mod storage;
pub(crate) mod workload;

#[cfg(test)]
mod tests;

use crate::resource::Resource;
use crate::version::Minor;
use serde_json::{Map, Value};

/// Sets the defaults of a kind. Objects of kinds without defaults stay as they are.
pub fn apply(resource: &Resource, object: &mut Value) {
    (resource.rules.defaults)(object);
    if resource.minor >= Minor::V37 && resource.is("apps", "statefulsets") {
        workload::stateful_set_since_1_37(object);
    }
}

/// Sets a member that is absent or null. Decoding has removed empty texts of fields that are no pointers; the empty text of a
/// pointer is a value, which validation refuses.
fn default(object: &mut Value, member: &str, value: impl Into<Value>) {
    if object[member].is_null()
        && let Some(members) = object.as_object_mut()
    {
        members.insert(member.to_owned(), value.into());
    }
}

/// Sets a number that is absent or zero, for fields where zero means absent.
fn default_nonzero(object: &mut Value, member: &str, value: i64) {
    if object[member] == 0 {
        object[member] = value.into();
    }
    default(object, member, value);
}

/// The objects in a list member; none if the member is not a list.
fn items<'o>(object: &'o mut Value, member: &str) -> impl Iterator<Item = &'o mut Value> {
    object.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten().filter(|item| item.is_object())
}

/// A member, if it is an object.
fn member<'o>(object: &'o mut Value, name: &str) -> Option<&'o mut Value> {
    object.get_mut(name).filter(|value| value.is_object())
}

/// A member, set to an empty object if absent. Types were checked before, so anything else that is not an
/// object is null.
fn make<'o>(object: &'o mut Value, name: &str) -> &'o mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = &mut object[name];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot
}
