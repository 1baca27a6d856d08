//! Validation of validating and mutating admission policies and their bindings.
//!
//! Follows `ValidateValidatingAdmissionPolicy` and `ValidateMutatingAdmissionPolicy`.

use super::expression::{compile, refuse};
use super::rule::{match_resources, only_mutable};
use super::{is_blank, match_conditions};
use crate::admission_expression::{Environment, ResultType, Uses};
use crate::check::{each, given_one_of, grammar, one_of, one_of_listed, required_grammar};
use crate::field::{ErrorList, Path};
use crate::group_version::split_api_version;
use crate::limits::{AUDIT_ANNOTATIONS_MAX, AUDIT_EXPRESSION_MAX, POLICY_VARIABLES_MAX};
use crate::object::{list, text};
use crate::structural::rules::names;
use crate::validate::groups::reference::unique_texts;
use crate::validate::selector::label_selector;
use crate::{meta, name};
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn validating(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let environment = common(errors, spec, old, Uses::of_validating_policy(has_params(spec)));
    if list(&spec["validations"]).is_empty() && list(&spec["auditAnnotations"]).is_empty() {
        for member in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.required(&SPEC.child(member), detail);
        }
        return;
    }
    let messages = LazyCell::new(|| message_environment(spec));
    each(&SPEC, spec, "validations", |path, value| validation(errors, path, value, &environment, &messages));
    audit_annotations(errors, object, &environment);
}

fn has_params(spec: &Value) -> bool {
    !spec["paramKind"].is_null()
}

/// CEL environment of message expressions, which have no authorizer. Faults of the variables are reported
/// elsewhere.
fn message_environment(spec: &Value) -> Environment {
    let mut environment =
        Environment::new(Uses { authorizer: false, ..Uses::of_validating_policy(has_params(spec)) });
    for variable in list(&spec["variables"]).iter().take(POLICY_VARIABLES_MAX) {
        let _ = environment.declare(text(&variable["name"]), text(&variable["expression"])).is_ok();
    }
    environment
}

/// Checks the fields that both kinds of policy share. Returns the environment of their expressions.
fn common(errors: &mut ErrorList, spec: &Value, old: Option<&Value>, uses: Uses) -> Environment {
    given_one_of(errors, &SPEC.child("failurePolicy"), &spec["failurePolicy"], &["Fail", "Ignore"]);
    if !spec["paramKind"].is_null() {
        param_kind(errors, &SPEC.child("paramKind"), &spec["paramKind"]);
    }
    let (path, constraints) = (SPEC.child("matchConstraints"), &spec["matchConstraints"]);
    if constraints.is_null() {
        errors.required(&path, "");
    } else {
        match_resources(errors, &path, constraints);
        if list(&constraints["resourceRules"]).is_empty() {
            errors.required(&path.child("resourceRules"), "");
        }
        if uses.patch_types {
            only_mutable(errors, &path, constraints);
        }
    }
    if old.is_none_or(|old| old["spec"]["matchConditions"] != spec["matchConditions"]) {
        match_conditions(errors, &SPEC, spec, uses.params);
    }
    let mut environment = Environment::new(uses);
    let variables = list(&spec["variables"]).len();
    if variables > POLICY_VARIABLES_MAX {
        errors.too_many(&SPEC.child("variables"), variables, POLICY_VARIABLES_MAX);
    } else {
        each(&SPEC, spec, "variables", |path, value| variable(errors, path, value, &mut environment));
    }
    environment
}

fn param_kind(errors: &mut ErrorList, path: &Path<'_>, kind: &Value) {
    let (at, own) = (path.child("apiVersion"), text(&kind["apiVersion"]));
    let (group, version) = split_api_version(own);
    if own.is_empty() {
        errors.required(&at, "");
    } else if own.matches('/').count() > 1 {
        errors.invalid(&at, own, format!("unexpected GroupVersion string: {own}"));
    } else {
        joined(
            errors,
            &at,
            group,
            if group.is_empty() { Vec::new() } else { name::dns1123_subdomain(group) },
        );
        match version {
            "" => errors.invalid(&at, own, "version must be specified"),
            version => joined(errors, &at, version, name::dns1035_label(version)),
        }
    }
    let (at, own) = (path.child("kind"), text(&kind["kind"]));
    let faults = name::dns1035_label(&own.to_lowercase());
    if own.is_empty() {
        errors.required(&at, "");
    } else if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.invalid(&at, own, detail);
    }
}

/// Reports all faults of a value as one error.
fn joined(errors: &mut ErrorList, path: &Path<'_>, value: &str, faults: name::Faults) {
    if !faults.is_empty() {
        errors.invalid(path, value, faults.join(","));
    }
}

fn variable(errors: &mut ErrorList, path: &Path<'_>, variable: &Value, environment: &mut Environment) {
    let own = text(&variable["name"]);
    let word = own.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_blank(&variable["name"]) {
        errors.required(&path.child("name"), "name is not specified");
    } else if !word || own.starts_with(|c: char| c.is_ascii_digit()) || names::is_reserved(own) {
        errors.invalid(&path.child("name"), own, "must be a valid CEL identifier");
    }
    let (at, expression) = (path.child("expression"), text(&variable["expression"]));
    if is_blank(&variable["expression"]) {
        errors.required(&at, "expression is not specified");
    } else if !errors.is_full()
        && let Err(failure) = environment.declare(own, expression)
    {
        refuse(errors, &at, expression, &failure);
    }
}

fn validation(
    errors: &mut ErrorList,
    path: &Path<'_>,
    validation: &Value,
    environment: &Environment,
    messages: &Environment,
) {
    let at = path.child("expression");
    if is_blank(&validation["expression"]) {
        errors.required(&at, "expression is not specified");
    } else {
        compile(errors, &at, environment, text(&validation["expression"]), ResultType::Bool);
    }
    if !is_blank(&validation["messageExpression"]) {
        let expression = text(&validation["messageExpression"]);
        compile(errors, &path.child("messageExpression"), messages, expression, ResultType::String);
    }
    for member in ["messageExpression", "message"] {
        let own = text(&validation[member]);
        if !own.is_empty() && is_blank(&validation[member]) {
            errors.invalid(&path.child(member), own, "must be non-empty if specified");
        } else if member == "message" && own.trim().contains(['\n', '\r']) {
            errors.invalid(&path.child(member), own, "must not contain line breaks");
        }
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    if let Some(reason) = validation["reason"].as_str().filter(|reason| !reasons.contains(reason)) {
        errors.not_supported(&path.child("reason"), reason, &reasons);
    }
}

fn audit_annotations(errors: &mut ErrorList, object: &Value, environment: &Environment) {
    let (path, annotations) = (SPEC.child("auditAnnotations"), list(&object["spec"]["auditAnnotations"]));
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.invalid(&path, annotations, detail);
    }
    let mut seen = BTreeSet::new();
    for (i, annotation) in annotations.iter().enumerate() {
        let (path, key) = (path.index(i), text(&annotation["key"]));
        let whole = format!("{}/{key}", meta::name(object));
        grammar(errors, &path.child("key"), &whole, name::qualified_name(&whole));
        let at = path.child("valueExpression");
        if is_blank(&annotation["valueExpression"]) {
            errors.required(&at, "valueExpression is not specified");
        } else if text(&annotation["valueExpression"]).trim().len() > AUDIT_EXPRESSION_MAX {
            errors.required(&at, format!("must not exceed {AUDIT_EXPRESSION_MAX} bytes in length"));
        } else {
            let expression = text(&annotation["valueExpression"]).trim();
            compile(errors, &at, environment, expression, ResultType::StringOrNull);
        }
        if !seen.insert(key) {
            errors.duplicate(&path.child("key"), key);
        }
    }
}

pub(crate) fn mutating(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let environment = common(errors, spec, old, Uses::of_mutating_policy(has_params(spec)));
    if list(&spec["mutations"]).is_empty() {
        errors.required(&SPEC.child("mutations"), "mutations must contain at least one item");
    }
    each(&SPEC, spec, "mutations", |path, value| mutation(errors, path, value, &environment));
    let policies = ["IfNeeded", "Never"];
    one_of(errors, &SPEC.child("reinvocationPolicy"), &spec["reinvocationPolicy"], &policies);
}

/// Patch types, the member that holds each, and the result type of its expression.
const PATCHES: [(&str, &str, ResultType); 2] = [
    ("ApplyConfiguration", "applyConfiguration", ResultType::Object),
    ("JSONPatch", "jsonPatch", ResultType::Patches),
];

fn mutation(errors: &mut ErrorList, path: &Path<'_>, mutation: &Value, environment: &Environment) {
    let kind = text(&mutation["patchType"]);
    if kind.is_empty() {
        return errors.required(&path.child("patchType"), "");
    }
    if !PATCHES.iter().any(|(known, ..)| *known == kind) {
        return errors.not_supported(&path.child("patchType"), kind, &PATCHES.map(|(kind, ..)| kind));
    }
    for (own, member, result) in PATCHES {
        let (at, patch) = (path.child(member), &mutation[member]);
        if own == kind && patch.is_null() {
            errors.required(&at, format!("must be specified when patchType is {kind}"));
        } else if own == kind && is_blank(&patch["expression"]) {
            errors.required(&at.child("expression"), "");
        } else if own == kind {
            compile(errors, &at.child("expression"), environment, text(&patch["expression"]), result);
        } else if !patch.is_null() {
            let detail = format!("must not be specified when patchType is {kind}");
            errors.invalid(&at, &format!("{{{member}}}"), detail);
        }
    }
}

pub(crate) fn validating_binding(object: &Value, errors: &mut ErrorList) {
    binding(object, errors);
    actions(errors, list(&object["spec"]["validationActions"]));
}

pub(crate) fn mutating_binding(object: &Value, errors: &mut ErrorList) {
    binding(object, errors);
    only_mutable(errors, &SPEC.child("matchResources"), &object["spec"]["matchResources"]);
}

/// Checks what bindings of both kinds have.
fn binding(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    required_grammar(errors, &SPEC.child("policyName"), &spec["policyName"], name::dns1123_subdomain);
    if !spec["paramRef"].is_null() {
        param_ref(errors, &SPEC.child("paramRef"), &spec["paramRef"]);
    }
    let (path, matching) = (SPEC.child("matchResources"), &spec["matchResources"]);
    if !matching.is_null() {
        match_resources(errors, &path, matching);
    }
}

fn param_ref(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let (own, selector) = (text(&reference["name"]), &reference["selector"]);
    let exclusive = "name and selector are mutually exclusive";
    grammar(errors, &path.child("name"), own, name::path_segment(own));
    label_selector(errors, &path.child("selector"), selector);
    match (own.is_empty(), selector.is_null()) {
        (false, false) => {
            errors.forbidden(&path.child("name"), exclusive);
            errors.forbidden(&path.child("selector"), exclusive);
        }
        (true, true) => errors.required(path, "one of name or selector must be specified"),
        (true, false) | (false, true) => {}
    }
    let action = &reference["parameterNotFoundAction"];
    one_of_listed(errors, &path.child("parameterNotFoundAction"), action, &["Deny", "Allow"]);
}

fn actions(errors: &mut ErrorList, actions: &[Value]) {
    let (path, known) = (SPEC.child("validationActions"), ["Audit", "Deny", "Warn"]);
    for (i, action) in actions.iter().map(text).enumerate().filter(|(_, action)| !known.contains(action)) {
        errors.not_supported(&path.index(i), action, &known);
    }
    unique_texts(errors, &path, actions);
    if ["Deny", "Warn"].iter().all(|action| actions.iter().any(|own| own == action)) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(&path, actions, detail);
    }
    if actions.is_empty() {
        errors.required(&path, "at least one validation action is required");
    }
}
