//! Whether a definition may be stored. Paths are those of Kubernetes' internal type: what is equal in all versions is reported at the
//! top, so a definition of one version has `spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns` and
//! `spec.selectableFields`. Metadata but the name is checked by `crate::validate`, the texts of CEL rules by [`rules::check`].

mod bundle;
mod conversion;
mod defaults;
mod field_path;
mod internal;
mod list_types;
mod names;
mod openapi;
mod options;
mod plain;
mod print;
mod rule;
mod schema;
mod spec;
mod structural;
mod structural_nested;
mod version;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::approval::{self, Approval};
use super::rules;
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::object::{list, text};
use internal::Internal;
use options::Options;

pub(super) use bundle::is_certificate_bundle;
pub(super) use print::rule as print_rule;

/// Fields of one version that selectors may know; upstream's bound.
pub const SELECTABLE_FIELDS_MAX: usize = 8;

/// Everything wrong with a new definition but its metadata, after defaults and `strategy::prepare_create`.
#[must_use]
pub fn create(crd: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let name = meta::name(crd);
    let wanted = format!("{}.{}", text(&crd["spec"]["names"]["plural"]), text(&crd["spec"]["group"]));
    if name != wanted {
        let path = Path::new("metadata");
        errors.invalid(&path.child("name"), name, "must be spec.names.plural+\".\"+spec.group");
    }
    let (internal, options) = (Internal::of(crd), Options::for_create());
    spec::check(&mut errors, &internal, &options);
    errors.extend(rules_of(&internal, None, &errors));
    status(&mut errors, crd);
    stored_versions(&mut errors, crd);
    approval(&mut errors, crd, None);
    preserve_unknown_fields(&mut errors, crd, None);
    errors
}

/// Everything wrong with a definition, but its metadata, as the successor of a stored one.
#[must_use]
pub fn update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let options = Options::for_update(new, old);
    let internal = Internal::of(new);
    spec::check(&mut errors, &internal, &options);
    errors.extend(rules_of(&internal, Some(old), &errors));
    spec::change(&mut errors, new, old);
    status(&mut errors, new);
    stored_versions(&mut errors, new);
    approval(&mut errors, new, Some(old));
    preserve_unknown_fields(&mut errors, new, Some(old));
    errors
}

/// Everything wrong with a successor, but its metadata, written through `/status`.
#[must_use]
pub fn update_status(new: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    status(&mut errors, new);
    errors
}

/// What is wrong with the CEL rules of a definition; `old` is the stored one at an update. [`create`] and [`update`] include it. Rules
/// of a schema that has other errors are not compiled, since its types may be none.
#[must_use]
pub fn check_rules(new: &Value, old: Option<&Value>) -> ErrorList {
    let options = old.map_or_else(Options::for_create, |old| Options::for_update(new, old));
    let internal = Internal::of(new);
    let mut found = ErrorList::new();
    spec::check(&mut found, &internal, &options);
    rules_of(&internal, old, &found)
}

/// What is wrong with the rules of the schemas in which no error was `found`.
fn rules_of(internal: &Internal<'_>, old: Option<&Value>, found: &ErrorList) -> ErrorList {
    let mut errors = ErrorList::new();
    for schema in rule::of_definition(internal, old, found) {
        rules::check(&schema, &mut errors);
    }
    errors
}

/// Whether a schema is there, structural, and free of unknown types: only such schemas are published and served as they are.
pub(super) fn is_structural(schema: &Value) -> bool {
    plain::is_plain(schema, structural::Level::Root) || is_structural_by_all_rules(schema)
}

/// The same, by the rules that give reasons.
pub(super) fn is_structural_by_all_rules(schema: &Value) -> bool {
    schema.is_object()
        && !super::schema::any(schema, openapi::has_unknown_type)
        && !structural::is_not_structural(schema)
}

fn status(errors: &mut ErrorList, crd: &Value) {
    let path = Path::new("status.acceptedNames");
    names::grammar(errors, &path, &crd["status"]["acceptedNames"]);
}

fn stored_versions(errors: &mut ErrorList, crd: &Value) {
    let path = Path::new("status.storedVersions");
    let stored = &crd["status"]["storedVersions"];
    let names = list(stored);
    if names.is_empty() {
        return errors.invalid(&path, stored, "must have at least one stored version");
    }
    // A name that is there twice is reported at its last place.
    let mut lost: BTreeMap<&str, usize> = names.iter().enumerate().map(|(i, own)| (text(own), i)).collect();
    let known: BTreeSet<&str> = lost.keys().copied().collect();
    for version in list(&crd["spec"]["versions"]) {
        let own = text(&version["name"]);
        if version["storage"] == true && !known.contains(own) {
            errors.invalid(&path, stored, format!("must have the storage version {own}"));
        }
        lost.remove(own);
    }
    for (own, i) in lost {
        let detail = format!(
            "missing from spec.versions; {own} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {own} and removes {own} from status.storedVersions"
        );
        errors.invalid(&path.index(i), own, detail);
    }
}

/// An approval that did not change is not judged again.
fn approval(errors: &mut ErrorList, crd: &Value, old: Option<&Value>) {
    if !approval::is_protected(text(&crd["spec"]["group"])) {
        return;
    }
    let (own, detail) = approval::of(crd);
    if old.is_some_and(|old| approval::of(old).0 == own) {
        return;
    }
    let path = Path::new("metadata.annotations");
    let path = path.key(approval::ANNOTATION);
    match own {
        Approval::Missing => errors.required(&path, detail),
        Approval::Invalid => {
            let value = meta::annotation(crd, approval::ANNOTATION).unwrap_or_default();
            errors.invalid(&path, value, detail);
        }
        Approval::Bypassed | Approval::Approved => {}
    }
}

fn preserve_unknown_fields(errors: &mut ErrorList, crd: &Value, old: Option<&Value>) {
    let keeps = |crd: &Value| crd["spec"]["preserveUnknownFields"] == true;
    if keeps(crd) && !old.is_some_and(keeps) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&Path::new("spec.preserveUnknownFields"), &json!(true), detail);
    }
}
