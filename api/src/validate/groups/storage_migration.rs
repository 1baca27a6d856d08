//! Validation of storage version migrations.
//!
//! Follows `ValidateStorageVersionMigration`.

use super::reference;
use crate::check::IMMUTABLE;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, semantically_equal, text};
use serde_json::Value;

const RESOURCE: Path<'static> = Path::new("spec.resource");
const STATUS: Path<'static> = Path::new("status");

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let resource = &object["spec"]["resource"];
    let mut grammar = |member: &str, faults: name::Faults| {
        if !faults.is_empty() {
            errors.invalid(&RESOURCE.child(member), text(&resource[member]), faults.join(","));
        }
    };
    match text(&resource["group"]) {
        "" => {}
        group => grammar("group", name::dns1123_subdomain(group)),
    }
    match text(&resource["resource"]) {
        "" => errors.required(&RESOURCE.child("resource"), "resource is required to be set"),
        plural => grammar("resource", name::dns1035_label(plural)),
    }
}

pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if !semantically_equal(&new["spec"], &old["spec"]) {
        errors.invalid(&Path::new("spec"), &new["spec"], IMMUTABLE);
    }
}

pub(crate) fn status(new: &Value, old: &Value, errors: &mut ErrorList) {
    let version = text(&new["status"]["resourceVersion"]);
    let path = STATUS.child("resourceVersion");
    if !version.is_empty() && (version.starts_with('0') || version.parse::<u64>().is_err()) {
        errors.invalid(&path, version, format!("resource version is not well formed: {version}"));
    }
    reference::conditions(errors, &STATUS, &new["status"]);
    let before = text(&old["status"]["resourceVersion"]);
    if !before.is_empty() && before != version {
        errors.invalid(&path, version, IMMUTABLE);
    }
    let conditions = &new["status"]["conditions"];
    let mut refuse = |fault: &str| errors.invalid(&STATUS.child("conditions"), conditions, fault);
    let [succeeded, failed, running] = ["Succeeded", "Failed", "Running"].map(|kind| is_true(new, kind));
    if succeeded && failed {
        refuse("Both success and failed conditions cannot be true at the same time");
    }
    if succeeded && running {
        refuse("Running condition cannot be true when success condition is true");
    }
    if failed && running {
        refuse("Running condition cannot be true when failed condition is true");
    }
    if is_true(old, "Succeeded") && !succeeded {
        refuse("Success condition cannot be set to false once it is true");
    }
    if is_true(old, "Failed") && !failed {
        refuse("Failed condition cannot be set to false once it is true");
    }
}

fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = list(&object["status"]["conditions"]);
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}
