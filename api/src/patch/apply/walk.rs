//! Walks over values along their schema: the fields of a value, the difference of two values, and removal of
//! fields.

use super::node::{Node, View};
use super::set::FieldSet;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// All fields of a value.
pub(super) fn fields(value: &Value, node: Node<'_>) -> FieldSet {
    collect(value, node).1
}

/// Whether the value is a field itself, and the fields below it. Sets are built bottom-up: building each path
/// from the root would copy a long key as often as there are fields below it.
fn collect(value: &Value, node: Node<'_>) -> (bool, FieldSet) {
    let mut set = FieldSet::default();
    match (node.view([Some(value), None]), value) {
        (View::Leaf, _) => return (true, set),
        (View::Map, Value::Object(map)) => {
            for (name, value) in map {
                let (below, named) = node.member(name);
                let (own, fields) = collect(value, below);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                set.put(["f:", name].concat(), own || empty || !named, fields);
            }
        }
        (View::List, Value::Array(items)) => {
            for (id, items) in by_identity(Some(items), node) {
                // Elements with the same identity share one owner.
                let fields =
                    if let [item] = items[..] { collect(item, node.item()).1 } else { FieldSet::default() };
                set.put(id, true, fields);
            }
        }
        (View::Map | View::List, _) => {}
    }
    (false, set)
}

/// Added, modified and removed fields between two values.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Difference {
    /// The difference with `keep` applied to each set.
    pub(super) fn filtered(self, keep: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { added: keep(self.added), modified: keep(self.modified), removed: keep(self.removed) }
    }

    /// Fields with a new value: added or modified.
    pub(super) fn changed(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// Compares two objects as Go prints them: always-printed members count as present, stated or not.
pub(super) fn compare(before: &Value, after: &Value, node: Node<'_>) -> Difference {
    compare_at(Some(before), Some(after), node).below
}

/// Changes of one value: of the field itself, and of the fields below it.
#[derive(Debug, Default)]
struct Changes {
    added: bool,
    modified: bool,
    removed: bool,
    below: Difference,
}

impl Changes {
    /// Changes of the field itself.
    fn own(before: Option<&Value>, after: Option<&Value>) -> Self {
        let (added, removed) = (before.is_none() && after.is_some(), before.is_some() && after.is_none());
        Self { added, removed, ..Self::default() }
    }

    /// Adds the changes of a member or an element, whose path element is made only if there are some.
    fn put(&mut self, element: impl FnOnce() -> String, changes: Changes) {
        if changes.is_none() {
            return;
        }
        let (element, Self { below, .. }) = (element(), self);
        below.modified.put_new(&element, changes.modified, changes.below.modified);
        below.removed.put_new(&element, changes.removed, changes.below.removed);
        below.added.put(element, changes.added, changes.below.added);
    }

    fn is_none(&self) -> bool {
        !self.added && !self.modified && !self.removed && self.below.is_empty()
    }
}

fn compare_at(before: Option<&Value>, after: Option<&Value>, node: Node<'_>) -> Changes {
    // Most values of two states of an object are equal and need no walk.
    if before == after {
        return Changes::default();
    }
    let mut changes = Changes::own(before, after);
    let view = node.view([before, after]);
    if view == View::Leaf || (is_empty(before, node) && is_empty(after, node)) {
        changes.modified = before.is_some() && after.is_some();
        if changes.modified {
            compare_kinds(before, after, node, &mut changes);
        }
        return changes;
    }
    match view {
        View::Map => compare_maps(before, after, node, &mut changes),
        View::List => compare_lists(before, after, node, &mut changes),
        View::Leaf => {}
    }
    changes
}

/// Compares two values of different kinds where the schema leaves the kind open: a map that becomes a text loses its fields, and a text
/// that becomes a map gains them. Elsewhere a value that is owned as a whole has no fields below it.
fn compare_kinds(before: Option<&Value>, after: Option<&Value>, node: Node<'_>, out: &mut Changes) {
    for (before, after) in [(before, None), (None, after)] {
        if node.view([before, after]) == View::Map {
            compare_maps(before, after, node, out);
        }
    }
}

fn compare_maps(before: Option<&Value>, after: Option<&Value>, node: Node<'_>, out: &mut Changes) {
    let (before, after) = (before.and_then(Value::as_object), after.and_then(Value::as_object));
    let mut compare = |name: &str| {
        let (a, b) = (member(before, name, node), member(after, name, node));
        out.put(|| ["f:", name].concat(), compare_at(a, b, node.member(name).0));
    };
    match (before, after) {
        (Some(before), Some(after)) => {
            let new = after.keys().filter(|name| !before.contains_key(*name));
            before.keys().chain(new).for_each(|name| compare(name));
        }
        // Where both sides are present, an unstated member is equal on both.
        (Some(lone), None) | (None, Some(lone)) => {
            lone.keys().for_each(|name| compare(name));
            node.printed(lone).for_each(compare);
        }
        (None, None) => {}
    }
}

/// A member as Go prints it.
fn member<'v>(whole: Option<&'v Map<String, Value>>, name: &str, node: Node<'_>) -> Option<&'v Value> {
    let map = whole?;
    map.get(name).or_else(|| node.unstated(name))
}

fn compare_lists(before: Option<&Value>, after: Option<&Value>, node: Node<'_>, out: &mut Changes) {
    let [before, after] = [before, after].map(|list| by_identity(list.and_then(Value::as_array), node));
    for id in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let [a, b] = [&before, &after].map(|list| list.get(id).map_or(&[][..], Vec::as_slice));
        let item =
            |a: &[&Value], b: &[&Value]| compare_at(a.first().copied(), b.first().copied(), node.item());
        // Elements with the same identity share one owner; a unique element has owners for its own fields.
        let changes = match (a, b) {
            ([] | [_], [] | [_]) => item(a, b),
            ([_, _, ..], [_, _, ..]) => Changes { modified: a != b, ..Changes::default() },
            ([_, _, ..], b) => Changes { removed: true, ..item(&[], b) },
            (a, [_, _, ..]) => Changes { added: true, ..item(a, &[]) },
        };
        out.put(|| id.clone(), changes);
    }
}

/// Elements by identity. Elements without an identity are left out.
fn by_identity<'a>(list: Option<&'a Vec<Value>>, node: Node<'_>) -> BTreeMap<String, Vec<&'a Value>> {
    let mut out: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for (at, item) in list.into_iter().flatten().enumerate() {
        out.entry(element(node, item, at)).or_default().push(item);
    }
    out
}

/// The value without the members of `gone`. A map or list that loses its last member stays, empty: its parent, whose fields the caller
/// states, has it in `gone` if it goes too (`removeItemsWithSchema` of Kubernetes' merge library).
pub(super) fn remove(value: &Value, gone: &FieldSet, node: Node<'_>) -> Value {
    match (node.view([Some(value), None]), value) {
        (View::Map, Value::Object(map)) => {
            let kept = map.iter().filter_map(|(name, value)| {
                let element = format!("f:{name}");
                if gone.has(&element) {
                    return None;
                }
                let value = match gone.below(&element) {
                    Some(below) => remove(value, below, node.member(name).0),
                    None => value.clone(),
                };
                Some((name.clone(), value))
            });
            Value::Object(kept.collect())
        }
        (View::List, Value::Array(items)) => {
            let kept = items.iter().enumerate().filter_map(|(at, item)| {
                let element = element(node, item, at);
                if gone.has(&element) {
                    return None;
                }
                Some(match gone.below(&element) {
                    Some(below) => remove(item, below, node.item()),
                    None => item.clone(),
                })
            });
            Value::Array(kept.collect())
        }
        _ => value.clone(),
    }
}

/// Path element of a list element: its identity, or its index if it lacks its keys (stored elements have
/// them).
pub(super) fn element(node: Node<'_>, item: &Value, at: usize) -> String {
    node.identity(item).unwrap_or_else(|_| format!("i:{at}"))
}

/// Whether a value is absent, an empty list, or a map without a member that Go prints.
fn is_empty(value: Option<&Value>, node: Node<'_>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty() && node.printed(map).next().is_none(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}
