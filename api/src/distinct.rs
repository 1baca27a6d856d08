//! Sets of JSON values, so that a list of thousands of items is searched for equal ones in one pass. Comparing each item with all
//! before it takes time that grows with the square of the list, and lists are as long as their writers like.
//!
//! Ordered sets rather than hashed ones: no choice of values makes them slow.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::is_empty;

/// Values that a list has had so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct<'v>(BTreeSet<Key<'v>>);

/// A value in a form that can be ordered: texts as they are, everything else as its JSON, whose members are sorted.
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

    /// Adds a value. False if an equal one was there.
    pub(crate) fn insert(&mut self, value: &'v Value) -> bool {
        self.0.insert(Key::of(value))
    }

    /// Whether an equal value is in the set.
    pub(crate) fn contains(&self, value: &Value) -> bool {
        self.0.contains(&Key::of(value))
    }
}

/// A text that two values share if and only if they are [semantically equal](crate::object::semantically_equal), members of the
/// outermost object in `except` aside.
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
    use serde_json::json;

    use super::*;
    use crate::object::semantically_equal;

    #[test]
    fn equal_values_are_found_whatever_their_type() {
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
    fn meanings_are_equal_where_values_are_semantically_equal() {
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
