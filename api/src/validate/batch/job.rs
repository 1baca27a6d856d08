//! Validation of jobs.
//!
//! Follows `ValidateJob`, `ValidateJobSpec` and `ValidateJobUpdate`.

use super::policy;
use crate::check::{IMMUTABLE, equal_except, immutable, none_negative, not_negative};
use crate::field::{ErrorList, Path};
use crate::object::{int, list, semantically_equal, text};
use crate::selector::label::Selector;
use crate::validate::{pod, selector};
use crate::{meta, name};
use serde_json::{Map, Value};

const SPEC: Path<'static> = Path::new("spec");

/// Limits of indexed jobs: pods at a time and indexes that may fail. Both limits are lower for jobs with more
/// than `MANY` indexes.
const PARALLELISM_MAX: i64 = 100_000;
const FAILED_MAX: i64 = 100_000;
const MANY: i64 = 100_000;
const MANY_PARALLELISM_MAX: i64 = 10_000;
const MANY_FAILED_MAX: i64 = 10_000;
/// Bytes of the name in `managedBy`.
const MANAGER_MAX: usize = 63;

/// Checks a Job on create and update.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    generated_selector(object, errors);
    let job = &object["spec"];
    spec(errors, &SPEC, job);
    let own = &job["selector"];
    if own.is_null() {
        errors.required(&SPEC.child("selector"), "");
    }
    selector::label_selector(errors, &SPEC.child("selector"), own);
    let labels = &job["template"]["metadata"]["labels"];
    if Selector::from_object(own).is_ok_and(|parsed| !parsed.matches(&labels.as_object())) {
        let path = SPEC.child("template.metadata.labels");
        errors.invalid(&path, labels, "`selector` does not match template `labels`");
    }
    host_name(object, errors);
}

/// Checks a generated selector and its labels, for jobs without `manualSelector`.
fn generated_selector(object: &Value, errors: &mut ErrorList) {
    let job = &object["spec"];
    if job["manualSelector"] == true || job["selector"].is_null() {
        return;
    }
    let (own, uid) = (meta::name(object), meta::uid(object));
    if uid.is_empty() {
        errors.required(&Path::new("metadata.uid"), "");
    }
    let mut made = Map::new();
    for (key, value) in [
        ("controller-uid", uid),
        ("job-name", own),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", own),
    ] {
        made.insert(key.to_owned(), value.into());
        has_label(errors, &job["template"], key, value);
    }
    if Selector::from_object(&job["selector"]).is_ok_and(|parsed| !parsed.matches(&Some(&made))) {
        errors.invalid(&SPEC.child("selector"), &job["selector"], "`selector` not auto-generated");
    }
}

fn has_label(errors: &mut ErrorList, template: &Value, key: &str, wanted: &str) {
    let path = SPEC.child("template.metadata.labels");
    let labels = &template["metadata"]["labels"];
    match labels[key].as_str() {
        None => {
            let path = path.key(key);
            errors.required(&path, format!("must be '{wanted}'"));
        }
        Some(value) if value != wanted => {
            let path = path.key(key);
            errors.invalid(&path, labels, format!("must be '{wanted}'"));
        }
        Some(_) => {}
    }
}

/// Checks the host name of the last pod of an indexed job, which is the longest.
fn host_name(object: &Value, errors: &mut ErrorList) {
    let (job, own) = (&object["spec"], meta::name(object));
    let completions = int(&job["completions"]);
    if job["completionMode"] == "Indexed" && completions > 0 {
        let last = format!("{own}-{}", completions - 1);
        if !name::dns1123_label(&last).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {last}");
            errors.invalid(&Path::new("metadata.name"), own, detail);
        }
    }
}

/// Checks a `JobSpec`, except its selector.
pub(super) fn spec(errors: &mut ErrorList, path: &Path<'_>, job: &Value) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ];
    none_negative(errors, path, job, &counts);
    not_negative(errors, &path.child("maxFailedIndexes"), &job["maxFailedIndexes"]);
    if !job["maxFailedIndexes"].is_null() && job["backoffLimitPerIndex"].is_null() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    managed_by(errors, &path.child("managedBy"), &job["managedBy"]);
    mode(errors, path, job);
    policy::failure(errors, path, job);
    policy::success(errors, path, job);
    policy::replacement(errors, path, job);
    let at = path.child("template");
    pod::template(errors, &at, &job["template"]);
    restarts(errors, &at.child("spec.restartPolicy"), job);
}

fn managed_by(errors: &mut ErrorList, path: &Path<'_>, manager: &Value) {
    let Some(manager) = manager.as_str() else { return };
    let legal = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    match manager.split_once('/') {
        _ if manager.is_empty() => errors.required(path, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            for fault in name::dns1123_subdomain(domain) {
                errors.invalid(path, domain, fault);
            }
            if !rest.chars().all(legal) {
                let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.invalid(path, rest, detail);
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(path, manager, detail);
        }
    }
    if manager.len() > MANAGER_MAX {
        errors.too_long(path, MANAGER_MAX);
    }
}

fn mode(errors: &mut ErrorList, path: &Path<'_>, job: &Value) {
    match job["completionMode"].as_str() {
        Some("Indexed") => indexed(errors, path, job),
        Some("NonIndexed") | None => {
            for member in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if !job[member].is_null() {
                    errors.invalid(&path.child(member), &job[member], "requires indexed completion mode");
                }
            }
        }
        Some(other) => {
            let path = path.child("completionMode");
            errors.not_supported_as_listed(&path, other, &["NonIndexed", "Indexed"]);
        }
    }
}

fn indexed(errors: &mut ErrorList, path: &Path<'_>, job: &Value) {
    let (completions, parallelism) = (&job["completions"], &job["parallelism"]);
    let failed = &job["maxFailedIndexes"];
    if completions.is_null() {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    let (parallel_path, failed_path) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    if int(parallelism) > PARALLELISM_MAX {
        let detail =
            format!("must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed");
        errors.invalid(&parallel_path, parallelism, detail);
    }
    if !completions.is_null() && int(failed) > int(completions) {
        errors.invalid(&failed_path, failed, "must be less than or equal to completions");
    }
    if int(failed) > FAILED_MAX {
        errors.invalid(&failed_path, failed, format!("must be less than or equal to {FAILED_MAX}"));
    }
    if int(completions) <= MANY || job["backoffLimitPerIndex"].is_null() {
        return;
    }
    let when = format!("when completions are above {MANY} and used with backoff limit per index");
    if failed.is_null() {
        errors.required(&failed_path, format!("must be specified when completions is above {MANY}"));
    }
    if int(parallelism) > MANY_PARALLELISM_MAX {
        let detail = format!("must be less than or equal to {MANY_PARALLELISM_MAX} {when}");
        errors.invalid(&parallel_path, parallelism, detail);
    }
    if int(failed) > MANY_FAILED_MAX {
        let detail = format!("must be less than or equal to {MANY_FAILED_MAX} {when}");
        errors.invalid(&failed_path, failed, detail);
    }
}

fn restarts(errors: &mut ErrorList, path: &Path<'_>, job: &Value) {
    match text(&job["template"]["spec"]["restartPolicy"]) {
        "Always" | "" => errors.required(path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" if job["podFailurePolicy"].is_null() => {}
        "OnFailure" => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(path, "OnFailure", detail);
        }
        other => errors.not_supported_as_listed(path, other, &["OnFailure", "Never"]),
    }
}

/// Checks that immutable fields of a Job stay.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    completions(errors, &new["spec"], &old["spec"]);
    immutable(errors, "spec.selector", new, old);
    template(errors, new, old);
    for member in [
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
        "spec.successPolicy",
    ] {
        immutable(errors, member, new, old);
    }
}

/// Checks a change of `completions`: only indexed jobs may change it, together with `parallelism`.
fn completions(errors: &mut ErrorList, job: &Value, stored: &Value) {
    let (path, now) = (SPEC.child("completions"), &job["completions"]);
    if *now == stored["completions"] {
        return;
    }
    if job["completionMode"] != "Indexed" {
        errors.invalid(&path, now, IMMUTABLE);
    } else if !now.is_null() && *now != job["parallelism"] {
        errors.invalid(&path, now, "can only be modified in tandem with spec.parallelism");
    }
}

/// Whether a stored job is suspended without active pods.
fn is_waiting(old: &Value) -> bool {
    let status = &old["status"];
    let said = |condition: &Value| condition["type"] == "Suspended" && condition["status"] == "True";
    let stopped = status["startTime"].is_null() || list(&status["conditions"]).iter().any(said);
    old["spec"]["suspend"] == true && stopped && int(&status["active"]) == 0
}

/// Checks a change of the pod template. While the job is suspended, scheduling fields, labels, annotations
/// and resources may change.
fn template(errors: &mut ErrorList, new: &Value, old: &Value) {
    let (now, before) = (&new["spec"]["template"], &old["spec"]["template"]);
    let path = SPEC.child("template");
    if !is_waiting(old) {
        if !semantically_equal(now, before) {
            errors.invalid(&path, now, IMMUTABLE);
        }
        return;
    }
    let metadata = equal_except(&now["metadata"], &before["metadata"], &["labels", "annotations"]);
    let free = ["affinity", "nodeSelector", "tolerations", "schedulingGates", "containers", "initContainers"];
    let (spec, stored) = (&now["spec"], &before["spec"]);
    let same = metadata
        && equal_except(spec, stored, &free)
        && equal_except(&spec["affinity"], &stored["affinity"], &["nodeAffinity"])
        && same_but_amounts(list(&spec["containers"]), list(&stored["containers"]))
        && same_but_amounts(list(&spec["initContainers"]), list(&stored["initContainers"]));
    if !same {
        errors.invalid(&path.child("spec"), spec, IMMUTABLE);
    }
}

fn same_but_amounts(now: &[Value], before: &[Value]) -> bool {
    let same = |(now, before): (&Value, &Value)| equal_except(now, before, &["resources"]);
    now.len() == before.len() && now.iter().zip(before).all(same)
}
