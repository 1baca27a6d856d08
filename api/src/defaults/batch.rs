//! Defaults of jobs and cron jobs.
//!
//! Follows `SetDefaults_Job` and `SetDefaults_CronJob`.

use super::{default, items, make, member, pod, workload};
use serde_json::Value;

/// Default retries of a job whose indexes have their own limit: unlimited.
const UNLIMITED_RETRIES: i64 = i32::MAX as i64;

pub(crate) fn job(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    workload::labels_from_template(object, &labels);
    let spec = make(object, "spec");
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let retries = if spec["backoffLimitPerIndex"].is_null() { 6 } else { UNLIMITED_RETRIES };
    default(spec, "backoffLimit", retries);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    default(spec, "podReplacementPolicy", replacement);
    if let Some(policy) = member(spec, "podFailurePolicy") {
        for rule in items(policy, "rules") {
            for condition in items(rule, "onPodConditions") {
                default(condition, "status", "True");
            }
        }
    }
    pod::template(spec, "template");
}

pub(crate) fn cron_job(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    pod::template(make(make(spec, "jobTemplate"), "spec"), "template");
}
