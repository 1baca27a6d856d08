//! Type check of apply configurations for custom resources, against the structural schema. [`super::typed`]
//! does the same for built-in types. Every value is accepted where the schema keeps unknown fields, or where
//! there is no schema.

use super::node::Node;
use super::path::{Path, Problems};
use super::set::readable;
use super::typed::{Scalar, expect, of_scalar, of_struct};
use crate::schema::object_meta;
use crate::structural::{Additional, ListType, Schema, Tree, ValueType};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Type errors of a configuration, each with its path.
pub(super) fn check(config: &Value, tree: Option<&Tree>) -> Vec<String> {
    let mut found = Problems::default();
    if let Some(map) = expect(config.as_object(), "map", config, &Path::ROOT, &mut found) {
        of_object(map, tree.map(Tree::root), &Path::ROOT, &mut found);
    }
    found.into_texts()
}

/// Checks a whole object: the schema applies to its members other than apiVersion, kind and metadata.
fn of_object(map: &Map<String, Value>, schema: Option<Schema<'_>>, path: &Path<'_>, found: &mut Problems) {
    for (name, value) in map {
        if found.is_full() {
            return;
        }
        let path = &path.member(name);
        match name.as_str() {
            "metadata" => of_struct(value, object_meta(), path, found),
            "apiVersion" | "kind" => of_scalar(value, Scalar::String, path, found),
            _ => schema.into_iter().for_each(|schema| of_member(name, value, schema, path, found)),
        }
    }
}

fn of_member(name: &str, value: &Value, schema: Schema<'_>, path: &Path<'_>, found: &mut Problems) {
    match schema.member(name) {
        Some(schema) => of_value(value, schema, path, found),
        None if schema.flags.preserve_unknown || schema.additional == Additional::Any => {}
        None => found.push(format_args!("{path}: field not declared in schema")),
    }
}

fn of_value(value: &Value, schema: Schema<'_>, path: &Path<'_>, found: &mut Problems) {
    match schema.value_type {
        Some(ValueType::String) => of_scalar(value, Scalar::String, path, found),
        Some(ValueType::Boolean) => of_scalar(value, Scalar::Boolean, path, found),
        Some(ValueType::Integer | ValueType::Number) => of_scalar(value, Scalar::Numeric, path, found),
        Some(ValueType::Array) => of_list(value, schema, path, found),
        Some(ValueType::Object) => of_map(value, schema, path, found),
        None => {}
    }
}

fn of_map(value: &Value, schema: Schema<'_>, path: &Path<'_>, found: &mut Problems) {
    let Some(map) = expect(value.as_object(), "map", value, path, found) else { return };
    if schema.flags.embedded {
        return of_object(map, Some(schema), path, found);
    }
    for (name, value) in map {
        if found.is_full() {
            return;
        }
        of_member(name, value, schema, &path.member(name), found);
    }
}

fn of_list(value: &Value, schema: Schema<'_>, path: &Path<'_>, found: &mut Problems) {
    let Some(items) = expect(value.as_array(), "list", value, path, found) else { return };
    let is_known = schema.list_type != ListType::Atomic;
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        if found.is_full() {
            return;
        }
        let identity = is_known.then(|| Node::Custom(schema).identity(item));
        match identity {
            None => of_item(item, schema, &path.index(at), found),
            Some(Err(text)) => return found.push(format_args!("{path}: element {at}: {text}")),
            Some(Ok(id)) => {
                let shown = readable(&id);
                if !seen.insert(id) {
                    found.push(format_args!("{path}: duplicate entries for key {shown}"));
                }
                of_item(item, schema, &path.element(&shown), found);
            }
        }
    }
}

fn of_item(item: &Value, list: Schema<'_>, path: &Path<'_>, found: &mut Problems) {
    if let Some(schema) = list.items() {
        of_value(item, schema, path, found);
    }
}
