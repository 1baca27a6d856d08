//! Validation of defaults in a schema: each must be valid for the schema and survive pruning.

use super::options::Options;
use super::structural;
use crate::crd::schema::{any, members};
use crate::field::{ErrorList, FieldError, Path};
use crate::structural::{MetadataError, Origin, RuleBudget, Schema, Tree};
use serde_json::{Value, json};
use std::sync::Arc;

const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Errors of the defaults in a structural schema.
pub(super) fn faults(path: &Path<'_>, root: &Value, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    if !any(root, |node| !node["default"].is_null()) {
        return errors;
    }
    if let Ok(tree) = Tree::compile(root).map(Arc::new) {
        let position = NodePosition { embedded: true, around: None };
        let mut check = DefaultsCheck { tree: &tree, options, budget: RuleBudget::default() };
        check.node(&mut errors, path, root, tree.root(), position);
    }
    errors
}

/// Whether a schema has a default with unknown fields.
pub(super) fn has_unpruned(root: &Value) -> bool {
    if !any(root, |node| !node["default"].is_null()) || structural::is_not_structural(root) {
        return false;
    }
    let Ok(tree) = Tree::compile(root) else { return false };
    nodes_have_unpruned(root, tree.root())
}

fn nodes_have_unpruned(schema: &Value, node: Schema<'_>) -> bool {
    let own = &schema["default"];
    let is_embedded = schema[EMBEDDED] == true;
    if !own.is_null() && *own != pruned(node, own, is_embedded) {
        return true;
    }
    let below = |(schema, node): (&Value, Option<Schema<'_>>)| {
        node.is_some_and(|node| nodes_have_unpruned(schema, node))
    };
    members(&schema["properties"]).into_iter().any(|(name, own)| below((own, node.property(name))))
        || below((&schema["items"], node.items()))
}

fn pruned(node: Schema<'_>, value: &Value, is_embedded: bool) -> Value {
    let mut value = value.clone();
    node.prune(&mut value, is_embedded);
    value
}

/// Position of a default in its schema.
#[derive(Clone, Copy)]
struct NodePosition<'a> {
    /// Whether the value is a whole object: an embedded resource, or the root.
    embedded: bool,
    /// Path from the object whose metadata, kind or apiVersion contains the value.
    around: Option<&'a ObjectPath<'a>>,
}

/// Path from an object to one of its values.
enum ObjectPath<'a> {
    /// The object, by its schema.
    Object(&'a Value),
    Member(&'a ObjectPath<'a>, &'a str),
    Item(&'a ObjectPath<'a>),
}

impl ObjectPath<'_> {
    /// A minimal object with the value at this path, and its schema.
    fn object(&self, value: Value) -> (Value, &Value) {
        match self {
            ObjectPath::Object(schema) => {
                let mut object = value;
                for (member, text) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
                    if let Some(members) = object.as_object_mut() {
                        members.entry(member).or_insert_with(|| text.into());
                    }
                }
                (object, schema)
            }
            ObjectPath::Member(parent, name) => parent.object(json!({*name: value})),
            ObjectPath::Item(parent) => parent.object(json!([value])),
        }
    }
}

/// State of a walk over the defaults of a schema.
struct DefaultsCheck<'t> {
    tree: &'t Arc<Tree>,
    options: &'t Options,
    /// Cost budget for the rules of all defaults.
    budget: RuleBudget,
}

impl DefaultsCheck<'_> {
    fn node(
        &mut self,
        errors: &mut ErrorList,
        path: &Path<'_>,
        schema: &Value,
        node: Schema<'_>,
        position: NodePosition<'_>,
    ) {
        if errors.is_full() || self.budget.is_spent() {
            return;
        }
        let position = if position.embedded { NodePosition { around: None, ..position } } else { position };
        let own = &schema["default"];
        if !own.is_null() {
            self.value(errors, &path.child("default"), own, schema, node, position);
        }
        let is_embedded = |schema: &Value| schema[EMBEDDED] == true;
        if let Some(items) = node.items() {
            let around = position.around.map(ObjectPath::Item);
            let below = NodePosition { embedded: is_embedded(&schema["items"]), around: around.as_ref() };
            self.node(errors, &path.child("items"), &schema["items"], items, below);
        }
        let properties = path.child("properties");
        let object = ObjectPath::Object(schema);
        for (name, property) in members(&schema["properties"]) {
            let Some(found) = node.property(name) else { continue };
            let is_meta = position.embedded && matches!(name, "metadata" | "apiVersion" | "kind");
            let around =
                position.around.or(is_meta.then_some(&object)).map(|own| ObjectPath::Member(own, name));
            let below = NodePosition { embedded: is_embedded(property), around: around.as_ref() };
            self.node(errors, &properties.key(name), property, found, below);
        }
    }

    fn value(
        &mut self,
        errors: &mut ErrorList,
        path: &Path<'_>,
        value: &Value,
        schema: &Value,
        node: Schema<'_>,
        position: NodePosition<'_>,
    ) {
        if let Some(around) = position.around {
            let (object, schema) = around.object(value.clone());
            let found = embedded("", &object, schema, true);
            if !found.is_empty() {
                let detail = format!("must result in valid metadata: {}", found.aggregate());
                return errors.invalid(path, value, detail);
            }
        } else {
            if self.options.pruned_defaults && pruned(node, value, position.embedded) != *value {
                errors.invalid(path, value, "must not have unknown fields");
            }
            let found = embedded(&path.to_string(), value, schema, position.embedded);
            if !found.is_empty() {
                return errors.extend(found);
            }
        }
        let found = node.validate(value, path);
        if found.is_empty() {
            self.rules(errors, path, value, node);
        }
        errors.extend(found);
    }

    /// Evaluates the rules on a default: first as an unchanged value, then as a new one.
    fn rules(&mut self, errors: &mut ErrorList, path: &Path<'_>, value: &Value, node: Schema<'_>) {
        let (mut kept, mut new) = (self.budget.clone(), self.budget.clone());
        let run = |old: Option<&Value>, budget: &mut RuleBudget| {
            self.tree.validate_default_rules(node.id(), path, value, old, budget)
        };
        let found = run(Some(value), &mut kept);
        if found.is_empty() {
            errors.extend(run(None, &mut new));
            kept = kept.min(new);
        } else {
            errors.extend(found);
        }
        self.budget = kept;
    }
}

/// Errors of metadata in a value that is an object or contains embedded ones. `prefix` is the path of the
/// value in errors.
fn embedded(prefix: &str, value: &Value, schema: &Value, is_embedded: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    if !is_embedded && !any(schema, |node| node[EMBEDDED] == true) {
        return errors;
    }
    let mut own = schema.clone();
    if let Some(own) = own.as_object_mut()
        && is_embedded
    {
        own.insert(EMBEDDED.to_owned(), json!(true));
    }
    // The value is wrapped into an object, so that its own metadata counts as embedded.
    let Ok(tree) = Tree::compile(&json!({"type": "object", "properties": {"default": own}})) else {
        return errors;
    };
    let object = json!({"default": value});
    let mut push = |error: &FieldError| {
        let rest = error.field.strip_prefix("default").unwrap_or(&error.field);
        let field = format!("{prefix}{rest}");
        errors.push(FieldError { field: field.trim_start_matches('.').to_owned(), ..error.clone() });
    };
    match tree.decode_embedded(&mut object.clone(), Origin::Request) {
        Err(MetadataError::Embedded(error)) => push(&error),
        Err(MetadataError::Object(_)) | Ok(_) => tree.validate_embedded(&object).iter().for_each(push),
    }
    errors
}
