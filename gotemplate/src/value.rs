//! Truth, order, size and members of values, as Go's templates see them. Pure.

use crate::Missing;
use crate::limits::VALUE_DEPTH;
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The value of a member that an object lacks.
pub(crate) static NULL: Value = Value::Null;

/// Whether `if` takes its first branch: as in Go, a value that is not its type's zero.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
    }
}

/// The member at a path.
pub(crate) fn member<'v>(value: &'v Value, path: &[String], missing: Missing) -> Result<&'v Value, String> {
    let mut value = value;
    for name in path {
        value = match value {
            Value::Object(members) => match members.get(name) {
                Some(member) => member,
                None if missing == Missing::Refused => return Err(format!("there is no field .{name}")),
                None => &NULL,
            },
            Value::Null => &NULL,
            other => return Err(format!("cannot read .{name} of {}", kind(other))),
        };
    }
    Ok(value)
}

/// The same of a value that may be owned.
pub(crate) fn member_of<'v>(
    value: &Cow<'v, Value>,
    path: &[String],
    missing: Missing,
) -> Result<Cow<'v, Value>, String> {
    match value {
        Cow::Borrowed(value) => member(value, path, missing).map(Cow::Borrowed),
        Cow::Owned(value) => member(value, path, missing).map(|found| Cow::Owned(found.clone())),
    }
}

/// What a value is, for error texts.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Bytes of a value, roughly: what it costs to make or to read it. `None` if its lists and maps are deeper in each other than they may be.
pub(crate) fn weight(value: &Value) -> Option<usize> {
    weight_within(value, VALUE_DEPTH)
}

fn weight_within(value: &Value, depth: usize) -> Option<usize> {
    let own = 8;
    let inner = |value: &Value| weight_within(value, depth.checked_sub(1)?);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(own),
        Value::String(text) => Some(own + text.len()),
        Value::Array(all) => all.iter().try_fold(own, |sum, value| Some(sum + inner(value)?)),
        Value::Object(all) => {
            all.iter().try_fold(own, |sum, (name, value)| Some(sum + own + name.len() + inner(value)?))
        }
    }
}

/// The order of two values of a type; numbers by their value.
pub(crate) fn order(one: &Value, two: &Value) -> Result<Ordering, String> {
    match (one, two) {
        (Value::String(one), Value::String(two)) => Ok(one.cmp(two)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => Ok(float(one)?.total_cmp(&float(two)?)),
        },
        _ => Err(format!("cannot compare {} with {}", kind(one), kind(two))),
    }
}

/// Whether two values are equal. Values of different types are an error as in Go, but for nil.
pub(crate) fn are_equal(one: &Value, two: &Value) -> Result<bool, String> {
    match (one, two) {
        (Value::Null, _) | (_, Value::Null) => Ok(one.is_null() && two.is_null()),
        (Value::Bool(one), Value::Bool(two)) => Ok(one == two),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => {
            Err(format!("cannot compare {} with {}", kind(one), kind(two)))
        }
        _ => Ok(order(one, two)?.is_eq()),
    }
}

/// A whole number; a fraction is dropped, as Go's `int()` does.
pub(crate) fn int(value: &Value) -> Result<i64, String> {
    if let Some(whole) = value.as_i64() {
        return Ok(whole);
    }
    match value.as_f64() {
        Some(number) => {
            let text = format!("{:.0}", number.trunc());
            text.parse().map_err(|_| format!("{number} is too large"))
        }
        None => Err(not_a_number(value)),
    }
}

/// A number.
pub(crate) fn float(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| not_a_number(value))
}

fn not_a_number(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?} is not a number"),
        other => format!("{} is not a number", kind(other)),
    }
}

/// A text.
pub(crate) fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("{} is not a string", kind(value)))
}

/// A list.
pub(crate) fn list(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(all) => Ok(all),
        Value::Null => Ok(&[]),
        other => Err(format!("{} is not a list", kind(other))),
    }
}
