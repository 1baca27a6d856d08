//! Validation of namespaces: the finalizers of the spec, and a phase that matches the deletion timestamp.
//!
//! Follows `ValidateNamespace`, `ValidateNamespaceFinalizeUpdate` and `ValidateNamespaceStatusUpdate`.

use super::metadata::{NO_DOMAIN, STANDARD_FINALIZERS};
use crate::check::grammar;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::{meta, name};
use serde_json::Value;

const FINALIZERS: Path<'static> = Path::new("spec.finalizers");

/// Checks a new namespace.
pub(crate) fn create(object: &Value, errors: &mut ErrorList) {
    for own in list(&object["spec"]["finalizers"]) {
        finalizer(errors, &FINALIZERS, text(own));
    }
}

fn finalizer(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    grammar(errors, path, own, name::qualified_name(own));
    if !own.contains('/') && !STANDARD_FINALIZERS.contains(&own) {
        errors.invalid(path, own, NO_DOMAIN);
    }
}

/// Checks `/finalize`: the remaining finalizers.
pub(crate) fn finalize(new: &Value, errors: &mut ErrorList) {
    for (i, own) in list(&new["spec"]["finalizers"]).iter().enumerate() {
        finalizer(errors, &FINALIZERS.index(i), text(own));
    }
}

/// Checks `/status`: the phase is `Terminating` exactly if the namespace has a deletion timestamp.
pub(crate) fn status(new: &Value, errors: &mut ErrorList) {
    let (path, phase) = (Path::new("status.Phase"), text(&new["status"]["phase"]));
    match (meta::is_being_deleted(new), phase) {
        (false, "Active") | (true, "Terminating") => {}
        (false, phase) => {
            errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
        }
        (true, phase) => {
            errors.invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
    }
}
