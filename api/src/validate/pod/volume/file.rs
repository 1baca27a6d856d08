//! Validation of volumes whose files come from objects: secrets, config maps and the downward API.
//!
//! Follows `validateSecretVolumeSource`, `validateConfigMapVolumeSource` and `validateDownwardAPIVolumeSource`.

use crate::check::{each, need, relative_unreserved, required};
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::validate::pod::reference;
use serde_json::Value;

/// Checks a secret or config map source; `name` is the member with the object's name.
pub(super) fn keys(errors: &mut ErrorList, path: &Path<'_>, source: &Value, name: &str) {
    required(errors, &path.child(name), &source[name]);
    mode(errors, &path.child("defaultMode"), &source["defaultMode"]);
    each(path, source, "items", |path, item| key_to_path(errors, path, item));
}

/// Checks a downward API source.
pub(super) fn downward(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    mode(errors, &path.child("defaultMode"), &source["defaultMode"]);
    for file in list(&source["items"]) {
        downward_file(errors, path, file);
    }
}

/// Checks a file mode.
pub(super) fn mode(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

pub(super) fn key_to_path(errors: &mut ErrorList, path: &Path<'_>, item: &Value) {
    need(errors, path, item, &["key", "path"]);
    relative_unreserved(errors, &path.child("path"), text(&item["path"]));
    mode(errors, &path.child("mode"), &item["mode"]);
}

const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks a downward API file; messages have the path of the volume, not of the item.
pub(super) fn downward_file(errors: &mut ErrorList, path: &Path<'_>, file: &Value) {
    need(errors, path, file, &["path"]);
    relative_unreserved(errors, &path.child("path"), text(&file["path"]));
    match (file["fieldRef"].is_null(), file["resourceFieldRef"].is_null()) {
        (false, other) => {
            reference::field(errors, &path.child("fieldRef"), &file["fieldRef"], &FIELDS);
            if !other {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (true, false) => {
            let path = path.child("resourceFieldRef");
            reference::resource_of_named(errors, &path, &file["resourceFieldRef"]);
        }
        (true, true) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(errors, &path.child("mode"), &file["mode"]);
}
