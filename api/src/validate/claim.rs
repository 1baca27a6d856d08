//! Validation of PersistentVolumeClaims, and of claim templates in pods and stateful sets.
//!
//! Follows `ValidatePersistentVolumeClaim` and `ValidatePersistentVolumeClaimUpdate`.

use super::resource;
use super::selector::label_selector;
use crate::check::{
    IMMUTABLE, NOT_POSITIVE, equal_except, given_one_of, grammar, metadata, optional_grammar, quantity,
    required, same_amounts,
};
use crate::field::{ErrorList, Path};
use crate::object::{list, semantically_equal, text};
use crate::quantity::Quantity;
use crate::{diff, meta, name};
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");
pub(super) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Annotation that preceded the field `storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Checks a claim on create and update.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    spec(errors, &SPEC, &object["spec"]);
}

/// Checks the claim template of an ephemeral volume; the claim gets the template's metadata.
pub(super) fn template(errors: &mut ErrorList, path: &Path<'_>, template: &Value) {
    let (at, own) = (path.child("metadata"), &template["metadata"]);
    metadata::annotations(errors, &at.child("annotations"), &own["annotations"]);
    metadata::labels(errors, &at.child("labels"), &own["labels"]);
    for (member, value) in own.as_object().into_iter().flatten() {
        if !matches!(member.as_str(), "annotations" | "labels" | "creationTimestamp") && !value.is_null() {
            errors.forbidden(&at.child(member), "cannot be set");
        }
    }
    spec(errors, &path.child("spec"), &template["spec"]);
}

/// Checks access modes: at least one, known, and `ReadWriteOncePod` only alone.
pub(super) fn access_modes(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, missing: &str) {
    let (path, modes) = (path.child("accessModes"), list(&spec["accessModes"]));
    if modes.is_empty() {
        errors.required(&path, missing);
    }
    for mode in modes.iter().map(text).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(&path, mode, &ACCESS_MODES);
    }
    let single = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    let other = |mode: &Value| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&text(mode));
    if single && modes.iter().any(other) {
        errors.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks a `PersistentVolumeClaimSpec`.
pub(super) fn spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    access_modes(errors, path, spec, "at least 1 access mode is required");
    label_selector(errors, &path.child("selector"), &spec["selector"]);
    let (amounts, storage) = (path.child("resources"), &spec["resources"]["requests"]["storage"]);
    let amounts = amounts.key("storage");
    match quantity(storage) {
        None => errors.required(&amounts, ""),
        Some(amount) if amount <= Quantity::ZERO => {
            errors.invalid(&amounts, &amount.to_string(), NOT_POSITIVE);
        }
        Some(_) => {}
    }
    optional_grammar(
        errors,
        &path.child("storageClassName"),
        &spec["storageClassName"],
        name::dns1123_subdomain,
    );
    given_one_of(errors, &path.child("volumeMode"), &spec["volumeMode"], &["Block", "Filesystem"]);
    data_source(errors, &path.child("dataSource"), &spec["dataSource"]);
    data_source(errors, &path.child("dataSourceRef"), &spec["dataSourceRef"]);
    let (first, second) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let in_namespace = !text(&second["namespace"]).is_empty();
    if in_namespace && !first.is_null() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid_raw(path, "{}", detail);
    } else if !first.is_null() && !second.is_null() && !equal_except(first, second, &["namespace"]) {
        errors.invalid_raw(path, "{}", "must match dataSourceRef");
    }
    let class = path.child("volumeAttributesClassName");
    optional_grammar(errors, &class, &spec["volumeAttributesClassName"], name::dns1123_subdomain);
}

fn data_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if source.is_null() {
        return;
    }
    required(errors, &path.child("name"), &source["name"]);
    required(errors, &path.child("kind"), &source["kind"]);
    let (group, kind) = (text(&source["apiGroup"]), text(&source["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    } else if !group.is_empty() {
        grammar(errors, &path.child("apiGroup"), group, name::dns1123_subdomain(group));
    }
    optional_grammar(errors, &path.child("namespace"), &source["namespace"], name::dns1123_label);
}

/// Checks a claim update. The spec is immutable, except that a claim can be bound and a bound claim can grow.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    let moved = moves_from_annotation(new, old);
    let annotation = |object| meta::annotation(object, CLASS_ANNOTATION);
    if !moved && annotation(new) != annotation(old) {
        let (metadata, value) = (Path::new("metadata"), annotation(new).unwrap_or_default());
        errors.invalid(&metadata.child("annotations").key(CLASS_ANNOTATION), value, IMMUTABLE);
    }
    if !rest_is_same(new, old, moved) {
        let difference = diff::unified(stored, &without_allowed_changes(new, old, moved));
        errors.forbidden(&SPEC, format!("{SETTLED}\n{difference}"));
    }
    shrinks(errors, spec, stored, &old["status"]["capacity"]["storage"]);
    if !semantically_equal(&spec["volumeMode"], &stored["volumeMode"]) {
        errors.invalid(&Path::new("volumeMode"), &spec["volumeMode"], IMMUTABLE);
    }
    attributes(errors, &spec["volumeAttributesClassName"], old);
}

const SETTLED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Refuses to remove the volume attributes class while the status names a current one.
fn attributes(errors: &mut ErrorList, now: &Value, old: &Value) {
    let before = &old["spec"]["volumeAttributesClassName"];
    if semantically_equal(now, before) || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return;
    }
    let path = SPEC.child("volumeAttributesClassName");
    let tail = "is forbidden when status.currentVolumeAttributesClassName is not nil";
    if now.is_null() {
        errors.forbidden(&path, format!("update to nil {tail}"));
    } else if now == "" {
        errors.forbidden(&path, format!("update to empty string {tail}"));
    }
}

fn is_bound(object: &Value) -> bool {
    object["status"]["phase"] == "Bound"
}

/// Members of the spec that this update may change.
fn free(new: &Value, old: &Value, moved: bool) -> Vec<&'static str> {
    let mut free = Vec::new();
    if text(&old["spec"]["volumeName"]).is_empty() {
        free.push("volumeName");
    }
    if moved || may_get_class(&new["spec"], old) {
        free.push("storageClassName");
    }
    if is_bound(old) {
        free.push("volumeAttributesClassName");
    }
    free
}

/// The new spec with allowed changes undone. Its difference from the stored spec is the refused part.
fn without_allowed_changes(new: &Value, old: &Value, moved: bool) -> Value {
    let (mut without_allowed_changes, stored) = (new["spec"].clone(), &old["spec"]);
    for member in free(new, old, moved) {
        without_allowed_changes[member] = stored[member].clone();
    }
    if is_bound(old) && without_allowed_changes["resources"]["requests"].is_object() {
        without_allowed_changes["resources"]["requests"]["storage"] =
            stored["resources"]["requests"]["storage"].clone();
    }
    if let Some(members) = without_allowed_changes.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    without_allowed_changes
}

fn rest_is_same(new: &Value, old: &Value, moved: bool) -> bool {
    let (spec, stored, bound) = (&new["spec"], &old["spec"], is_bound(old));
    let mut free = free(new, old, moved);
    free.push("resources");
    let (amounts, before) = (&spec["resources"], &stored["resources"]);
    let grows: &[&str] = if bound { &["storage"] } else { &[] };
    equal_except(spec, stored, &free)
        && equal_except(amounts, before, &["requests", "limits"])
        && same_amounts(&amounts["limits"], &before["limits"], &[])
        && same_amounts(&amounts["requests"], &before["requests"], grows)
}

/// Whether the update moves the storage class from the annotation to the field.
fn moves_from_annotation(new: &Value, old: &Value) -> bool {
    let annotated = meta::annotation(old, CLASS_ANNOTATION);
    annotated.is_some_and(|class| {
        let kept = meta::annotation(new, CLASS_ANNOTATION).is_none_or(|now| now == class);
        kept && old["spec"]["storageClassName"].is_null() && new["spec"]["storageClassName"] == class
    })
}

/// Whether the update may set a storage class that was missing.
fn may_get_class(spec: &Value, old: &Value) -> bool {
    let (now, before) = (&spec["storageClassName"], &old["spec"]["storageClassName"]);
    let annotated = meta::annotation(old, CLASS_ANNOTATION);
    before.is_null() && !now.is_null() && annotated.is_none_or(|class| *now == class)
}

fn shrinks(errors: &mut ErrorList, spec: &Value, stored: &Value, capacity: &Value) {
    let amount = |value: &Value| quantity(value).unwrap_or(Quantity::ZERO);
    let requested = |spec: &Value| amount(&spec["resources"]["requests"]["storage"]);
    if requested(spec) < requested(stored) && requested(spec) <= amount(capacity) {
        let path = SPEC.child("resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}

/// Values of `allocatedResourceStatuses`: states of a volume expansion.
const RESIZE: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Checks a claim's `/status`.
pub(crate) fn status(object: &Value, errors: &mut ErrorList) {
    let (path, status) = (Path::new("status"), &object["status"]);
    amounts(errors, &path.child("capacity"), &status["capacity"], |_, _, _| true);
    let at = path.child("allocatedResourceStatuses");
    for (own, state) in status["allocatedResourceStatuses"].as_object().into_iter().flatten() {
        resource_key(errors, &at, own);
        if !RESIZE.contains(&text(state)) {
            errors.not_supported(&at, own, &RESIZE);
        }
    }
    amounts(errors, &path.child("allocatedResources"), &status["allocatedResources"], resource_key);
}

fn amounts(
    errors: &mut ErrorList,
    path: &Path<'_>,
    amounts: &Value,
    may_be: fn(&mut ErrorList, &Path<'_>, &str) -> bool,
) {
    for (own, amount) in amounts.as_object().into_iter().flatten() {
        let units = quantity(amount).map_or(0, Quantity::units);
        if may_be(errors, path, own) && units < 0 {
            errors.invalid(&path.key(own), &units, "must be a valid resource quantity");
        }
    }
}

/// Checks a resource name in a claim's status: of Kubernetes' own resources only `storage`.
fn resource_key(errors: &mut ErrorList, path: &Path<'_>, own: &str) -> bool {
    let faults = name::qualified_name(own);
    let good = faults.is_empty() && (!resource::is_native(own) || own == "storage");
    if faults.is_empty() && !good {
        errors.not_supported(path, own, &["storage"]);
    }
    grammar(errors, path, own, faults);
    good
}
