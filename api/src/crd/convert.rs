//! Conversion between versions with the strategy `None`.

use serde_json::Value;

use super::definition::Definition;

/// Rewrites `apiVersion` to a version of the kind. The rest stays; the target's schema has to prune afterwards.
pub fn to_version(definition: &Definition, version: &str, object: &mut Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), definition.api_version(version).into());
    }
}
