//! Defaults of a schema: each must be a value that the schema would take and keep.

use serde_json::{Value, json};

use super::options::Options;
use super::structural;
use crate::crd::schema::{any, members};
use crate::field::{ErrorList, FieldError, Path};
use crate::structural::{Schema, Tree};

const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Everything wrong with the defaults of a structural schema.
pub(super) fn faults(path: &Path<'_>, root: &Value, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    if !any(root, |node| !node["default"].is_null()) {
        return errors;
    }
    if let Ok(tree) = Tree::compile(root) {
        let place = Place { embedded: true, in_meta: false };
        node(&mut errors, path, (root, tree.root()), place, options);
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

/// Where a default is.
#[derive(Clone, Copy)]
struct Place {
    /// The value is a whole object, by the schema or as the root.
    embedded: bool,
    /// The value is below metadata, kind or apiVersion of an object.
    in_meta: bool,
}

fn node(
    errors: &mut ErrorList,
    path: &Path<'_>,
    (schema, node): (&Value, Schema<'_>),
    place: Place,
    options: &Options,
) {
    if errors.is_full() {
        return;
    }
    let in_meta = place.in_meta && !place.embedded;
    let own = &schema["default"];
    if !own.is_null() {
        value(errors, &path.child("default"), own, (schema, node), Place { in_meta, ..place }, options);
    }
    let is_embedded = |schema: &Value| schema[EMBEDDED] == true;
    if let Some(items) = node.items() {
        let below = Place { embedded: is_embedded(&schema["items"]), in_meta };
        self::node(errors, &path.child("items"), (&schema["items"], items), below, options);
    }
    let properties = path.child("properties");
    for (name, property) in members(&schema["properties"]) {
        let Some(found) = node.property(name) else { continue };
        let is_meta = place.embedded && matches!(name, "metadata" | "apiVersion" | "kind");
        let below = Place { embedded: is_embedded(property), in_meta: in_meta || is_meta };
        self::node(errors, &properties.key(name), (property, found), below, options);
    }
}

fn value(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &Value,
    (schema, node): (&Value, Schema<'_>),
    place: Place,
    options: &Options,
) {
    if !place.in_meta {
        if options.pruned_defaults && pruned(node, value, place.embedded) != *value {
            errors.invalid(path, value, "must not have unknown fields");
        }
        let embedded = embedded(path, value, schema, place.embedded);
        if !embedded.is_empty() {
            return errors.extend(embedded);
        }
    }
    errors.extend(node.validate(value, path));
}

/// What is wrong with the metadata of a default that is, or holds, whole objects.
fn embedded(path: &Path<'_>, value: &Value, schema: &Value, is_embedded: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut own = schema.clone();
    if let Some(own) = own.as_object_mut()
        && is_embedded
    {
        own.insert(EMBEDDED.to_owned(), json!(true));
    }
    // The value as a member of an object, so that its own metadata counts as embedded.
    let Ok(tree) = Tree::compile(&json!({"type": "object", "properties": {"default": own}})) else {
        return errors;
    };
    let prefix = path.to_string();
    for error in tree.validate_embedded(&json!({"default": value})).iter() {
        let rest = error.field.strip_prefix("default").unwrap_or(&error.field);
        errors.push(FieldError { field: format!("{prefix}{rest}"), ..error.clone() });
    }
    errors
}
