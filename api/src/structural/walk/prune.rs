//! Removes what a schema does not name: unknown members, and nulls where null is no value.

use serde_json::{Map, Value};

use crate::field::Path;
use crate::schema::decode::FieldProblem;
use crate::schema::limits::MAX_FIELD_PROBLEMS;
use crate::structural::node::{Additional, NodeId};
use crate::structural::tree::{Schema, Tree};

/// Members that every object has, whatever its schema says.
pub(super) fn is_implied(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

impl Tree {
    /// Removes the members of an object that this schema does not name. Returns the first hundred of them, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<FieldProblem> {
        self.root().prune(object, true)
    }

    /// Removes the nulls of an object at places that are not nullable and have no default to replace them. What is null below unknown
    /// members stays.
    pub fn drop_nulls(&self, object: &mut Value) {
        self.root().drop_nulls(object);
    }
}

impl Schema<'_> {
    /// As [`Tree::prune`], for a value at this place. `is_object`: the value is a whole object, whose apiVersion, kind and metadata
    /// stay also if the schema does not name them.
    pub fn prune(self, value: &mut Value, is_object: bool) -> Vec<FieldProblem> {
        let mut pruning = Pruning { tree: self.tree, removed: Vec::new() };
        pruning.at(value, Some(self.id), is_object, &Path::ROOT);
        pruning.removed.sort();
        pruning.removed
    }

    /// As [`Tree::drop_nulls`], for a value at this place.
    pub fn drop_nulls(self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|name, value| {
                let Some(schema) = self.member(name) else { return true };
                let is_kept = !value.is_null() || schema.flags.nullable || schema.default.is_some();
                if is_kept {
                    schema.drop_nulls(value);
                }
                is_kept
            }),
            Value::Array(items) => {
                if let Some(schema) = self.items() {
                    items.iter_mut().for_each(|item| schema.drop_nulls(item));
                }
            }
            _ => {}
        }
    }
}

struct Pruning<'t> {
    tree: &'t Tree,
    removed: Vec<FieldProblem>,
}

impl Pruning<'_> {
    /// Without a schema, objects are emptied.
    fn at(&mut self, value: &mut Value, id: Option<NodeId>, is_object: bool, path: &Path<'_>) {
        match value {
            Value::Object(map) => match id {
                Some(id) => self.members(map, id, is_object, path),
                None => {
                    map.keys().for_each(|name| self.report(path, name));
                    map.clear();
                }
            },
            Value::Array(items) => self.items(items, id, path),
            _ => {}
        }
    }

    fn members(&mut self, map: &mut Map<String, Value>, id: NodeId, is_object: bool, path: &Path<'_>) {
        let node = self.tree.node(id);
        let has_implied = is_object || node.flags.embedded;
        map.retain(|name, value| {
            if has_implied && is_implied(name) {
                return true;
            }
            let schema = match (node.property(name), node.additional) {
                (Some(property), _) => Some(property),
                (None, Additional::Schema(values)) => Some(values),
                (None, Additional::Any) => return true,
                (None, Additional::Denied) if node.flags.preserve_unknown => return true,
                (None, Additional::Denied) => {
                    self.report(path, name);
                    return false;
                }
            };
            self.at(value, schema, false, &path.child(name));
            true
        });
    }

    fn items(&mut self, items: &mut [Value], id: Option<NodeId>, path: &Path<'_>) {
        let node = id.map(|id| self.tree.node(id));
        let schema = node.and_then(|node| node.items);
        // What a preserved place does not describe stays.
        if schema.is_none() && node.is_some_and(|node| node.flags.preserve_unknown) {
            return;
        }
        for (at, item) in items.iter_mut().enumerate() {
            self.at(item, schema, false, &path.index(at));
        }
    }

    fn report(&mut self, path: &Path<'_>, name: &str) {
        if self.removed.len() < MAX_FIELD_PROBLEMS {
            self.removed.push(FieldProblem::Unknown(path.child(name).to_string()));
        }
    }
}
