//! What must hold of jobs and cron jobs.

use serde_json::Value;

use super::check::{IMMUTABLE, grammar, immutable, none_negative, one_of, optional_one_of};
use super::{cron, metadata, pod, selector};
use crate::field::{ErrorList, Path};
use crate::limits::CRON_JOB_NAME_MAX;
use crate::meta;
use crate::name;
use crate::object::{semantically_equal, text};
use crate::selector::label::Selector;

const SPEC: Path<'static> = Path::new("spec");

pub(super) fn job(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    job_spec(errors, &SPEC, spec);
    if spec["selector"].is_null() {
        errors.required(&SPEC.child("selector"), "");
        return;
    }
    selector::label_selector(errors, &SPEC.child("selector"), &spec["selector"]);
    let labels = &spec["template"]["metadata"]["labels"];
    let matches = Selector::from_object(&spec["selector"]).is_ok_and(|s| s.matches(&labels.as_object()));
    if !matches {
        let path = SPEC.child("template.metadata.labels");
        errors.invalid(&path, labels, "`selector` does not match template `labels`");
    }
}

fn job_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    none_negative(errors, path, spec, &counts);
    let mode = path.child("completionMode");
    optional_one_of(errors, &mode, &spec["completionMode"], &["NonIndexed", "Indexed"]);
    if spec["completionMode"] == "Indexed" {
        if spec["completions"].is_null() {
            errors.required(&path.child("completions"), "when completion mode is Indexed");
        }
    } else if !spec["backoffLimitPerIndex"].is_null() {
        let detail = "requires indexed completion mode";
        errors.invalid(&path.child("backoffLimitPerIndex"), &spec["backoffLimitPerIndex"], detail);
    }
    let template = path.child("template");
    pod::template(errors, &template, &spec["template"]);
    let (path, policy) =
        (template.child("spec.restartPolicy"), text(&spec["template"]["spec"]["restartPolicy"]));
    match policy {
        "OnFailure" | "Never" => {}
        "Always" | "" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        other => errors.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

/// The parts of a template that may change while a job is suspended and has not started: where its pods go and how they are marked.
fn without_scheduling(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove("labels");
        metadata.remove("annotations");
    }
    if let Some(spec) = template["spec"].as_object_mut() {
        for member in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
            spec.remove(member);
        }
    }
    template
}

pub(super) fn job_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    let elastic = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    if !elastic {
        immutable(errors, "spec.completions", new, old);
    }
    immutable(errors, "spec.selector", new, old);
    let waiting = stored["suspend"] == true && old["status"]["startTime"].is_null();
    let same = if waiting {
        semantically_equal(&without_scheduling(&spec["template"]), &without_scheduling(&stored["template"]))
    } else {
        semantically_equal(&spec["template"], &stored["template"])
    };
    if !same {
        errors.invalid(&SPEC.child("template"), &spec["template"], IMMUTABLE);
    }
    for member in
        ["spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy"]
    {
        immutable(errors, member, new, old);
    }
}

pub(super) fn cron_job(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    schedule(spec, errors);
    none_negative(
        errors,
        &SPEC,
        spec,
        &["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
    );
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(errors, &SPEC.child("concurrencyPolicy"), &spec["concurrencyPolicy"], &policies);
    let (template, job) = (SPEC.child("jobTemplate"), &spec["jobTemplate"]["spec"]);
    let metadata = &spec["jobTemplate"]["metadata"];
    metadata::labels(errors, &template.child("metadata.labels"), &metadata["labels"]);
    metadata::annotations(errors, &template.child("metadata.annotations"), &metadata["annotations"]);
    let path = template.child("spec");
    job_spec(errors, &path, job);
    if !job["selector"].is_null() {
        let detail = "`selector` will be auto-generated";
        errors.invalid(&path.child("selector"), &job["selector"], detail);
    }
    if job["manualSelector"] == true {
        errors.not_supported(&path.child("manualSelector"), "true", &["nil", "false"]);
    }
}

fn schedule(spec: &Value, errors: &mut ErrorList) {
    let (path, schedule) = (SPEC.child("schedule"), text(&spec["schedule"]));
    if schedule.is_empty() {
        errors.required(&path, "");
    } else if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(&path, schedule, detail);
    } else if let Err(fault) = cron::check(schedule) {
        errors.invalid(&path, schedule, fault);
    }
    let Some(zone) = spec["timeZone"].as_str() else { return };
    let path = SPEC.child("timeZone");
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/');
    if zone.is_empty() {
        errors.invalid(&path, zone, "timeZone must be nil or non-empty string");
    } else if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(&path, zone, detail);
    } else if !zone.chars().all(legal) {
        errors.invalid(&path, zone, format!("unknown time zone {zone}"));
    }
}

/// A cron job's jobs append a time to its name and must stay labels.
pub(super) fn cron_job_name(object: &Value, errors: &mut ErrorList) {
    let own = meta::name(object);
    if own.len() > CRON_JOB_NAME_MAX {
        let faults = vec![name::max_length(CRON_JOB_NAME_MAX)];
        grammar(errors, &Path::new("metadata.name"), own, faults);
    }
}
