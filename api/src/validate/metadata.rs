//! Validation of object metadata.
//!
//! Follows `ValidateObjectMeta` and `ValidateObjectMetaUpdate`.

use crate::check::metadata::common;
use crate::check::{IMMUTABLE, grammar};
use crate::field::{ErrorList, Path};
use crate::meta::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use crate::name;
use crate::resource::Resource;
use serde_json::Value;
use std::collections::BTreeSet;

const METADATA: Path<'static> = Path::new("metadata");
/// Finalizers without a domain that Kubernetes defines.
pub(super) const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND];
/// Message for other finalizers without a domain.
pub(super) const NO_DOMAIN: &str = "name is neither a standard finalizer name nor is it fully qualified";

pub(super) fn create(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    let (own, prefix) = (meta::name(object), meta::generate_name(object));
    if !prefix.is_empty() {
        let faults = name::object_name_prefix(resource.name_rule, prefix);
        grammar(errors, &METADATA.child("generateName"), prefix, faults);
    }
    if own.is_empty() {
        errors.required(&METADATA.child("name"), "name or generateName is required");
    } else {
        grammar(errors, &METADATA.child("name"), own, name::object_name(resource.name_rule, own));
    }
    scope(resource, meta::namespace(object), errors);
    common(object, errors);
    domains(resource, object, errors);
}

fn scope(resource: &Resource, namespace: &str, errors: &mut ErrorList) {
    let path = METADATA.child("namespace");
    match (resource.namespaced, namespace) {
        (true, "") => errors.required(&path, ""),
        (true, namespace) => grammar(errors, &path, namespace, name::dns1123_label(namespace)),
        (false, "") => {}
        (false, _) => errors.forbidden(&path, "not allowed on this type"),
    }
}

pub(super) fn update(resource: &Resource, new: &Value, old: &Value, errors: &mut ErrorList) {
    if meta::is_being_deleted(old) {
        no_new_finalizers(new, old, errors);
    }
    for member in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        if member == "namespace" && !resource.namespaced {
            continue;
        }
        let (value, stored) = (&new["metadata"][member], &old["metadata"][member]);
        if value != stored {
            errors.invalid(&METADATA.child(member), value, IMMUTABLE);
        }
    }
    common(new, errors);
    domains(resource, new, errors);
}

fn no_new_finalizers(new: &Value, old: &Value, errors: &mut ErrorList) {
    let stored: BTreeSet<&str> = meta::finalizers(old).collect();
    let fresh = meta::finalizers(new).filter(|finalizer| !stored.contains(finalizer));
    let fresh: Vec<String> = fresh.map(|finalizer| format!("{finalizer:?}")).collect();
    if !fresh.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            fresh.join(", ")
        );
        errors.forbidden(&METADATA.child("finalizers"), detail);
    }
}

/// Warnings for new finalizers of a custom resource that have no domain.
pub(super) fn finalizer_warnings(object: &Value, old: Option<&Value>) -> impl Iterator<Item = String> {
    let known: BTreeSet<&str> = old.into_iter().flat_map(meta::finalizers).collect();
    let new: BTreeSet<&str> =
        meta::finalizers(object).filter(|finalizer| !known.contains(finalizer)).collect();
    let odd = new.into_iter().filter(|own| !own.contains('/') && !STANDARD_FINALIZERS.contains(own));
    odd.map(|finalizer| {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers"
        )
    })
}

/// Checks that finalizers have a domain, for the kinds that need one in Kubernetes.
fn domains(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    let path = METADATA.child("finalizers");
    for (i, finalizer) in meta::finalizers(object).enumerate().filter(|_| !resource.rules.plain_finalizers) {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            errors.invalid(&path.index(i), finalizer, NO_DOMAIN);
        }
    }
}
