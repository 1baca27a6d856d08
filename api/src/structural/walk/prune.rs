//! Removes what a schema does not name: unknown members, and nulls where null is no value; in the same walk, if wanted, fills in
//! defaults.

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

    /// [`Self::prune`], [`Self::drop_nulls`] and [`Self::fill_defaults`] in one walk.
    pub fn complete(&self, object: &mut Value) -> Vec<FieldProblem> {
        Pruning { tree: self, completes: true, removed: Vec::new() }.run(object, self.root, true)
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
        Pruning { tree: self.tree, completes: false, removed: Vec::new() }.run(value, self.id, is_object)
    }

    /// As [`Tree::drop_nulls`], for a value at this place.
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
    /// Illegal nulls are removed and defaults filled in on the way.
    completes: bool,
    removed: Vec<FieldProblem>,
}

impl Pruning<'_> {
    fn run(mut self, value: &mut Value, schema: NodeId, is_object: bool) -> Vec<FieldProblem> {
        let rules = Rules { schema: Some(schema), is_object, keeps_unknown: false };
        self.value(value, rules, &Path::ROOT);
        self.removed.sort();
        self.removed
    }

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
                return self.implied(value, node.member(name));
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
            self.described(value, Rules::of(schema), &path.child(name))
        });
        if self.completes {
            self.tree.schema(schema).add_defaults(map);
        }
    }

    /// A member or an item by its schema; whether a member stays.
    fn described(&mut self, value: &mut Value, rules: Rules, path: &Path<'_>) -> bool {
        let schema = self.completes.then_some(rules.schema).flatten().map(|id| self.tree.schema(id));
        match schema.filter(|schema| value.is_null() && !schema.flags.nullable) {
            None => self.value(value, rules, path),
            Some(schema) => schema.replace_null(value),
        }
        schema.is_none_or(|schema| schema.takes(value))
    }

    /// Pruning passes over what every object has; the other two steps do not.
    fn implied(&self, value: &mut Value, schema: Option<NodeId>) -> bool {
        let Some(schema) = schema.filter(|_| self.completes).map(|id| self.tree.schema(id)) else {
            return true;
        };
        schema.drop_nulls(value);
        schema.replace_null(value);
        schema.fill_defaults(value);
        schema.takes(value)
    }

    fn items(&mut self, items: &mut [Value], rules: Rules, path: &Path<'_>) {
        let node = rules.schema.map(|id| self.tree.node(id));
        let keeps_unknown = rules.keeps_unknown || node.is_some_and(|node| node.flags.preserve_unknown);
        let rules = Rules { keeps_unknown, ..Rules::of(node.and_then(|node| node.items)) };
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
