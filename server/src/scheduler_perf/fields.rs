//! [`Fields`]: reads the members of an object one by one, and refuses those that are unknown. Pure.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Similarity from which a known name is suggested for an unknown one.
const SIMILAR: f64 = 0.75;

/// The members of an object that have not been read yet.
pub(super) struct Fields {
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    /// The members of an object.
    ///
    /// # Errors
    /// The value is no object.
    pub(super) fn of(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(left) => Ok(Self { left, known: Vec::new() }),
            other => Err(format!("expected an object, not {other}")),
        }
    }

    /// A member that need not be there.
    pub(super) fn optional<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        self.known.push(name);
        let value = self.left.remove(name).filter(|value| !value.is_null());
        value.map(serde_json::from_value).transpose().map_err(|error| format!("{name:?}: {error}"))
    }

    /// A member that must be there.
    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, String> {
        self.optional(name)?.ok_or_else(|| format!("{name:?} is missing"))
    }

    /// A member, or the default of its type.
    pub(super) fn or_default<T: DeserializeOwned + Default>(
        &mut self,
        name: &'static str,
    ) -> Result<T, String> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// Accepts a member that has no effect.
    pub(super) fn ignore(&mut self, name: &'static str) {
        self.known.push(name);
        self.left.remove(name);
    }

    /// Checks that every member was read.
    ///
    /// # Errors
    /// The first unknown member, with the most similar known one.
    pub(super) fn end(self) -> Result<(), String> {
        let Some(unknown) = self.left.keys().next() else { return Ok(()) };
        let suggestion = suggestion(unknown, self.known.iter().copied());
        Err(format!("unknown field {unknown:?}{suggestion}"))
    }
}

/// The end of a message about an unknown name: the most similar known one, if there is one.
pub(super) fn suggestion(unknown: &str, known: impl Iterator<Item = &'static str>) -> String {
    let rated = known.map(|name| (strsim::jaro_winkler(unknown, name), name));
    let nearest = rated.max_by(|one, two| one.0.total_cmp(&two.0));
    match nearest.filter(|(similarity, _)| *similarity >= SIMILAR) {
        Some((_, name)) => format!("; did you mean {name:?}?"),
        None => String::new(),
    }
}
