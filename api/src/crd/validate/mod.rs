//! Validation of definitions. Paths are those of Kubernetes' internal type: members that are equal in all
//! versions are reported in the spec. A definition of one version thus has `spec.validation`,
//! `spec.subresources`, `spec.additionalPrinterColumns` and `spec.selectableFields`. `crate::validate` checks
//! metadata except the name, and [`rules::check`] checks CEL rules.

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

use super::approval::{self, Approval};
use super::rules;
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::object::{list, text};
pub(super) use bundle::is_certificate_bundle;
use internal::Internal;
use options::Options;
pub(super) use print::rule as print_rule;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Selectable fields of one version; the limit of Kubernetes.
pub const SELECTABLE_FIELDS_MAX: usize = 8;

/// Errors of a new definition, except metadata. Runs after defaults and `strategy::prepare_create`.
#[must_use]
pub fn create(crd: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let name = meta::name(crd);
    let wanted = format!("{}.{}", text(&crd["spec"]["names"]["plural"]), text(&crd["spec"]["group"]));
    // The metadata's rules refuse an object without a name.
    if name != wanted && !name.is_empty() {
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

/// Errors of an updated definition, except metadata.
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

/// Errors of an update through `/status`, except metadata.
#[must_use]
pub fn update_status(new: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    status(&mut errors, new);
    errors
}

/// Errors of a definition's CEL rules; `old` is the stored definition of an update. [`create`] and [`update`]
/// include them. Rules of schemas with other errors are not compiled, since their types may be invalid.
#[must_use]
pub fn check_rules(new: &Value, old: Option<&Value>) -> ErrorList {
    let options = old.map_or_else(Options::for_create, |old| Options::for_update(new, old));
    let internal = Internal::of(new);
    let mut found = ErrorList::new();
    spec::check(&mut found, &internal, &options);
    rules_of(&internal, old, &found)
}

/// Errors of the rules in schemas without errors in `found`.
fn rules_of(internal: &Internal<'_>, old: Option<&Value>, found: &ErrorList) -> ErrorList {
    let mut errors = ErrorList::new();
    for schema in rule::of_definition(internal, old, found) {
        rules::check(&schema, &mut errors);
    }
    errors
}

/// Whether a schema exists, is structural, and has only known types. Only such schemas are published and
/// served.
pub(crate) fn is_structural(schema: &Value) -> bool {
    plain::is_plain(schema, structural::Level::Root) || is_structural_by_all_rules(schema)
}

/// The full check behind [`is_structural`], without the fast path.
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
    // A duplicate name is reported at its last index.
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

/// Checks the approval annotation unless it is unchanged.
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
