//! Walks over values along their schema: which fields a value has, how two values differ, and a value without fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::node::{Node, View};
use super::path::Path;
use super::set::FieldSet;

/// All fields of a value.
pub(super) fn fields(value: &Value, node: Node<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, node, &Path::ROOT, &mut set);
    set
}

fn collect(value: &Value, node: Node<'_>, path: &Path<'_>, set: &mut FieldSet) {
    match (node.view([Some(value), None]), value) {
        (View::Leaf, _) => set.insert(&path.spelled()),
        (View::Map, Value::Object(map)) => {
            for (name, value) in map {
                let (below, named) = node.member(name);
                let path = path.member(name);
                collect(value, below, &path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !named {
                    set.insert(&path.spelled());
                }
            }
        }
        (View::List, Value::Array(items)) => {
            for (id, items) in by_identity(Some(items), node) {
                let path = path.element(&id);
                // Elements that share an identity have one owner together.
                if let [item] = items[..] {
                    collect(item, node.item(), &path, set);
                }
                set.insert(&path.spelled());
            }
        }
        (View::Map | View::List, _) => {}
    }
}

/// How one value became another.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Difference {
    /// Each part as `keep` leaves it.
    pub(super) fn filtered(self, keep: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { added: keep(self.added), modified: keep(self.modified), removed: keep(self.removed) }
    }

    /// Paths that have a new value.
    pub(super) fn changed(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// Compares two objects as Go prints them: members that are always there are there, stated or not.
pub(super) fn compare(before: &Value, after: &Value, node: Node<'_>) -> Difference {
    let mut difference = Difference::default();
    compare_at(Some(before), Some(after), node, &Path::ROOT, &mut difference);
    difference
}

fn compare_at(
    before: Option<&Value>,
    after: Option<&Value>,
    node: Node<'_>,
    path: &Path<'_>,
    out: &mut Difference,
) {
    // Most of two states of an object is the same; what is needs no walk.
    if before == after {
        return;
    }
    let view = node.view([before, after]);
    if view == View::Leaf || (is_empty(before, node) && is_empty(after, node)) {
        leaf(before, after, path, out);
        return;
    }
    match view {
        View::Map => compare_maps(before, after, node, path, out),
        View::List => compare_lists(before, after, node, path, out),
        View::Leaf => {}
    }
    match (before, after) {
        (None, Some(_)) => out.added.insert(&path.spelled()),
        (Some(_), None) => out.removed.insert(&path.spelled()),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn leaf(before: Option<&Value>, after: Option<&Value>, path: &Path<'_>, out: &mut Difference) {
    match (before, after) {
        (None, Some(_)) => out.added.insert(&path.spelled()),
        (Some(_), None) => out.removed.insert(&path.spelled()),
        (Some(_), Some(_)) => out.modified.insert(&path.spelled()),
        (None, None) => {}
    }
}

fn compare_maps(
    before: Option<&Value>,
    after: Option<&Value>,
    node: Node<'_>,
    path: &Path<'_>,
    out: &mut Difference,
) {
    let (before, after) = (before.and_then(Value::as_object), after.and_then(Value::as_object));
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for map in [before, after].into_iter().flatten() {
        names.extend(map.keys().map(String::as_str));
    }
    // Where both sides are, what neither states is the same on both.
    if let (Some(lone), None) | (None, Some(lone)) = (before, after) {
        for name in node.printed(lone) {
            names.insert(name);
        }
    }
    for name in names {
        let (a, b) = (member(before, name, node), member(after, name, node));
        compare_at(a, b, node.member(name).0, &path.member(name), out);
    }
}

/// A member as Go prints it.
fn member<'v>(whole: Option<&'v Map<String, Value>>, name: &str, node: Node<'_>) -> Option<&'v Value> {
    let map = whole?;
    map.get(name).or_else(|| node.unstated(name))
}

fn compare_lists(
    before: Option<&Value>,
    after: Option<&Value>,
    node: Node<'_>,
    path: &Path<'_>,
    out: &mut Difference,
) {
    let [before, after] = [before, after].map(|list| by_identity(list.and_then(Value::as_array), node));
    for id in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let [a, b] = [&before, &after].map(|list| list.get(id).map_or(&[][..], Vec::as_slice));
        let path = path.element(id);
        let item = |a: &[&Value], b: &[&Value], out: &mut Difference| {
            compare_at(a.first().copied(), b.first().copied(), node.item(), &path, out);
        };
        // Elements that share an identity have one owner together; a lone one has owners of its own.
        match (a, b) {
            ([] | [_], [] | [_]) => item(a, b, out),
            ([_, _, ..], [_, _, ..]) if a != b => out.modified.insert(&path.spelled()),
            ([_, _, ..], [_, _, ..]) => {}
            ([_, _, ..], b) => {
                item(&[], b, out);
                out.removed.insert(&path.spelled());
            }
            (a, [_, _, ..]) => {
                item(a, &[], out);
                out.added.insert(&path.spelled());
            }
        }
    }
}

/// The elements under each identity; no identity has none.
fn by_identity<'a>(list: Option<&'a Vec<Value>>, node: Node<'_>) -> BTreeMap<String, Vec<&'a Value>> {
    let mut out: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for (at, item) in list.into_iter().flatten().enumerate() {
        out.entry(element(node, item, at)).or_default().push(item);
    }
    out
}

/// The value without the members of `gone`; a map or list that loses everything goes too (`None`).
pub(super) fn remove(value: &Value, gone: &FieldSet, node: Node<'_>) -> Option<Value> {
    match (node.view([Some(value), None]), value) {
        (View::Map, Value::Object(map)) => {
            let kept = map.iter().filter_map(|(name, value)| {
                let element = format!("f:{name}");
                if gone.has(&element) {
                    return None;
                }
                let value = match gone.below(&element) {
                    Some(below) => remove(value, below, node.member(name).0)?,
                    None => value.clone(),
                };
                Some((name.clone(), value))
            });
            let kept: Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        (View::List, Value::Array(items)) => {
            let kept = items.iter().enumerate().filter_map(|(at, item)| {
                let element = element(node, item, at);
                if gone.has(&element) {
                    return None;
                }
                match gone.below(&element) {
                    Some(below) => remove(item, below, node.item()),
                    None => Some(item.clone()),
                }
            });
            let kept: Vec<Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => Some(value.clone()),
    }
}

/// Stored elements always have their keys; one that has not is known by its place.
pub(super) fn element(node: Node<'_>, item: &Value, at: usize) -> String {
    node.identity(item).unwrap_or_else(|_| format!("i:{at}"))
}

/// Nothing, an empty list, or a map without a member that Go prints.
fn is_empty(value: Option<&Value>, node: Node<'_>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty() && node.printed(map).next().is_none(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}
