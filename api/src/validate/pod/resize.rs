//! Validation of `/resize`: only cpu and memory of a running pod may change.
//!
//! Follows `ValidatePodResize`.

use super::{SPEC, annotation};
use crate::check::{equal_except, same_amounts};
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::object::{is_empty, list, semantically_equal, text};
use crate::strategy::qos_class;
use serde_json::Value;

const ONLY: &str = "only cpu and memory resources are mutable";

/// Checks a resize; the caller has checked the new pod's content.
pub(crate) fn resize(new: &Value, old: &Value, errors: &mut ErrorList) {
    if meta::annotation(old, annotation::MIRROR).is_some() {
        *errors = ErrorList::new();
        errors.forbidden(&Path::ROOT, "static pods cannot be resized");
        return;
    }
    if old["spec"]["os"]["name"] == "windows" {
        *errors = ErrorList::new();
        errors.forbidden(&Path::ROOT, "windows pods cannot be resized");
        return;
    }
    let class = match text(&old["status"]["qosClass"]) {
        "" => qos_class(old),
        stored => stored,
    };
    if class != qos_class(new) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&SPEC, &new["status"]["qosClass"], detail);
    }
    if !node_resizes(old) {
        errors.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    whole(errors, &new["spec"]["resources"], &old["spec"]["resources"]);
    if ordering(errors, new, old).is_err() {
        return;
    }
    containers(errors, new, old);
    if errors.is_empty() {
        rest(errors, new, old);
    }
}

/// Whether the pod's node supports resize: it then reports the resources of running containers.
fn node_resizes(pod: &Value) -> bool {
    let running =
        list(&pod["status"]["containerStatuses"]).iter().find(|status| !status["state"]["running"].is_null());
    running.is_none_or(|status| !status["resources"].is_null())
}

/// Checks a change of pod-level resources.
fn whole(errors: &mut ErrorList, now: &Value, before: &Value) {
    let path = SPEC.child("resources");
    let set = |resources: &Value| !is_empty(&resources["requests"]) || !is_empty(&resources["limits"]);
    if !set(now) && !set(before) {
        return;
    }
    if now.is_null() && !before.is_null() {
        errors.forbidden(&path, "pod-level resources cannot be removed");
        return;
    }
    removed(errors, &path, (now, before), "pod-level resource");
    if !only_compute_differs(now, before) {
        errors.forbidden(&SPEC, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Reports resources that were set and no longer are.
fn removed(errors: &mut ErrorList, path: &Path<'_>, (now, before): (&Value, &Value), what: &str) {
    for (side, word) in [("requests", "requests"), ("limits", "limits")] {
        let mut had = before[side].as_object().into_iter().flat_map(|amounts| amounts.keys());
        if had.any(|name| now[side][name].is_null()) {
            errors.forbidden(&path.child(side), format!("{what} {word} cannot be removed"));
        }
    }
}

/// Whether resources differ at most in the values of cpu and memory.
fn only_compute_differs(now: &Value, before: &Value) -> bool {
    let compute = ["cpu", "memory"];
    ["requests", "limits"].into_iter().all(|side| same_amounts(&now[side], &before[side], &compute))
}

/// Error: the container lists do not match, so that containers cannot be compared.
struct Reordered;

fn ordering(errors: &mut ErrorList, new: &Value, old: &Value) -> Result<(), Reordered> {
    let mut result = Ok(());
    for member in ["containers", "initContainers"] {
        let (now, before) = (list(&new["spec"][member]), list(&old["spec"][member]));
        let path = SPEC.child(member);
        if now.len() != before.len() {
            errors.forbidden(&path, format!("{member} may not be added or removed on resize"));
            result = Err(Reordered);
            continue;
        }
        for (i, _) in now.iter().zip(before).enumerate().filter(|(_, (n, b))| n["name"] != b["name"]) {
            let path = path.index(i);
            errors.forbidden(
                &path.child("name"),
                format!("{member} may not be renamed or reordered on resize"),
            );
            result = Err(Reordered);
        }
    }
    result
}

fn containers(errors: &mut ErrorList, new: &Value, old: &Value) {
    let pairs = |member: &'static str| list(&new["spec"][member]).iter().zip(list(&old["spec"][member]));
    for member in ["initContainers", "containers"] {
        let path = SPEC.child(member);
        for (i, (now, before)) in pairs(member).enumerate() {
            let path = path.index(i);
            let amounts = (&now["resources"], &before["resources"]);
            removed(errors, &path.child("resources"), amounts, "resource");
        }
    }
    for (now, before) in pairs("containers") {
        if !same_but_compute(now, before) {
            errors.forbidden(&SPEC, ONLY);
        }
    }
    let path = SPEC.child("initContainers");
    for (i, (now, before)) in pairs("initContainers").enumerate() {
        let path = path.index(i);
        if !same_but_compute(now, before) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&path, detail);
        }
        let restarts = list(&now["resizePolicy"]).iter().any(|p| p["restartPolicy"] == "RestartContainer");
        if restarts && now["restartPolicy"] != "Always" && !semantically_equal(now, before) {
            let detail =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.forbidden(&path, detail);
        }
    }
}

fn same_but_compute(now: &Value, before: &Value) -> bool {
    equal_except(now, before, &["resources"]) && only_compute_differs(&now["resources"], &before["resources"])
}

fn rest(errors: &mut ErrorList, new: &Value, old: &Value) {
    if !equal_except(&new["spec"], &old["spec"], &["containers", "initContainers", "resources"]) {
        errors.forbidden(&SPEC, ONLY);
    }
}
