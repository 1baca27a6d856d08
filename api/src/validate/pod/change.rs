//! Validation of pod updates: nearly all fields of a pod are immutable.
//!
//! Follows `ValidatePodUpdate`.

use super::{ANNOTATIONS, SPEC, annotation, toleration};
use crate::check::equal_except;
use crate::distinct::{Distinct, meaning};
use crate::field::{ErrorList, Path};
use crate::object::{list, semantically_equal, text};
use crate::{diff, name};
use serde_json::Value;
use std::collections::BTreeSet;

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks an update of a pod: images, an earlier deadline, more tolerations and fewer scheduling gates. A
/// gated pod may also get stricter node selection.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    annotation::change(errors, &ANNOTATIONS, annotations(new), annotations(old));
    for member in ["containers", "initContainers"] {
        if list(&spec[member]).len() != list(&stored[member]).len() {
            errors.forbidden(&SPEC.child(member), "pod updates may not add or remove containers");
            return;
        }
    }
    if deadline(errors, spec, stored).is_err() {
        return;
    }
    tolerations(errors, spec, stored);
    gates(errors, spec, stored);
    let gated = !list(&stored["schedulingGates"]).is_empty();
    if gated {
        node_selector(errors, &spec["nodeSelector"], &stored["nodeSelector"]);
        node_affinity(errors, &spec["affinity"]["nodeAffinity"], &stored["affinity"]["nodeAffinity"]);
    }
    if !rest_is_same(spec, stored, gated) {
        let difference = diff::unified(stored, &without_allowed_changes(spec, stored, gated));
        errors.forbidden(&SPEC, format!("{FIXED}\n{difference}"));
    }
}

/// The new spec with allowed changes undone. Its difference from the stored spec is the refused part.
fn without_allowed_changes(spec: &Value, stored: &Value, gated: bool) -> Value {
    let mut without_allowed_changes = spec.clone();
    let restore = |into: &mut Value, from: &Value, member: &str| match from.get(member) {
        Some(value) => into[member] = value.clone(),
        None => {
            into.as_object_mut().and_then(|members| members.remove(member));
        }
    };
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut without_allowed_changes, stored, member);
    }
    for member in ["containers", "initContainers"] {
        let containers = without_allowed_changes.get_mut(member).and_then(Value::as_array_mut);
        for (now, before) in containers.into_iter().flatten().zip(list(&stored[member])) {
            restore(now, before, "image");
        }
    }
    if gated {
        restore(&mut without_allowed_changes, stored, "nodeSelector");
        if without_allowed_changes["affinity"].is_object() {
            restore(&mut without_allowed_changes["affinity"], &stored["affinity"], "nodeAffinity");
        }
    }
    without_allowed_changes
}

fn annotations(object: &Value) -> &Value {
    &object["metadata"]["annotations"]
}

/// Error: the remaining checks are skipped.
struct StopValidation;

fn deadline(errors: &mut ErrorList, spec: &Value, stored: &Value) -> Result<(), StopValidation> {
    let path = SPEC.child("activeDeadlineSeconds");
    let (before, most) = (stored["activeDeadlineSeconds"].as_i64(), i64::from(i32::MAX));
    match (spec["activeDeadlineSeconds"].as_i64(), before) {
        (None, Some(_)) => {
            errors.invalid(&path, &Value::Null, "must not update from a positive integer to nil value");
            Ok(())
        }
        (Some(now), _) if !(0..=most).contains(&now) => {
            errors.invalid(&path, &now, name::in_range(0, most));
            Err(StopValidation)
        }
        (Some(now), Some(before)) if now > before => {
            errors.invalid(&path, &now, "must be less than or equal to previous value");
            Err(StopValidation)
        }
        _ => Ok(()),
    }
}

/// Checks tolerations. New ones were already checked with the content and are reported twice, as in
/// Kubernetes.
fn tolerations(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let path = SPEC.child("tolerations");
    let now = list(&spec["tolerations"]);
    let key = |toleration: &Value| meaning(toleration, &["tolerationSeconds"]);
    let kept: BTreeSet<String> = now.iter().map(key).collect();
    if list(&stored["tolerations"]).iter().any(|before| !kept.contains(&key(before))) {
        errors.forbidden(&path, "existing toleration can not be modified except its tolerationSeconds");
    } else {
        toleration::tolerations(errors, &path, &spec["tolerations"]);
    }
}

fn gates(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let path = SPEC.child("schedulingGates");
    let before = Distinct::of(list(&stored["schedulingGates"]).iter().map(|gate| &gate["name"]));
    for (i, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        if !before.contains(&gate["name"]) {
            let own = text(&gate["name"]);
            let detail = format!("only deletion is allowed, but found new scheduling gate '{own}'");
            errors.forbidden(&path.index(i).child("name"), detail);
        }
    }
}

fn node_selector(errors: &mut ErrorList, now: &Value, before: &Value) {
    let kept = |(key, value): (&String, &Value)| now[key] == *value;
    if !before.as_object().into_iter().flatten().all(kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&SPEC.child("nodeSelector"), now, detail);
    }
}

/// Checks that required node affinity only becomes stricter.
fn node_affinity(errors: &mut ErrorList, now: &Value, before: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if semantically_equal(now, before) || before[REQUIRED].is_null() {
        return;
    }
    let path = SPEC.child("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    let path = path.child("nodeSelectorTerms");
    let terms = list(&now[REQUIRED]["nodeSelectorTerms"]);
    let stored = list(&before[REQUIRED]["nodeSelectorTerms"]);
    if !stored.is_empty() && stored.len() != terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid(&path, terms, detail);
        return;
    }
    for (i, (term, before)) in terms.iter().zip(stored).enumerate().filter(|(_, (t, b))| !only_more(t, b)) {
        let _ = before;
        let detail = "only additions are allowed (no mutations or deletions)";
        errors.invalid(&path.index(i), term, detail);
    }
}

fn only_more(term: &Value, before: &Value) -> bool {
    let (labels, fields) = ("matchExpressions", "matchFields");
    let nothing = |term: &Value| list(&term[labels]).is_empty() && list(&term[fields]).is_empty();
    // A term without requirements matches no node; adding one would match some.
    if nothing(before) {
        return nothing(term);
    }
    [labels, fields].into_iter().all(|member| {
        let (now, before) = (list(&term[member]), list(&before[member]));
        now.len() >= before.len()
            && now.iter().zip(before).all(|(now, before)| semantically_equal(now, before))
    })
}

/// Members that the rules above check.
const FREE: [&str; 8] = [
    "activeDeadlineSeconds",
    "affinity",
    "containers",
    "initContainers",
    "nodeSelector",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
];

fn rest_is_same(spec: &Value, stored: &Value, gated: bool) -> bool {
    let same = |member: &str| semantically_equal(&spec[member], &stored[member]);
    let but_images = |member: &str| {
        let pairs = list(&spec[member]).iter().zip(list(&stored[member]));
        pairs.into_iter().all(|(now, before)| equal_except(now, before, &["image"]))
    };
    let grace = "terminationGracePeriodSeconds";
    let at_last = stored[grace].as_i64().is_some_and(|seconds| seconds < 0) && spec[grace] == 1;
    let placed = if gated {
        equal_except(&spec["affinity"], &stored["affinity"], &["nodeAffinity"])
    } else {
        same("affinity") && same("nodeSelector")
    };
    equal_except(spec, stored, &FREE)
        && placed
        && (at_last || same(grace))
        && but_images("containers")
        && but_images("initContainers")
}

/// Checks `/ephemeralcontainers`: existing containers must stay unchanged.
pub(crate) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut ErrorList) {
    annotation::change(errors, &ANNOTATIONS, annotations(new), annotations(old));
    if !annotations(old)[annotation::MIRROR].is_null() {
        *errors = ErrorList::new();
        errors.forbidden(&Path::ROOT, "static pods do not support ephemeral containers");
        return;
    }
    let path = SPEC.child("ephemeralContainers");
    let now = list(&new["spec"]["ephemeralContainers"]);
    for before in list(&old["spec"]["ephemeralContainers"]) {
        // If two containers share a name, the last one counts.
        match now.iter().rfind(|container| container["name"] == before["name"]) {
            None => {
                let detail = format!("existing ephemeral containers {} may not be removed\n", before["name"]);
                errors.forbidden(&path, detail);
            }
            Some(now) if !semantically_equal(now, before) => {
                let difference = diff::unified(before, now);
                let own = &before["name"];
                let detail = format!("existing ephemeral containers {own} may not be changed\n{difference}");
                errors.forbidden(&path, detail);
            }
            Some(_) => {}
        }
    }
}
