//! Sets of JSON values that find duplicates in one pass over a list. Comparing each item with all earlier
//! ones would take quadratic time, and clients control the length of lists.
//!
//! Sets are ordered, not hashed, so that no choice of values makes them slow.

use crate::object::is_empty;
use serde_json::Value;
use std::collections::BTreeSet;

/// Set of JSON values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct<'v>(BTreeSet<Key<'v>>);

/// Value in an ordered form: texts unchanged, everything else as JSON with sorted members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'v> {
    Text(&'v str),
    Json(String),
}

impl<'v> Key<'v> {
    fn of(value: &'v Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            other => Self::Json(other.to_string()),
        }
    }
}

impl<'v> Distinct<'v> {
    /// The set of these values.
    pub(crate) fn of(values: impl IntoIterator<Item = &'v Value>) -> Self {
        Self(values.into_iter().map(Key::of).collect())
    }

    /// Adds a value. False if the set has an equal one.
    pub(crate) fn insert(&mut self, value: &'v Value) -> bool {
        self.0.insert(Key::of(value))
    }

    /// Whether an equal value is in the set.
    pub(crate) fn contains(&self, value: &Value) -> bool {
        self.0.contains(&Key::of(value))
    }
}

/// Text that two values share exactly if they are [semantically equal](crate::object::semantically_equal),
/// apart from the members in `except` of the outermost object.
pub(crate) fn meaning(value: &Value, except: &[&str]) -> String {
    let mut out = String::new();
    write_meaning(value, except, &mut out);
    out
}

fn write_meaning(value: &Value, except: &[&str], out: &mut String) {
    match value {
        value if is_empty(value) => out.push_str("null"),
        Value::Object(members) => {
            out.push('{');
            for (name, value) in members {
                if except.contains(&name.as_str()) || is_empty(value) {
                    continue;
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_meaning(value, &[], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_meaning(item, &[], out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::semantically_equal;
    use serde_json::json;

    #[test]
    fn equal_values_of_all_types_are_found() {
        let values = [json!("1"), json!(1), json!({"a": 1, "b": [null]}), json!(null), json!(1.5)];
        let mut seen = Distinct::default();
        for value in &values {
            assert!(!seen.contains(value) && seen.insert(value), "{value}");
        }
        for value in &values {
            assert!(seen.contains(value) && !seen.insert(value), "{value}");
        }
        assert!(Distinct::of(&values).contains(&json!({"b": [null], "a": 1})));
        assert!(!seen.contains(&json!("null")));
    }

    #[test]
    fn meanings_are_equal_exactly_for_semantically_equal_values() {
        let values = [
            json!({"a": 1}),
            json!({"a": 1, "b": null, "c": {"d": []}}),
            json!({"a": 1, "b": [null]}),
            json!({"a": 1, "b": [{}]}),
            json!([1]),
            json!([]),
            json!(null),
            json!("null"),
            json!({}),
        ];
        for a in &values {
            for b in &values {
                assert_eq!(meaning(a, &[]) == meaning(b, &[]), semantically_equal(a, b), "{a} {b}");
            }
        }
        assert_eq!(meaning(&json!({"a": 1, "b": 2}), &["b"]), meaning(&json!({"a": 1}), &["b"]));
    }
}
