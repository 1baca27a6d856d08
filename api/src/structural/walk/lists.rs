//! Uniqueness checks of lists of type set and map.

use super::compare::key_object;
use super::report::shown;
use crate::field::{ErrorList, Path};
use crate::structural::node::{ListType, Name};
use crate::structural::tree::Schema;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Checks all lists of type set and map below a value.
pub(super) fn check(value: &Value, schema: Schema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if !schema.below.keyed_lists || errors.is_full() {
        return;
    }
    match value {
        Value::Object(map) => members(map, schema, path, errors),
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(items, path, errors),
                ListType::Map(keys) => keyed(items, keys, path, errors),
            }
            let Some(schema) = schema.items() else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, schema, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

fn members(map: &Map<String, Value>, schema: Schema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    // Map values come before properties.
    for is_property in [false, true] {
        for (name, value) in map {
            if schema.node().property(name).is_some() != is_property {
                continue;
            }
            let path = if is_property { path.child(name) } else { path.key(name) };
            if let Some(schema) = schema.member(name) {
                check(value, schema, &path, errors);
            }
        }
    }
}

fn keyed(items: &[Value], keys: &[Name], path: &Path<'_>, errors: &mut ErrorList) {
    let is_wrong = |item: &Value| !item.is_object() && !item.is_null();
    if let Some(at) = items.iter().position(is_wrong) {
        let text = "must be an object for an array of list-type map";
        return errors.invalid_raw(&path.index(at), shown(&items[at]), text);
    }
    let own: Vec<Value> = items.iter().map(|item| key_object(item, keys)).collect();
    duplicates(&own, path, errors);
}

/// Reports each duplicate value once, at its second index.
fn duplicates(items: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let count = counts.entry(item.to_string()).or_default();
        *count += 1;
        if *count == 2 {
            errors.duplicate_raw(&path.index(at), shown(item));
        }
    }
}
