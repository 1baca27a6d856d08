//! Strategic merge patch: a merge patch whose lists merge by key where the field table says so, steered by
//! directives.
//!
//! | directive | meaning |
//! |---|---|
//! | `$patch: replace` in a map | the patch replaces the map; in a list element: the patch's other elements replace the list |
//! | `$patch: delete` | the map becomes empty; in a list element: the element with the same merge key is removed |
//! | `$deleteFromPrimitiveList/<field>` | these scalars are removed from the list |
//! | `$setElementOrder/<field>` | the order of the merged list |
//! | `$retainKeys` | members not listed are removed |
//!
//! Order of a merged list: elements in the patch take the order of the patch (or of `$setElementOrder`), the
//! others keep their order. Between the two groups the order of the current list decides, and new elements
//! come first.

mod list;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod reference;

#[cfg(test)]
mod tests;

use super::PatchError;
use crate::schema::{Elem, Field, Shape, Type, json_schema_props};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder";
const ORDER_PREFIX: &str = "$setElementOrder/";

/// Merges `patch` into `current`, an object of type `ty`.
///
/// # Errors
/// A directive is malformed, or a list element lacks its merge key.
pub fn apply(current: &Value, patch: &Value, ty: &'static Type) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else { return Err(bad("Invalid JSON Patch")) };
    let current = current.as_object().cloned().unwrap_or_default();
    merge_map(current, patch.clone(), ObjectShape::Struct(ty)).map(Value::Object)
}

/// Type information for a JSON object.
#[derive(Clone, Copy)]
enum ObjectShape {
    /// The members are fields of a type.
    Struct(&'static Type),
    /// The members are keys of a map with values of this type.
    Values(Elem),
    /// No type information: maps merge, lists are replaced.
    Unknown,
}

impl ObjectShape {
    /// The shape of an object that is a value of this type.
    fn of_elem(elem: Elem) -> Self {
        match elem {
            Elem::Struct(id) => Self::Struct(id.get()),
            Elem::SchemaOrBool | Elem::SchemaOrList | Elem::SchemaOrStrings => {
                Self::Struct(json_schema_props())
            }
            _ => Self::Unknown,
        }
    }

    /// Name of the type in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Struct(ty) => ty.name,
            Self::Values(_) | Self::Unknown => "map",
        }
    }

    fn field(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Struct(ty) => ty.field(name),
            Self::Values(_) | Self::Unknown => None,
        }
    }

    /// The shape of the object in member `name`.
    fn member(self, name: &str) -> Self {
        match (self, self.field(name)) {
            (Self::Values(elem), _) => Self::of_elem(elem),
            (_, Some(field)) if field.shape == Shape::Map => Self::Values(field.elem),
            (_, Some(field)) => Self::of_elem(field.elem),
            (_, None) => Self::Unknown,
        }
    }
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    shaped: ObjectShape,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(&directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_orders(&mut original, &mut patch, shaped)?;
    for (name, value) in patch {
        merge_member(&mut original, name, value, shaped)?;
    }
    Ok(original)
}

fn merge_member(
    original: &mut Map<String, Value>,
    name: String,
    patch: Value,
    shaped: ObjectShape,
) -> Result<(), PatchError> {
    if let Some(field) = name.strip_prefix(DELETE_PREFIX) {
        match patch {
            Value::Null => drop(original.remove(field)),
            gone => list::delete_scalars(original.get_mut(field), &gone),
        }
        return Ok(());
    }
    if name.starts_with(DELETE) {
        return Err(bad("invalid patch format of primitive list"));
    }
    let merged = match (original.remove(&name), patch) {
        (_, Value::Null) => return Ok(()),
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let replace = shaped.field(&name).is_some_and(|f| f.patch.replace);
            Some(Value::Object(if replace {
                patch
            } else {
                merge_map(current, patch, shaped.member(&name))?
            }))
        }
        (Some(Value::Array(current)), Value::Array(patch)) => Some(Value::Array(match shaped.field(&name) {
            Some(field) if field.patch.merge => list::merge(current, patch, field)?,
            _ => patch,
        })),
        (_, patch) => without_directives(patch),
    };
    if let Some(merged) = merged {
        original.insert(name, merged);
    }
    Ok(())
}

/// Applies `$retainKeys`: removes members it does not list from the original. The patch must not set other
/// members.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || bad("invalid patch format of retainKeys");
    let keys: BTreeSet<&str> =
        listed.as_array().ok_or_else(malformed)?.iter().filter_map(Value::as_str).collect();
    let sets = |(name, value): (&String, &Value)| {
        !value.is_null() && !name.starts_with(DELETE_PREFIX) && !name.starts_with(ORDER_PREFIX)
    };
    if patch.iter().filter(|entry| sets(*entry)).any(|(name, _)| !keys.contains(name.as_str())) {
        return Err(malformed());
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// Merges and sorts every list that has a `$setElementOrder`, and removes the list from the patch.
fn set_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    shaped: ObjectShape,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(bad_type("[]interface {}", other.as_ref())),
        };
        let Some(name) = directive.strip_prefix(ORDER_PREFIX) else {
            return Err(bad("invalid patch format of setElementOrder list"));
        };
        let Some(field) = shaped.field(name) else {
            let of = shaped.name();
            return Err(unclassified(format!(
                "unable to find api field in struct {of} for the json field \"{name}\""
            )));
        };
        let from_patch = patch.remove(name);
        let current = as_list(original.get(name))?;
        let merged = match (current, as_list(from_patch.as_ref())?) {
            (None, None) => continue,
            (current, patch) => list::merge_in_order(current, patch, &order, field)?,
        };
        original.insert(name.to_owned(), Value::Array(merged));
    }
    Ok(())
}

fn as_list(value: Option<&Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(bad_type("[]interface {}", Some(other))),
    }
}

/// A value that is new to the object, without nulls and directives. `None` if the whole value is a directive.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let plain = map.into_iter().filter(|(name, value)| !is_directive(name) && !value.is_null());
            Some(Value::Object(
                plain.filter_map(|(name, value)| Some((name, without_directives(value)?))).collect(),
            ))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value),
    }
}

fn is_directive(name: &str) -> bool {
    name == RETAIN_KEYS || name.starts_with(DELETE) || name.starts_with(ORDER)
}

fn bad(text: impl Into<String>) -> PatchError {
    PatchError::BadRequest(text.into())
}

/// Error that Kubernetes' library reports without a class, so that its server answers 500.
fn unclassified(text: impl Into<String>) -> PatchError {
    PatchError::Unclassified(text.into())
}

/// Error for a value of the wrong type in a directive.
fn bad_type(expected: &str, found: Option<&Value>) -> PatchError {
    unclassified(format!("expected a {expected}, but received a {}", go_type(found)))
}

/// The type of a JSON value in Go's spelling.
fn go_type(value: Option<&Value>) -> &'static str {
    match value {
        None | Some(Value::Null) => "<nil>",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(number)) if number.is_f64() => "float64",
        Some(Value::Number(_)) => "int64",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "[]interface {}",
        Some(Value::Object(_)) => "map[string]interface {}",
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    let name = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    unclassified(format!("unknown patch type: {name} in map: {}", in_go(&Value::Object(map.clone()))))
}

/// Formats a value like Go's `%v`, as Kubernetes' messages do.
#[must_use]
pub fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(in_go).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let members: Vec<_> =
                map.iter().map(|(name, value)| format!("{name}:{}", in_go(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}
