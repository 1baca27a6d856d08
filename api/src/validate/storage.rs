//! What must hold of volumes and claims.

use serde_json::Value;

use super::check::{immutable, optional_one_of, quantity};
use super::selector::label_selector;
use crate::field::{ErrorList, Path};
use crate::object::{list, semantically_equal, text};
use crate::quantity::Quantity;

const SPEC: Path<'static> = Path::new("spec");
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(errors: &mut ErrorList, spec: &Value, missing: &str) {
    let (path, modes) = (SPEC.child("accessModes"), list(&spec["accessModes"]));
    if modes.is_empty() {
        errors.required(&path, missing);
    }
    for mode in modes.iter().filter(|mode| !MODES.contains(&text(mode))) {
        errors.not_supported(&path, text(mode), &MODES);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(&path, detail);
    }
    optional_one_of(errors, &SPEC.child("volumeMode"), &spec["volumeMode"], &["Block", "Filesystem"]);
}

fn positive(errors: &mut ErrorList, path: &Path<'_>, amount: &Value) {
    if quantity(amount).is_some_and(|amount| amount <= Quantity::ZERO) {
        errors.invalid(path, amount, "must be greater than zero");
    }
}

pub(super) fn claim(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    label_selector(errors, &SPEC.child("selector"), &spec["selector"]);
    access_modes(errors, spec, "at least 1 access mode is required");
    let storage = &spec["resources"]["requests"]["storage"];
    let path = SPEC.child("resources");
    if storage.is_null() {
        errors.required(&path.key("storage"), "");
    } else {
        positive(errors, &path.child("requests").key("storage"), storage);
    }
}

/// What a claim asks for is settled once it is made; it may still grow, and be bound.
pub(super) fn claim_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    let bound = old["status"]["phase"] == "Bound";
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(members) = spec.as_object_mut() {
            if text(&stored["volumeName"]).is_empty() {
                members.remove("volumeName");
            }
            if stored["storageClassName"].is_null() {
                members.remove("storageClassName");
            }
            if bound {
                members.remove("resources");
                members.remove("volumeAttributesClassName");
            }
        }
        spec
    };
    if !semantically_equal(&fixed(spec), &fixed(stored)) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&SPEC, detail);
        return;
    }
    let amount = |object: &Value| quantity(&object["resources"]["requests"]["storage"]);
    if let (Some(now), Some(before)) = (amount(spec), amount(stored))
        && now < before
        && quantity(&old["status"]["capacity"]["storage"]).is_none_or(|have| now <= have)
    {
        let path = SPEC.child("resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}

/// Members of a volume's spec that do not say where it comes from.
const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn volume(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    access_modes(errors, spec, "");
    let (path, capacity) = (SPEC.child("capacity"), &spec["capacity"]);
    match capacity.as_object() {
        Some(amounts) if !amounts.is_empty() => {
            if amounts.len() > 1 || !amounts.contains_key("storage") {
                let first = amounts.keys().find(|key| *key != "storage").map_or("", String::as_str);
                errors.not_supported(&path, first, &["storage"]);
            }
        }
        _ => errors.required(&path, ""),
    }
    positive(errors, &path.key("storage"), &capacity["storage"]);
    super::pod::one_source(errors, &SPEC, spec, &NOT_SOURCES);
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = &spec["persistentVolumeReclaimPolicy"];
    optional_one_of(errors, &SPEC.child("persistentVolumeReclaimPolicy"), policy, &policies);
    if !spec["nodeAffinity"]["required"].is_null() {
        let path = SPEC.child("nodeAffinity.required");
        super::pod::node_selector(errors, &path, &spec["nodeAffinity"]["required"]);
    }
}

pub(super) fn volume_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let source = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(members) = spec.as_object_mut() {
            members.retain(|member, _| !NOT_SOURCES.contains(&member.as_str()));
        }
        spec
    };
    if !semantically_equal(&source(new), &source(old)) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden(&SPEC.child("persistentvolumesource"), detail);
    }
    immutable(errors, "spec.volumeMode", new, old);
}
