//! Adds the members that Kubernetes prints even when they are unset (`resources: {}`, `replicas: 0`, `rules: null`).
//!
//! Run it last before an object is stored or sent: after defaults and validation, which treat absence as zero. Which
//! members are printed follows from the field table: a Go field without `omitempty` prints its zero value, which is `null` for lists,
//! maps, pointers and raw JSON. `omitempty` has no effect on fields of struct types: a time that is not set is printed as `null`, too.
//! Only `omitzero` leaves those out.

use super::limits::MAX_DEPTH;
use super::{Elem, Field, Shape, Type, json_schema_props};
use serde_json::{Map, Value};

/// Adds to `value`, an object of type `ty`, the unset members that Kubernetes always prints.
pub fn fill(value: &mut Value, ty: &'static Type) {
    if let Value::Object(map) = value {
        Filler { drops_empty: false }.object(map, ty, 0);
    }
}

/// Like [`fill`], for an object that is stored. Kubernetes reads what it stored before it answers, and protobuf does not tell an
/// empty list or map from an absent one: `rules: []` becomes `rules: null`.
pub fn fill_stored(value: &mut Value, ty: &'static Type) {
    if let Value::Object(map) = value {
        Filler { drops_empty: !STORED_AS_JSON.contains(&ty.package.group) }.object(map, ty, 0);
    }
}

/// Groups whose objects Kubernetes stores as JSON, which keeps empty lists: those of its apiextensions server and its aggregator.
const STORED_AS_JSON: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

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

/// Whether Kubernetes prints the member even when it is unset.
pub(crate) fn always_printed(field: &Field) -> bool {
    if field.omit_zero {
        return false;
    }
    !field.omit_empty || (is_plain(field) && is_go_struct(field.elem))
}

/// Whether the unset member is printed as `null`.
pub(crate) fn is_null_when_unset(field: &Field) -> bool {
    match field.elem {
        _ if !is_plain(field) => true,
        // Nil slices of Go; the zero value of a list's element is not nil.
        Elem::Bytes | Elem::Items => true,
        Elem::Time | Elem::MicroTime | Elem::Raw | Elem::FieldsV1 | Elem::Json => true,
        Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => true,
        Elem::String | Elem::Bool | Elem::Int32 | Elem::Int64 | Elem::Float64 => false,
        Elem::Quantity | Elem::IntOrString | Elem::Struct(_) => false,
    }
}

/// Whether the field has one value, and no pointer to it.
fn is_plain(field: &Field) -> bool {
    field.shape == Shape::One && !field.pointer
}

/// Whether the element is a struct in Go, which is never empty in the sense of `omitempty`.
fn is_go_struct(elem: Elem) -> bool {
    matches!(
        elem,
        Elem::Struct(_) | Elem::Quantity | Elem::IntOrString | Elem::Time | Elem::MicroTime | Elem::Raw
    )
}

/// A walk that adds the unset members.
#[derive(Clone, Copy)]
struct Filler {
    /// Whether empty lists and maps of always printed members become `null`.
    drops_empty: bool,
}

impl Filler {
    fn object(self, map: &mut Map<String, Value>, ty: &'static Type, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for field in ty.fields.iter().filter(|field| always_printed(field)) {
            match map.get_mut(field.name) {
                None if is_null_when_unset(field) => drop(map.insert(field.name.to_owned(), Value::Null)),
                None => drop(map.insert(field.name.to_owned(), zero(field.elem))),
                Some(value) if self.drops_empty && field.shape != Shape::One && is_empty(value) => {
                    *value = Value::Null;
                }
                Some(_) => {}
            }
        }
        // Scalars have no members, so their fields are not looked up.
        let with_members = |value: &Value| matches!(value, Value::Object(_) | Value::Array(_));
        for (name, value) in map.iter_mut().filter(|(_, value)| with_members(value)) {
            if let Some(field) = ty.field(name) {
                self.members(value, field.elem, field.shape, depth + 1);
            }
        }
    }

    fn members(self, value: &mut Value, elem: Elem, shape: Shape, depth: usize) {
        match (shape, value) {
            (Shape::List, Value::Array(items)) => {
                items.iter_mut().for_each(|v| self.members(v, elem, Shape::One, depth));
            }
            (Shape::Map, Value::Object(map)) => {
                map.values_mut().for_each(|v| self.members(v, elem, Shape::One, depth));
            }
            (Shape::One, Value::Object(map)) => match elem {
                Elem::Struct(id) => self.object(map, id.get(), depth),
                Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => {
                    self.object(map, json_schema_props(), depth);
                }
                _ => {}
            },
            (Shape::One, Value::Array(items)) if elem == Elem::SchemaOrList => {
                items.iter_mut().for_each(|v| self.members(v, elem, Shape::One, depth));
            }
            _ => {}
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
