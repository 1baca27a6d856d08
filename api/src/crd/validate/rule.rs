//! Validation of CEL rules (`x-kubernetes-validations`): members of each rule, and collection of all rules.
//! `crate::crd::rules` compiles them.

use super::field_path::{self, ArrayNotation};
use super::internal::Internal;
use super::structural;
use crate::crd::rules::{NodeRules, SchemaRules};
use crate::crd::schema::{any, members};
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::structural::{Schema, Tree};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks the rules of one node.
pub(super) fn check(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let all = path.child(RULES);
    for (i, rule) in list(&schema[RULES]).iter().enumerate() {
        one(errors, &all.index(i), rule, schema);
    }
}

fn one(errors: &mut ErrorList, path: &Path<'_>, rule: &Value, schema: &Value) {
    let own = |member: &str| text(&rule[member]);
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (own("rule").trim(), own("message").trim());
    if expression.is_empty() {
        errors.required(&path.child("rule"), "rule is not specified");
    } else if !own("message").is_empty() && message.is_empty() {
        errors.invalid(&path.child("message"), own("message"), "must be non-empty if specified");
    } else if has_breaks(message) {
        errors.invalid(&path.child("message"), own("message"), "must not contain line breaks");
    } else if has_breaks(expression) && message.is_empty() {
        errors.required(&path.child("message"), "message must be specified if rule contains line breaks");
    }
    if !own("messageExpression").is_empty() && own("messageExpression").trim().is_empty() {
        errors.required(&path.child("messageExpression"), "messageExpression must be non-empty if specified");
    }
    if let Some(reason) = rule["reason"].as_str().filter(|own| !REASONS.contains(own)) {
        errors.not_supported(&path.child("reason"), reason, &REASONS);
    }
    field_path(errors, &path.child("fieldPath"), own("fieldPath"), schema);
}

fn field_path(errors: &mut ErrorList, path: &Path<'_>, own: &str, schema: &Value) {
    if own.is_empty() {
        return;
    }
    if own.trim().is_empty() {
        errors.invalid(path, own, "must be non-empty if specified");
    }
    if own.contains(['\n', '\r']) {
        errors.invalid(path, own, "must not contain line breaks");
    }
    // Paths are not checked in a schema with unsupported parts.
    let is_path = || field_path::resolve(own, schema, ArrayNotation::Allowed).is_ok();
    if structural::unsupported(schema).is_none() && !is_path() {
        errors.invalid(path, own, "must be a valid path");
    }
}

/// Rules of all schemas of a definition without errors in `found`; those of single versions first.
pub(super) fn of_definition<'a>(
    internal: &Internal<'a>,
    old: Option<&Value>,
    found: &ErrorList,
) -> Vec<SchemaRules<'a>> {
    let mut out = Vec::new();
    let stored = old.map_or(&[][..], |old| list(&old["spec"]["versions"]));
    let by_name: BTreeMap<&str, &Value> =
        stored.iter().map(|version| (text(&version["name"]), version)).collect();
    let is_stored = |name: &Value, validation: &Value| {
        let old = by_name.get(text(name)).map(|version| &version["schema"]["openAPIV3Schema"]);
        old.is_some_and(|old| *old == validation["openAPIV3Schema"])
    };
    let versions = Path::new("spec.versions");
    for (i, version) in internal.versions.iter().enumerate() {
        let Some(validation) = version.schema else { continue };
        let path = versions.index(i);
        let is_stored = is_stored(&version.value["name"], validation);
        out.extend(of_schema(&path.child("schema"), validation, is_stored, found));
    }
    if let (Some(validation), Some(first)) = (internal.validation, internal.versions.first()) {
        let path = Path::new("spec.validation");
        let is_stored = is_stored(&first.value["name"], validation);
        out.extend(of_schema(&path, validation, is_stored, found));
    }
    out
}

fn of_schema<'a>(
    path: &Path<'_>,
    validation: &'a Value,
    is_stored: bool,
    found: &ErrorList,
) -> Option<SchemaRules<'a>> {
    let root = &validation["openAPIV3Schema"];
    let here = path.to_string();
    let is_faulty = found.is_full() || found.iter().any(|error| error.field.starts_with(&here));
    if is_faulty || !any(root, |node| !list(&node[RULES]).is_empty()) {
        return None;
    }
    let tree = Arc::new(Tree::compile(root).ok()?);
    let at = path.child("openAPIV3Schema");
    let mut nodes = Vec::new();
    collect(&at, root, NodeContext { node: tree.root(), cardinality: Some(1), loose: None }, &mut nodes);
    (!nodes.is_empty()).then(|| SchemaRules {
        path: at.to_string(),
        tree: Arc::clone(&tree),
        is_stored,
        nodes,
    })
}

/// Context of a schema node.
#[derive(Clone, Copy)]
struct NodeContext<'t, 'p> {
    /// The compiled node.
    node: Schema<'t>,
    /// Largest number of values of the node in one object; `None` if unbounded.
    cardinality: Option<u64>,
    /// Path of the outermost list whose items have no identity.
    loose: Option<&'p str>,
}

/// Appends the rules of a node and all nodes below, deepest first, in the order in which Kubernetes compiles
/// them.
fn collect<'a>(
    path: &Path<'_>,
    schema: &'a Value,
    around: NodeContext<'_, '_>,
    out: &mut Vec<NodeRules<'a>>,
) {
    let NodeContext { node, loose, .. } = around;
    let cardinality = around.cardinality.zip(multiplicity(schema)).map(|(a, b)| a.saturating_mul(b));
    if let Some(values) = node.values() {
        let below = NodeContext { node: values, cardinality, loose };
        collect(&path.child("additionalProperties"), &schema["additionalProperties"], below, out);
    }
    let properties = path.child("properties");
    for (name, property) in members(&schema["properties"]) {
        let Some(node) = node.property(name) else { continue };
        collect(&properties.key(name), property, NodeContext { node, cardinality, loose }, out);
    }
    if let Some(items) = node.items() {
        let here = path.to_string();
        let has_identity = schema["x-kubernetes-list-type"] == "map";
        let loose = if has_identity { loose } else { loose.or(Some(&here)) };
        collect(&path.child("items"), &schema["items"], NodeContext { node: items, cardinality, loose }, out);
    }
    let rules = list(&schema[RULES]);
    if !rules.is_empty() {
        out.push(NodeRules {
            path: path.child(RULES).to_string(),
            rules,
            node: node.id(),
            cardinality: around.cardinality,
            uncorrelatable: loose.map(str::to_owned),
        });
    }
}

/// Largest number of children of a value; `None` if unbounded.
fn multiplicity(schema: &Value) -> Option<u64> {
    let bound = |name: &str| schema[name].as_i64().map(|bound| u64::try_from(bound).unwrap_or(0));
    match text(&schema["type"]) {
        "object" if !schema["additionalProperties"].is_null() => bound("maxProperties"),
        "array" => bound("maxItems"),
        _ => Some(1),
    }
}
