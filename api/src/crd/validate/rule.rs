//! CEL rules (`x-kubernetes-validations`) as far as no CEL is needed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_path::{self, ArrayNotation};
use super::internal::{Internal, has_status};
use super::options::Options;
use super::{schema, structural};
use crate::crd::rules::{Rule, VersionRules};
use crate::crd::schema::members;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};

const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is wrong with the rules of one node.
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
    // In a schema that is not supported at all, no path is judged.
    let is_path = || field_path::resolve(own, schema, ArrayNotation::Allowed).is_ok();
    if structural::unsupported(schema).is_none() && !is_path() {
        errors.invalid(path, own, "must be a valid path");
    }
}

/// The rules of all schemas of a definition that are free of other errors, those of single versions first.
pub(super) fn of_definition<'a>(
    internal: &Internal<'a>,
    options: &Options,
    old: Option<&'a Value>,
) -> Vec<VersionRules<'a>> {
    let mut out = Vec::new();
    let stored = old.map_or(&[][..], |old| list(&old["spec"]["versions"]));
    let by_name: BTreeMap<&str, &Value> =
        stored.iter().map(|version| (text(&version["name"]), version)).collect();
    let old_version = |name: &Value| by_name.get(text(name)).copied();
    let versions = Path::new("spec.versions");
    for (i, version) in internal.versions.iter().enumerate() {
        let Some(validation) = version.schema else { continue };
        let path = versions.index(i);
        let status = has_status(internal.subresources_of(&version.value["name"]));
        let path = path.child("schema");
        out.extend(of_schema(&path, i, validation, old_version(&version.value["name"]), status, options));
    }
    if let (Some(validation), Some(first)) = (internal.validation, internal.versions.first()) {
        let path = Path::new("spec.validation");
        let before = old_version(&first.value["name"]);
        out.extend(of_schema(&path, 0, validation, before, internal.any_status(), options));
    }
    let schemas = stored.iter().map(|version| &version["schema"]["openAPIV3Schema"]);
    let schemas: Vec<&Value> = schemas.filter(|schema| schema.is_object()).collect();
    out.iter_mut().for_each(|rules| rules.old_schemas.clone_from(&schemas));
    out
}

fn of_schema<'a>(
    path: &Path<'_>,
    version: usize,
    validation: &'a Value,
    old: Option<&'a Value>,
    has_status: bool,
    options: &Options,
) -> Option<VersionRules<'a>> {
    let root = &validation["openAPIV3Schema"];
    let at = path.child("openAPIV3Schema");
    let mut rules = Vec::new();
    collect(&at, root, None, &mut rules);
    if rules.is_empty() {
        return None;
    }
    let mut errors = ErrorList::new();
    schema::check(&mut errors, path, validation, has_status, options);
    let old_schema = old.map(|old| &old["schema"]["openAPIV3Schema"]).filter(|schema| !schema.is_null());
    errors.is_empty().then(|| VersionRules {
        version,
        path: at.to_string(),
        schema: root,
        old_schema,
        old_schemas: Vec::new(),
        rules,
    })
}

/// Appends the rules of a node and of all below it, deepest first, as Kubernetes compiles them. `loose` is the path of the outermost
/// list whose items have no identity.
fn collect<'a>(path: &Path<'_>, schema: &'a Value, loose: Option<&str>, out: &mut Vec<Rule<'a>>) {
    if !schema.is_object() {
        return;
    }
    collect(&path.child("additionalProperties"), &schema["additionalProperties"], loose, out);
    let properties = path.child("properties");
    for (name, property) in members(&schema["properties"]) {
        collect(&properties.key(name), property, loose, out);
    }
    let here = path.to_string();
    let has_identity = schema["x-kubernetes-list-type"] == "map";
    let below = if has_identity { loose } else { loose.or(Some(&here)) };
    collect(&path.child("items"), &schema["items"], below, out);
    let all = path.child(RULES);
    for (i, rule) in list(&schema[RULES]).iter().enumerate() {
        let path = all.index(i).to_string();
        out.push(Rule { path, rule, schema, uncorrelatable: loose.map(str::to_owned) });
    }
}
