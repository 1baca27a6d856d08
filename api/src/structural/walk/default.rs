//! Schema defaulting of objects.

use crate::structural::tree::{Schema, Tree};
use serde_json::{Map, Value};

impl Tree {
    /// Sets the defaults of absent members, also inside defaults, lists and maps. Null counts as absent where
    /// it is not a valid value. Absent parents without a default are not created.
    pub fn fill_defaults(&self, object: &mut Value) {
        self.root().fill_defaults(object);
    }
}

impl Schema<'_> {
    /// Sets defaults below a value at this position, like [`Tree::fill_defaults`]. The value itself is not
    /// replaced.
    pub fn fill_defaults(self, value: &mut Value) {
        if !self.below.defaults {
            return;
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.member(name) {
                        schema.replace_null(value);
                        schema.fill_defaults(value);
                    }
                }
                self.add_defaults(map);
            }
            Value::Array(items) => {
                let Some(schema) = self.items() else { return };
                for item in items {
                    schema.replace_null(item);
                    schema.fill_defaults(item);
                }
            }
            _ => {}
        }
    }

    /// Adds the absent members of an object that have a default.
    pub(super) fn add_defaults(self, map: &mut Map<String, Value>) {
        if !self.below.defaults {
            return;
        }
        for (name, property) in self.properties() {
            if let Some(default) = &property.default
                && !map.contains_key(name)
            {
                let value = map.entry(name).or_insert_with(|| (**default).clone());
                property.fill_defaults(value);
            }
        }
    }

    /// Replaces an invalid null by the default, and sets the defaults below it.
    pub(super) fn replace_null(self, value: &mut Value) {
        if value.is_null()
            && !self.flags.nullable
            && let Some(default) = &self.default
        {
            value.clone_from(default);
            self.fill_defaults(value);
        }
    }

    /// Whether a value can stay at this position; null needs a nullable schema or a default.
    pub(super) fn takes(self, value: &Value) -> bool {
        !value.is_null() || self.flags.nullable || self.default.is_some()
    }
}
