//! Type checks of values against their schema.

use super::number::{GoNumber, is_whole};
use super::report::{ErrorLocation, Report};
use crate::field::FieldErrorKind;
use crate::structural::node::{Node, ValueType};
use serde_json::Value;

/// Expected and actual type, as messages name them.
struct Mismatch {
    wanted: String,
    found: &'static str,
}

/// Whether a schema restricts the type.
pub(super) fn applies(node: &Node) -> bool {
    node.value_type.is_some() || node.flags.int_or_string || node.format().is_some()
}

/// Reports a value of the wrong type; returns whether the type is right.
pub(super) fn check(value: &Value, node: &Node, location: &ErrorLocation<'_>, report: &mut Report) -> bool {
    let Some(Mismatch { wanted, found }) = mismatch(value, node) else { return true };
    let detail = format!("{} in body must be of type {wanted}: {found:?}", location.path);
    report.push(location.error(FieldErrorKind::TypeInvalid, Some(format!("{found:?}")), detail));
    false
}

fn mismatch(value: &Value, node: &Node) -> Option<Mismatch> {
    let wants_type = node.value_type.is_some() || node.flags.int_or_string;
    if value.is_null() {
        let is_wrong = wants_type && !node.flags.nullable;
        return is_wrong.then(|| Mismatch { wanted: wanted(node), found: "null" });
    }
    let (found, format) = found(value);
    let fits = accepts(value, node);
    match node.checks.as_ref().and_then(|checks| checks.format.as_ref()) {
        // The format check reports texts.
        Some(_) if value.is_string() && !wants_type => None,
        Some(named) if !fits && !value.is_string() && !value.is_array() => {
            Some(Mismatch { wanted: named.name.to_string(), found: format })
        }
        _ => (!fits).then(|| Mismatch { wanted: wanted(node), found }),
    }
}

fn accepts(value: &Value, node: &Node) -> bool {
    if node.value_type.is_none() && node.flags.int_or_string {
        return value.is_string() || is_integer(value);
    }
    match node.value_type {
        Some(ValueType::Array) => value.is_array(),
        Some(ValueType::Boolean) => value.is_boolean(),
        Some(ValueType::Integer) => is_integer(value),
        Some(ValueType::Number) => value.is_number(),
        Some(ValueType::Object) => value.is_object(),
        Some(ValueType::String) => value.is_string(),
        None => false,
    }
}

/// Whether a value is an integer, or a double without a fraction.
fn is_integer(value: &Value) -> bool {
    match value.as_number().map(GoNumber::of) {
        Some(GoNumber::Integer(_)) => true,
        Some(GoNumber::Float(number)) => is_whole(number),
        None => false,
    }
}

fn wanted(node: &Node) -> String {
    match node.value_type {
        Some(wanted) => wanted.name().to_owned(),
        None if node.flags.int_or_string => "integer,string".to_owned(),
        None => String::new(),
    }
}

/// Type and format of a value.
fn found(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) => match GoNumber::of(number) {
            GoNumber::Integer(_) => ("integer", "int64"),
            GoNumber::Float(_) => ("number", "float64"),
        },
    }
}
