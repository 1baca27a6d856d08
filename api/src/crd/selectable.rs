//! Selectable fields of custom kinds: what field selectors compare besides name and namespace.

use serde_json::Value;

/// A selectable field of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// Name in field selectors: the path without its leading dot.
    pub label: String,
    /// Steps of the path.
    pub path: Vec<String>,
}

impl SelectableField {
    /// The text that selectors compare; empty if the field is missing or null.
    #[must_use]
    pub fn value(&self, object: &Value) -> String {
        let _ = object;
        todo!()
    }
}
