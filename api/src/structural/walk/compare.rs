//! Which parts of an object's old and new state belong together, and whether they are the same. Items of a list with keys are matched
//! by their keys, so their order does not count; items of other lists are not matched at all.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::structural::node::{ListType, Name, Node};
use crate::structural::tree::{Schema, Tree};

impl<'t> Schema<'t> {
    /// Whether a value at this place is as it was. The order of items does not count in lists of type map.
    #[must_use]
    pub fn is_unchanged(self, new: &Value, old: &Value) -> bool {
        is_unchanged(self.tree, self.node(), new, old)
    }

    /// The items that a list at this place had before, to find the one that a new item replaces. `None` if that is not known: only
    /// items of lists of type map have an identity.
    #[must_use]
    pub fn old_items<'v>(self, old: Option<&'v Value>) -> Option<OldItems<'v, 't>> {
        OldItems::of(old, self.node())
    }
}

/// The old items of a list of type map, by key.
#[derive(Debug)]
pub struct OldItems<'v, 't> {
    keys: &'t [Name],
    /// Keys that several items share identify none of them.
    items: BTreeMap<String, Option<&'v Value>>,
}

impl<'v, 't> OldItems<'v, 't> {
    /// `None` if items of such lists have no identity, or there was no list.
    pub(super) fn of(old: Option<&'v Value>, node: &'t Node) -> Option<Self> {
        let (Some(Value::Array(items)), ListType::Map(keys)) = (old, &node.list_type) else { return None };
        let mut by_key = BTreeMap::new();
        for item in items {
            by_key.entry(key(item, keys)).and_modify(|twice| *twice = None).or_insert(Some(item));
        }
        Some(Self { keys, items: by_key })
    }

    /// The old item with the keys of a new one, if exactly one item had them.
    #[must_use]
    pub fn get(&self, item: &Value) -> Option<&'v Value> {
        self.items.get(&key(item, self.keys)).copied().flatten()
    }
}

/// The keys of an item, in a text that items with equal keys share.
fn key(item: &Value, keys: &[Name]) -> String {
    key_object(item, keys).to_string()
}

/// The keys of an item that it has.
pub(super) fn key_object(item: &Value, keys: &[Name]) -> Value {
    let entry = |name: &Name| Some((name.to_string(), item.get(&**name)?.clone()));
    Value::Object(keys.iter().filter_map(entry).collect())
}

/// Whether a value is as it was.
pub(super) fn is_unchanged(tree: &Tree, node: &Node, new: &Value, old: &Value) -> bool {
    // Items that share their keys, which is an error, are the same only in the same order.
    new == old || (node.below.keyed_lists && is_same(tree, node, new, old))
}

/// Compares by the schema, which only lists with keys need.
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
