//! Selectable fields of custom kinds, besides name and namespace.

use super::go;
use crate::object::text;
use serde_json::Value;

/// Selectable field of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// Label in field selectors: the path without its leading dot.
    pub label: String,
    /// Members of the path.
    pub path: Vec<String>,
}

impl SelectableField {
    /// Parses an entry of `selectableFields`.
    pub(super) fn read(field: &Value) -> Self {
        let path = text(&field["jsonPath"]);
        let label = path.strip_prefix('.').unwrap_or(path).to_owned();
        let path = label.split('.').map(str::to_owned).collect();
        Self { label, path }
    }

    /// The text that selectors compare; empty if the field is missing or null.
    #[must_use]
    pub fn value(&self, object: &Value) -> String {
        match go::nested(object, &self.path) {
            Ok(None | Some(Value::Null)) | Err(_) => String::new(),
            Ok(Some(value)) => go::plain(value),
        }
    }
}
