//! Fills in the defaults of a schema.

use serde_json::{Map, Value};

use crate::structural::tree::{Schema, Tree};

impl Tree {
    /// Gives absent members of an object their defaults, also below defaults, in lists and in maps. A null counts as absent where null
    /// is no value. A parent that is absent and has no default is not created.
    pub fn fill_defaults(&self, object: &mut Value) {
        self.root().fill_defaults(object);
    }
}

impl Schema<'_> {
    /// As [`Tree::fill_defaults`], for a value at this place, which stays itself.
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

    /// Gives an object the members that it lacks and that have a default.
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

    /// Puts the default, with those below it, in place of a null that is no value here.
    pub(super) fn replace_null(self, value: &mut Value) {
        if value.is_null()
            && !self.flags.nullable
            && let Some(default) = &self.default
        {
            value.clone_from(default);
            self.fill_defaults(value);
        }
    }

    /// Whether a value may stay here: null must be one.
    pub(super) fn takes(self, value: &Value) -> bool {
        !value.is_null() || self.flags.nullable || self.default.is_some()
    }
}
