//! Validation of single versions: deprecation, subresources, printer columns, selectable fields.

use super::field_path::{self, ArrayNotation};
use super::internal::{Internal, InternalVersion};
use super::options::Options;
use super::{SELECTABLE_FIELDS_MAX, schema, structural};
use crate::field::{ErrorList, Path};
use crate::object::text;
use serde_json::Value;
use std::collections::BTreeSet;

/// Bytes of a deprecation warning.
const DEPRECATION_WARNING_MAX: usize = 256;
const COLUMN_TYPES: &str = "must be one of boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "must be one of byte,date,date-time,double,float,int32,int64,password";
const SELECTABLE_TYPES: &str = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";

/// Checks the members of one version.
pub(super) fn check(
    errors: &mut ErrorList,
    path: &Path<'_>,
    version: &InternalVersion<'_>,
    has_status: bool,
    options: &Options,
) {
    deprecation(errors, &path.child("deprecationWarning"), version.value);
    if let Some(own) = version.schema {
        schema::check(errors, &path.child("schema"), own, has_status, options);
    }
    subresources(errors, &path.child("subresources"), version.subresources);
    columns(errors, path, version.columns);
    if version.selectable.is_empty() {
        return;
    }
    let own = path.child("selectableFields");
    match version.schema.map(|schema| &schema["openAPIV3Schema"]) {
        Some(root) if !root.is_null() => {
            let may_be_many = options.many_selectable.contains(text(&version.value["name"]));
            selectable(errors, &own, version.selectable, root, may_be_many);
        }
        _ => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.invalid(&own, "", detail);
        }
    }
}

/// Checks the selectable fields that all versions share.
pub(super) fn selectable_of_all(
    errors: &mut ErrorList,
    path: &Path<'_>,
    internal: &Internal<'_>,
    options: &Options,
) {
    let own = path.child("selectableFields");
    match internal.validation {
        _ if internal.selectable.is_empty() => {}
        None => errors.invalid(&own, "", "may only be set when validations.schema is included"),
        Some(validation) => {
            let root = &validation["openAPIV3Schema"];
            selectable(errors, &own, internal.selectable, root, options.many_selectable.contains(""));
        }
    }
}

fn deprecation(errors: &mut ErrorList, path: &Path<'_>, version: &Value) {
    let warning = &version["deprecationWarning"];
    let Some(own) = warning.as_str() else { return };
    if version["deprecated"] != true {
        return errors.invalid(path, own, "can only be set for deprecated versions");
    }
    if own.len() > DEPRECATION_WARNING_MAX {
        errors.invalid(path, own, format!("must be <= {DEPRECATION_WARNING_MAX} characters long"));
    }
    if own.is_empty() {
        errors.invalid(path, own, "must not be an empty string");
    }
    if let Some((at, _)) = own.char_indices().find(|(_, c)| !is_printable(*c)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.invalid(path, own, detail);
    }
}

/// Whether a character is printable: letters, marks, numbers, symbols and the space are; control characters
/// and other spaces are not.
fn is_printable(letter: char) -> bool {
    // After another letter, only unprintable characters are escaped, besides quotes and the backslash.
    matches!(letter, '\'' | '"' | '\\') || format!("a{letter}").escape_debug().count() == 2
}

/// Checks the paths of the scale subresource.
pub(super) fn subresources(errors: &mut ErrorList, path: &Path<'_>, subresources: Option<&Value>) {
    let Some(scale) = subresources.map(|own| &own["scale"]).filter(|scale| !scale.is_null()) else { return };
    let path = path.child("scale");
    for (member, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (path, own) = (path.child(member), text(&scale[member]));
        if own.is_empty() {
            errors.required(&path, "");
        } else if is_simple_path(errors, &path, own) && !is_below(own, root) {
            errors.invalid(&path, own, format!("should be a json path under {root}"));
        }
    }
    let (path, own) = (path.child("labelSelectorPath"), text(&scale["labelSelectorPath"]));
    if !own.is_empty()
        && is_simple_path(errors, &path, own)
        && !is_below(own, ".spec")
        && !is_below(own, ".status")
    {
        errors.invalid(&path, own, "should be a json path under either .spec or .status");
    }
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))
}

/// Checks that a path starts with a dot; returns whether it does.
fn is_simple_path(errors: &mut ErrorList, path: &Path<'_>, own: &str) -> bool {
    let good = own.starts_with('.');
    if !good {
        errors.invalid(path, own, "must be a simple json path starting with .");
    }
    good
}

/// Checks printer columns; `path` is that of their owner.
pub(super) fn columns(errors: &mut ErrorList, path: &Path<'_>, columns: &[Value]) {
    let all = path.child("additionalPrinterColumns");
    for (i, own) in columns.iter().enumerate() {
        column(errors, &all.index(i), own);
    }
}

fn column(errors: &mut ErrorList, path: &Path<'_>, column: &Value) {
    if text(&column["name"]).is_empty() {
        errors.required(&path.child("name"), "");
    }
    match text(&column["type"]) {
        "" => errors.required(&path.child("type"), COLUMN_TYPES),
        "boolean" | "date" | "integer" | "number" | "string" => {}
        own => errors.invalid(&path.child("type"), own, COLUMN_TYPES),
    }
    match text(&column["format"]) {
        "" | "byte" | "date" | "date-time" | "double" | "float" | "int32" | "int64" | "password" => {}
        own => errors.invalid(&path.child("format"), own, COLUMN_FORMATS),
    }
    match text(&column["jsonPath"]) {
        "" => errors.required(&path.child("JSONPath"), ""),
        own => {
            is_simple_path(errors, &path.child("JSONPath"), own);
        }
    }
}

fn selectable(errors: &mut ErrorList, path: &Path<'_>, fields: &[Value], root: &Value, may_be_many: bool) {
    if let Some(fault) = structural::unsupported(root) {
        let owner = Path::new("spec");
        errors.invalid(&owner.child("schema.openAPIV3Schema"), "", fault);
    }
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let item = path.index(i);
        let (path, own) = (item.child("jsonPath"), text(&field["jsonPath"]));
        if own.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let (steps, node) = match field_path::resolve(own, root, ArrayNotation::Refused) {
            Ok(found) => found,
            Err(fault) => {
                errors.invalid(&path, own, format!("is an invalid path: {fault}"));
                continue;
            }
        };
        if steps.first().is_some_and(|step| step == "metadata") {
            errors.invalid(&path, own, "must not point to fields in metadata");
        }
        if !matches!(text(&node["type"]), "string" | "boolean" | "integer") {
            errors.invalid(&path, own, SELECTABLE_TYPES);
        }
        if !seen.insert(steps) {
            errors.duplicate(&path, own);
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX && !may_be_many {
        errors.too_many(path, seen.len(), SELECTABLE_FIELDS_MAX);
    }
}
