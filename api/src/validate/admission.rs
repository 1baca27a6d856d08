//! What must hold of webhook configurations and admission policies. Expressions are compiled elsewhere.

use serde_json::Value;

use super::check::{each, grammar, optional_one_of, required};
use super::selector::label_selector;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};

pub(super) fn content(kind: &str, object: &Value, errors: &mut ErrorList) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            each(&Path::ROOT, object, "webhooks", |path, hook| webhook(errors, path, hook));
            let hooks = list(&object["webhooks"]);
            super::check::unique(errors, &Path::new("webhooks"), hooks, "name");
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let spec = Path::new("spec");
            required(errors, &spec.child("policyName"), &object["spec"]["policyName"]);
            if kind.starts_with("Validating") && list(&object["spec"]["validationActions"]).is_empty() {
                errors
                    .required(&spec.child("validationActions"), "at least one validation action is required");
            }
        }
        "ValidatingAdmissionPolicy" => {
            let spec = &object["spec"];
            if list(&spec["validations"]).is_empty() && list(&spec["auditAnnotations"]).is_empty() {
                let detail = "validations or auditAnnotations must be non-empty";
                errors.required(&Path::new("spec.validations"), detail);
            }
            if spec["matchConstraints"].is_null() {
                errors.required(&Path::new("spec.matchConstraints"), "");
            }
        }
        _ => {}
    }
}

fn webhook(errors: &mut ErrorList, path: &Path<'_>, hook: &Value) {
    qualified(errors, &path.child("name"), text(&hook["name"]));
    label_selector(errors, &path.child("namespaceSelector"), &hook["namespaceSelector"]);
    label_selector(errors, &path.child("objectSelector"), &hook["objectSelector"]);
    let effects = path.child("sideEffects");
    match text(&hook["sideEffects"]) {
        "" => errors.required(&effects, "must specify one of None, NoneOnDryRun"),
        "None" | "NoneOnDryRun" => {}
        other => errors.not_supported(&effects, other, &["None", "NoneOnDryRun"]),
    }
    let seconds = &hook["timeoutSeconds"];
    if seconds.as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), seconds, detail);
    }
    optional_one_of(errors, &path.child("failurePolicy"), &hook["failurePolicy"], &["Fail", "Ignore"]);
    optional_one_of(errors, &path.child("matchPolicy"), &hook["matchPolicy"], &["Equivalent", "Exact"]);
    let (versions_path, versions) =
        (path.child("admissionReviewVersions"), list(&hook["admissionReviewVersions"]));
    if versions.is_empty() {
        errors.required(&versions_path, "must specify one of v1, v1beta1");
    } else if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.invalid(&versions_path, versions, "must include at least one of v1, v1beta1");
    }
    client(errors, &path.child("clientConfig"), &hook["clientConfig"]);
    each(path, hook, "rules", |path, rule| {
        for member in ["operations", "apiGroups", "apiVersions", "resources"] {
            if list(&rule[member]).is_empty() {
                errors.required(&path.child(member), "");
            }
        }
    });
}

fn qualified(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own.is_empty() {
        errors.required(path, "");
        return;
    }
    let faults = name::dns1123_subdomain(own);
    if faults.is_empty() && own.split('.').count() < 3 {
        errors.invalid(path, own, "should be a domain with at least three segments separated by dots");
    }
    grammar(errors, path, own, faults);
}

fn client(errors: &mut ErrorList, path: &Path<'_>, client: &Value) {
    match (client["url"].is_null(), client["service"].is_null()) {
        (true, true) | (false, false) => errors.required(path, "exactly one of url or service is required"),
        (false, true) => {
            let url = text(&client["url"]);
            if !url.starts_with("https://") {
                let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                errors.invalid(&path.child("url"), url, detail);
            }
        }
        (true, false) => {
            let path = path.child("service");
            let required_text = |errors: &mut ErrorList, member: &str, what: &str| {
                if text(&client["service"][member]).is_empty() {
                    errors.required(&path.child(member), format!("service {what} is required"));
                }
            };
            required_text(errors, "name", "name");
            required_text(errors, "namespace", "namespace");
        }
    }
}
