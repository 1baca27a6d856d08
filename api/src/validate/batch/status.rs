//! Validation of a job's `/status`: counts, times and conditions are consistent, and finished states are
//! final. Most rules apply only to fields that change.
//!
//! Follows `validateJobStatus` and `ValidateJobUpdateStatus`.

use super::indexes;
use crate::check::none_negative;
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::object::{int, is_empty, list, semantically_equal, text};
use serde_json::Value;
use std::collections::BTreeSet;

const STATUS: Path<'static> = Path::new("status");

/// Status of a job before and after an update.
struct StatusChange<'j> {
    spec: &'j Value,
    now: &'j Value,
    before: &'j Value,
}

impl StatusChange<'_> {
    fn is(&self, condition: &str) -> bool {
        has(self.now, condition)
    }

    fn was(&self, condition: &str) -> bool {
        has(self.before, condition)
    }

    fn turned(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn changed(&self, member: &str) -> bool {
        !semantically_equal(&self.now[member], &self.before[member])
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn just_finished(&self) -> bool {
        self.is_finished() != (self.was("Complete") || self.was("Failed"))
    }
}

fn has(status: &Value, kind: &str) -> bool {
    let said = |condition: &Value| condition["type"] == kind && condition["status"] == "True";
    list(&status["conditions"]).iter().any(said)
}

pub(crate) fn status(new: &Value, old: &Value, errors: &mut ErrorList) {
    let step = StatusChange { spec: &new["spec"], now: &new["status"], before: &old["status"] };
    none_negative(errors, &STATUS, step.now, &["active", "succeeded", "failed", "ready", "terminating"]);
    uncounted(errors, step.now);
    conditions(errors, &step);
    times(errors, &step);
    finished(errors, &step);
    lists(errors, &step);
    if int(&step.now["ready"]) > int(&step.now["active"]) && (step.changed("ready") || step.changed("active"))
    {
        errors.invalid(&STATUS.child("ready"), &step.now["ready"], "cannot set more ready pods than active");
    }
    irreversible_changes(errors, &step);
}

fn uncounted(errors: &mut ErrorList, status: &Value) {
    let path = STATUS.child("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for member in ["succeeded", "failed"] {
        let path = path.child(member);
        for (i, uid) in list(&status["uncountedTerminatedPods"][member]).iter().enumerate() {
            if text(uid).is_empty() {
                errors.invalid(&path.index(i), uid, "must not be empty");
            } else if !seen.insert(text(uid)) {
                errors.duplicate(&path.index(i), uid);
            }
        }
    }
}

/// Checks pairs of conditions that exclude or require each other.
fn conditions(errors: &mut ErrorList, step: &StatusChange<'_>) {
    let path = STATUS.child("conditions");
    let mut refuse = |wrong: bool, detail: &str| {
        if wrong {
            errors.invalid_omitted(&path, detail);
        }
    };
    let (complete, failed) = (step.is("Complete"), step.is("Failed"));
    let (target, met) = (step.is("FailureTarget"), step.is("SuccessCriteriaMet"));
    let moved = |one: &str, other: &str| step.turned(one) || step.turned(other);
    refuse(
        complete && failed && moved("Complete", "Failed"),
        "cannot set Complete=True and Failed=true conditions",
    );
    refuse(
        complete && target && moved("Complete", "FailureTarget"),
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    refuse(
        failed && !target && (step.turned("Failed") || step.changed("failedIndexes")),
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    refuse(
        complete && !met && moved("Complete", "SuccessCriteriaMet"),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    refuse(met && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    refuse(met && target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    refuse(
        !step.spec["successPolicy"].is_null() && !met && complete,
        "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
    );
}

fn times(errors: &mut ErrorList, step: &StatusChange<'_>) {
    let (path, end) = (STATUS.child("completionTime"), &step.now["completionTime"]);
    let (complete, moved) = (step.is("Complete"), step.turned("Complete") || step.changed("completionTime"));
    if !end.is_null() && !complete && moved {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.invalid(&path, end, detail);
    }
    if end.is_null() && complete && moved {
        errors.required(&path, "completionTime is required for Complete jobs");
    }
    let time = |value: &Value| meta::parse_time(text(value));
    let start = &step.now["startTime"];
    if let (Some(start), Some(over)) = (time(start), time(end))
        && over < start
        && (step.changed("startTime") || step.changed("completionTime"))
    {
        errors.invalid(&path, end, "must be equal to or after `startTime`");
    }
}

fn finished(errors: &mut ErrorList, step: &StatusChange<'_>) {
    if !step.is_finished() {
        return;
    }
    let judged = |member: &str| step.just_finished() || step.changed(member);
    let now = step.now;
    if int(&now["active"]) > 0 && judged("active") {
        errors.invalid(&STATUS.child("active"), &now["active"], "active>0 is invalid for finished job");
    }
    let nothing_to_do = step.spec["suspend"] == true && step.spec["completions"] == 0;
    if now["startTime"].is_null() && judged("startTime") && !nothing_to_do {
        errors.required(&STATUS.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = &now["uncountedTerminatedPods"];
    if !is_empty(uncounted) && judged("uncountedTerminatedPods") {
        let path = STATUS.child("uncountedTerminatedPods");
        errors.invalid(&path, uncounted, "must be empty for finished job");
    }
    if int(&now["terminating"]) > 0 && judged("terminating") {
        let detail = "terminating>0 is invalid for finished job";
        errors.invalid(&STATUS.child("terminating"), &now["terminating"], detail);
    }
}

/// Checks the lists of completed and failed indexes.
fn lists(errors: &mut ErrorList, step: &StatusChange<'_>) {
    let (spec, now) = (step.spec, step.now);
    let (done, lost) = (text(&now["completedIndexes"]), now["failedIndexes"].as_str());
    let (done_path, lost_path) = (STATUS.child("completedIndexes"), STATUS.child("failedIndexes"));
    let read = |text: &str| match spec["completions"].as_i64() {
        Some(completions) => indexes::parse(text, completions),
        None => Ok(Vec::new()),
    };
    let (did, failed) = (step.changed("completedIndexes"), step.changed("failedIndexes"));
    let done_list = read(done);
    if let (true, Err(fault)) = (did, &done_list) {
        errors.invalid(&done_path, done, format!("error parsing completedIndexes: {fault}"));
    }
    let lost_list = read(lost.unwrap_or_default());
    if let (true, false, Err(fault)) = (failed, spec["backoffLimitPerIndex"].is_null(), &lost_list) {
        errors.invalid(&lost_path, &now["failedIndexes"], format!("error parsing failedIndexes: {fault}"));
    }
    if did && !done.is_empty() && spec["completionMode"] != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&done_path, done, detail);
    }
    if failed && lost.is_some() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&lost_path, &now["failedIndexes"], detail);
    }
    if let (true, Ok(done), Ok(lost)) = (did || failed, done_list, lost_list)
        && let Some(index) = indexes::common(&done, &lost)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&lost_path, &now["failedIndexes"], detail);
    }
}

/// Checks that terminal conditions stay, counters do not decrease, and times do not change.
fn irreversible_changes(errors: &mut ErrorList, step: &StatusChange<'_>) {
    let path = STATUS.child("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if step.was(kind) && !step.is(kind) {
            errors.invalid_omitted(&path, format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let (now, before) = (step.now, step.before);
    let elastic =
        step.spec["completionMode"] == "Indexed" && step.spec["completions"] == step.spec["parallelism"];
    for member in ["failed", "succeeded"] {
        if int(&now[member]) < int(&before[member]) && !(member == "succeeded" && elastic) {
            let detail = format!("cannot decrease the {member} counter");
            errors.invalid(&STATUS.child(member), &int(&now[member]), detail);
        }
    }
    let (end, ended) = (&now["completionTime"], &before["completionTime"]);
    if !end.is_null() && !ended.is_null() && end != ended {
        errors.invalid(&STATUS.child("completionTime"), end, "field is immutable");
    }
    let resumes = has(before, "Suspended")
        && list(&now["conditions"]).iter().any(|c| c["type"] == "Suspended" && c["status"] == "False");
    let (start, started) = (&now["startTime"], &before["startTime"]);
    if !started.is_null() && start != started && step.spec["suspend"] != true && !resumes {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&STATUS.child("startTime"), start, detail);
    }
    let (met, had_met) = (step.is("SuccessCriteriaMet"), step.was("SuccessCriteriaMet"));
    if had_met && !met {
        errors.invalid_omitted(&path, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if step.was("Complete") && !had_met && met {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_omitted(&path, detail);
    }
}
