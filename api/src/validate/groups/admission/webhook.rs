//! Validation of webhook configurations: rules, and the client configuration of each webhook.
//!
//! Follows `ValidateValidatingWebhookConfiguration` and `ValidateMutatingWebhookConfiguration`.

use super::match_conditions;
use super::rule::rule;
use crate::check::{each, fully_qualified, grammar};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use crate::validate::selector::label_selector;
use serde_json::Value;
use std::collections::BTreeSet;

const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];
const EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Rules to enforce. A rule is skipped if the stored configuration breaks it already.
struct EnforcedRules {
    harmless: bool,
    known_version: bool,
    unique: bool,
    /// The match conditions are unchanged, so they are not checked again.
    same_conditions: bool,
}

impl EnforcedRules {
    fn of(new: &Value, old: Option<&Value>) -> Self {
        let hooks = old.map_or(&[][..], |old| list(&old["webhooks"]));
        let conditions = |object: &Value| -> Vec<Value> {
            list(&object["webhooks"]).iter().map(|hook| hook["matchConditions"].clone()).collect()
        };
        let versions = |hook: &Value| list(&hook["admissionReviewVersions"]).to_vec();
        let known = |version: &Value| VERSIONS.contains(&text(version));
        let mut seen = Distinct::default();
        EnforcedRules {
            harmless: hooks.iter().all(|hook| HARMLESS.contains(&text(&hook["sideEffects"]))),
            known_version: hooks.iter().map(versions).all(|all| all.is_empty() || all.iter().any(known)),
            same_conditions: old.is_some_and(|old| conditions(old) == conditions(new)),
            unique: hooks.iter().all(|hook| seen.insert(&hook["name"])),
        }
    }
}

/// Checks a ValidatingWebhookConfiguration.
pub(crate) fn validating(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    configuration(object, old, errors, false);
}

/// Checks a MutatingWebhookConfiguration.
pub(crate) fn mutating(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    configuration(object, old, errors, true);
}

fn configuration(object: &Value, old: Option<&Value>, errors: &mut ErrorList, mutating: bool) {
    let demands = EnforcedRules::of(object, old);
    let mut seen = BTreeSet::new();
    each(&Path::ROOT, object, "webhooks", |path, hook| {
        webhook(errors, path, hook, &demands, mutating);
        versions(errors, &path.child("admissionReviewVersions"), hook, &demands);
        let own = text(&hook["name"]);
        if !own.is_empty() && !seen.insert(own.to_owned()) && demands.unique {
            errors.duplicate(&path.child("name"), own);
        }
    });
}

fn webhook(errors: &mut ErrorList, path: &Path<'_>, hook: &Value, demands: &EnforcedRules, mutating: bool) {
    fully_qualified(errors, &path.child("name"), text(&hook["name"]));
    each(path, hook, "rules", |path, value| rule(errors, path, value));
    let mut choices = vec![("failurePolicy", ["Fail", "Ignore"]), ("matchPolicy", ["Equivalent", "Exact"])];
    side_effects(errors, &path.child("sideEffects"), hook, demands);
    let seconds = &hook["timeoutSeconds"];
    if seconds.as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), seconds, detail);
    }
    for member in ["namespaceSelector", "objectSelector"] {
        label_selector(errors, &path.child(member), &hook[member]);
    }
    if mutating {
        choices.push(("reinvocationPolicy", ["IfNeeded", "Never"]));
    }
    for (member, known) in choices {
        if let Some(own) = hook[member].as_str().filter(|own| !known.contains(own)) {
            errors.not_supported(&path.child(member), own, &known);
        }
    }
    client(errors, &path.child("clientConfig"), &hook["clientConfig"]);
    if !demands.same_conditions {
        match_conditions(errors, path, hook, false);
    }
}

fn side_effects(errors: &mut ErrorList, path: &Path<'_>, hook: &Value, demands: &EnforcedRules) {
    let allowed: &[&str] = if demands.harmless { &HARMLESS } else { &EFFECTS };
    match hook["sideEffects"].as_str() {
        None => errors.required(path, format!("must specify one of {}", allowed.join(", "))),
        Some(own) if !allowed.contains(&own) => errors.not_supported(path, own, allowed),
        Some(_) => {}
    }
}

fn versions(errors: &mut ErrorList, path: &Path<'_>, hook: &Value, demands: &EnforcedRules) {
    let versions = list(&hook["admissionReviewVersions"]);
    if versions.is_empty() {
        return errors.required(path, format!("must specify one of {}", VERSIONS.join(", ")));
    }
    let mut seen = BTreeSet::new();
    for (i, own) in versions.iter().map(text).enumerate() {
        if !seen.insert(own) {
            errors.invalid(&path.index(i), own, "duplicate version");
        } else {
            grammar(errors, &path.index(i), own, name::dns1035_label(own));
        }
    }
    if demands.known_version && !versions.iter().any(|version| VERSIONS.contains(&text(version))) {
        errors.invalid(path, versions, format!("must include at least one of {}", VERSIONS.join(", ")));
    }
}

/// Checks a client configuration: exactly one of URL and service.
pub(crate) fn client(errors: &mut ErrorList, path: &Path<'_>, client: &Value) {
    match (client["url"].is_null(), client["service"].is_null()) {
        (true, true) | (false, false) => errors.required(path, "exactly one of url or service is required"),
        (false, true) => address(errors, &path.child("url"), text(&client["url"])),
        (true, false) => service(errors, &path.child("service"), &client["service"]),
    }
}

const FORM: &str = "; desired format: https://host[/path]";

fn address(errors: &mut ErrorList, path: &Path<'_>, url: &str) {
    if url.starts_with(':') {
        let why = format!("url must be a valid URL: parse {url:?}: missing protocol scheme{FORM}");
        return errors.required(path, why);
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    if scheme != "https" {
        errors.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        errors.invalid(path, host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn service(errors: &mut ErrorList, path: &Path<'_>, service: &Value) {
    // Kubernetes swaps the two names in these messages, and clients rely on the messages.
    for (missing, said) in [("namespace", "name"), ("name", "namespace")] {
        if text(&service[missing]).is_empty() {
            errors.required(&path.child(said), "");
        }
    }
    let port = int(&service["port"]);
    let faults = name::port_number(port);
    if !faults.is_empty() {
        errors.invalid(&path.child("port"), &port, format!("port is not valid: {}", faults.join(", ")));
    }
    service_path(errors, &path.child("path"), text(&service["path"]));
}

fn service_path(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    match own {
        "" | "/" => return,
        "//" => return errors.invalid(path, own, "segment[0] may not be empty"),
        _ => {}
    }
    if !own.starts_with('/') {
        errors.invalid(path, own, "must start with a '/'");
    }
    let inner = own.char_indices().nth(1).map_or("", |(at, _)| &own[at..]);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (i, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path, own, format!("segment[{i}] may not be empty"));
            continue;
        }
        for fault in name::dns1123_subdomain(step) {
            errors.invalid(path, own, format!("segment[{i}]: {fault}"));
        }
    }
}
