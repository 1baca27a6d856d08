//! What must hold of leases, priority and runtime classes, signing requests.

use serde_json::Value;

use super::check::{grammar, none_negative, optional_one_of, quantity_not_negative, required_grammar};
use crate::field::{ErrorList, Path};
use crate::limits::USER_PRIORITY_MAX;
use crate::meta;
use crate::name;
use crate::object::{int, list, text};

const SPEC: Path<'static> = Path::new("spec");

pub(super) fn lease(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        let path = SPEC.child("leaseDurationSeconds");
        errors.invalid(&path, &spec["leaseDurationSeconds"], "must be greater than 0");
    }
    none_negative(errors, &SPEC, spec, &["leaseTransitions"]);
}

const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(object: &Value, errors: &mut ErrorList) {
    let (own, value) = (meta::name(object), int(&object["value"]));
    if own.starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(own, value)) {
            let detail =
                "priority class names with 'system-' prefix are reserved for system use only. error: ";
            let detail = format!("{detail}{own} is not a known system priority class");
            errors.forbidden(&Path::new("metadata.name"), detail);
        }
    } else if value > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.forbidden(&Path::new("value"), detail);
    }
    let policies = ["PreemptLowerPriority", "Never"];
    optional_one_of(errors, &Path::new("preemptionPolicy"), &object["preemptionPolicy"], &policies);
}

pub(super) fn priority_class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if new["value"] != old["value"] {
        errors.forbidden(&Path::new("value"), "may not be changed in an update.");
    }
    super::check::immutable(errors, "preemptionPolicy", new, old);
}

pub(super) fn runtime_class(object: &Value, errors: &mut ErrorList) {
    required_grammar(errors, &Path::new("handler"), &object["handler"], name::dns1123_label);
    let path = Path::new("overhead.podFixed");
    for (resource, amount) in object["overhead"]["podFixed"].as_object().into_iter().flatten() {
        quantity_not_negative(errors, &path.key(resource), amount);
    }
}

/// Ten minutes: shorter certificates are over before they are everywhere.
const CERTIFICATE_SECONDS_MIN: i64 = 600;

pub(super) fn certificate_request(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let pem = base64_text(&spec["request"]);
    if !pem.trim_start().starts_with("-----BEGIN CERTIFICATE REQUEST-----") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.invalid(&SPEC.child("request"), &spec["request"], detail);
    }
    if list(&spec["usages"]).is_empty() {
        errors.required(&SPEC.child("usages"), "usages must be specified");
    }
    let (path, signer) = (SPEC.child("signerName"), text(&spec["signerName"]));
    match signer.split_once('/') {
        _ if signer.is_empty() => errors.required(&path, ""),
        Some((domain, rest)) if !rest.is_empty() && !rest.contains('/') => {
            grammar(errors, &path, signer, name::dns1123_subdomain(domain));
        }
        _ => errors.invalid(
            &path,
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
    }
    if spec["expirationSeconds"].as_i64().is_some_and(|seconds| seconds < CERTIFICATE_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&SPEC.child("expirationSeconds"), &spec["expirationSeconds"], detail);
    }
}

fn base64_text(value: &Value) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text(value)).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}
