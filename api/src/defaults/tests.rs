//! Table tests of defaulting: `cases.yaml` has objects before and after.

use serde::Deserialize;
use serde_json::Value;

use crate::kind::lookup_api_version;
use crate::object;

#[derive(Deserialize)]
struct Case {
    name: String,
    object: Value,
    /// Merged with the given object, this is the expected object (maps merge, everything else replaces).
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
fn defaults_match_kubernetes_and_are_idempotent() {
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
fn defaulting_accepts_objects_without_a_spec() {
    for row in crate::kind::every() {
        super::apply(row, &mut serde_json::json!({"metadata": {"name": "x"}}));
    }
}
