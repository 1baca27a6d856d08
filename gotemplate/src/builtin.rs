//! The functions of `text/template` itself, but for `and` and `or`, which do not evaluate all of their arguments. Pure.

use crate::parser::Native;
use crate::print::{display, printf};
use crate::value::{NULL, are_equal, int, is_true, kind, order, text};
use serde_json::Value;
use std::cmp::Ordering;

/// The functions by their names.
pub(crate) const TABLE: &[(&str, Native)] = &[
    ("eq", |arguments| {
        // As in Go, the first is compared with each of the others.
        let (first, others) = arguments.split_first().ok_or("it needs arguments")?;
        if others.is_empty() {
            return Err("it needs a second argument".to_owned());
        }
        let mut is_equal = false;
        for other in others {
            is_equal = is_equal || are_equal(first, other)?;
        }
        Ok(Value::Bool(is_equal))
    }),
    ("ne", |arguments| {
        let [one, two] = pair(arguments)?;
        Ok(Value::Bool(!are_equal(one, two)?))
    }),
    ("lt", |arguments| ordered(arguments, Ordering::is_lt)),
    ("le", |arguments| ordered(arguments, Ordering::is_le)),
    ("gt", |arguments| ordered(arguments, Ordering::is_gt)),
    ("ge", |arguments| ordered(arguments, Ordering::is_ge)),
    ("not", |arguments| match arguments {
        [value] => Ok(Value::Bool(!is_true(value))),
        _ => Err("it takes one argument".to_owned()),
    }),
    ("len", |arguments| {
        let length = match arguments {
            [Value::String(text)] => text.len(),
            [Value::Array(all)] => all.len(),
            [Value::Object(all)] => all.len(),
            [other] => return Err(format!("{} has no length", kind(other))),
            _ => return Err("it takes one argument".to_owned()),
        };
        Ok(Value::from(length))
    }),
    ("index", index),
    ("slice", slice),
    ("print", |arguments| {
        let mut out = String::new();
        for (at, value) in arguments.iter().enumerate() {
            // `fmt.Sprint` puts a space between two values if neither is a string.
            if at > 0 && !value.is_string() && !arguments[at - 1].is_string() {
                out.push(' ');
            }
            out.push_str(&display(value));
        }
        Ok(Value::String(out))
    }),
    ("println", |arguments| {
        let all: Vec<_> = arguments.iter().map(|value| display(value)).collect();
        Ok(Value::String(format!("{}\n", all.join(" "))))
    }),
    ("printf", |arguments| {
        let (format, rest) = arguments.split_first().ok_or("it needs a format")?;
        printf(text(format)?, rest).map(Value::String)
    }),
];

/// Two arguments.
pub(crate) fn pair<'a, 'v>(arguments: &'a [&'v Value]) -> Result<&'a [&'v Value; 2], String> {
    arguments.try_into().map_err(|_| format!("it takes two arguments, not {}", arguments.len()))
}

fn ordered(arguments: &[&Value], holds: fn(Ordering) -> bool) -> Result<Value, String> {
    let [one, two] = pair(arguments)?;
    Ok(Value::Bool(holds(order(one, two)?)))
}

/// `index list 1 2`, `index map "a" "b"`. A key that a map lacks gives nil.
fn index(arguments: &[&Value]) -> Result<Value, String> {
    let (first, keys) = arguments.split_first().ok_or("it needs arguments")?;
    let mut value: &Value = first;
    for key in keys {
        value = match value {
            Value::Object(members) => members.get(text(key)?).unwrap_or(&NULL),
            Value::Array(all) => {
                let at = usize::try_from(int(key)?).ok().and_then(|at| all.get(at));
                at.ok_or_else(|| format!("index {key} is out of range: the list has {}", all.len()))?
            }
            Value::Null => return Err("it cannot index nil".to_owned()),
            other => return Err(format!("it cannot index {}", kind(other))),
        };
    }
    Ok(value.clone())
}

/// `slice value from to`, of a text in bytes.
fn slice(arguments: &[&Value]) -> Result<Value, String> {
    let (value, bounds) = arguments.split_first().ok_or("it needs arguments")?;
    if bounds.len() > 2 {
        return Err("it takes at most two bounds".to_owned());
    }
    let length = match value {
        Value::String(text) => text.len(),
        Value::Array(all) => all.len(),
        other => return Err(format!("it cannot slice {}", kind(other))),
    };
    let bound = |at: usize, otherwise: usize| match bounds.get(at) {
        Some(bound) => usize::try_from(int(bound)?).map_err(|_| format!("bound {bound} is negative")),
        None => Ok(otherwise),
    };
    let (from, to) = (bound(0, 0)?, bound(1, length)?);
    let outside = || format!("{from} to {to} is outside of a length of {length}");
    match value {
        Value::String(text) => Ok(Value::from(text.get(from..to).ok_or_else(outside)?)),
        Value::Array(all) => Ok(Value::Array(all.get(from..to).ok_or_else(outside)?.to_vec())),
        _ => Err(outside()),
    }
}
