//! Walks over the JSON of schemas, valid or not.

use crate::object::list;
use serde_json::{Map, Value};

/// Calls `look` for a schema and every schema inside it until it returns false. Returns whether all calls
/// returned true.
pub(super) fn visit<'s>(schema: &'s Value, look: &mut impl FnMut(&'s Value) -> bool) -> bool {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        if !schema.is_object() {
            continue;
        }
        if !look(schema) {
            return false;
        }
        let start = open.len();
        open.extend(children(schema));
        // The stack is reversed to keep the order of the schema.
        open[start..].reverse();
    }
    true
}

/// Whether a schema, or one inside it, satisfies the test.
pub(super) fn any(schema: &Value, mut test: impl FnMut(&Value) -> bool) -> bool {
    !visit(schema, &mut |node| !test(node))
}

fn children(schema: &Value) -> Vec<&Value> {
    let mut out = Vec::new();
    let member = |name: &str| schema.as_object().and_then(|members| members.get(name));
    for name in ["items", "not", "additionalProperties", "additionalItems"] {
        match member(name) {
            Some(Value::Array(items)) => out.extend(items),
            other => out.extend(other),
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        out.extend(member(name).into_iter().flat_map(list));
    }
    for name in ["properties", "patternProperties", "definitions", "dependencies"] {
        out.extend(member(name).into_iter().flat_map(members).map(|(_, value)| value));
    }
    out
}

/// The members of an object, sorted by name; none if it is not an object.
pub(super) fn members(value: &Value) -> Vec<(&str, &Value)> {
    let members = value.as_object().map(Map::iter).into_iter().flatten();
    let mut members: Vec<(&str, &Value)> = members.map(|(name, value)| (name.as_str(), value)).collect();
    members.sort_by_key(|(name, _)| *name);
    members
}
