//! Validation of a definition's spec: group, scope, versions, names, and the order of all checks.

use super::internal::{Internal, has_status};
use super::options::Options;
use super::{conversion, names, print, schema, version};
use crate::crd::schema::any;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::text;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");
const IMMUTABLE: &str = "field is immutable";

/// Checks a spec.
pub(super) fn check(errors: &mut ErrorList, internal: &Internal<'_>, options: &Options) {
    let spec = internal.spec;
    let keeps_unknown = spec["preserveUnknownFields"] == true;
    group(errors, text(&spec["group"]));
    one_of(errors, &SPEC.child("scope"), text(&spec["scope"]), &["Cluster", "Namespaced"]);
    schemas_are_there(errors, internal, options, keeps_unknown);
    let has_defaults = internal.schemas().any(|own| any(own, |node| !node["default"].is_null()));
    if has_defaults && keeps_unknown {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&SPEC.child("preserveUnknownFields"), &json!(true), detail);
    }
    let mut options = options.clone();
    options.structural |=
        !keeps_unknown || has_defaults || internal.schemas().any(|own| any(own, has_extension));

    versions(errors, internal, &options);
    names::required(errors, &SPEC.child("names"), &spec["names"]);
    names::grammar(errors, &SPEC.child("names"), &spec["names"]);
    if let Some(validation) = internal.validation {
        let path = SPEC.child("validation");
        schema::check(errors, &path, validation, internal.any_status(), &options);
    }
    version::subresources(errors, &SPEC.child("subresources"), internal.subresources);
    version::columns(errors, &SPEC, internal.columns);
    version::selectable_of_all(errors, &SPEC, internal, &options);
    conversion::check(errors, &SPEC.child("conversion"), spec, &options);
}

/// Checks that immutable fields do not change.
pub(super) fn change(errors: &mut ErrorList, new: &Value, old: &Value) {
    let established = crate::crd::condition::is_true(old, crate::crd::condition::ESTABLISHED);
    let fields = [
        (established, "spec.scope", "/spec/scope"),
        (established, "spec.names.kind", "/spec/names/kind"),
        (true, "spec.group", "/spec/group"),
        (true, "spec.names.plural", "/spec/names/plural"),
    ];
    for (_, path, pointer) in fields.into_iter().filter(|(holds, _, _)| *holds) {
        let own = |crd: &Value| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if own(new) != own(old) {
            errors.invalid(&Path::new(path), &own(new), IMMUTABLE);
        }
    }
}

fn group(errors: &mut ErrorList, group: &str) {
    let path = SPEC.child("group");
    let faults = name::dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(&path, "");
    } else if !faults.is_empty() {
        errors.invalid(&path, group, faults.join(","));
    } else if !group.contains('.') {
        errors.invalid(&path, group, "should be a domain with at least one dot");
    }
}

/// Checks that a text is one of the supported values.
pub(super) fn one_of(errors: &mut ErrorList, path: &Path<'_>, own: &str, supported: &[&str]) {
    match own {
        "" => errors.required(path, ""),
        own if !supported.contains(&own) => errors.not_supported(path, own, supported),
        _ => {}
    }
}

fn schemas_are_there(
    errors: &mut ErrorList,
    internal: &Internal<'_>,
    options: &Options,
    keeps_unknown: bool,
) {
    let is_there = |schema: Option<&Value>| schema.is_some_and(|own| !own["openAPIV3Schema"].is_null());
    if is_there(internal.validation) {
        return;
    }
    let versions = SPEC.child("versions");
    for (i, version) in internal.versions.iter().enumerate().filter(|(_, own)| !is_there(own.schema)) {
        let path = versions.index(i);
        let path = path.child("schema");
        if options.schemas {
            errors.required(&path.child("openAPIV3Schema"), "");
        } else if !keeps_unknown && version.value["served"] == true {
            errors.required(&path.child("openAPIV3Schema"), "because otherwise all fields are pruned");
        }
    }
}

/// Whether a schema node has a keyword that only structural schemas may have.
fn has_extension(node: &Value) -> bool {
    const PRESENT: [&str; 2] = ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type"];
    const SET: [&str; 2] = ["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"];
    const FILLED: [&str; 2] = ["x-kubernetes-list-map-keys", "x-kubernetes-validations"];
    PRESENT.iter().any(|member| !node[*member].is_null())
        || SET.iter().any(|member| node[*member] == true)
        || FILLED.iter().any(|member| !crate::object::list(&node[*member]).is_empty())
}

fn versions(errors: &mut ErrorList, internal: &Internal<'_>, options: &Options) {
    let all = SPEC.child("versions");
    let mut seen = BTreeSet::new();
    let (mut unique, mut stored) = (true, 0);
    for (i, version) in internal.versions.iter().enumerate() {
        let path = all.index(i);
        let own = text(&version.value["name"]);
        stored += usize::from(version.value["storage"] == true);
        unique &= seen.insert(own);
        let faults = name::dns1035_label(own);
        if !faults.is_empty() {
            errors.invalid(&path.child("name"), own, faults.join(","));
        }
        let status = has_status(internal.subresources_of(&version.value["name"]));
        version::check(errors, &path, version, status, options);
    }
    if !unique {
        errors.invalid_raw(&all, print::versions(internal), "must contain unique version names");
    }
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.invalid_raw(&all, print::versions(internal), detail);
    }
    // The internal form repeats the name of the first version.
    let first = internal.versions.first().map_or("", |version| text(&version.value["name"]));
    let faults = name::dns1035_label(first);
    if !first.is_empty() && !faults.is_empty() {
        errors.invalid(&SPEC.child("version"), first, faults.join(","));
    }
}
