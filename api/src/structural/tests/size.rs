//! Test of the memory of a compiled schema, without regular expressions, which are compiled at first use.

use crate::structural::{Checks, ListType, Node, Tree};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Size of a typical operator's schema in bytes, and the limit for its compiled tree.
const SCHEMA_BYTES: std::ops::Range<usize> = 36_000..40_000;
const TREE_BYTES_MAX: usize = 150_000;

fn bytes(tree: &Tree) -> usize {
    let mut names = BTreeSet::new();
    let mut total = 0;
    for (_, node) in tree.nodes() {
        total += size_of::<Node>() + size_of_val(&*node.properties) + size_of_val(&*node.rules);
        names.extend(node.properties.iter().map(|(name, _)| name.clone()));
        if let ListType::Map(keys) = &node.list_type {
            total += size_of_val(&**keys);
        }
        for rule in &node.rules {
            let optional = [&rule.message, &rule.message_expression, &rule.field_path];
            total += rule.rule.len() + optional.into_iter().flatten().map(|text| text.len()).sum::<usize>();
        }
        total += node.default.as_ref().map_or(0, |value| size_of::<Value>() + 4 * value.to_string().len());
        total += node.checks.as_deref().map_or(0, of_checks);
    }
    total + names.iter().map(|name| 16 + name.len()).sum::<usize>()
}

fn of_checks(checks: &Checks) -> usize {
    let values: usize = checks.values.iter().map(|value| 32 + value.to_string().len()).sum();
    let lists = size_of_val(&*checks.required) + 4 * checks.nested().count();
    size_of::<Checks>()
        + values
        + lists
        + checks.pattern.as_ref().map_or(0, |pattern| 64 + pattern.text().len())
}

/// A schema in which all nodes differ.
fn large() -> Value {
    let field = |section: usize, i: usize| {
        let description =
            format!("Field {i} of section {section}. {}", "It does what its name says. ".repeat(3));
        let mut schema = json!({"description": description, "type": "string", "maxLength": 10 * section + i});
        match i % 4 {
            0 => schema["pattern"] = json!(format!("^[a-z]{{{}}}$", section + i)),
            1 => schema["enum"] = json!(["A", "B", format!("C{section}")]),
            2 => schema["default"] = json!(format!("d{section}{i}")),
            _ => schema["format"] = json!("date-time"),
        }
        schema
    };
    let section = |section: usize| {
        let fields: Map<String, Value> =
            (0..10).map(|i| (format!("field{section}x{i}"), field(section, i))).collect();
        let required = [format!("field{section}x0")];
        let rule = json!({"rule": format!("self.field{section}x0 != self.field{section}x1"), "message": "must differ"});
        json!({"type": "object", "properties": fields, "required": required, "x-kubernetes-validations": [rule]})
    };
    let sections: Map<String, Value> = (0..19).map(|i| (format!("section{i}"), section(i))).collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": sections}}})
}

#[test]
fn memory_of_large_schemas_is_bounded() {
    let schema = large();
    let length = schema.to_string().len();
    assert!(SCHEMA_BYTES.contains(&length), "{length}");
    let tree = Tree::compile(&schema).unwrap();
    assert!(bytes(&tree) < TREE_BYTES_MAX, "{} for {} nodes", bytes(&tree), tree.nodes().count());
}
