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
        pruning.value(value, Rules { schema: Some(self.id), is_object, keeps_unknown: false }, &Path::ROOT);
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

/// What holds at a place.
#[derive(Clone, Copy)]
struct Rules {
    /// Without a schema, objects are emptied.
    schema: Option<NodeId>,
    /// It is a whole object.
    is_object: bool,
    /// It is an item of a list that keeps unknown members.
    keeps_unknown: bool,
}

impl Rules {
    const fn of(schema: Option<NodeId>) -> Self {
        Self { schema, is_object: false, keeps_unknown: false }
    }
}

struct Pruning<'t> {
    tree: &'t Tree,
    removed: Vec<FieldProblem>,
}

impl Pruning<'_> {
    fn value(&mut self, value: &mut Value, rules: Rules, path: &Path<'_>) {
        match (value, rules.schema) {
            (Value::Object(map), Some(schema)) => self.members(map, schema, rules, path),
            (Value::Object(map), None) if !rules.keeps_unknown => {
                map.keys().for_each(|name| self.report(path, name));
                map.clear();
            }
            (Value::Array(items), _) => self.items(items, rules, path),
            _ => {}
        }
    }

    fn members(&mut self, map: &mut Map<String, Value>, schema: NodeId, rules: Rules, path: &Path<'_>) {
        let node = self.tree.node(schema);
        let has_implied = rules.is_object || node.flags.embedded;
        map.retain(|name, value| {
            if has_implied && is_implied(name) {
                return true;
            }
            let schema = match (node.property(name), node.additional) {
                (Some(property), _) => Some(property),
                (None, Additional::Schema(values)) => Some(values),
                // Any value is allowed there, but nothing is known of what objects hold.
                (None, Additional::Any) => None,
                (None, Additional::Denied) if node.flags.preserve_unknown || rules.keeps_unknown => {
                    return true;
                }
                (None, Additional::Denied) => {
                    self.report(path, name);
                    return false;
                }
            };
            self.value(value, Rules::of(schema), &path.child(name));
            true
        });
    }

    fn items(&mut self, items: &mut [Value], rules: Rules, path: &Path<'_>) {
        let node = rules.schema.map(|id| self.tree.node(id));
        let keeps_unknown = rules.keeps_unknown || node.is_some_and(|node| node.flags.preserve_unknown);
        let rules = Rules { keeps_unknown, ..Rules::of(node.and_then(|node| node.items)) };
        for (at, item) in items.iter_mut().enumerate() {
            self.value(item, rules, &path.index(at));
        }
    }

    fn report(&mut self, path: &Path<'_>, name: &str) {
        if self.removed.len() < MAX_FIELD_PROBLEMS {
            self.removed.push(FieldProblem::Unknown(path.child(name).to_string()));
        }
    }
}
