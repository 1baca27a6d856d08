//! Objects before and after their defaults: `cases.yaml` beside this file.

use serde::Deserialize;
use serde_json::Value;

use crate::kind::lookup_api_version;
use crate::object;

#[derive(Deserialize)]
struct Case {
    name: String,
    object: Value,
    /// The whole expected object is the given one merged with this (maps merge, everything else replaces).
    adds: Value,
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) if into.len() == from.len() => {
            into.iter_mut().zip(from).for_each(|(into, from)| merge(into, from));
        }
        (into, from) => *into = from.clone(),
    }
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, v| !v.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

#[test]
fn defaults_are_added_as_kubernetes_adds_them_and_only_once() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("cases.yaml")).unwrap();
    for case in cases {
        let row = lookup_api_version(object::api_version(&case.object), object::kind(&case.object))
            .unwrap_or_else(|| panic!("{}: no such kind", case.name));
        let mut want = case.object.clone();
        merge(&mut want, &case.adds);
        strip_nulls(&mut want);
        let mut got = case.object.clone();
        super::apply(row, &mut got);
        strip_nulls(&mut got);
        assert_eq!(got, want, "{}", case.name);
        super::apply(row, &mut got);
        assert_eq!(got, want, "{}: a second time", case.name);
    }
}

#[test]
fn every_kind_takes_defaults_without_a_spec() {
    for row in crate::kind::RESOURCES {
        super::apply(row, &mut serde_json::json!({"metadata": {"name": "x"}}));
    }
}
