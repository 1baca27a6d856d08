//! Checks of the metadata of any object, except its name (upstream `ValidateObjectMetaAccessor`).

use super::grammar;
use crate::field::{ErrorList, Path};
use crate::limits::ANNOTATIONS_MAX;
use crate::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;

const METADATA: Path<'static> = Path::new("metadata");

/// Checks the metadata of any object, except its name.
pub(crate) fn common(object: &Value, errors: &mut ErrorList) {
    labels(errors, &METADATA.child("labels"), &object["metadata"]["labels"]);
    annotations(errors, &METADATA.child("annotations"), &object["metadata"]["annotations"]);
    owners(object, errors);
    finalizers(object, errors);
}

/// Checks a map of labels.
pub(crate) fn labels(errors: &mut ErrorList, path: &Path<'_>, labels: &Value) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        grammar(errors, path, key, name::qualified_name(key));
        grammar(errors, path, text(value), name::label_value(text(value)));
    }
}

/// Checks a map of annotations: keys like label keys in either case, and a bound on the total size.
pub(crate) fn annotations(errors: &mut ErrorList, path: &Path<'_>, annotations: &Value) {
    let mut total = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        grammar(errors, path, key, name::qualified_name(&key.to_lowercase()));
        total += key.len() + text(value).len();
    }
    if total > ANNOTATIONS_MAX {
        errors.too_long(path, ANNOTATIONS_MAX);
    }
}

/// Checks owner references; messages have the path of the list, not of the item.
fn owners(object: &Value, errors: &mut ErrorList) {
    let path = METADATA.child("ownerReferences");
    let mut controller: Option<String> = None;
    for owner in meta::owner_references(object) {
        let version = text(&owner["apiVersion"]);
        if version.rsplit('/').next() == Some("") || version.matches('/').count() > 1 {
            errors.invalid(&path.child("apiVersion"), version, "version must not be empty");
        }
        for member in ["kind", "name", "uid"] {
            if text(&owner[member]).is_empty() {
                errors.invalid(&path.child(member), "", "must not be empty");
            }
        }
        if version == "v1" && owner["kind"] == "Event" {
            errors.invalid(&path, owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            let own = format!("{}/{}", text(&owner["kind"]), text(&owner["name"]));
            match &controller {
                Some(first) => second_controller(errors, &path, object, (first, &own)),
                None => controller = Some(own),
            }
        }
    }
}

fn second_controller(errors: &mut ErrorList, path: &Path<'_>, object: &Value, (first, second): (&str, &str)) {
    let detail = format!(
        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
    );
    errors.invalid(path, meta::owner_references(object), detail);
}

fn finalizers(object: &Value, errors: &mut ErrorList) {
    let path = METADATA.child("finalizers");
    for finalizer in meta::finalizers(object) {
        grammar(errors, &path, finalizer, name::qualified_name(finalizer));
    }
    let has = |wanted: &str| meta::finalizers(object).any(|finalizer| finalizer == wanted);
    if has(FINALIZER_ORPHAN) && has(FINALIZER_FOREGROUND) {
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.invalid(&path, list(&object["metadata"]["finalizers"]), detail);
    }
}
