//! Pruning: removes members without a schema, and invalid nulls. One walk can also set defaults.

use crate::field::Path;
use crate::schema::decode::FieldProblem;
use crate::schema::limits::MAX_FIELD_PROBLEMS;
use crate::structural::node::{Additional, NodeId};
use crate::structural::tree::{Schema, Tree};
use serde_json::{Map, Value};

/// Whether every object has this member, even if its schema does not declare it.
pub(super) fn is_implied(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

impl Tree {
    /// Removes the members that the schema does not have. Returns the first hundred of them, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<FieldProblem> {
        self.root().prune(object, true)
    }

    /// Runs [`Self::prune`], [`Self::drop_nulls`] and [`Self::fill_defaults`] in one walk.
    pub fn complete(&self, object: &mut Value) -> Vec<FieldProblem> {
        Pruning { tree: self, completes: true, removed: Vec::new() }.run(object, self.root, true)
    }

    /// Removes nulls where the schema is not nullable and has no default. Nulls below unknown members stay.
    pub fn drop_nulls(&self, object: &mut Value) {
        self.root().drop_nulls(object);
    }
}

impl Schema<'_> {
    /// Prunes a value at this position, like [`Tree::prune`]. `is_object`: the value is a whole object, whose
    /// apiVersion, kind and metadata always stay.
    pub fn prune(self, value: &mut Value, is_object: bool) -> Vec<FieldProblem> {
        Pruning { tree: self.tree, completes: false, removed: Vec::new() }.run(value, self.id, is_object)
    }

    /// Removes invalid nulls from a value at this position, like [`Tree::drop_nulls`].
    pub fn drop_nulls(self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|name, value| {
                let Some(schema) = self.member(name) else { return true };
                let is_kept = schema.takes(value);
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

/// Pruning rules for a value.
#[derive(Clone, Copy)]
struct PruneRules {
    /// Schema of the value; without one, objects are emptied.
    schema: Option<NodeId>,
    /// Whether the value is a whole object.
    is_object: bool,
    /// Whether the value is an item of a list that keeps unknown members.
    keeps_unknown: bool,
}

impl PruneRules {
    const fn of(schema: Option<NodeId>) -> Self {
        Self { schema, is_object: false, keeps_unknown: false }
    }
}

struct Pruning<'t> {
    tree: &'t Tree,
    /// Whether the walk also removes invalid nulls and sets defaults.
    completes: bool,
    removed: Vec<FieldProblem>,
}

impl Pruning<'_> {
    fn run(mut self, value: &mut Value, schema: NodeId, is_object: bool) -> Vec<FieldProblem> {
        let rules = PruneRules { schema: Some(schema), is_object, keeps_unknown: false };
        self.value(value, rules, &Path::ROOT);
        self.removed.sort();
        self.removed
    }

    fn value(&mut self, value: &mut Value, rules: PruneRules, path: &Path<'_>) {
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

    fn members(&mut self, map: &mut Map<String, Value>, schema: NodeId, rules: PruneRules, path: &Path<'_>) {
        let node = self.tree.node(schema);
        let has_implied = rules.is_object || node.flags.embedded;
        map.retain(|name, value| {
            if has_implied && is_implied(name) {
                return self.implied(value, node.member(name));
            }
            let schema = match (node.property(name), node.additional) {
                (Some(property), _) => Some(property),
                (None, Additional::Schema(values)) => Some(values),
                // Any value is allowed, but the members of objects have no schema.
                (None, Additional::Any) => None,
                (None, Additional::Denied) if node.flags.preserve_unknown || rules.keeps_unknown => {
                    return true;
                }
                (None, Additional::Denied) => {
                    self.report(path, name);
                    return false;
                }
            };
            self.described(value, PruneRules::of(schema), &path.child(name))
        });
        if self.completes {
            self.tree.schema(schema).add_defaults(map);
        }
    }

    /// Prunes a member or item by its schema; returns whether it stays.
    fn described(&mut self, value: &mut Value, rules: PruneRules, path: &Path<'_>) -> bool {
        let schema = self.completes.then_some(rules.schema).flatten().map(|id| self.tree.schema(id));
        match schema.filter(|schema| value.is_null() && !schema.flags.nullable) {
            None => self.value(value, rules, path),
            Some(schema) => schema.replace_null(value),
        }
        schema.is_none_or(|schema| schema.takes(value))
    }

    /// Handles apiVersion, kind and metadata. Pruning keeps them; null removal and defaulting apply.
    fn implied(&self, value: &mut Value, schema: Option<NodeId>) -> bool {
        let Some(schema) = schema.filter(|_| self.completes).map(|id| self.tree.schema(id)) else {
            return true;
        };
        schema.drop_nulls(value);
        schema.replace_null(value);
        schema.fill_defaults(value);
        schema.takes(value)
    }

    fn items(&mut self, items: &mut [Value], rules: PruneRules, path: &Path<'_>) {
        let node = rules.schema.map(|id| self.tree.node(id));
        let keeps_unknown = rules.keeps_unknown || node.is_some_and(|node| node.flags.preserve_unknown);
        let rules = PruneRules { keeps_unknown, ..PruneRules::of(node.and_then(|node| node.items)) };
        for (at, item) in items.iter_mut().enumerate() {
            self.described(item, rules, &path.index(at));
        }
    }

    fn report(&mut self, path: &Path<'_>, name: &str) {
        if self.removed.len() < MAX_FIELD_PROBLEMS {
            self.removed.push(FieldProblem::Unknown(path.child(name).to_string()));
        }
    }
}
