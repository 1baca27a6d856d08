//! Type check of apply configurations for built-in types. Every member must be in the schema with a fitting
//! value, and every list element needs its keys, without duplicates. The check includes the inside of atomic
//! values. Messages are those of Kubernetes' merge library, which prints values as Go does.

use super::node::Node;
use super::path::{Path, Problems};
use super::set::readable;
use crate::patch::strategic::in_go;
use crate::schema::{Elem, Field, Shape, Type};
use serde_json::Value;
use std::collections::BTreeSet;

/// Type errors of a configuration, each with its path.
pub(super) fn check(config: &Value, ty: &'static Type) -> Vec<String> {
    let mut found = Problems::default();
    of_struct(config, ty, &Path::ROOT, &mut found);
    found.into_texts()
}

/// Reports the type errors of a struct.
pub(super) fn of_struct(value: &Value, ty: &'static Type, path: &Path<'_>, found: &mut Problems) {
    let Some(map) = expect(value.as_object(), "map", value, path, found) else { return };
    for (name, value) in map {
        if found.is_full() {
            return;
        }
        let path = &path.member(name);
        match ty.field(name) {
            Some(field) => of_field(value, field, path, found),
            None => found.push(format_args!("{path}: field not declared in schema")),
        }
    }
}

fn of_field(value: &Value, field: &'static Field, path: &Path<'_>, found: &mut Problems) {
    match field.shape {
        Shape::One => of_elem(value, field.elem, path, found),
        Shape::List => of_list(value, field, path, found),
        Shape::Map => {
            let Some(map) = expect(value.as_object(), "map", value, path, found) else { return };
            for (key, value) in map {
                of_elem(value, field.elem, &path.member(key), found);
            }
        }
    }
}

fn of_list(value: &Value, field: &'static Field, path: &Path<'_>, found: &mut Problems) {
    let Some(items) = expect(value.as_array(), "list", value, path, found) else { return };
    let node = Node::of_field(field);
    let known = matches!(node, Node::Keyed(_) | Node::Scalars);
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        if found.is_full() {
            return;
        }
        match node.identity(item) {
            Ok(id) if known => {
                let shown = readable(&id);
                if !seen.insert(id) {
                    found.push(format_args!("{path}: duplicate entries for key {shown}"));
                }
                of_elem(item, field.elem, &path.element(&shown), found);
            }
            Err(text) if known => return found.push(format_args!("{path}: element {at}: {text}")),
            Ok(_) | Err(_) => of_elem(item, field.elem, &path.index(at), found),
        }
    }
}

fn of_elem(value: &Value, elem: Elem, path: &Path<'_>, found: &mut Problems) {
    let problem = match elem {
        _ if value.is_null() => None,
        Elem::Struct(id) => return of_struct(value, id.get(), path, found),
        Elem::String | Elem::Bytes => return of_scalar(value, Scalar::String, path, found),
        Elem::Bool => return of_scalar(value, Scalar::Boolean, path, found),
        Elem::Int32 | Elem::Int64 | Elem::Float64 => return of_scalar(value, Scalar::Numeric, path, found),
        Elem::Time | Elem::MicroTime | Elem::Quantity | Elem::IntOrString => {
            let scalar = !(value.is_object() || value.is_array());
            (!scalar).then(|| format!("any scalar, got &{{{}}}", in_go(value)))
        }
        // These accept any value.
        Elem::Raw
        | Elem::FieldsV1
        | Elem::Json
        | Elem::Items
        | Elem::SchemaOrList
        | Elem::SchemaOrBool
        | Elem::SchemaOrStrings => None,
    };
    if let Some(problem) = problem {
        found.push(format_args!("{path}: expected {problem}"));
    }
}

/// Scalar types of the merge library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    String,
    Boolean,
    Numeric,
}

/// Reports a value that is not of the scalar type; null is allowed for every type.
pub(super) fn of_scalar(value: &Value, wanted: Scalar, path: &Path<'_>, found: &mut Problems) {
    let problem = match wanted {
        _ if value.is_null() => return,
        Scalar::String if !value.is_string() => {
            format!("string, got &value.valueUnstructured{{Value:{}}}", literal(value))
        }
        Scalar::Boolean if !value.is_boolean() => format!("boolean, got &{{{}}}", in_go(value)),
        Scalar::Numeric if !value.is_number() => format!("numeric (int or float), got {}", go_type(value)),
        Scalar::String | Scalar::Boolean | Scalar::Numeric => return,
    };
    found.push(format_args!("{path}: expected {problem}"));
}

/// Reports a value that is not of the expected collection type; null counts as empty.
pub(super) fn expect<T>(
    is: Option<T>,
    what: &str,
    value: &Value,
    path: &Path<'_>,
    found: &mut Problems,
) -> Option<T> {
    if is.is_none() && !value.is_null() {
        found.push(format_args!("{path}: expected {what}, got &{{{}}}", in_go(value)));
    }
    is
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value as a Go literal.
fn literal(value: &Value) -> String {
    let all = |texts: Vec<String>| texts.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => format!("[]interface {{}}{{{}}}", all(items.iter().map(literal).collect())),
        Value::Object(map) => {
            let mut members: Vec<_> =
                map.iter().map(|(name, value)| format!("{name:?}:{}", literal(value))).collect();
            members.sort();
            format!("map[string]interface {{}}{{{}}}", all(members))
        }
    }
}
