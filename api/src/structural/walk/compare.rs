//! Correlation and comparison of an object's old and new state. Items of lists with keys are correlated by
//! their keys, so their order does not count; items of other lists are not correlated.

use crate::structural::node::{ListType, Name, Node};
use crate::structural::tree::{Schema, Tree};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

impl<'t> Schema<'t> {
    /// Whether a value is unchanged. The order of items does not count in lists of type map.
    #[must_use]
    pub fn is_unchanged(self, new: &Value, old: &Value) -> bool {
        is_unchanged(self.tree, self.node(), new, old)
    }

    /// Old items of a list, for correlation with new ones. `None` without an old list, and for lists whose
    /// items have no identity (all types except map).
    #[must_use]
    pub fn old_items<'v>(self, old: Option<&'v Value>) -> Option<OldItems<'v, 't>> {
        OldItems::of(old, self.node())
    }
}

/// Old items of a list of type map, by key.
#[derive(Debug)]
pub struct OldItems<'v, 't> {
    keys: &'t [Name],
    /// Items by key; a key of several items has no item.
    items: BTreeMap<String, Option<&'v Value>>,
}

impl<'v, 't> OldItems<'v, 't> {
    /// `None` without an old list, or if its items have no identity.
    pub(super) fn of(old: Option<&'v Value>, node: &'t Node) -> Option<Self> {
        let (Some(Value::Array(items)), ListType::Map(keys)) = (old, &node.list_type) else { return None };
        let mut by_key = BTreeMap::new();
        for item in items {
            by_key.entry(key(item, keys)).and_modify(|twice| *twice = None).or_insert(Some(item));
        }
        Some(Self { keys, items: by_key })
    }

    /// The old item with the keys of a new item, if it is unique.
    #[must_use]
    pub fn get(&self, item: &Value) -> Option<&'v Value> {
        self.items.get(&key(item, self.keys)).copied().flatten()
    }
}

/// Text of an item's keys; equal for items with equal keys.
fn key(item: &Value, keys: &[Name]) -> String {
    key_object(item, keys).to_string()
}

/// Object with the keys that an item has.
pub(super) fn key_object(item: &Value, keys: &[Name]) -> Value {
    let entry = |name: &Name| Some((name.to_string(), item.get(&**name)?.clone()));
    Value::Object(keys.iter().filter_map(entry).collect())
}

/// Whether a value is unchanged.
pub(super) fn is_unchanged(tree: &Tree, node: &Node, new: &Value, old: &Value) -> bool {
    // Lists with duplicate keys, which are invalid, are equal only in the same order.
    new == old || (node.below.keyed_lists && is_same(tree, node, new, old))
}

/// Compares along the schema, as lists with keys need.
fn is_same(tree: &Tree, node: &Node, new: &Value, old: &Value) -> bool {
    if !node.below.keyed_lists {
        return new == old;
    }
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => members(tree, node, new, old),
        (Value::Array(new), Value::Array(items)) if new.len() == items.len() => {
            list(tree, node, new, old, items)
        }
        (Value::Array(_), Value::Array(_)) => false,
        _ => new == old,
    }
}

fn members(tree: &Tree, node: &Node, new: &Map<String, Value>, old: &Map<String, Value>) -> bool {
    new.len() == old.len()
        && new.iter().all(|(name, new)| {
            let Some(old) = old.get(name) else { return false };
            node.member(name).map_or_else(|| new == old, |id| is_same(tree, tree.node(id), new, old))
        })
}

fn list(tree: &Tree, node: &Node, new: &[Value], old: &Value, old_items: &[Value]) -> bool {
    let Some(schema) = node.items.map(|id| tree.node(id)) else { return new == old_items };
    match OldItems::of(Some(old), node) {
        Some(items) => {
            new.iter().all(|new| items.get(new).is_some_and(|old| is_same(tree, schema, new, old)))
        }
        None => new == old_items,
    }
}
