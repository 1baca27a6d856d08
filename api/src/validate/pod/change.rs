//! What of a pod may change: next to nothing. A pod is replaced, not altered.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ANNOTATIONS, SPEC, annotation, toleration};
use crate::diff;
use crate::distinct::{Distinct, meaning};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, semantically_equal, text};
use crate::validate::check::equal_except;

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A pod written through its own path: images, an earlier deadline, more tolerations, fewer gates; while gated also where it may run.
pub(in crate::validate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
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
        let difference = diff::unified(stored, &settled(spec, stored, gated));
        errors.forbidden(&SPEC, format!("{FIXED}\n{difference}"));
    }
}

/// The spec with what may change as it was: what is left is what was refused.
fn settled(spec: &Value, stored: &Value, gated: bool) -> Value {
    let mut settled = spec.clone();
    let restore = |into: &mut Value, from: &Value, member: &str| match from.get(member) {
        Some(value) => into[member] = value.clone(),
        None => {
            into.as_object_mut().and_then(|members| members.remove(member));
        }
    };
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut settled, stored, member);
    }
    for member in ["containers", "initContainers"] {
        let containers = settled.get_mut(member).and_then(Value::as_array_mut);
        for (now, before) in containers.into_iter().flatten().zip(list(&stored[member])) {
            restore(now, before, "image");
        }
    }
    if gated {
        restore(&mut settled, stored, "nodeSelector");
        if settled["affinity"].is_object() {
            restore(&mut settled["affinity"], &stored["affinity"], "nodeAffinity");
        }
    }
    settled
}

fn annotations(object: &Value) -> &Value {
    &object["metadata"]["annotations"]
}

/// The rest is not looked at.
struct Enough;

fn deadline(errors: &mut ErrorList, spec: &Value, stored: &Value) -> Result<(), Enough> {
    let path = SPEC.child("activeDeadlineSeconds");
    let (before, most) = (stored["activeDeadlineSeconds"].as_i64(), i64::from(i32::MAX));
    match (spec["activeDeadlineSeconds"].as_i64(), before) {
        (None, Some(_)) => {
            errors.invalid(&path, &Value::Null, "must not update from a positive integer to nil value");
            Ok(())
        }
        (Some(now), _) if !(0..=most).contains(&now) => {
            errors.invalid(&path, &now, name::in_range(0, most));
            Err(Enough)
        }
        (Some(now), Some(before)) if now > before => {
            errors.invalid(&path, &now, "must be less than or equal to previous value");
            Err(Enough)
        }
        _ => Ok(()),
    }
}

/// New ones were judged with the content, and again with the change: as clients see it.
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

/// What nodes must have may only become more.
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
    // A term of nothing matches no node; anything added to it would match some.
    if nothing(before) {
        return nothing(term);
    }
    [labels, fields].into_iter().all(|member| {
        let (now, before) = (list(&term[member]), list(&before[member]));
        now.len() >= before.len()
            && now.iter().zip(before).all(|(now, before)| semantically_equal(now, before))
    })
}

/// Members with rules of their own, above.
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

/// `/ephemeralcontainers`: what is there stays as it is.
pub(in crate::validate) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut ErrorList) {
    annotation::change(errors, &ANNOTATIONS, annotations(new), annotations(old));
    if !annotations(old)[annotation::MIRROR].is_null() {
        *errors = ErrorList::new();
        errors.forbidden(&Path::ROOT, "static pods do not support ephemeral containers");
        return;
    }
    let path = SPEC.child("ephemeralContainers");
    let now = list(&new["spec"]["ephemeralContainers"]);
    for before in list(&old["spec"]["ephemeralContainers"]) {
        // Of two with one name the later counts.
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
