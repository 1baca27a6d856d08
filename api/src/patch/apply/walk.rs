//! Walks over values along their schema: which fields a value has, how two values differ, and a value without fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::node::{Node, View};
use super::set::FieldSet;

/// All fields of a value.
pub(super) fn fields(value: &Value, node: Node<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, node, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, node: Node<'_>, path: &mut Vec<String>, set: &mut FieldSet) {
    match (node.view([Some(value), None]), value) {
        (View::Leaf, _) => set.insert(path),
        (View::Map, Value::Object(map)) => {
            for (name, value) in map {
                let (below, named) = node.member(name);
                path.push(format!("f:{name}"));
                collect(value, below, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !named {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (View::List, Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                path.push(element(node, item, at));
                collect(item, node.item(), path, set);
                set.insert(path);
                path.pop();
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
    /// Without the members of `ignored` and all below them.
    pub(super) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.without(ignored),
            modified: self.modified.without(ignored),
            removed: self.removed.without(ignored),
        }
    }

    /// Paths that have a new value.
    pub(super) fn changed(&self) -> FieldSet {
        self.added.union(&self.modified)
    }
}

/// Compares two objects.
pub(super) fn compare(before: &Value, after: &Value, node: Node<'_>) -> Difference {
    let mut difference = Difference::default();
    compare_at(Some(before), Some(after), node, &mut Vec::new(), &mut difference);
    difference
}

fn compare_at(
    before: Option<&Value>,
    after: Option<&Value>,
    node: Node<'_>,
    path: &mut Vec<String>,
    out: &mut Difference,
) {
    let view = node.view([before, after]);
    if view == View::Leaf || (is_empty(before) && is_empty(after)) {
        leaf(before, after, path, out);
        return;
    }
    match view {
        View::Map => compare_maps(before, after, node, path, out),
        View::List => compare_lists(before, after, node, path, out),
        View::Leaf => {}
    }
    match (before, after) {
        (None, Some(_)) => out.added.insert(path),
        (Some(_), None) => out.removed.insert(path),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn leaf(before: Option<&Value>, after: Option<&Value>, path: &[String], out: &mut Difference) {
    match (before, after) {
        (None, Some(_)) => out.added.insert(path),
        (Some(_), None) => out.removed.insert(path),
        (Some(a), Some(b)) if a != b => out.modified.insert(path),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn compare_maps(
    before: Option<&Value>,
    after: Option<&Value>,
    node: Node<'_>,
    path: &mut Vec<String>,
    out: &mut Difference,
) {
    for name in names(before).chain(names(after)).collect::<BTreeSet<_>>() {
        path.push(format!("f:{name}"));
        compare_at(member(before, name, node), member(after, name, node), node.member(name).0, path, out);
        path.pop();
    }
}

fn names(value: Option<&Value>) -> impl Iterator<Item = &String> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::keys)
}

/// A member; where Go prints null for nothing, the place is there all the same.
fn member<'a>(whole: Option<&'a Value>, name: &str, node: Node<'_>) -> Option<&'a Value> {
    static NULL: Value = Value::Null;
    let map = whole.and_then(Value::as_object)?;
    map.get(name).or_else(|| node.always_there(name).then_some(&NULL))
}

fn compare_lists(
    before: Option<&Value>,
    after: Option<&Value>,
    node: Node<'_>,
    path: &mut Vec<String>,
    out: &mut Difference,
) {
    let (before, after) = (by_identity(before, node), by_identity(after, node));
    for id in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (a, b) =
            (before.get(id).map_or(&[][..], Vec::as_slice), after.get(id).map_or(&[][..], Vec::as_slice));
        path.push(id.clone());
        match (a.len(), b.len()) {
            (0 | 1, 0 | 1) => compare_at(a.first().copied(), b.first().copied(), node.item(), path, out),
            // Elements that share an identity have one owner together.
            (0, _) => out.added.insert(path),
            (_, 0) => out.removed.insert(path),
            _ if a != b => out.modified.insert(path),
            _ => {}
        }
        path.pop();
    }
}

/// The elements under each identity; no identity has none.
fn by_identity<'a>(list: Option<&'a Value>, node: Node<'_>) -> BTreeMap<String, Vec<&'a Value>> {
    let mut out: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for (at, item) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
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

/// Makes every named field a member that has members below it.
pub(super) fn with_named(set: &FieldSet, root: Node<'_>) -> FieldSet {
    set.with_named(root, &|node, element| match element.strip_prefix("f:") {
        Some(name) => {
            let (below, named) = node.member(name);
            (named, below)
        }
        None => (false, node.item()),
    })
}

/// Stored elements always have their keys; one that has not is known by its place.
pub(super) fn element(node: Node<'_>, item: &Value, at: usize) -> String {
    node.identity(item).unwrap_or_else(|_| format!("i:{at}"))
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
    }
}
