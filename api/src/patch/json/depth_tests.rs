//! Nesting of documents by sequences of JSON patch operations.

use super::apply;
use crate::patch::PatchError;
use crate::schema::limits::MAX_DEPTH;
use proptest::prelude::*;
use serde_json::{Value, json};

/// `levels` nested maps around a text.
fn tower(levels: usize) -> Value {
    (1..levels).fold(json!("top"), |value, _| json!({"a": value}))
}

fn levels(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(map) => map.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

fn too_deep() -> PatchError {
    PatchError::Unprocessable("exceeded max depth".to_owned())
}

/// Each round would wrap the document into 100 more levels: 300,000 in the end.
#[test]
fn moves_cannot_nest_a_document_until_the_stack_overflows() {
    let mut path = String::from("/n");
    for _ in 1..99 {
        path.push_str("/a");
    }
    let add = json!({"op": "add", "path": "/n", "value": tower(100)});
    let nest = json!({"op": "move", "from": "/spec", "path": path});
    let back = json!({"op": "move", "from": "/n", "path": "/spec"});
    let operations = (0..3000).flat_map(|_| [add.clone(), nest.clone(), back.clone()]).collect();
    assert_eq!(apply(&json!({"spec": {}}), &Value::Array(operations)).unwrap_err(), too_deep());
}

#[test]
fn the_deepest_document_is_that_of_the_json_parser() {
    let path = "/a".repeat(MAX_DEPTH - 2);
    let document = tower(MAX_DEPTH - 1);
    let add = |value: Value| apply(&document, &json!([{"op": "add", "path": path, "value": value}]));
    assert_eq!(levels(&add(json!(["one"])).unwrap()), MAX_DEPTH);
    assert_eq!(add(json!([["two"]])).unwrap_err(), too_deep());
    let replaced =
        apply(&json!({}), &json!([{"op": "replace", "path": "", "value": tower(MAX_DEPTH)}])).unwrap();
    assert_eq!(levels(&replaced), MAX_DEPTH);
}

/// A large value is measured at each of its moves, which is bounded, too.
#[test]
fn moves_of_a_large_value_are_bounded() {
    let large = json!({"a": {"v": vec![0; 200_000]}, "b": {}});
    let there = json!({"op": "move", "from": "/a/v", "path": "/b/v"});
    let back = json!({"op": "move", "from": "/b/v", "path": "/a/v"});
    let operations = (0..5000).flat_map(|_| [there.clone(), back.clone()]).collect();
    assert!(matches!(apply(&large, &Value::Array(operations)), Err(PatchError::TooLarge(_))));
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]", 1..6).prop_map(|keys| format!("/{}", keys.join("/")))
}

fn operation() -> impl Strategy<Value = Value> {
    prop_oneof![
        (path(), 1..40_usize).prop_map(|(path, n)| json!({"op": "add", "path": path, "value": tower(n)})),
        (path(), 1..40_usize).prop_map(|(path, n)| json!({"op": "replace", "path": path, "value": tower(n)})),
        (path(), path()).prop_map(|(from, path)| json!({"op": "move", "from": from, "path": path})),
        (path(), path()).prop_map(|(from, path)| json!({"op": "copy", "from": from, "path": path})),
        path().prop_map(|path| json!({"op": "remove", "path": path})),
    ]
}

proptest! {
    /// Operations are applied one by one as long as they fit, so that the document grows. None makes it too deep, and none is
    /// refused for its depth if the result would not be.
    #[test]
    fn no_sequence_of_operations_makes_a_document_too_deep(operations in prop::collection::vec(operation(), 1..60)) {
        let mut document = json!({"a": {"a": {}, "b": {}}, "b": {"a": tower(90)}});
        for operation in operations {
            match apply(&document, &json!([operation])) {
                Ok(next) => document = next,
                Err(error) => {
                    let value = match operation["op"].as_str() {
                        Some("move" | "copy") => document.pointer(operation["from"].as_str().unwrap()),
                        _ => Some(&operation["value"]),
                    };
                    let keys = operation["path"].as_str().unwrap_or_default().matches('/').count();
                    let would_be = keys + value.map_or(1, levels);
                    prop_assert!(error != too_deep() || would_be > MAX_DEPTH, "{would_be} levels: {operation}");
                }
            }
            prop_assert!(levels(&document) <= MAX_DEPTH);
        }
    }
}
