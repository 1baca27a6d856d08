//! Property tests with arbitrary schemas and objects.

use crate::structural::{Origin, Tree, ValidationScope};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Names that both schemas and objects use, so that they match often.
const NAMES: [&str; 7] = ["a", "b", "c", "k", "apiVersion", "kind", "metadata"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4i64).prop_map(Value::from),
        prop::sample::select(&[0.5, 1.0, 1e30][..]).prop_map(Value::from),
        "[ab1]{0,3}".prop_map(Value::from),
    ]
}

/// Arbitrary JSON with these names.
fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    btree_map(name(), value(), 0..6).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// A keyword with a value of the right type, or of any type.
fn keyword(schema: BoxedStrategy<Value>) -> impl Strategy<Value = (String, Value)> {
    let named = |name: &'static str, value: BoxedStrategy<Value>| (Just(name.to_owned()), value).boxed();
    let number = || (-2..4i64).prop_map(Value::from).boxed();
    let schemas = vec(schema.clone(), 0..3).prop_map(Value::from).boxed();
    let text = |texts: &'static [&str]| prop::sample::select(texts).prop_map(Value::from).boxed();
    prop_oneof![
        4 => named("properties", btree_map(name(), schema.clone(), 0..4).prop_map(|m| Value::Object(m.into_iter().collect())).boxed()),
        2 => named("items", schema.clone()),
        2 => named("additionalProperties", prop_oneof![schema.clone(), any::<bool>().prop_map(Value::from)].boxed()),
        1 => named("default", value().boxed()),
        1 => named("required", vec(name(), 0..3).prop_map(Value::from).boxed()),
        1 => named("enum", vec(scalar(), 0..3).prop_map(Value::from).boxed()),
        1 => named("pattern", text(&["a", "^b", "(", "[0-9]+"])),
        1 => named("format", text(&["date", "int32", "ipv4", "x", "float"])),
        1 => prop::sample::select(&["minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"][..])
            .prop_flat_map(move |name| (Just(name.to_owned()), number())),
        1 => prop::sample::select(&["nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "exclusiveMinimum"][..])
            .prop_map(|name| (name.to_owned(), json!(true))),
        1 => prop::sample::select(&["allOf", "anyOf", "oneOf"][..]).prop_flat_map(move |name| (Just(name.to_owned()), schemas.clone())),
        1 => named("not", schema),
        1 => named("x-kubernetes-list-type", text(&["set", "map", "atomic"])),
        1 => Just(("x-kubernetes-list-map-keys".to_owned(), json!(["k"]))),
        1 => prop::sample::select(&["properties", "items", "required", "enum", "type", "minimum", "anyOf"][..])
            .prop_flat_map(|name| (Just(name.to_owned()), value())),
    ]
}

fn schema() -> BoxedStrategy<Value> {
    let types = ["array", "boolean", "integer", "number", "object", "object", "string"];
    let leaf = prop::option::of(prop::sample::select(types.to_vec()))
        .prop_map(|name| name.map_or_else(|| json!({}), |name| json!({"type": name})));
    leaf.prop_recursive(4, 40, 5, |inner| {
        (inner.clone(), vec(keyword(inner.boxed()), 0..5)).prop_map(|(mut schema, keywords)| {
            if let Some(map) = schema.as_object_mut() {
                map.extend(keywords);
            }
            schema
        })
    })
    .boxed()
}

fn tree() -> impl Strategy<Value = Tree> {
    schema().prop_map(|schema| Tree::compile(&schema).unwrap())
}

/// A schema without nested schemas, whose defaults are valid.
fn simple_schema() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "integer", "default": 1})),
        Just(json!({"type": "integer", "minimum": 0})),
        Just(json!({"type": "string", "default": "a", "maxLength": 2})),
        Just(json!({"type": "string", "nullable": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            (btree_map(name(), inner.clone(), 0..4), vec(name(), 0..2)).prop_map(|(properties, required)| {
                let required: Vec<_> =
                    required.into_iter().filter(|name| properties.contains_key(name)).collect();
                json!({"type": "object", "properties": properties, "required": required})
            }),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            inner.prop_map(|items| json!({"type": "array", "items": items})),
        ]
    })
    .boxed()
}

proptest! {
    #[test]
    fn walks_never_panic_on_arbitrary_schemas_and_objects(schema in value(), mut object in value(), old in value()) {
        if let Ok(tree) = Tree::compile(&schema) {
            let _ = tree.validate(&object, Some(&old), ValidationScope::Whole);
            let _ = tree.validate(&object, None, ValidationScope::Status);
            let _ = tree.read(&mut object, Origin::Request);
        }
    }

    #[test]
    fn walks_never_panic_on_arbitrary_keywords(tree in tree(), mut object in object(), old in object()) {
        let _ = tree.validate(&object, Some(&old), ValidationScope::Whole);
        let _ = tree.validate(&object, None, ValidationScope::Status);
        let _ = tree.read(&mut object, Origin::Storage);
    }

    #[test]
    fn pruning_and_defaulting_are_idempotent(tree in tree(), object in object()) {
        let mut pruned = object.clone();
        tree.prune(&mut pruned);
        let mut again = pruned.clone();
        prop_assert_eq!(tree.prune(&mut again), vec![]);
        prop_assert_eq!(&again, &pruned);

        let mut filled = object;
        tree.drop_nulls(&mut filled);
        tree.fill_defaults(&mut filled);
        let mut again = filled.clone();
        tree.fill_defaults(&mut again);
        prop_assert_eq!(&again, &filled);
    }

    #[test]
    fn combined_walk_equals_three_single_walks(tree in tree(), object in object()) {
        let (mut one, mut three) = (object.clone(), object);
        let problems = tree.prune(&mut three);
        tree.drop_nulls(&mut three);
        tree.fill_defaults(&mut three);
        prop_assert_eq!(tree.complete(&mut one), problems);
        prop_assert_eq!(one, three);
    }

    #[test]
    fn pruned_defaults_leave_no_unknown_fields(schema in simple_schema(), object in object()) {
        let tree = Tree::compile(&json!({"type": "object", "properties": {"a": schema}})).unwrap();
        let mut value = object;
        tree.prune(&mut value);
        tree.fill_defaults(&mut value);
        let filled = value.clone();
        prop_assert_eq!(tree.prune(&mut value), vec![]);
        prop_assert_eq!(value, filled);
    }

    #[test]
    fn valid_objects_stay_valid_after_valid_defaults(schema in simple_schema(), mut object in object()) {
        let tree = Tree::compile(&json!({"type": "object", "properties": {"a": schema}})).unwrap();
        tree.prune(&mut object);
        tree.drop_nulls(&mut object);
        if tree.validate(&object, None, ValidationScope::Whole).is_empty() {
            tree.fill_defaults(&mut object);
            prop_assert_eq!(tree.validate(&object, None, ValidationScope::Whole).aggregate(), "[]");
        }
    }

    #[test]
    fn unchanged_objects_have_no_value_and_list_errors(tree in tree(), object in object()) {
        let kind = |mut object: Value| {
            // apiVersion and kind never count as unchanged.
            for name in ["apiVersion", "kind"] {
                object.as_object_mut().map(|map: &mut Map<String, Value>| map.remove(name));
            }
            object
        };
        let object = kind(object);
        let values = tree.validate_values(&object, Some(&object), ValidationScope::Whole);
        prop_assert_eq!(values.aggregate(), "[]");
        prop_assert_eq!(tree.validate_lists(&object, Some(&object)).aggregate(), "[]");
    }

    #[test]
    fn update_errors_are_a_subset_of_create_errors(schema in schema(), object in object(), old in object()) {
        // Dropping errors of unchanged values can make a second alternative match.
        prop_assume!(!schema.to_string().contains("oneOf"));
        let tree = Tree::compile(&schema).unwrap();
        let created = tree.validate_values(&object, None, ValidationScope::Whole);
        let updated = tree.validate_values(&object, Some(&old), ValidationScope::Whole);
        // Dropping errors of unchanged values can change which alternative is closest.
        if created.is_empty() {
            prop_assert_eq!(updated.aggregate(), "[]");
        }
    }
}
