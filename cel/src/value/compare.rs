//! Equality and order of values.

use super::{List, ListKind, Object, ObjectShape, Val};
use crate::error::EvalError;
use crate::limits::VALUE_DEPTH;
use std::cmp::Ordering;

type JsonObject = serde_json::Map<String, serde_json::Value>;

/// Whether two values are equal. Numbers of different types compare by value; other values of different types are unequal.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>) -> Result<bool, EvalError> {
    equal_within(a, b, VALUE_DEPTH)
}

fn equal_within(a: &Val<'_>, b: &Val<'_>, depth: usize) -> Result<bool, EvalError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(EvalError::other("values are nested too deeply"));
    };
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::String(a), Val::String(b)) | (Val::Type(a), Val::Type(b)) => **a == **b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::List(a), Val::List(b)) => return lists(a, b, depth),
        (Val::Map(a), Val::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for key in a.keys() {
                let (Some(left), Some(right)) = (a.get(&key)?, b.get(&key)?) else { return Ok(false) };
                if !equal_within(&left, &right, depth)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Object(a), Val::Object(b)) => return objects(a, b, depth),
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => return equal_within(a, b, depth),
            _ => false,
        },
        (Val::Opaque(a), Val::Opaque(b)) => a.equals(&**b),
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn lists(a: &List<'_>, b: &List<'_>, depth: usize) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let unordered = |list: &List<'_>| matches!(list, List::Json(_, _, kind) if **kind != ListKind::Ordered);
    if unordered(a) || unordered(b) {
        return Ok(covers(a, b, depth)? && covers(b, a, depth)?);
    }
    for index in 0..a.len() {
        if !equal_within(&a.get(index)?, &b.get(index)?, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether each element of `a` is in `b`.
fn covers(a: &List<'_>, b: &List<'_>, depth: usize) -> Result<bool, EvalError> {
    for item in a.iter() {
        let item = item?;
        let mut found = false;
        for other in b.iter() {
            found = found || equal_within(&item, &other?, depth)?;
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn objects(a: &Object<'_>, b: &Object<'_>, depth: usize) -> Result<bool, EvalError> {
    if let (Object::Json(left, shape), Object::Json(right, _)) = (a, b) {
        return Ok(a.type_name() == b.type_name() && documents(left, right, shape, depth)?);
    }
    let names = a.names();
    if a.type_name() != b.type_name() || names != b.names() {
        return Ok(false);
    }
    for name in names {
        let (Some(left), Some(right)) = (a.get(name)?, b.get(name)?) else { return Ok(false) };
        if !equal_within(&left, &right, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two documents of one object type are equal, including members that the type does not declare.
fn documents(a: &JsonObject, b: &JsonObject, shape: &ObjectShape, depth: usize) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (key, left) in a {
        let Some(right) = b.get(key) else { return Ok(false) };
        let is_equal = match shape.field_of_key(key) {
            Some(field) => equal_within(&field.shape.value(left)?, &field.shape.value(right)?, depth)?,
            None => left == right,
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares two values of an ordered type.
pub(crate) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, EvalError> {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Ok(a.cmp(b)),
        (Val::String(a), Val::String(b)) => Ok((**a).cmp(&**b)),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(a.cmp(b)),
        (Val::Timestamp(a), Val::Timestamp(b)) => Ok(a.cmp(b)),
        (Val::Duration(a), Val::Duration(b)) => Ok(a.cmp(b)),
        (Val::Double(number), other) | (other, Val::Double(number))
            if number.is_nan() && is_number(other) =>
        {
            Err(EvalError::other("NaN values cannot be ordered"))
        }
        _ => numbers(a, b).ok_or(EvalError::NoSuchOverload),
    }
}

fn is_number(value: &Val<'_>) -> bool {
    matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_))
}

/// Compares two numbers; none if a value is not a number or is NaN.
fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Double(a), Val::Int(b)) => {
            double_and_whole(*a, i128::from(*b), i64::MIN as f64, i64::MAX as f64)
        }
        (Val::Double(a), Val::Uint(b)) => double_and_whole(*a, i128::from(*b), 0.0, u64::MAX as f64),
        (Val::Int(_) | Val::Uint(_), Val::Double(_)) => numbers(b, a).map(Ordering::reverse),
        _ => None,
    }
}

fn double_and_whole(a: f64, b: i128, low: f64, high: f64) -> Option<Ordering> {
    if a < low {
        return Some(Ordering::Less);
    }
    if a > high {
        return Some(Ordering::Greater);
    }
    a.partial_cmp(&(b as f64))
}
