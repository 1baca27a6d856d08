//! Validation of API services.
//!
//! Follows `ValidateAPIService`.

use crate::check::{grammar, required};
use crate::field::{ErrorList, Path};
use crate::limits::{API_GROUP_PRIORITY_MAX, API_VERSION_PRIORITY_MAX};
use crate::object::{int, list, text};
use crate::{meta, name};
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let (group, version) = (text(&spec["group"]), text(&spec["version"]));
    let wanted = format!("{version}.{group}");
    // The metadata's rules refuse an object without a name.
    if meta::name(object) != wanted && !meta::name(object).is_empty() {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errors.invalid(&Path::new("metadata.name"), meta::name(object), detail);
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&SPEC.child("group"), detail);
    }
    if !group.is_empty() {
        grammar(errors, &SPEC.child("group"), group, name::dns1123_subdomain(group));
    }
    grammar(errors, &SPEC.child("version"), version, name::dns1035_label(version));
    let priorities =
        [("groupPriorityMinimum", API_GROUP_PRIORITY_MAX), ("versionPriority", API_VERSION_PRIORITY_MAX)];
    for (member, max) in priorities {
        let priority = int(&spec[member]);
        if !(1..=max).contains(&priority) {
            errors.invalid(&SPEC.child(member), &priority, format!("must be positive and less than {max}"));
        }
    }
    match spec["service"].is_null() {
        true => local(errors, spec),
        false => remote(errors, spec),
    }
}

fn local(errors: &mut ErrorList, spec: &Value) {
    let bundle = text(&spec["caBundle"]);
    if !bundle.is_empty() {
        let bytes = bundle.len() / 4 * 3 - bundle.bytes().rev().take_while(|b| *b == b'=').count();
        let detail = "local APIServices may not have a caBundle";
        errors.invalid(&SPEC.child("caBundle"), &format!("{bytes} bytes"), detail);
    }
    if spec["insecureSkipTLSVerify"] == true {
        let detail = "local APIServices may not have insecureSkipTLSVerify";
        errors.invalid(&SPEC.child("insecureSkipTLSVerify"), &true, detail);
    }
}

fn remote(errors: &mut ErrorList, spec: &Value) {
    let (path, service) = (SPEC.child("service"), &spec["service"]);
    for member in ["namespace", "name"] {
        required(errors, &path.child(member), &service[member]);
    }
    let faults = name::port_number(int(&service["port"]));
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(", "));
        errors.invalid(&path.child("port"), &int(&service["port"]), detail);
    }
    if spec["insecureSkipTLSVerify"] == true && !text(&spec["caBundle"]).is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.invalid(&SPEC.child("insecureSkipTLSVerify"), &true, detail);
    }
}

pub(crate) fn status(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.conditions");
    let statuses = ["False", "True", "Unknown"];
    for (i, condition) in list(&object["status"]["conditions"]).iter().enumerate() {
        let status = text(&condition["status"]);
        if !statuses.contains(&status) {
            errors.not_supported(&path.index(i).child("status"), status, &statuses);
        }
    }
}
