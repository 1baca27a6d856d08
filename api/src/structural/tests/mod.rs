//! Tests of compiled schemas: recorded answers of Kubernetes, and properties of arbitrary schemas and
//! objects.

mod objects;
mod properties;
mod size;

use super::Tree;
use serde::Deserialize;
use serde_json::{Value, json};

/// Schema and cases of `shop.yaml`.
#[derive(Deserialize)]
struct Shop {
    schema: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    spec: Value,
    errors: Vec<String>,
}

fn shop() -> Shop {
    serde_yaml_ng::from_str(include_str!("shop.yaml")).unwrap()
}

pub(crate) fn shop_tree() -> Tree {
    Tree::compile(&shop().schema).unwrap()
}

/// A schema for objects whose spec has this schema.
fn tree_of_spec(spec: Value) -> Tree {
    Tree::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "shop.rec.dev/v1", "kind": "Shop", "metadata": {"name": "x"}, "spec": spec})
}

fn texts(errors: &crate::field::ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
