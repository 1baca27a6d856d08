//! Conversion between versions with the strategy `None`.

use super::definition::Definition;
use serde_json::Value;

/// Sets `apiVersion` to a version of the kind. The caller then prunes the object by the target's schema.
pub fn to_version(definition: &Definition, version: &str, object: &mut Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), definition.api_version(version).into());
    }
}
