//! Structural rules for `allOf`, `anyOf`, `oneOf` and `not`: they restrict values and must not declare types.

use crate::crd::schema::members;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::structural::re2;
use serde_json::Value;

/// Branches exempt from the rules, since they spell out int-or-string.
#[derive(Clone, Copy, Default)]
struct Exempt {
    /// All of `anyOf`.
    any_of: bool,
    /// `anyOf` of the first branch of `allOf`.
    first_of_all: bool,
}

/// Checks branches and pattern of a node outside of branches.
pub(super) fn of_node(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let exempt = Exempt {
        any_of: is_int_or_string(&schema["anyOf"]),
        first_of_all: is_int_or_string(&schema["allOf"][0]["anyOf"]),
    };
    values(errors, path, schema, exempt);
}

/// Whether branches mean exactly "integer or string".
pub(super) fn is_int_or_string(branches: &Value) -> bool {
    let [integer, string] = list(branches) else { return false };
    let is_only = |branch: &Value, ty: &str| {
        branch.as_object().is_some_and(|members| members.len() == 1) && branch["type"] == ty
    };
    is_only(integer, "integer") && is_only(string, "string")
}

/// Checks branches and pattern of any node.
fn values(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, exempt: Exempt) {
    for member in ["anyOf", "allOf", "oneOf"] {
        if member == "anyOf" && exempt.any_of {
            continue;
        }
        let at = path.child(member);
        for (i, own) in list(&schema[member]).iter().enumerate() {
            let any_of = member == "allOf" && i == 0 && exempt.first_of_all;
            branch(errors, &at.index(i), own, Exempt { any_of, first_of_all: false });
        }
    }
    branch(errors, &path.child("not"), &schema["not"], Exempt::default());
    let pattern = text(&schema["pattern"]);
    if pattern.is_empty() {
        return;
    }
    if let Err(fault) = re2::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {fault}");
        errors.invalid(&path.child("pattern"), pattern, detail);
    }
}

/// Checks a node inside a branch.
fn branch(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, exempt: Exempt) {
    if !schema.is_object() || errors.is_full() {
        return;
    }
    values(errors, path, schema, exempt);
    branch(errors, &path.child("items"), &schema["items"], Exempt::default());
    let properties = path.child("properties");
    for (name, property) in members(&schema["properties"]) {
        branch(errors, &properties.key(name), property, Exempt::default());
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    let has_text = |member: &str| !text(&schema[member]).is_empty();
    let has_items = |member: &str| !list(&schema[member]).is_empty();
    let forbidden = [
        (has_text("type"), "type", EMPTY),
        (is_allowed(&schema["additionalProperties"]), "additionalProperties", UNDEFINED),
        (!schema["default"].is_null(), "default", UNDEFINED),
        (has_text("title"), "title", EMPTY),
        (has_text("description"), "description", EMPTY),
        (schema["nullable"] == true, "nullable", FALSE),
        flag(schema, "x-kubernetes-preserve-unknown-fields"),
        flag(schema, "x-kubernetes-embedded-resource"),
        flag(schema, "x-kubernetes-int-or-string"),
        (has_items("x-kubernetes-list-map-keys"), "x-kubernetes-list-map-keys", EMPTY),
        (!schema["x-kubernetes-list-type"].is_null(), "x-kubernetes-list-type", UNDEFINED),
        (!schema["x-kubernetes-map-type"].is_null(), "x-kubernetes-map-type", UNDEFINED),
        (has_items("x-kubernetes-validations"), "x-kubernetes-validations", EMPTY),
    ];
    for (_, member, detail) in forbidden.into_iter().filter(|(is_there, _, _)| *is_there) {
        errors.forbidden(&path.child(member), detail);
    }
    if schema["properties"].get("metadata").is_some() {
        errors.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
}

fn flag<'m>(schema: &Value, member: &'m str) -> (bool, &'m str, &'static str) {
    (schema[member] == true, member, "must be false to be structural")
}

fn is_allowed(values: &Value) -> bool {
    values.is_object() || *values == true
}

/// Checks that properties and items in a branch of the root are also declared outside of branches. `at` has
/// the paths of the outer schema and of the branch.
pub(super) fn completeness(
    errors: &mut ErrorList,
    at: (&Path<'_>, &Path<'_>),
    branch: &Value,
    outside: Option<&Value>,
) {
    let (path, own) = at;
    let mut each = |own: &Path<'_>, branch: &Value| named(errors, (path, own), branch, outside);
    each(&own.child("not"), &branch["not"]);
    for member in ["allOf", "anyOf", "oneOf"] {
        let at = own.child(member);
        list(&branch[member]).iter().enumerate().for_each(|(i, branch)| each(&at.index(i), branch));
    }
}

fn named(
    errors: &mut ErrorList,
    (path, own): (&Path<'_>, &Path<'_>),
    branch: &Value,
    outside: Option<&Value>,
) {
    if !branch.is_object() || errors.is_full() {
        return;
    }
    let Some(outside) = outside else {
        return errors.required(path, format!("because it is defined in {own}"));
    };
    completeness(errors, (path, own), branch, Some(outside));
    let items = outside.get("items").filter(|items| items.is_object());
    named(errors, (&path.child("items"), &own.child("items")), &branch["items"], items);
    let (there, here) = (path.child("properties"), own.child("properties"));
    for (name, property) in members(&branch["properties"]) {
        let known = outside["properties"].get(name);
        named(errors, (&there.key(name), &here.key(name)), property, known);
    }
}
