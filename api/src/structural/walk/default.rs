//! Fills in the defaults of a schema.

use serde_json::Value;

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
                for (name, property) in self.properties() {
                    let Some(default) = &property.default else { continue };
                    match map.get_mut(name) {
                        Some(member) => property.replace_null(member),
                        None => drop(map.insert(name.to_owned(), (**default).clone())),
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.member(name) {
                        schema.replace_null(value);
                        schema.fill_defaults(value);
                    }
                }
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

    /// Puts the default in place of a null that is no value here.
    fn replace_null(self, value: &mut Value) {
        if value.is_null()
            && !self.flags.nullable
            && let Some(default) = &self.default
        {
            value.clone_from(default);
        }
    }
}
