//! Validation of one schema: the order of the checks, and restrictions on its root.

use super::options::Options;
use super::{defaults, openapi, print, structural};
use crate::field::{ErrorList, Path};
use serde_json::Value;

/// Members of the root that are allowed with a status subresource, by Go's names.
const ROOT_MEMBERS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Checks `validation` (which has `openAPIV3Schema`), except CEL rules.
pub(super) fn check(
    errors: &mut ErrorList,
    path: &Path<'_>,
    validation: &Value,
    has_status: bool,
    options: &Options,
) {
    let root = &validation["openAPIV3Schema"];
    if !root.is_object() {
        return;
    }
    let mut found = ErrorList::new();
    if has_status {
        root_with_status(&mut found, path, root);
    }
    let path = path.child("openAPIV3Schema");
    if root["nullable"] == true {
        found.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    let mut unsupported = None;
    if options.structural {
        unsupported = structural::unsupported(root);
        if unsupported.is_none() {
            let mut faults = structural::faults(&path, root);
            if faults.is_empty() {
                faults = defaults::faults(&path, root, options);
            }
            found.extend(faults);
        }
    }
    openapi::check(&mut found, &path, root, options);
    // Most unsupported keywords have errors with their own paths; this error is for the rest.
    if let Some(fault) = unsupported.filter(|_| found.is_empty()) {
        found.invalid(&path, "", fault);
    }
    errors.extend(found);
}

/// Checks the root of a schema with a status subresource. A status update validates only `properties.status`,
/// so the root must not have restricting keywords.
fn root_with_status(errors: &mut ErrorList, path: &Path<'_>, root: &Value) {
    for (name, _) in print::members(root) {
        if name == "Type" {
            if root["type"] != "object" {
                let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                return errors.invalid(&path.child("openAPIV3Schema.type"), &root["type"], detail);
            }
        } else if !ROOT_MEMBERS.contains(&name) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ROOT_MEMBERS.join(" ")
            );
            return errors.invalid_raw(&path.child("openAPIV3Schema"), print::schema(root), detail);
        }
    }
}
