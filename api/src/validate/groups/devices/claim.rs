//! Validation of a ResourceClaim's spec: requests, constraints between them, and driver configuration.
//!
//! Follows `ValidateResourceClaim`.

use super::{EFFECTS, at_most, configuration, qualified, selectors, unique_names};
use crate::check::{each, grammar, required_grammar};
use crate::field::{ErrorList, Path};
use crate::limits::{
    DEVICE_CONFIGS_MAX, DEVICE_CONSTRAINTS_MAX, DEVICE_REQUESTS_MAX, DEVICE_SUBREQUESTS_MAX,
};
use crate::name;
use crate::object::{int, list, text};
use crate::validate::groups::reference::{label_key, unique_texts};
use serde_json::Value;

pub(super) fn spec(path: &Path<'_>, spec: &Value, errors: &mut ErrorList) {
    let (path, devices) = (path.child("devices"), &spec["devices"]);
    let requests = list(&devices["requests"]);
    let at = path.child("requests");
    if at_most(errors, &at, requests.len(), DEVICE_REQUESTS_MAX) {
        each(&path, devices, "requests", |path, value| request(errors, path, value));
        unique_names(errors, &at, requests, "name");
    }
    let constraints = list(&devices["constraints"]);
    if at_most(errors, &path.child("constraints"), constraints.len(), DEVICE_CONSTRAINTS_MAX) {
        each(&path, devices, "constraints", |path, value| constraint(errors, path, value, requests));
    }
    let configs = list(&devices["config"]);
    if at_most(errors, &path.child("config"), configs.len(), DEVICE_CONFIGS_MAX) {
        each(&path, devices, "config", |path, value| {
            references(errors, path, value, requests);
            configuration(errors, path, value);
        });
    }
}

fn request(errors: &mut ErrorList, path: &Path<'_>, request: &Value) {
    let own = text(&request["name"]);
    grammar(errors, &path.child("name"), own, name::dns1123_label(own));
    let choices = list(&request["firstAvailable"]);
    match (request["exactly"].is_null(), choices.is_empty()) {
        (true, true) => {
            errors.required(path, "exactly one of `exactly` or `firstAvailable` is required");
        }
        (false, false) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, &Value::Null, detail);
        }
        (false, true) => what(errors, &path.child("exactly"), &request["exactly"]),
        (true, false) => {
            let at = path.child("firstAvailable");
            if at_most(errors, &at, choices.len(), DEVICE_SUBREQUESTS_MAX) {
                each(path, request, "firstAvailable", |path, choice| {
                    let own = text(&choice["name"]);
                    grammar(errors, &path.child("name"), own, name::dns1123_label(own));
                    what(errors, path, choice);
                });
                unique_names(errors, &at, choices, "name");
            }
        }
    }
}

/// Checks the device class, count and selectors of a request.
fn what(errors: &mut ErrorList, path: &Path<'_>, request: &Value) {
    required_grammar(
        errors,
        &path.child("deviceClassName"),
        &request["deviceClassName"],
        name::dns1123_subdomain,
    );
    selectors(errors, path, request);
    let (mode, count) = (text(&request["allocationMode"]), int(&request["count"]));
    match mode {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.invalid(&path.child("count"), &count, detail);
        }
        "ExactCount" if count <= 0 => {
            errors.invalid(&path.child("count"), &count, "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        other => errors.not_supported(&path.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    each(path, request, "tolerations", |path, value| toleration(errors, path, value));
}

fn toleration(errors: &mut ErrorList, path: &Path<'_>, toleration: &Value) {
    if !text(&toleration["key"]).is_empty() {
        label_key(errors, &path.child("key"), &toleration["key"]);
    }
    let value = text(&toleration["value"]);
    match text(&toleration["operator"]) {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => grammar(errors, &path.child("value"), value, name::label_value(value)),
        "" => errors.required(&path.child("operator"), ""),
        other => errors.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
    }
    let effect = text(&toleration["effect"]);
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&path.child("effect"), effect, &EFFECTS);
    }
}

fn constraint(errors: &mut ErrorList, path: &Path<'_>, constraint: &Value, requests: &[Value]) {
    references(errors, path, constraint, requests);
    let members = ["matchAttribute", "distinctAttribute"];
    let Some(member) = members.into_iter().find(|member| !constraint[*member].is_null()) else {
        let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        return errors.required(path, detail);
    };
    let (at, own) = (path.child(member), text(&constraint[member]));
    qualified(errors, &at, own);
    if !own.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(&at, own, detail);
    }
}

/// Checks the `requests` that a constraint or configuration applies to.
pub(super) fn references(errors: &mut ErrorList, path: &Path<'_>, owner: &Value, requests: &[Value]) {
    let names = list(&owner["requests"]);
    let at = path.child("requests");
    if at_most(errors, &at, names.len(), DEVICE_REQUESTS_MAX) {
        each(path, owner, "requests", |path, own| reference(errors, path, text(own), requests));
        unique_texts(errors, &at, names);
    }
}

/// Checks a reference to a request, or to one of its alternatives after a slash.
pub(super) fn reference(errors: &mut ErrorList, path: &Path<'_>, own: &str, requests: &[Value]) {
    let parts: Vec<&str> = own.split('/').collect();
    let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    if parts.len() > 2 {
        return errors.invalid(path, own, detail);
    }
    for part in &parts {
        grammar(errors, path, part, name::dns1123_label(part));
    }
    let request = requests.iter().find(|request| request["name"] == parts[0]);
    let found = request.is_some_and(|request| match parts.get(1) {
        None => true,
        Some(part) => list(&request["firstAvailable"]).iter().any(|choice| choice["name"] == *part),
    });
    if !found {
        errors.invalid(path, own, detail);
    }
}
