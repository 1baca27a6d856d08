//! Adds the members that Kubernetes prints even when they are zero (`resources: {}`, `status: {}`, `replicas:
//! 0`).
//!
//! Run it last before an object is stored or sent: after defaults and validation, which treat absence as
//! zero. A time that the API calls required is `null` when it is not set, since clients may demand the
//! member. Other times, lists, maps and pointers that Go would print as `null` stay absent.

use serde_json::{Map, Value};

use super::limits::MAX_DEPTH;
use super::{Elem, Field, Shape, Type, json_schema_props};

/// Adds to `value`, an object of type `ty`, the zero members Kubernetes always prints.
pub fn fill(value: &mut Value, ty: &'static Type) {
    if let Value::Object(map) = value {
        object(map, ty, 0);
    }
}

/// The zero value of an element, as JSON.
pub(crate) fn zero(elem: Elem) -> Value {
    match elem {
        Elem::String | Elem::Bytes => Value::String(String::new()),
        Elem::Bool => Value::Bool(false),
        Elem::Int32 | Elem::Int64 | Elem::IntOrString => Value::from(0),
        Elem::Float64 => Value::from(0.0),
        Elem::Quantity => Value::from("0"),
        Elem::Items => Value::Array(Vec::new()),
        Elem::Struct(_) => Value::Object(Map::new()),
        Elem::Time | Elem::MicroTime | Elem::Raw | Elem::FieldsV1 | Elem::Json => Value::Null,
        Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => Value::Null,
    }
}

fn object(map: &mut Map<String, Value>, ty: &'static Type, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    for field in ty.fields.iter().filter(|f| always_printed(f)) {
        if !map.contains_key(field.name) {
            map.insert(field.name.to_owned(), zero(field.elem));
        }
    }
    for (name, value) in map.iter_mut() {
        if let Some(field) = ty.field(name) {
            members(value, field.elem, field.shape, depth + 1);
        }
    }
}

/// Whether Kubernetes prints the member even when it is zero.
pub(crate) fn always_printed(field: &Field) -> bool {
    if field.pointer || field.shape != Shape::One || field.omit_zero {
        return false;
    }
    match field.elem {
        // Structs are not empty in Go's sense, so only `omitzero` leaves them out.
        Elem::Struct(_) | Elem::Quantity | Elem::IntOrString => true,
        Elem::String | Elem::Bool | Elem::Int32 | Elem::Int64 | Elem::Float64 => !field.omit_empty,
        Elem::Time | Elem::MicroTime => !field.omit_empty,
        // Go prints null for these; to clients null equals absence.
        Elem::Bytes | Elem::Raw | Elem::FieldsV1 | Elem::Json | Elem::Items => false,
        Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => false,
    }
}

fn members(value: &mut Value, elem: Elem, shape: Shape, depth: usize) {
    match (shape, value) {
        (Shape::List, Value::Array(items)) => {
            items.iter_mut().for_each(|v| members(v, elem, Shape::One, depth));
        }
        (Shape::Map, Value::Object(map)) => {
            map.values_mut().for_each(|v| members(v, elem, Shape::One, depth));
        }
        (Shape::One, Value::Object(map)) => match elem {
            Elem::Struct(id) => object(map, id.get(), depth),
            Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => {
                object(map, json_schema_props(), depth);
            }
            _ => {}
        },
        (Shape::One, Value::Array(items)) if elem == Elem::SchemaOrList => {
            items.iter_mut().for_each(|v| members(v, elem, Shape::One, depth));
        }
        _ => {}
    }
}
