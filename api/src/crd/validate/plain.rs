//! [`is_plain`]: fast check that a schema is structural, in one pass over its members. Most schemas pass;
//! `structural` has the full rules with messages, and decides about the others.

use super::openapi::TYPES;
use super::structural::{EMBEDDED, INT_OR_STRING, Level, PRESERVE};
use super::structural_nested::is_int_or_string;
use crate::object::list;
use crate::structural::re2;
use serde_json::Value;

/// True only for structural schemas with known types. The full check handles branches other than
/// int-or-string, embedded resources, the object's own members (`metadata`, `kind`, `apiVersion` at the
/// root), and unknown keywords.
pub(super) fn is_plain(schema: &Value, level: Level) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let (mut ty, mut keeps_unknown, mut is_either, mut has_items) = ("", false, false, false);
    for (name, value) in members {
        let is_plain = match (name.as_str(), value) {
            ("type", Value::String(own)) => {
                ty = own;
                TYPES.contains(&ty)
            }
            ("properties", Value::Object(properties)) => properties.iter().all(|(name, own)| {
                let is_own =
                    level == Level::Root && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
                !is_own && is_plain(own, Level::Field)
            }),
            ("items", Value::Object(_)) => {
                has_items = true;
                is_plain(value, Level::Item)
            }
            ("additionalProperties", Value::Object(_)) => {
                level != Level::Root && is_plain(value, Level::Field)
            }
            ("additionalProperties", Value::Bool(_)) => level != Level::Root,
            ("pattern", Value::String(own)) => own.is_empty() || re2::check(own).is_ok(),
            (PRESERVE, value) => {
                keeps_unknown = *value == true;
                keeps_unknown
            }
            (INT_OR_STRING, Value::Bool(own)) => {
                is_either = *own;
                true
            }
            (EMBEDDED, value) => *value == false,
            ("anyOf", branches) => level != Level::Root && is_int_or_string(branches),
            ("allOf" | "oneOf", branches) => list(branches).is_empty(),
            (
                "description" | "format" | "title" | "nullable" | "default" | "example" | "enum" | "required",
                _,
            )
            | ("maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" | "multipleOf", _)
            | ("maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties", _)
            | ("x-kubernetes-list-type" | "x-kubernetes-list-map-keys" | "x-kubernetes-map-type", _)
            | ("uniqueItems" | "externalDocs" | "x-kubernetes-validations", _) => true,
            _ => false,
        };
        if !is_plain {
            return false;
        }
    }
    let has_type = !ty.is_empty() || is_either || keeps_unknown;
    has_type
        && !(is_either && keeps_unknown)
        && (ty != "array" || has_items)
        && (level != Level::Root || ty == "object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::validate::is_structural_by_all_rules;
    use proptest::prelude::{Just, Strategy, prop, prop_oneof, proptest};
    use proptest::prop_assert;
    use serde_json::{Map, json};

    /// Schemas of all shapes, most of them structural except for one node.
    fn schema() -> impl Strategy<Value = Value> {
        let types = || {
            prop_oneof![
                6 => prop::sample::select(vec!["string", "integer", "object"]),
                1 => prop::sample::select(vec!["", "array", "file"])
            ]
        };
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let odd = prop::sample::select(vec![
            ("anyOf", either.clone()),
            ("anyOf", json!([{"type": "integer"}])),
            ("allOf", json!([{"anyOf": either}])),
            ("allOf", json!([{"description": "words"}])),
            ("oneOf", json!([])),
            ("not", json!({"type": "string"})),
            (INT_OR_STRING, json!(true)),
            (PRESERVE, json!(true)),
            (PRESERVE, json!(false)),
            (EMBEDDED, json!(true)),
            ("additionalProperties", json!(true)),
            ("additionalProperties", json!({"type": "string"})),
            ("items", json!([{"type": "string"}])),
            ("pattern", json!("a(")),
            ("pattern", json!("^a$")),
            ("$ref", json!("#/a")),
            ("additionalItems", json!(false)),
            ("definitions", json!({"a": {}})),
            ("type", Value::Null),
            ("description", json!("words")),
        ]);
        let odd = move || prop::option::weighted(0.2, odd.clone());
        let node = |members: Vec<(&str, Value)>| {
            Value::Object(Map::from_iter(members.into_iter().map(|(n, v)| (n.to_owned(), v))))
        };
        let leaf = (types(), odd())
            .prop_map(move |(ty, odd)| node([("type", json!(ty))].into_iter().chain(odd).collect()));
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let names = prop::sample::select(vec!["a", "b", "metadata", "kind"]);
            let properties = prop::collection::btree_map(names, inner.clone(), 0..4);
            prop_oneof![
                (properties, odd()).prop_map(move |(properties, odd)| {
                    let own = [("type", json!("object")), ("properties", json!(properties))];
                    node(own.into_iter().chain(odd).collect())
                }),
                (inner.clone(), odd()).prop_map(move |(items, odd)| {
                    node([("type", json!("array")), ("items", items)].into_iter().chain(odd).collect())
                }),
                (inner, Just(())).prop_map(move |(values, ())| {
                    node(vec![("type", json!("object")), ("additionalProperties", values)])
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn plain_schemas_pass_the_full_structural_check(spec in schema(), root in schema()) {
            for schema in [root, json!({"type": "object", "properties": {"spec": spec}})] {
                if is_plain(&schema, Level::Root) {
                    prop_assert!(is_structural_by_all_rules(&schema), "{schema}");
                }
            }
        }
    }

    #[test]
    fn typical_operator_schemas_are_plain() {
        let port =
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
        let spec = json!({"type": "object", "required": ["host"], "properties": {
            "host": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9}, "port": port,
            "ports": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "integer"}},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}});
        assert!(is_plain(&json!({"type": "object", "properties": {"spec": spec}}), Level::Root));
    }
}
