//! Validation of device classes, device taint rules, resource claims, claim templates and resource slices.
//!
//! Follows `ValidateDeviceClass` and `ValidateResourceClaimTemplate`.

mod capacity;
mod claim;
pub(crate) mod slice;
mod status;
pub(crate) mod taint_rule;

use super::reference::{driver, unique_texts};
use crate::check::metadata::{annotations, labels};
use crate::check::{each, grammar};
use crate::distinct::Distinct;
use crate::expression::device::Selector;
use crate::field::{ErrorList, Path};
use crate::limits::{
    DEVICE_CONFIGS_MAX, DEVICE_EXPRESSION_MAX, DEVICE_ID_MAX, DEVICE_PARAMETERS_MAX, DEVICE_SELECTORS_MAX,
    SUBDOMAIN_MAX,
};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;
pub(crate) use status::status;

const SPEC: Path<'static> = Path::new("spec");

/// Checks a new claim.
pub(crate) fn claim(object: &Value, errors: &mut ErrorList) {
    claim::spec(&SPEC, &object["spec"], errors);
}

/// Checks a new claim template.
pub(crate) fn claim_template(object: &Value, errors: &mut ErrorList) {
    let (spec, metadata) = (&object["spec"], SPEC.child("metadata"));
    labels(errors, &metadata.child("labels"), &spec["metadata"]["labels"]);
    annotations(errors, &metadata.child("annotations"), &spec["metadata"]["annotations"]);
    claim::spec(&SPEC.child("spec"), &spec["spec"], errors);
}

/// Checks a device class.
pub(crate) fn class(spec: &Value, errors: &mut ErrorList) {
    selectors(errors, &SPEC, spec);
    let configs = list(&spec["config"]);
    if at_most(errors, &SPEC.child("config"), configs.len(), DEVICE_CONFIGS_MAX) {
        each(&SPEC, spec, "config", |path, config| configuration(errors, path, config));
    }
    if let Some(own) = spec["extendedResourceName"].as_str()
        && !is_extended_resource(own)
    {
        let path = SPEC.child("extendedResourceName");
        errors.invalid(&path, own, "must be a valid extended resource name");
    }
}

/// Whether a text is an extended resource name, also with the quota prefix `requests.`.
fn is_extended_resource(own: &str) -> bool {
    let native = !own.contains('/') || own.contains("kubernetes.io/");
    !native && !own.starts_with("requests.") && name::qualified_name(&format!("requests.{own}")).is_empty()
}

/// Reports a list that is too long, and says whether to check its items.
fn at_most(errors: &mut ErrorList, path: &Path<'_>, count: usize, max: usize) -> bool {
    if count > max {
        errors.too_many(path, count, max);
    }
    count <= max
}

fn selectors(errors: &mut ErrorList, path: &Path<'_>, owner: &Value) {
    let selectors = list(&owner["selectors"]);
    if !at_most(errors, &path.child("selectors"), selectors.len(), DEVICE_SELECTORS_MAX) {
        return;
    }
    each(path, owner, "selectors", |path, selector| {
        let path = path.child("cel");
        if selector["cel"].is_null() {
            errors.required(&path, "");
        } else {
            expression(errors, &path.child("expression"), text(&selector["cel"]["expression"]));
        }
    });
}

/// Checks that an expression compiles and is cheap to evaluate.
fn expression(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own.len() > DEVICE_EXPRESSION_MAX {
        return errors.too_long(path, DEVICE_EXPRESSION_MAX);
    }
    match Selector::compile(own) {
        Ok(selector) if selector.is_too_complex() => {
            errors.forbidden(path, "too complex, exceeds cost limit");
        }
        Ok(_) => {}
        Err(error) => errors.invalid(path, own, error),
    }
}

fn configuration(errors: &mut ErrorList, path: &Path<'_>, config: &Value) {
    let (path, opaque) = (path.child("opaque"), &config["opaque"]);
    if opaque.is_null() {
        return errors.required(&path, "");
    }
    driver(errors, &path.child("driver"), &opaque["driver"]);
    let (at, parameters) = (path.child("parameters"), &opaque["parameters"]);
    if parameters.is_null() {
        errors.required(&at, "");
    } else if parameters.to_string().len() > DEVICE_PARAMETERS_MAX {
        errors.too_long(&at, DEVICE_PARAMETERS_MAX);
    } else if !parameters.is_object() {
        errors.invalid(&at, "<value omitted>", "must be a valid JSON object");
    }
}

/// Reports duplicate names of items.
fn unique_names(errors: &mut ErrorList, path: &Path<'_>, items: &[Value], member: &str) {
    let mut seen = Distinct::default();
    for (i, item) in items.iter().enumerate() {
        if !seen.insert(&item[member]) {
            errors.duplicate(&path.index(i), text(&item[member]));
        }
    }
}

/// Checks a pool name: DNS subdomains between slashes.
fn pool_name(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let own = text(value);
    if own.is_empty() {
        return errors.required(path, "");
    }
    if own.len() > SUBDOMAIN_MAX {
        errors.too_long(path, SUBDOMAIN_MAX);
    }
    for part in own.split('/') {
        grammar(errors, path, part, name::dns1123_subdomain(part));
    }
}

const ID_TEXT: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

fn identifier(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own.len() > DEVICE_ID_MAX {
        errors.too_long(path, DEVICE_ID_MAX);
    }
    let word = own.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if own.is_empty() || !word || own.starts_with(|c: char| c.is_ascii_digit()) {
        errors.invalid(path, own, ID_TEXT);
    }
}

/// Checks the name of an attribute or capacity: an identifier, with an optional driver domain.
fn qualified(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    let Some((domain, id)) = own.split_once('/') else { return identifier(errors, path, own) };
    if id.contains('/') {
        return;
    }
    match domain {
        "" => errors.invalid(path, "", "the domain must not be empty"),
        domain => driver(errors, path, &domain.into()),
    }
    match id {
        "" => errors.invalid(path, "", "the name must not be empty"),
        id => identifier(errors, path, id),
    }
}

/// Checks the conditions that must be true before a device is bound, and those that make binding fail.
fn binding_conditions(errors: &mut ErrorList, path: &Path<'_>, owner: &Value) {
    let members = ["bindingConditions", "bindingFailureConditions"];
    let [wanted, fatal] = members.map(|member| list(&owner[member]));
    for (member, conditions) in members.into_iter().zip([wanted, fatal]) {
        if at_most(
            errors,
            &path.child(member),
            conditions.len(),
            crate::limits::DEVICE_BINDING_CONDITIONS_MAX,
        ) {
            each(path, owner, member, |path, own| super::reference::label_key(errors, path, own));
        }
    }
    let [at, fatal_at] = members.map(|member| path.child(member));
    unique_texts(errors, &at, wanted);
    unique_texts(errors, &fatal_at, fatal);
    let both = Distinct::of(wanted);
    for (i, condition) in fatal.iter().enumerate().filter(|(_, condition)| both.contains(condition)) {
        let detail = "bindingFailureConditions must not overlap with bindingConditions";
        errors.invalid(&fatal_at.index(i), condition, detail);
    }
    if wanted.is_empty() && !fatal.is_empty() {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        errors.invalid(&at, &owner["bindingConditions"], detail);
    }
    if fatal.is_empty() && !wanted.is_empty() {
        let detail = "bindingFailureConditions are required to use bindingConditions";
        errors.invalid(&fatal_at, &owner["bindingFailureConditions"], detail);
    }
}

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
