//! Validation of persistent volumes.
//!
//! Follows `ValidatePersistentVolume` and `ValidatePersistentVolumeUpdate`.

use super::{claim, pod};
use crate::check::{
    IMMUTABLE, NOT_POSITIVE, equal_except, given_one_of, grammar, optional_grammar, optional_one_of, quantity,
};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::object::{is_empty, list, semantically_equal, text};
use crate::quantity::Quantity;
use crate::{diff, meta, name};
use serde_json::{Map, Value};

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    claim::access_modes(errors, &SPEC, spec, "");
    capacity(errors, &spec["capacity"]);
    let policies = ["Delete", "Recycle", "Retain"];
    let (policy_path, policy) =
        (SPEC.child("persistentVolumeReclaimPolicy"), &spec["persistentVolumeReclaimPolicy"]);
    optional_one_of(errors, &policy_path, policy, &policies);
    let placed = node_affinity(errors, &spec["nodeAffinity"]);
    pod::source::only_one(errors, &SPEC, spec, pod::source::OF_VOLUMES);
    portal(errors, meta::name(object), &spec["iscsi"]);
    if !spec["local"].is_null() && !placed {
        errors.required(&SPEC.child("nodeAffinity"), "Local volume requires node affinity");
    }
    if is_root(text(&spec["hostPath"]["path"])) && policy == "Recycle" {
        errors.forbidden(&policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = SPEC.child("storageClassName");
    optional_grammar(errors, &class, &spec["storageClassName"], name::dns1123_subdomain);
    given_one_of(errors, &SPEC.child("volumeMode"), &spec["volumeMode"], &["Block", "Filesystem"]);
    attributes(errors, spec);
}

fn capacity(errors: &mut ErrorList, capacity: &Value) {
    let (path, none) = (SPEC.child("capacity"), Map::new());
    let amounts = capacity.as_object().unwrap_or(&none);
    if amounts.is_empty() {
        errors.required(&path, "");
    }
    if amounts.len() != 1 || capacity["storage"].is_null() {
        errors.push(FieldError {
            kind: FieldErrorKind::NotSupported,
            field: path.to_string(),
            value: Some(if amounts.is_empty() { "null".to_owned() } else { capacity.to_string() }),
            detail: "supported values: \"storage\"".to_owned(),
        });
    }
    for (resource, value) in amounts {
        let (path, Some(amount)) = (path.key(resource), quantity(value)) else { continue };
        if amount.units() < 0 {
            errors.invalid(&path, &amount.units(), "must be a valid resource quantity");
        }
        if amount <= Quantity::ZERO {
            errors.invalid(&path, &amount.to_string(), NOT_POSITIVE);
        }
    }
}

/// Checks node affinity; returns whether it is set.
fn node_affinity(errors: &mut ErrorList, affinity: &Value) -> bool {
    if affinity.is_null() {
        return false;
    }
    let path = SPEC.child("nodeAffinity");
    let path = path.child("required");
    if affinity["required"].is_null() {
        errors.required(&path, "must specify required node constraints");
    } else {
        pod::node_selector(errors, &path, &affinity["required"]);
    }
    true
}

fn portal(errors: &mut ErrorList, own: &str, iscsi: &Value) {
    let portal = text(&iscsi["targetPortal"]);
    if !iscsi["initiatorName"].is_null() && own.len() + 1 + portal.len() > 64 {
        errors.invalid(&SPEC.child("iscsi.targetportal"), portal, pod::source::PORTAL_TOO_LONG);
    }
}

/// Whether a path is the root directory, in any spelling.
fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "." | ".."))
}

fn attributes(errors: &mut ErrorList, spec: &Value) {
    let (path, Some(class)) =
        (SPEC.child("volumeAttributesClassName"), spec["volumeAttributesClassName"].as_str())
    else {
        return;
    };
    if class.is_empty() {
        errors.required(&path, "an empty string is disallowed");
    } else {
        grammar(errors, &path, class, name::dns1123_subdomain(class));
    }
    if spec["csi"].is_null() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.required(&SPEC.child("csi"), detail);
    }
}

pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    if !same_source(spec, stored) {
        let difference = diff::unified(&source_members(stored), &source_members(spec));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.forbidden(&SPEC.child("persistentvolumesource"), detail);
    }
    if !semantically_equal(&spec["volumeMode"], &stored["volumeMode"]) {
        errors.invalid(&Path::new("volumeMode"), &spec["volumeMode"], IMMUTABLE);
    }
    let (affinity, before) = (&spec["nodeAffinity"], &stored["nodeAffinity"]);
    if !before.is_null() && !semantically_equal(&renamed(affinity), &renamed(before)) {
        let detail = format!("{IMMUTABLE}, except for updating from beta label to GA");
        errors.invalid(&Path::new("nodeAffinity"), affinity, detail);
    }
    let (class, before) = (&spec["volumeAttributesClassName"], &stored["volumeAttributesClassName"]);
    if class.is_null() && !before.is_null() {
        let path = SPEC.child("volumeAttributesClassName");
        errors.forbidden(&path, "update from non-nil value to nil is forbidden");
    }
}

/// The members of a spec that are volume sources.
fn source_members(spec: &Value) -> Value {
    let members =
        spec.as_object().into_iter().flatten().filter(|(member, _)| pod::source::is_source_member(member));
    members.map(|(member, value)| (member.clone(), value.clone())).collect()
}

/// Whether the volume source is unchanged; a missing CSI secret for expansion may be added.
fn same_source(spec: &Value, stored: &Value) -> bool {
    let members = spec.as_object().into_iter().chain(stored.as_object()).flat_map(|spec| spec.keys());
    members.filter(|member| pod::source::is_source_member(member)).all(|member| {
        let (now, before) = (&spec[member], &stored[member]);
        let secret = "controllerExpandSecretRef";
        let added = member == "csi" && before.is_object() && now.is_object() && before[secret].is_null();
        if added {
            equal_except(now, before, &[secret])
        } else {
            // An empty source (such as `emptyDir`) differs from no source.
            now.is_null() == before.is_null() && semantically_equal(now, before)
        }
    })
}

/// Node labels with a beta name, and their final names.
const RENAMED: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// The affinity with beta labels replaced by their final names.
fn renamed(affinity: &Value) -> Value {
    if is_empty(affinity) || list(&affinity["required"]["nodeSelectorTerms"]).is_empty() {
        return affinity.clone();
    }
    let mut affinity = affinity.clone();
    let terms = affinity["required"]["nodeSelectorTerms"].as_array_mut();
    for term in terms.into_iter().flatten() {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for expression in expressions.into_iter().flatten() {
            if let Some((_, now)) = RENAMED.iter().find(|(old, _)| expression["key"] == *old) {
                expression["key"] = (*now).into();
            }
        }
    }
    affinity
}
